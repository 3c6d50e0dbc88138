"""Parquet files as record batches of bounded size (I/O).

A batch has at most so many rows, and about so many bytes as Arrow holds them, however few bytes a file has for them.
What rows take is known from the footer: of numbers it says how many there are, and of texts how long all of them are,
if the writer recorded that (SizeStatistics, parquet-java 1.15 and Arrow 19 and later). Sizes are bytes.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from lakemeta.parquet import thrift
from lakemeta.parquet.footer import column_chunks, row_groups
from lakemeta.parquet.layout import read_footer
from lakemeta.row_sort import BATCH_BYTES, BATCH_ROWS, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BUFFERED: Final = 256 * 1024 * 1024  # row groups above this size are read page by page, not fetched whole
_BUFFER: Final = 8 * 1024 * 1024
_LARGE_ROW: Final = 16 * 1024
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_OFFSET: Final = 4  # Arrow's, of each text
_SHORT: Final = 4096  # neither parquet-java nor Arrow keep bounds of longer texts
_LONG: Final = 64 * 1024
_SHORTENED: Final = "DELTA_BYTE_ARRAY"  # holds of a text what is not as in the one before
# Field ids of the structs in parquet.thrift.
_CHUNK_META, _SIZE_STATISTICS, _TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 3, 16, 1, 2, 3


@attrs.frozen
class OpenParquet:
    """A file that is open, and its footer as Thrift: pyarrow does not give all of it out."""

    file: pq.ParquetFile
    footer: thrift.Struct


def open_parquet(source: BinaryIO | bytes, where: str) -> OpenParquet:
    """Open a file for reading.

    Raises what pyarrow raises (ArrowInvalid, OSError) or CorruptMetadataError, naming ``where``, if it is not Parquet.
    """
    if isinstance(source, bytes):
        footer = read_footer(lambda start, length: source[start : start + length], len(source), where)
        return _checked(pq.ParquetFile(pa.BufferReader(source), pre_buffer=False), footer)
    footer = read_footer(partial(_read_at, source), source.seek(0, io.SEEK_END), where)
    source.seek(0)
    opened = _checked(pq.ParquetFile(source, pre_buffer=True), footer)
    meta = opened.file.metadata
    if any(_is_heavy(meta.row_group(i)) for i in range(meta.num_row_groups)):
        file = pq.ParquetFile(source, metadata=meta, buffer_size=_BUFFER, pre_buffer=False)
        return attrs.evolve(opened, file=file)
    return opened


def _read_at(source: BinaryIO, start: int, length: int) -> bytes:
    source.seek(start)
    return source.read(length)


def _checked(file: pq.ParquetFile, data: bytes) -> OpenParquet:
    """Raise ArrowInvalid for size statistics that a column cannot have: Arrow ends the process for them."""
    columns = [file.schema.column(n) for n in range(len(file.schema))]
    try:
        footer = thrift.loads(data)
        fits = all(
            _has_its_sizes(column, chunk)
            for group in row_groups(footer)
            for column, (_, chunk) in zip(columns, column_chunks(group), strict=True)
        )
    except (LookupError, TypeError, ValueError):
        fits = False
    if not fits:
        raise pa.ArrowInvalid("its size statistics are not those of its columns")
    return OpenParquet(file, footer)


def _has_its_sizes(column: Any, chunk: thrift.Struct) -> bool:
    sizes = chunk[_CHUNK_META][1].get(_SIZE_STATISTICS)
    levels = ((_REPETITIONS, column.max_repetition_level), (_DEFINITIONS, column.max_definition_level))
    if not sizes:
        return True
    found = [(len(sizes[1][field][1][1]), most) for field, most in levels if field in sizes[1]]
    texts = _TEXT_BYTES not in sizes[1] or column.physical_type == "BYTE_ARRAY"
    return texts and all(length in (0, most + 1) for length, most in found)


def _is_heavy(group: Any) -> bool:
    """True for a row group that is large, or has large rows: then it is read a few rows at a time."""
    size = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
    return bool(size > _BUFFERED or (size > _BUFFER and size > group.num_rows * _LARGE_ROW))


def read_batches(
    opened: OpenParquet,
    columns: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    row_groups: Sequence[int] | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a file, in order, in batches of at most ``batch_rows`` rows and about ``batch_bytes`` bytes.

    ``columns`` are top-level names or paths; None means all.
    """
    chosen = range(opened.file.metadata.num_row_groups) if row_groups is None else row_groups
    for run, rows in _Sizes(opened.file, opened.footer, columns, batch_rows, batch_bytes).runs(chosen):
        yield from opened.file.iter_batches(batch_size=rows, columns=columns, row_groups=run)


def row_group_middles(file: pq.ParquetFile) -> tuple[tuple[int, int], ...]:
    """Of each row group: the byte in the middle of it, and its rows.

    parquet-java takes the first column's chunk for the start of a row group. Here it is the chunk that lies first, so
    that row groups are found whose chunks lie in another order.
    """
    found = []
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        chunks = [group.column(n) for n in range(group.num_columns)]
        start = min(min(c.data_page_offset, c.dictionary_page_offset or c.data_page_offset) for c in chunks)
        found.append((start + sum(chunk.total_compressed_size for chunk in chunks) // 2, group.num_rows))
    return tuple(found)


@attrs.define
class _Sizes:
    """What row groups take as Arrow holds them."""

    file: pq.ParquetFile
    footer: thrift.Struct
    columns: Sequence[str] | None
    batch_rows: int
    batch_bytes: int
    _texts: list[list[int | None]] | None = None  # bytes of texts by row group and column, if the footer says

    def runs(self, chosen: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """Row groups to read in one go, and the rows of their batches: many small ones, or a large one alone.

        All small ones of a run take no more than a batch, so it does not matter how their rows are shared out.
        """
        run: list[int] = []
        held = 0
        for number in chosen:
            size = self._size(number)
            if run and held + size > self.batch_bytes:
                yield run, self.batch_rows
                run, held = [], 0
            if size > self.batch_bytes:
                rows = self.file.metadata.row_group(number).num_rows
                yield [number], rows_of(rows, size, self.batch_rows, self.batch_bytes)
            else:
                run.append(number)
                held += size
        if run:
            yield run, self.batch_rows

    def _size(self, number: int) -> int:
        group = self.file.metadata.row_group(number)
        return sum(
            self._chunk_size(number, place, group.column(place), group.num_rows)
            for place in range(group.num_columns)
            if self._is_wanted(group.column(place).path_in_schema)
        )

    def _is_wanted(self, path: str) -> bool:
        return self.columns is None or any(path == name or path.startswith(name + ".") for name in self.columns)

    def _chunk_size(self, number: int, place: int, chunk: Any, rows: int) -> int:
        if chunk.physical_type != "BYTE_ARRAY":
            width = _WIDTHS.get(chunk.physical_type) or self.file.schema.column(place).length
            return int(chunk.num_values * width)
        plain = chunk.num_values * _OFFSET + chunk.total_uncompressed_size
        shortened = _SHORTENED in chunk.encodings  # and Arrow says what is left of the texts
        if not shortened and not any("DICTIONARY" in encoding for encoding in chunk.encodings):
            return int(plain)
        most = chunk.num_values * (
            _OFFSET + chunk.total_uncompressed_size
        )  # if all values are the longest there may be
        if most <= self.batch_bytes * rows // self.batch_rows:
            return int(most)
        known = None if shortened else self._text_bytes(number, place)
        if known is not None:
            return int(chunk.num_values * _OFFSET + known)
        longest = _SHORT if chunk.statistics is not None and chunk.statistics.has_min_max else _LONG
        guess = _length(chunk) if longest == _SHORT else longest
        return int(max(plain, chunk.num_values * (_OFFSET + min(guess, chunk.total_uncompressed_size))))

    def _text_bytes(self, number: int, place: int) -> int | None:
        """How long all texts of a column chunk are, which pyarrow does not give out."""
        if self._texts is None:
            groups = row_groups(self.footer)
            self._texts = [[_text_bytes(chunk) for _, chunk in column_chunks(group)] for group in groups]
        return self._texts[number][place]


def _text_bytes(chunk: thrift.Struct) -> int | None:
    sizes = chunk[_CHUNK_META][1].get(_SIZE_STATISTICS)
    found = sizes[1].get(_TEXT_BYTES) if sizes else None
    return found[1] if found else None


def _length(chunk: Any) -> int:
    """About how long the texts of a column chunk are, by its bounds."""
    bounds = (chunk.statistics.min_raw, chunk.statistics.max_raw)
    return max(len(bound) if isinstance(bound, bytes) else _SHORT for bound in bounds)
