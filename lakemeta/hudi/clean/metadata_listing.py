"""Judges the files of partitions as the metadata table lists them (I/O; the function is shipped to workers).

No process holds the whole listing: pieces of it are read, decoded and judged where the work is done.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from lakemeta.deletion import Links
from lakemeta.errors import LakemetaError, StorageError
from lakemeta.executor import nearby
from lakemeta.hudi.clean.partitions import left_out, plan_files
from lakemeta.hudi.view.listing import behind_link
from lakemeta.hudi.view.named_files import check_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.clean.partitions import PartitionRow
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.metadata_table.files import FilesPartition, Piece, PieceReader


class Unreadable(NamedTuple):
    """In place of rows: the metadata table cannot be read there. What judging raises is another matter."""

    error: LakemetaError


def plan_listed(
    place: Place,
    files: FilesPartition,
    context: CleanContext,
    executor: Executor,
    partitions: Iterable[str],
    *,
    explain: bool,
) -> Iterator[PartitionRow | Unreadable]:
    """Plan these partitions in the order of their keys; one that the metadata table does not list has no files.

    Raises StorageError if the metadata table cannot be read; judging reads nothing. A piece on its own, as those of
    small tables are, is not worth shipping.
    """
    pieces = _pieces(files, partitions)
    first = list(islice(pieces, 2))
    where = executor if len(first) > 1 else nearby(executor)
    return where.map_batches(partial(_plan, place, files.reader, context, explain), chain(first, pieces), batch_size=1)


def _pieces(files: FilesPartition, partitions: Iterable[str]) -> Iterator[Piece | Unreadable]:
    try:
        yield from files.pieces(partitions)
    except LakemetaError as error:
        yield Unreadable(error)


def _plan(
    place: Place, reader: PieceReader, context: CleanContext, explain: bool, pieces: Sequence[Piece | Unreadable]
) -> Iterator[PartitionRow | Unreadable]:
    links = Links(place.storage, place.root)
    for piece in pieces:
        if isinstance(piece, Unreadable):
            yield piece
            continue
        try:
            listed = reader.read(piece)
        except StorageError:
            raise  # an executor may try again, and elsewhere
        except LakemetaError as error:
            yield Unreadable(error)
            continue
        rows = plan_files(context, explain, ((partition, tuple(files.items())) for partition, files in listed))
        yield from (_unless_hidden(links, row) for row in rows)


def _unless_hidden(links: Links, row: PartitionRow) -> PartitionRow:
    """The row, unless it deletes behind a link; a listing by the metadata table sees none."""
    check_partition(links.base, row.partition)
    deletes = row.drop or any(file.delete for file in row.files)
    return left_out(behind_link(row.partition)) if deletes and links.hide(row.partition) else row
