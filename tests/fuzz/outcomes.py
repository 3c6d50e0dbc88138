"""What is mutated, a table as files in memory, and what operations on it end in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
from fuzz.memory import File

from lakemeta.errors import LakemetaError
from lakemeta.executor import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Files = dict[str, File]
ONE = LocalExecutor(1)


@attrs.frozen
class Outcome:
    """What an operation ended in: "" or an error of ours by name; ``wrong`` says what no operation may end in."""

    refused: tuple[str, ...]
    wrong: tuple[str, ...]


@attrs.frozen
class Table:
    """A table before it is mutated; ``names`` are the files of metadata, those oftener that matter more."""

    name: str
    root: str
    files: Files = attrs.field(repr=False)
    names: list[str] = attrs.field(repr=False)
    options: dict[str, str] = attrs.field(factory=dict)
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def is_hudi(self) -> bool:
        return f"{self.root}/.hoodie/hoodie.properties" in self.files

    def contents(self) -> dict[str, bytes]:
        """The content of every file of metadata."""
        return {name: self.files[name][0] for name in self.names}

    def mutated(self, contents: dict[str, bytes]) -> Files:
        """The files with the metadata put in place of their own."""
        data = {path: file for path, file in self.files.items() if path not in set(self.names)}
        changed = self.files[f"{self.names[0]}"][1]
        return data | {path: (content, self.files.get(path, (b"", changed))[1]) for path, content in contents.items()}


class Tries:
    """Carries operations out, and sorts what they end in."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.wrong: list[str] = []

    def of(self, what: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except LakemetaError as error:
            self.refused.append(f"{what}: {type(error).__name__}")
            if "\n" in str(error) or not str(error) or len(str(error)) > 5000:
                self.wrong.append(f"{what}: a message that is no sentence: {str(error)[:200]!r}")
        except Exception as error:
            at = _where(error)
            self.wrong.append(f"{what}: {type(error).__name__} at {at}: {str(error)[:120]}")
        return None


def _where(error: BaseException) -> str:
    """The innermost place in lakemeta that the error passed."""
    found, trace = "?", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/lakemeta/" in name:
            found = f"{name.rpartition('/lakemeta/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def read_files(folder: Path, root: str) -> Files:
    """The files below a folder, as if it were ``root``."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {
        f"{root}/{path.relative_to(folder).as_posix()}": (path.read_bytes(), path.stat().st_mtime_ns // 1_000_000)
        for path in paths
    }
