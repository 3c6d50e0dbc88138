"""Every row accounted for before a commit: rows read, rows that deletes took, rows written.

The reader counts what it reads and what it leaves out, the writer what it writes; here the counts are held against the
manifest entries and against each other. A contradiction means that rows would be lost or doubled.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.parquet.layout import check_layout, lost_row_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.scan.file_tasks import FileScanTask


@attrs.frozen
class InputRows:
    """What became of the rows of one input, all its parts together.

    ``positions`` is how many of its rows its position deletes or deletion vector name; ``by_position`` is how many rows
    were left out for that, ``by_equality`` how many others equality deletes took.
    """

    path: str
    read: int
    by_position: int = 0
    by_equality: int = 0
    positions: int = 0

    @property
    def deleted(self) -> int:
        """The rows that deletes took."""
        return self.by_position + self.by_equality


def check_entry(file: DataFile) -> None:
    """Raise CorruptMetadataError if a manifest entry gives a size or number of rows that no data file has."""
    if file.file_size_in_bytes <= 0:
        raise CorruptMetadataError(
            f"the manifest entry of {file.file_path} says that it has {file.file_size_in_bytes} bytes, so its rows "
            f"cannot be distinguished; nothing was rewritten"
        )
    if file.record_count < 0:
        raise CorruptMetadataError(
            f"the manifest entry of {file.file_path} says that it has {file.record_count} rows, so it is not "
            f"known whether all are read; nothing was rewritten"
        )


def check_size(file: DataFile, size: int) -> None:
    """Raise CorruptMetadataError unless a file of ``size`` bytes is as long as its manifest entry says.

    Files are shared out by the bytes of the entry: rows behind them would be left out.
    """
    if size != file.file_size_in_bytes:
        raise CorruptMetadataError(
            f"{file.file_path} has {size} bytes and its manifest entry says {file.file_size_in_bytes}; nothing was "
            f"rewritten"
        )


def inputs_by_path(tasks: Iterable[FileScanTask], sequence_number: int) -> dict[str, FileScanTask]:
    """The live files to rewrite by their location, in a snapshot with this sequence number.

    Raises CorruptMetadataError for a file that is live twice: its rows count twice, and one of its two entries would
    go with the other. Also for one with a data sequence number that cannot have been given out: which deletes apply
    would change with the number that the new files get. And for a delete file that is listed as a data file.
    """
    found: dict[str, FileScanTask] = {}
    for task in tasks:
        path = task.data_file.file_path
        if path in found:
            raise CorruptMetadataError(
                f"{path} is listed twice among the live files, so its rows count twice; nothing was rewritten"
            )
        if not 0 <= task.sequence_number <= sequence_number:
            raise CorruptMetadataError(
                f"{path} has the data sequence number {task.sequence_number}, and its snapshot only "
                f"{sequence_number}; nothing was rewritten"
            )
        if task.data_file.content != FileContent.DATA:
            raise CorruptMetadataError(f"{path} is a delete file, and is listed as a data file; nothing was rewritten")
        check_entry(task.data_file)
        found[path] = task
    return found


def check_group(tasks: Sequence[FileScanTask], inputs: Sequence[InputRows], written: Sequence[DataFile]) -> None:
    """Raise CorruptMetadataError unless every row of a group's files was read once, and then written or deleted."""
    counted = {rows.path: rows for rows in inputs}
    for task in tasks:
        _check_input(task.data_file, counted.get(task.data_file.file_path))
    if len(counted) != len(inputs) or len(tasks) != len(inputs):
        raise _lost("the rows of some files were counted twice", inputs[0].path)
    read, deleted = sum(rows.read for rows in inputs), sum(rows.deleted for rows in inputs)
    out = sum(file.record_count for file in written)
    if out != read - deleted:
        first = written[0].file_path if written else inputs[0].path
        raise _lost(f"of {read} rows read deletes took {deleted}, and {out} were written", first)


def _check_input(file: DataFile, rows: InputRows | None) -> None:
    path = file.file_path
    if rows is None:
        raise _lost("no row was read", path)
    if rows.read != file.record_count:
        raise _lost(f"{rows.read} rows were read and its manifest entry says {file.record_count}", path)
    if rows.by_position != rows.positions or not 0 <= rows.by_equality <= rows.read - rows.by_position:
        raise _lost(
            f"its position deletes name {rows.positions} rows, {rows.by_position} were left out for them and "
            f"{rows.by_equality} for equality deletes",
            path,
        )


def check_written(file: DataFile, footer: bytes) -> None:
    """Raise CorruptMetadataError unless a new Parquet file is what its entry says, by the footer that was read back.

    Rows and row groups agree, chunks are laid out as every reader expects, and no row group is lost for parquet-java.
    """
    size, path = file.file_size_in_bytes, file.file_path
    groups = check_layout(footer, size, path)
    offsets = file.split_offsets or ()
    if sum(groups) != file.record_count or len(groups) != len(offsets) or lost_row_groups(footer, size, path, offsets):
        raise _lost(
            f"{file.record_count} were written in {len(offsets)} row groups, and {sum(groups)} in {len(groups)} can be "
            f"read from it",
            path,
        )


def check_replaced(
    added: Iterable[DataFile], removed: Iterable[DataFile], listed_rows: int, delisted: Mapping[str, int]
) -> None:
    """Raise CorruptMetadataError unless a snapshot's manifests say of a replacement what it is.

    ``listed_rows`` are the rows of the entries that add files, and ``delisted`` the rows of those entries that remove
    files, by the location of the file.
    """
    rows = sum(file.record_count for file in added)
    if listed_rows != rows:
        raise CorruptMetadataError(
            f"{rows} rows were written and the new manifests list {listed_rows}; nothing was committed"
        )
    wanted = Counter({file.file_path: file.record_count for file in removed})
    for path in sorted(wanted.keys() | delisted.keys()):
        if wanted.get(path) != delisted.get(path):
            raise CorruptMetadataError(
                f"{wanted.get(path, 0)} rows of {path} were replaced and the new manifests take out "
                f"{delisted.get(path, 0)}; nothing was committed"
            )


def _lost(what: str, path: str) -> CorruptMetadataError:
    return CorruptMetadataError(f"the rows of {path} do not add up: {what}; nothing was committed")
