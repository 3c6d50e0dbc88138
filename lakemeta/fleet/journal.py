"""The file of what is known of earlier runs, beside the configuration (I/O).

A run appends a line for every table as it is done, so that a crash loses nothing of the others, and holds a lock on the
file: two runs of one configuration do not get in each other's way.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakemeta.errors import LakemetaError, OptionError
from lakemeta.fleet.memory import Memory, parse_memory
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class OtherRunError(LakemetaError):
    """Another run of the same configuration goes on; nothing was begun."""

    exit_code = 3


class Journal:
    """The file at a path."""

    def __init__(self, path: Path) -> None:
        """``path`` need not be there."""
        self.path = path

    def load(self) -> Memory:
        """Raises CorruptMetadataError for a file that cannot be understood."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Memory()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"{self.path} cannot be read: {error}; remove it to visit every table") from None
        return parse_memory(text, str(self.path))

    def rewrite(self, text: str) -> None:
        """Put new content in the place of the old, at once."""
        LocalStorage().replace(str(self.path.absolute()), text.encode())

    def add(self, line: str) -> None:
        """Append a line."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise OptionError(f"{self.path} cannot be written: {error.strerror}") from None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs of the configuration on this machine out, where the system has locks on files.

        Raises OtherRunError if one goes on.
        """
        try:
            import fcntl
        except ImportError:  # no POSIX: tables still refuse what another run has changed
            yield
            return
        lock = self.path.with_suffix(".lock")
        try:
            file = lock.open("a")
        except OSError as error:
            raise OptionError(f"{lock} cannot be written: {error.strerror}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OtherRunError(
                    f"another run holds {lock}, and nothing was begun; wait until it has ended"
                ) from None
            yield
