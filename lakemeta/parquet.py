"""Parquet files: streamed in as record batches, written with all cores, statistics collected on the way.

pyarrow encodes a row group on one thread. Encoding is two thirds of the cost of rewriting a file, so the
writer here cuts a row group into bundles of columns, lets pyarrow encode each bundle on a thread into a small
Parquet file in memory, and joins their column chunks to one row group of one output file: only offsets in the
footer change. The bytes of a file do not depend on the number of threads.

Inputs and outputs are file objects; no table format's rules live here. Sizes are bytes.
"""

from __future__ import annotations

import struct
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakemeta import thrift
from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MAGIC: Final = b"PAR1"
FIELD_ID: Final = b"PARQUET:field_id"
BATCH_ROWS: Final = 131_072
BUNDLES: Final = 4  # column bundles a row group: more keep cores busy at its end, fewer cost less

# Field ids of the structs in parquet.thrift.
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES = 2, 3, 4, 5
_CHUNK_META = 3
_CHUNK_OFFSETS = (2, 4, 6)
_META_OFFSETS = (9, 10, 11, 14)
_TYPE, _PATH, _NUM_VALUES, _COMPRESSED, _STATISTICS = 1, 3, 5, 7, 12
_GROUP_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED, _GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
_NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 3, 5, 6
_BYTE_ARRAYS = (6, 7)
_FORMS: Final = {0: "<?", 1: "<i", 2: "<q", 4: "<f", 5: "<d"}  # physical type -> struct format of a statistic


@attrs.frozen
class WriteOptions:
    """How a file is encoded; None leaves the choice to pyarrow.

    ``codec`` is pyarrow's name (``zstd``, ``snappy``, ``gzip``, ``none``, ...). ``bloom_filters`` maps a
    column path to ``{"ndv": rows, "fpp": probability}``. ``key_values`` go to the footer.
    """

    codec: str = "zstd"
    level: int | None = None
    page_bytes: int | None = None
    page_rows: int | None = None
    dictionary_bytes: int | None = None
    bloom_filters: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    key_values: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class ColumnStats:
    """What one leaf column of a file holds.

    ``values`` counts nulls too. ``lower`` and ``upper`` are plain-encoded: numbers little-endian, byte arrays
    as they are, decimals in byte arrays big-endian; None if unknown or if all values are null or NaN.
    ``nans`` is None for a column that is not floating-point.
    """

    field_id: int | None
    path: tuple[str, ...]
    compressed_bytes: int = 0
    values: int = 0
    nulls: int = 0
    nans: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@attrs.frozen
class FileStats:
    """What became of one written file: its rows, size, where its row groups start, and its leaf columns."""

    rows: int
    size: int
    split_offsets: tuple[int, ...]
    columns: tuple[ColumnStats, ...]


@attrs.frozen
class _Leaf:
    """One leaf column of a schema; ``order`` turns a statistic into a value that compares right."""

    path: tuple[str, ...]
    field_id: int | None
    kind: int
    decimal: bool

    def order(self, data: bytes) -> Any:
        if self.kind in _BYTE_ARRAYS:
            return int.from_bytes(data, "big", signed=True) if self.decimal else data
        return struct.unpack(_FORMS[self.kind], data)[0]


@attrs.frozen
class _Piece:
    """An encoded column bundle: everything between magic and footer, and the footer's row group."""

    body: memoryview
    row_group: thrift.Struct
    nans: Mapping[tuple[str, ...], int]
    bounds: Mapping[tuple[str, ...], tuple[bytes, bytes]]


def open_parquet(source: BinaryIO | bytes) -> pq.ParquetFile:
    """Open a file for reading; raises CorruptMetadataError if it is not Parquet."""
    try:
        data = pa.BufferReader(source) if isinstance(source, bytes) else source
        return pq.ParquetFile(data, pre_buffer=not isinstance(source, bytes), arrow_extensions_enabled=False)
    except pa.ArrowInvalid as error:
        raise CorruptMetadataError(f"a data file is not Parquet: {error}") from error


def read_batches(
    file: pq.ParquetFile, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a file, in order. ``columns`` are top-level names or paths; None means all."""
    batches: Iterator[pa.RecordBatch] = file.iter_batches(batch_size=batch_rows, columns=columns)
    return batches


def cut(batches: Iterable[pa.RecordBatch | pa.Table], rows: int) -> Iterator[pa.Table]:
    """Gather batches to tables of exactly ``rows`` rows; the last may be shorter."""
    held: list[pa.Table] = []
    count = 0
    for batch in batches:
        held.append(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]))
        count += batch.num_rows
        while count >= rows:
            table = pa.concat_tables(held)
            yield table.slice(0, rows)
            held, count = [table.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(held)


class ParquetWriter:
    """Writes one file, row group by row group; at most two row groups are held, the one being encoded too.

    ``pool`` encodes; None encodes on the calling thread. The caller closes the sink, and removes the file if
    anything is raised.
    """

    def __init__(
        self, sink: BinaryIO, schema: pa.Schema, options: WriteOptions, pool: ThreadPoolExecutor | None = None
    ) -> None:
        self._sink = sink
        self._schema = schema
        self._options = options
        self._pool = pool
        self._footer = thrift.loads(_footer(_encode_table(schema.empty_table(), options)))
        self._leaves = _leaves(self._footer[_SCHEMA][1][1])
        self._pending: deque[tuple[int, list[Future[_Piece]]]] = deque()
        self._groups: list[thrift.Struct] = []
        self._columns = [ColumnStats(leaf.field_id, leaf.path) for leaf in self._leaves]
        self._sink.write(MAGIC)
        self.bytes_written = len(MAGIC)
        self.rows = 0

    def write(self, table: pa.Table) -> None:
        """Append one row group; ``bytes_written`` counts those before the one that is being encoded."""
        if table.num_rows:
            self.rows += table.num_rows
            self._pending.append((table.num_rows, [self._submit(bundle) for bundle in _bundles(table)]))
        if len(self._pending) > 1:
            self._join(*self._pending.popleft())

    def close(self) -> FileStats:
        """Write the rest and the footer."""
        while self._pending:
            self._join(*self._pending.popleft())
        footer = thrift.dumps(self._whole_footer())
        self._sink.write(footer + struct.pack("<I", len(footer)) + MAGIC)
        size = self.bytes_written + len(footer) + 8
        return FileStats(
            self.rows, size, tuple(g[_GROUP_OFFSET][1] for g in self._groups), tuple(self._columns)
        )

    def abandon(self) -> None:
        """Forget what is pending; the file is unusable."""
        for _, futures in self._pending:
            for future in futures:
                future.cancel()
        self._pending.clear()

    def _submit(self, bundle: pa.Table) -> Future[_Piece]:
        if self._pool is not None:
            return self._pool.submit(_encode, bundle, self._options)
        done: Future[_Piece] = Future()
        done.set_result(_encode(bundle, self._options))
        return done

    def _join(self, rows: int, futures: Sequence[Future[_Piece]]) -> None:
        chunks: dict[str, list[thrift.Struct]] = {}
        nans: dict[tuple[str, ...], int] = {}
        bounds: dict[tuple[str, ...], tuple[bytes, bytes]] = {}
        start, total = self.bytes_written, 0
        for piece in (future.result() for future in futures):
            _shift(piece.row_group, self.bytes_written - len(MAGIC))
            for chunk in piece.row_group[_GROUP_COLUMNS][1][1]:
                chunks.setdefault(chunk[_CHUNK_META][1][_PATH][1][1][0].decode(), []).append(chunk)
            self._sink.write(piece.body)
            self.bytes_written += len(piece.body)
            total += piece.row_group[_GROUP_BYTES][1]
            nans.update(piece.nans)
            bounds.update(piece.bounds)
        columns = [chunk for name in self._schema.names for chunk in chunks[name]]
        self._groups.append(self._row_group(columns, rows, start, total))
        for i, chunk in enumerate(columns):
            self._columns[i] = _add(self._columns[i], self._leaves[i], chunk[_CHUNK_META][1], nans, bounds)

    def _row_group(self, columns: list[thrift.Struct], rows: int, start: int, total: int) -> thrift.Struct:
        return {
            _GROUP_COLUMNS: (thrift.LIST, (thrift.STRUCT, columns)),
            _GROUP_BYTES: (thrift.I64, total),
            _GROUP_ROWS: (thrift.I64, rows),
            _GROUP_OFFSET: (thrift.I64, start),
            _GROUP_COMPRESSED: (thrift.I64, self.bytes_written - start),
            _GROUP_ORDINAL: (thrift.I16, len(self._groups) & 0x7FFF),
        }

    def _whole_footer(self) -> thrift.Struct:
        pairs = [
            {1: (thrift.BINARY, key.encode()), 2: (thrift.BINARY, value.encode())}
            for key, value in self._options.key_values.items()
        ]
        footer = dict(self._footer)
        footer.pop(_KEY_VALUES, None)
        if pairs:
            footer[_KEY_VALUES] = (thrift.LIST, (thrift.STRUCT, pairs))
        footer[_NUM_ROWS] = (thrift.I64, self.rows)
        footer[_ROW_GROUPS] = (thrift.LIST, (thrift.STRUCT, self._groups))
        return footer


def _bundles(table: pa.Table) -> list[pa.Table]:
    """The table's columns in a few tables of about equal bytes, in a fixed way."""
    shares = [0] * min(BUNDLES, table.num_columns)
    names: list[list[int]] = [[] for _ in shares]
    for i in sorted(range(table.num_columns), key=lambda i: -table.column(i).nbytes):
        smallest = shares.index(min(shares))
        shares[smallest] += table.column(i).nbytes
        names[smallest].append(i)
    return [table.select(sorted(indices)) for indices in names if indices]


def _encode(table: pa.Table, options: WriteOptions) -> _Piece:
    data = _encode_table(table, options)
    row_group = thrift.loads(_footer(data))[_ROW_GROUPS][1][1][0]
    body = memoryview(data)[len(MAGIC) : len(data) - 8 - _footer_length(data)]
    nans: dict[tuple[str, ...], int] = {}
    strings: dict[tuple[str, ...], pa.ChunkedArray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        _count_nans((name,), column, nans)
        _byte_columns((name,), column, strings)
    return _Piece(body, row_group, nans, _missing_bounds(row_group, strings))


def _encode_table(table: pa.Table, options: WriteOptions) -> memoryview:
    sink = pa.BufferOutputStream()
    settings: dict[str, Any] = {
        "compression": options.codec,
        "compression_level": options.level,
        "data_page_size": options.page_bytes,
        "dictionary_pagesize_limit": options.dictionary_bytes,
        "store_schema": False,
        "store_decimal_as_integer": True,
    }
    if options.page_rows is not None:
        settings["max_rows_per_page"] = options.page_rows
    names = set(table.column_names)
    blooms = {path: dict(b) for path, b in options.bloom_filters.items() if path.partition(".")[0] in names}
    if blooms:
        settings["bloom_filter_options"] = blooms
    with pq.ParquetWriter(sink, table.schema, **settings) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)
    return memoryview(sink.getvalue())


def _footer_length(data: memoryview) -> int:
    length: int = struct.unpack("<I", data[-8:-4])[0]
    return length


def _footer(data: memoryview) -> bytes:
    return bytes(data[len(data) - 8 - _footer_length(data) : -8])


def _shift(row_group: thrift.Struct, distance: int) -> None:
    """Move every offset of a row group; an offset of zero means that there is nothing."""
    for chunk in row_group[_GROUP_COLUMNS][1][1]:
        for struct_, fields in ((chunk, _CHUNK_OFFSETS), (chunk[_CHUNK_META][1], _META_OFFSETS)):
            for field in fields:
                if field in struct_ and struct_[field][1]:
                    struct_[field] = (thrift.I64, struct_[field][1] + distance)


def _leaves(elements: Sequence[thrift.Struct]) -> list[_Leaf]:
    """The leaf columns of a footer's schema, which lists its tree depth first."""
    leaves: list[_Leaf] = []
    at = 0

    def visit(path: tuple[str, ...]) -> None:
        nonlocal at
        element = elements[at]
        at += 1
        name = (*path, element[4][1].decode())
        if 5 in element:
            for _ in range(element[5][1]):
                visit(name)
        else:
            field_id = element[9][1] if 9 in element else None
            leaves.append(_Leaf(name[1:], field_id, element[_TYPE][1], element.get(6, (0, None))[1] == 5))

    visit(())
    return leaves


def _add(
    column: ColumnStats,
    leaf: _Leaf,
    meta: thrift.Struct,
    nans: Mapping[tuple[str, ...], int],
    bounds: Mapping[tuple[str, ...], tuple[bytes, bytes]],
) -> ColumnStats:
    """The statistics of a column after one more row group."""
    stats = meta[_STATISTICS][1] if _STATISTICS in meta else {}
    values, nulls = meta[_NUM_VALUES][1], stats.get(_NULL_COUNT, (0, 0))[1]
    lower, upper = stats.get(_MIN_VALUE, (0, None))[1], stats.get(_MAX_VALUE, (0, None))[1]
    if lower is None or upper is None:
        lower, upper = bounds.get(leaf.path, (None, None))
    first = column.values == column.nulls + (column.nans or 0)
    nan = nans.get(leaf.path)
    if lower is None and values > nulls + (nan or 0):  # unknown here, so unknown for the file
        first, column = False, attrs.evolve(column, lower=None, upper=None)
    elif lower is None:
        lower, upper = column.lower, column.upper
    elif not first:
        known = column.lower is not None and column.upper is not None
        lower = min(column.lower, lower, key=leaf.order) if known else None
        upper = max(column.upper, upper, key=leaf.order) if known else None
    return attrs.evolve(
        column,
        compressed_bytes=column.compressed_bytes + meta[_COMPRESSED][1],
        values=column.values + values,
        nulls=column.nulls + nulls,
        nans=column.nans if nan is None else (column.nans or 0) + nan,
        lower=lower,
        upper=upper,
    )


def _count_nans(path: tuple[str, ...], column: pa.ChunkedArray, nans: dict[tuple[str, ...], int]) -> None:
    if pa.types.is_floating(column.type):
        nans[path] = pc.sum(pc.is_nan(column)).as_py() or 0
    elif pa.types.is_struct(column.type):
        for i, field in enumerate(column.type):
            _count_nans((*path, field.name), pc.struct_field(column, [i]), nans)


def _byte_columns(
    path: tuple[str, ...], column: pa.ChunkedArray, found: dict[tuple[str, ...], pa.ChunkedArray]
) -> None:
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        found[path] = column
    elif pa.types.is_struct(column.type):
        for i, field in enumerate(column.type):
            _byte_columns((*path, field.name), pc.struct_field(column, [i]), found)


def _missing_bounds(
    row_group: thrift.Struct, columns: Mapping[tuple[str, ...], pa.ChunkedArray]
) -> dict[tuple[str, ...], tuple[bytes, bytes]]:
    """Bounds of byte columns whose values are too long for pyarrow to keep statistics (over 4096 bytes)."""
    found = {}
    for meta in (chunk[_CHUNK_META][1] for chunk in row_group[_GROUP_COLUMNS][1][1]):
        path = tuple(part.decode() for part in meta[_PATH][1][1])
        known = _STATISTICS in meta and _MIN_VALUE in meta[_STATISTICS][1]
        if path in columns and not known and columns[path].null_count < len(columns[path]):
            bounds = pc.min_max(columns[path].cast(pa.binary())).as_py()
            found[path] = (bounds["min"], bounds["max"])
    return found
