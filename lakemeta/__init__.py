"""Table maintenance for Apache Hudi and Apache Iceberg in plain Python.

The two formats live in :mod:`lakemeta.hudi` and :mod:`lakemeta.iceberg`; they meet in :mod:`lakemeta.plan`
(what would be done) and :mod:`lakemeta.report` (what was done). Importing this package loads neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike

    from lakemeta.events import Event
    from lakemeta.hudi import HudiTable
    from lakemeta.iceberg import IcebergTable
    from lakemeta.typed_text import Value

__all__ = ["__version__", "open"]


def open(  # noqa: A001 - lakemeta.open is what it is called as
    url: str | PathLike[str],
    storage_options: Mapping[str, Value] | None = None,
    *,
    on_event: Callable[[Event], None] | None = None,
) -> HudiTable | IcebergTable:
    """Open the table at a path or URL, of whichever format it is; see the ``open`` of each.

    Raises TableNotFoundError if neither a Hudi nor an Iceberg table is there, and says what is.
    """
    from lakemeta.errors import TableNotFoundError
    from lakemeta.hudi import HudiTable
    from lakemeta.iceberg import IcebergTable
    from lakemeta.paths import CATALOG
    from lakemeta.storage.formats import METADATA_FILES, nothing_here

    named = str(url)
    if named.startswith(CATALOG) or named.endswith(METADATA_FILES):
        return IcebergTable.open(url, storage_options, on_event=on_event)
    try:
        return HudiTable.open(url, storage_options, on_event=on_event)
    except TableNotFoundError:
        try:
            return IcebergTable.open(url, storage_options, on_event=on_event)
        except TableNotFoundError:
            raise TableNotFoundError(nothing_here(named, storage_options)) from None
