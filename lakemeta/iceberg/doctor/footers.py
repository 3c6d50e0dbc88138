"""Looks into the footers of a table's Parquet files for rows that parquet-java never reads (I/O).

Early builds of this package wrote such files: see :mod:`lakemeta.parquet.layout`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import LakemetaError
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.parquet.layout import lost_row_groups, read_footer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.storage.contract import Storage

_BATCH: Final = 16


@attrs.frozen(slots=True)
class Look:
    """What the footer of a file says: of its ``rows``, ``lost`` are never read; ``problem`` if it could not be read."""

    location: str
    is_data: bool
    bytes: int
    rows: int
    lost: int = 0
    problem: str | None = None


@attrs.frozen(slots=True)
class _File:
    location: str
    is_data: bool
    bytes: int
    rows: int
    split_offsets: tuple[int, ...]


def look_into_footers(storage: Storage, files: Iterable[DataFile], executor: Executor) -> Iterator[Look]:
    """Read the footer of each Parquet file of some data and delete files, where ``executor`` works."""
    asked = (
        _File(
            file.file_path,
            file.content == FileContent.DATA,
            file.file_size_in_bytes,
            file.record_count,
            tuple(file.split_offsets or ()),
        )
        for file in files
        if file.file_format.upper() == "PARQUET"
    )
    return executor.map_batches(partial(_look, storage), asked, batch_size=_BATCH)


def _look(storage: Storage, files: Sequence[_File]) -> Iterator[Look]:
    for file in files:
        look = Look(file.location, file.is_data, file.bytes, file.rows)
        try:
            path = store_path(storage.scheme, file.location)
            footer = read_footer(partial(storage.read_range, path), file.bytes, file.location)
            lost = lost_row_groups(footer, file.bytes, file.location, file.split_offsets)
            yield attrs.evolve(look, lost=sum(group.rows for group in lost))
        except LakemetaError as error:
            yield attrs.evolve(look, problem=str(error))
