"""Writes a page to a file of this machine (I/O).

A page is written beside its place and moved there once it is whole. A file that is no page is never replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakemeta.errors import OptionError, StorageError
from lakemeta.page.document import HEAD, document
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def check_place(path: Path) -> None:
    """Raise OptionError if something else than an earlier page lies there, or there is no such directory."""
    try:
        if not path.parent.is_dir():
            raise OptionError(f"the page cannot be written to {path}: there is no directory {path.parent}")
        if not path.exists():
            return
        with path.open("rb") as file:
            found = file.read(len(HEAD))
    except OSError as error:
        raise OptionError(f"the page cannot be written to {path}: {error.strerror}") from None
    if found != HEAD.encode():
        raise OptionError(f"{path} is there and is no page of lakemeta; give another name, or remove it")


def write_page(path: Path, content: Mapping[str, Any]) -> None:
    """Write a page, in place of an earlier one; raises OptionError as :func:`check_place`, with nothing written."""
    check_place(path)
    page = "".join(document(content)).encode()
    try:
        LocalStorage().replace(str(path.resolve()), page)
    except StorageError as error:
        raise OptionError(f"the page cannot be written to {path}: {error}") from None
