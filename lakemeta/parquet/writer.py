"""Parquet files, written with all cores, statistics collected on the way (I/O).

pyarrow encodes a row group on one thread. Encoding is two thirds of the cost of rewriting a file, so the
writer here cuts a row group into bundles of columns, lets pyarrow encode each bundle on a thread into a small
Parquet file in memory, and joins their column chunks to one row group of one output file: only offsets in the
footer change. The bytes of a file do not depend on the number of threads.

The column chunks of a row group lie in the order of the schema's leaf columns, without a gap, as parquet-java writes
them: its readers take a row group for that part of a file in which the start of the first column's chunk plus half the
row group's size lies, so any other order loses rows there. Bloom filters and page indexes lie behind all row groups.

Inputs and outputs are file objects; no table format's rules live here. Sizes are bytes.
"""

from __future__ import annotations

import struct
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import signature
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.parquet import thrift
from lakemeta.parquet.encodings import Encodings
from lakemeta.parquet.footer import (
    ColumnStats,
    FileStats,
    Seen,
    WriteOptions,
    bloom_filter,
    chunk_range,
    chunk_stats,
    column_chunks,
    column_stats,
    leaf_columns,
    place_bloom_filter,
    row_group,
    row_group_offset,
    row_groups,
    shift,
    with_content,
)
from lakemeta.parquet.pages import PageIndex, cut_off, page_indexes
from lakemeta.parquet.values import look_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAGIC: Final = b"PAR1"
_PAGE_BYTES: Final = 1024 * 1024  # pyarrow's default
_AT_ONCE, _LEAST_AT_ONCE = 1024, 16  # values that pyarrow writes into a page before it looks at its size
BUNDLES: Final = 4  # column bundles a row group: more keep cores busy at its end, fewer cost less


@attrs.frozen
class _Chunk:
    """An encoded column chunk: its ColumnChunk in the footer, its pages, and its bloom filter, which may be empty."""

    entry: thrift.Struct
    body: memoryview
    pages: PageIndex | None
    bloom: bytes


@attrs.frozen
class _Piece:
    """An encoded column bundle: its column chunks, and what the footer does not say of them."""

    chunks: Mapping[tuple[str, ...], _Chunk]
    seen: Mapping[tuple[str, ...], Seen]


@attrs.frozen
class _RowGroup:
    """A row group that is being encoded; ``bytes`` is what it takes as a table."""

    rows: int
    bytes: int
    pieces: Sequence[Future[_Piece]]


class ParquetWriter:
    """Writes one file, row group by row group. What is being encoded is held until it is settled.

    ``pool`` encodes; None encodes on the calling thread. The caller closes the sink, and removes the file if
    anything is raised.
    """

    def __init__(
        self, sink: BinaryIO, schema: pa.Schema, options: WriteOptions, pool: ThreadPoolExecutor | None = None
    ) -> None:
        self._sink = sink
        self._schema = schema
        self._settings = _settings(options, ())
        self._key_values = options.key_values
        self._pool = pool
        self._footer = thrift.loads(_footer(_empty_file(schema, self._settings)))
        self._leaves = leaf_columns(self._footer)
        self._settings = _settings(options, [".".join(leaf.path) for leaf in self._leaves])
        self._encodings = Encodings(self._leaves, options)
        self._pending: deque[_RowGroup] = deque()
        self._groups: list[thrift.Struct] = []
        self._pages: list[tuple[thrift.Struct, PageIndex]] = []
        self._blooms: list[tuple[thrift.Struct, bytes]] = []
        self._chunks: list[list[ColumnStats]] = [[] for _ in self._leaves]
        self._sink.write(MAGIC)
        self.bytes_written = len(MAGIC)
        self.rows = self.rows_encoded = 0

    def write(self, table: pa.Table) -> None:
        """Append one row group, and begin to encode it.

        ``bytes_written`` and ``rows_encoded`` leave it out until it is settled.
        """
        if table.num_rows:
            self.rows += table.num_rows
            pieces = [self._submit(bundle) for bundle in _bundles(table)]
            self._pending.append(_RowGroup(table.num_rows, table.nbytes, pieces))

    def settle(self, held: int = 0) -> None:
        """Wait for row groups, oldest first, until one is left or all that are take ``held`` bytes as tables."""
        while len(self._pending) > 1 and sum(group.bytes for group in self._pending) > held:
            self._join(self._pending.popleft())

    def close(self) -> FileStats:
        """Write the rest and the footer."""
        while self._pending:
            self._join(self._pending.popleft())
        blooms = self._bloom_filters()
        indexes = page_indexes(self._pages, self.bytes_written + len(blooms))
        footer = thrift.dumps(with_content(self._footer, self._groups, self.rows, self._key_values))
        end = blooms + indexes + footer + struct.pack("<I", len(footer)) + MAGIC
        self._sink.write(end)
        return FileStats(
            rows=self.rows,
            size=self.bytes_written + len(end),
            split_offsets=tuple(map(row_group_offset, self._groups)),
            columns=tuple(map(column_stats, self._leaves, self._chunks)),
        )

    def abandon(self) -> None:
        """Forget what is pending; the file is unusable."""
        for group in self._pending:
            for piece in group.pieces:
                piece.cancel()
        self._pending.clear()

    def _submit(self, bundle: pa.Table) -> Future[_Piece]:
        if self._pool is not None:
            return self._pool.submit(_encode, bundle, self._settings, self._encodings)
        done: Future[_Piece] = Future()
        done.set_result(_encode(bundle, self._settings, self._encodings))
        return done

    def _join(self, encoding: _RowGroup) -> None:
        pieces = [piece.result() for piece in encoding.pieces]
        chunks = {path: chunk for piece in pieces for path, chunk in piece.chunks.items()}
        start = self.bytes_written
        for leaf in self._leaves:
            self._append(chunks[leaf.path])
        self.rows_encoded += encoding.rows
        entries = [chunks[leaf.path].entry for leaf in self._leaves]
        self._groups.append(row_group(entries, rows=encoding.rows, start=start, ordinal=len(self._groups)))
        seen = {path: found for piece in pieces for path, found in piece.seen.items()}
        for leaf, entry, known in zip(self._leaves, entries, self._chunks, strict=True):
            known.append(chunk_stats(leaf, entry, seen.get(leaf.path)))

    def _append(self, chunk: _Chunk) -> None:
        distance = self.bytes_written - chunk_range(chunk.entry)[0]
        shift(chunk.entry, distance)
        if chunk.pages is not None:
            self._pages.append((chunk.entry, chunk.pages.moved(distance)))
        if chunk.bloom:
            self._blooms.append((chunk.entry, chunk.bloom))
        self._sink.write(chunk.body)
        self.bytes_written += len(chunk.body)

    def _bloom_filters(self) -> bytes:
        """The bloom filters of the file, as they are written behind the row groups; sets the chunks' offsets."""
        out = bytearray()
        for entry, bloom in self._blooms:
            place_bloom_filter(entry, self.bytes_written + len(out))
            out += bloom
        return bytes(out)


def _bundles(table: pa.Table) -> list[pa.Table]:
    """The table's columns in a few tables of about equal bytes, in a fixed way."""
    shares = [0] * min(BUNDLES, table.num_columns)
    names: list[list[int]] = [[] for _ in shares]
    for i in sorted(range(table.num_columns), key=lambda i: -table.column(i).nbytes):
        smallest = shares.index(min(shares))
        shares[smallest] += table.column(i).nbytes
        names[smallest].append(i)
    return [table.select(sorted(indices)) for indices in names if indices]


def _encode(table: pa.Table, settings: Mapping[str, Any], encodings: Encodings) -> _Piece:
    data = _encode_table(table, {**settings, **encodings.of(table)})
    (group,) = row_groups(thrift.loads(_footer(data)))
    return _Piece({path: _chunk(data, entry) for path, entry in column_chunks(group)}, look_at(table, group))


def _chunk(data: memoryview, entry: thrift.Struct) -> _Chunk:
    start, size = chunk_range(entry)
    offset, length = bloom_filter(entry) or (0, 0)
    return _Chunk(entry, data[start : start + size], cut_off(data, entry), bytes(data[offset : offset + length]))


def _empty_file(schema: pa.Schema, settings: Mapping[str, Any]) -> memoryview:
    """A file of no rows; written without a table, as Arrow has no empty arrays of some types in others."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, **{k: v for k, v in settings.items() if k != "bloom_filter_options"}).close()
    return memoryview(sink.getvalue())


def _encode_table(table: pa.Table, settings: Mapping[str, Any]) -> memoryview:
    sink = pa.BufferOutputStream()
    settings = dict(settings)
    if blooms := settings.pop("bloom_filter_options", None):
        names = set(table.column_names)
        mine = {path: value for path, value in blooms.items() if path.partition(".")[0] in names}
        settings["bloom_filter_options"] = mine or None
    settings["write_batch_size"] = _values_at_once(table, settings["data_page_size"] or _PAGE_BYTES)
    with pq.ParquetWriter(sink, table.schema, **settings) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)
    return memoryview(sink.getvalue())


def _values_at_once(table: pa.Table, page_bytes: int) -> int:
    """How many values pyarrow writes before it looks whether a page is full: fewer if some are large."""
    widest = max((_width(chunk) for column in table.columns for chunk in column.chunks), default=1)
    return max(_LEAST_AT_ONCE, min(_AT_ONCE, page_bytes // widest))


def _width(array: pa.Array) -> int:
    """The bytes of a value of an array, of the largest of its leaf columns, on average."""
    if pa.types.is_struct(array.type):
        return max(map(_width, array.flatten()), default=1)
    if pa.types.is_map(array.type):
        return max(_width(array.keys), _width(array.items))
    if pa.types.is_list(array.type):
        return _width(array.flatten())
    return array.nbytes // max(1, len(array)) or 1


def _settings(options: WriteOptions, leaves: Sequence[str]) -> dict[str, Any]:
    """The options as pyarrow's writer takes them; ``leaves`` are the paths of all leaf columns."""
    settings: dict[str, Any] = {
        "compression": options.codec,
        "compression_level": options.level,
        "data_page_version": options.page_version,
        "data_page_size": options.page_bytes,
        "dictionary_pagesize_limit": options.dictionary_bytes,
        "store_schema": False,
        "write_page_index": True,
        "store_decimal_as_integer": True,
    }
    if options.columns_without_statistics and leaves:
        settings["write_statistics"] = [p for p in leaves if p not in options.columns_without_statistics]
    newer = {"max_rows_per_page": options.page_rows, "bloom_filter_options": dict(options.bloom_filters) or None}
    for name, value in newer.items():
        if value is not None:
            _require(name)
            settings[name] = value
    return settings


def _require(name: str) -> None:
    if name not in signature(pq.ParquetWriter.__init__).parameters:
        raise UnsupportedFeatureError(f"pyarrow {pa.__version__} cannot write with {name}; install a newer pyarrow")


def _footer_length(data: memoryview) -> int:
    length: int = struct.unpack("<I", data[-8:-4])[0]
    return length


def _footer(data: memoryview) -> bytes:
    return bytes(data[len(data) - 8 - _footer_length(data) : -8])
