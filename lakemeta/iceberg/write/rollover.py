"""When a file is long enough: the measure by which Iceberg's Parquet writer ends row groups and files.

The real writer asks every 1000 rows whether its file has reached the greatest size (RollingFileWriter), and believes
it to be as long as the row groups that are out and what it holds in memory (ParquetWriter.length): encoded pages, and
the page that is not yet full at the size of its plain values. It ends row groups by what it holds (checkSize). For
small files that decides how many there are, so it is done alike here. Sizes are bytes.
"""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Final, Literal

import attrs
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHECK_EVERY: Final = 1000  # RollingFileWriter.ROWS_DIVISOR
_INT_DIGITS: Final = 9
_LONG_DIGITS: Final = 18
_FULL: Final = 0.9  # of a page's size: a page this full is ended (ColumnWriteStoreBase.thresholdTolerance)

End = Literal["", "row group", "file"]


@attrs.frozen
class BufferLimits:
    """When pages and row groups end. ``least_rows`` and ``most_rows`` lie between two looks at a row group's size."""

    row_group_bytes: int
    page_bytes: int
    page_rows: int
    least_rows: int
    most_rows: int


class Rollover:
    """Follows the rows of one writer, file after file. ``bytes_per_row`` is what encoded rows are believed to take."""

    def __init__(self, limits: BufferLimits, file_bytes: int, bytes_per_row: float) -> None:
        self._limits, self._file_bytes = limits, file_bytes
        self.bytes_per_row = bytes_per_row
        self._flushed = 0  # rows of the file in row groups that have ended
        self._rows = 0  # rows of the row group
        self._plain: list[int] = []  # of each leaf column of the row group: bytes of plain values
        self._next_look = limits.least_rows

    def take(self, table: pa.Table) -> tuple[int, End]:
        """How many rows of a table to add until something ends, and what; all rows and "" if nothing does."""
        rest = plain_bytes(table)
        can_roll = self._length() + sum(rest) >= self._file_bytes
        if not can_roll and self._rows + table.num_rows < self._next_look:
            self._add(table.num_rows, rest)
            return table.num_rows, ""
        at = 0
        while at < table.num_rows:
            stop = min(table.num_rows, at + self._next_stop(can_roll))
            self._add(stop - at, plain_bytes(table.slice(at, stop - at)))
            at = stop
            ends = self._rows >= self._next_look and self._is_full()
            if self._is_long():
                return at, "file"
            if ends:
                return at, "row group"
        return at, ""

    def row_group_ended(self) -> None:
        """A row group is out."""
        least, most = self._limits.least_rows, self._limits.most_rows
        self._next_look = min(max(self._rows // 2, least), most)
        self._flushed += self._rows
        self._rows, self._plain = 0, []

    def file_ended(self) -> None:
        """The next rows go into a new file."""
        self._flushed = 0
        self._next_look = self._limits.least_rows

    def _next_stop(self, can_roll: bool) -> int:
        """Rows until the next look at anything."""
        look = self._next_look - self._rows
        return min(look, _CHECK_EVERY - (self._flushed + self._rows) % _CHECK_EVERY) if can_roll else look

    def _add(self, rows: int, plain: Sequence[int]) -> None:
        self._rows += rows
        self._plain = [a + b for a, b in zip(self._plain or [0] * len(plain), plain, strict=True)]

    def _is_long(self) -> bool:
        return (self._flushed + self._rows) % _CHECK_EVERY == 0 and self._length() >= self._file_bytes

    def _is_full(self) -> bool:
        """Look at the size of the row group, and say after how many rows to look again."""
        size, limits = self._held(), self._limits
        per_row = size / self._rows
        if size > limits.row_group_bytes - 2 * per_row:
            return True
        wait = max(int((limits.row_group_bytes - size) / per_row) // 2, limits.least_rows) if per_row else 1 << 62
        self._next_look = self._rows + min(wait, limits.most_rows)
        return False

    def _length(self) -> float:
        return self._flushed * self.bytes_per_row + self._held()

    def _held(self) -> float:
        """Bytes in memory: of each column the encoded full pages, and the plain values of the open one."""
        total = sum(self._plain) or 1
        held = 0.0
        for plain in self._plain:
            page_rows = self._page_rows(plain)
            if self._rows < page_rows:
                held += plain
                continue
            share = self._rows % page_rows / self._rows
            held += share * plain + (1 - share) * self._rows * self.bytes_per_row * plain / total
        return held

    def _page_rows(self, plain: int) -> int:
        """The rows of a page of a column that has so many plain bytes in this row group."""
        if not plain:
            return self._limits.page_rows
        return min(self._limits.page_rows, max(1, int(_FULL * self._limits.page_bytes * self._rows / plain)))


def plain_bytes(table: pa.Table) -> list[int]:
    """Of each leaf column: the bytes of its values in Parquet's plain encoding, and of its levels, about."""
    sizes: list[int] = []
    for column in table.columns:
        total = [0] * _leaves(column.type)
        for chunk in column.chunks:
            total = [a + b for a, b in zip(total, _array_bytes(chunk), strict=True)]
        sizes += total
    return sizes


def _array_bytes(array: pa.Array) -> list[int]:
    kind = array.type
    if pa.types.is_struct(kind):
        return [size for child in array.flatten() for size in _array_bytes(child)]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        children = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
        levels = (end - start) // 8
        return [levels + size for child in children for size in _array_bytes(child.slice(start, end - start))]
    count = len(array) - array.null_count
    levels = len(array) // 8 if 0 < count < len(array) else 0
    return [levels + _plain(array, count)]


def _plain(array: pa.Array, count: int) -> int:
    """The bytes of ``count`` values; Iceberg stores decimals in as few as will do."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 4 * count + _text_bytes(array)
    if pa.types.is_boolean(kind):
        return -(-count // 8)
    if pa.types.is_decimal(kind):
        return count * decimal_bytes(kind.precision)
    return 0 if pa.types.is_null(kind) else count * (kind.bit_width // 8)


def _text_bytes(array: pa.Array) -> int:
    """What all texts of an array take, by its offsets: this is asked of every thousand rows."""
    if not len(array):
        return 0
    offsets = array.buffers()[1]
    first, end = (unpack_from("<i", offsets, 4 * at)[0] for at in (array.offset, array.offset + len(array)))
    return int(end - first)


def decimal_bytes(precision: int) -> int:
    """How many bytes Parquet takes for a decimal: as an int, a long, or the least that hold every value."""
    if precision <= _INT_DIGITS:
        return 4
    return 8 if precision <= _LONG_DIGITS else (10**precision).bit_length() // 8 + 1


def _leaves(kind: pa.DataType) -> int:
    if pa.types.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    if pa.types.is_list(kind):
        return _leaves(kind.value_type)
    return sum(_leaves(field.type) for field in kind) if pa.types.is_struct(kind) else 1
