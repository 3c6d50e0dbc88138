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
from inspect import signature
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakemeta import thrift
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

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

    ``codec`` is pyarrow's name (``zstd``, ``snappy``, ``gzip``, ``none``, ...). ``plain_columns`` are paths of
    columns to write without dictionary. ``bloom_filters`` maps a column path to ``{"ndv": rows, "fpp":
    probability}``. ``key_values`` go to the footer.
    """

    codec: str = "zstd"
    level: int | None = None
    page_version: str = "1.0"
    page_bytes: int | None = None
    page_rows: int | None = None
    dictionary_bytes: int | None = None
    plain_columns: frozenset[str] = frozenset()
    columns_without_statistics: frozenset[str] = frozenset()
    bloom_filters: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    key_values: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class ColumnStats:
    """What one leaf column of a file holds.

    ``values`` counts nulls too. ``lower`` and ``upper`` are plain-encoded: numbers little-endian, byte arrays
    as they are, decimals in byte arrays big-endian; None if unknown or if all values are null or NaN.
    ``nulls`` is None if the column was written without
    statistics, ``nans`` if it is not floating-point.
    """

    field_id: int | None
    path: tuple[str, ...]
    compressed_bytes: int = 0
    values: int = 0
    nulls: int | None = 0
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
        return pq.ParquetFile(data, pre_buffer=not isinstance(source, bytes))
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
        self._settings = _settings(options, ())
        self._key_values = options.key_values
        self._pool = pool
        self._footer = thrift.loads(_footer(_encode_table(schema.empty_table(), self._settings)))
        self._leaves = _leaves(self._footer[_SCHEMA][1][1])
        self._settings = _settings(options, [".".join(leaf.path) for leaf in self._leaves])
        self._pending: deque[tuple[int, list[Future[_Piece]]]] = deque()
        self._groups: list[thrift.Struct] = []
        self._chunks: list[list[ColumnStats]] = [[] for _ in self._leaves]
        self._sink.write(MAGIC)
        self.bytes_written = len(MAGIC)
        self.rows = self.rows_encoded = 0

    def write(self, table: pa.Table) -> None:
        """Append one row group.

        ``bytes_written`` and ``rows_encoded`` leave out the row group that is being encoded.
        """
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
        return FileStats(
            rows=self.rows,
            size=self.bytes_written + len(footer) + 8,
            split_offsets=tuple(group[_GROUP_OFFSET][1] for group in self._groups),
            columns=tuple(map(_column_stats, self._leaves, self._chunks)),
        )

    def abandon(self) -> None:
        """Forget what is pending; the file is unusable."""
        for _, futures in self._pending:
            for future in futures:
                future.cancel()
        self._pending.clear()

    def _submit(self, bundle: pa.Table) -> Future[_Piece]:
        if self._pool is not None:
            return self._pool.submit(_encode, bundle, self._settings)
        done: Future[_Piece] = Future()
        done.set_result(_encode(bundle, self._settings))
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
        self.rows_encoded += rows
        columns = [chunk for name in self._schema.names for chunk in chunks[name]]
        self._groups.append(self._row_group(columns, rows, start, total))
        for i, chunk in enumerate(columns):
            self._chunks[i].append(_chunk_stats(self._leaves[i], chunk[_CHUNK_META][1], nans, bounds))

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
            for key, value in self._key_values.items()
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


def _encode(table: pa.Table, settings: Mapping[str, Any]) -> _Piece:
    data = _encode_table(table, settings)
    row_group = thrift.loads(_footer(data))[_ROW_GROUPS][1][1][0]
    body = memoryview(data)[len(MAGIC) : len(data) - 8 - _footer_length(data)]
    nans: dict[tuple[str, ...], int] = {}
    strings: dict[tuple[str, ...], pa.ChunkedArray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        _count_nans((name,), column, nans)
        _byte_columns((name,), column, strings)
    return _Piece(body, row_group, nans, _missing_bounds(row_group, strings))


def _encode_table(table: pa.Table, settings: Mapping[str, Any]) -> memoryview:
    sink = pa.BufferOutputStream()
    settings = dict(settings)
    if blooms := settings.pop("bloom_filter_options", None):
        names = set(table.column_names)
        mine = {path: value for path, value in blooms.items() if path.partition(".")[0] in names}
        settings["bloom_filter_options"] = mine or None
    with pq.ParquetWriter(sink, table.schema, **settings) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=table.num_rows)
    return memoryview(sink.getvalue())


def _settings(options: WriteOptions, leaves: Sequence[str]) -> dict[str, Any]:
    """The options as pyarrow's writer takes them; ``leaves`` are the paths of all leaf columns."""
    settings: dict[str, Any] = {
        "compression": options.codec,
        "compression_level": options.level,
        "data_page_version": options.page_version,
        "data_page_size": options.page_bytes,
        "dictionary_pagesize_limit": options.dictionary_bytes,
        "store_schema": False,
        "store_decimal_as_integer": True,
    }
    if options.plain_columns and leaves:
        settings["use_dictionary"] = [path for path in leaves if path not in options.plain_columns]
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


def _chunk_stats(
    leaf: _Leaf,
    meta: thrift.Struct,
    nans: Mapping[tuple[str, ...], int],
    bounds: Mapping[tuple[str, ...], tuple[bytes, bytes]],
) -> ColumnStats:
    """What one row group holds of a column."""
    stats = meta[_STATISTICS][1] if _STATISTICS in meta else {}
    lower, upper = bounds.get(leaf.path, (None, None))
    return ColumnStats(
        field_id=leaf.field_id,
        path=leaf.path,
        compressed_bytes=meta[_COMPRESSED][1],
        values=meta[_NUM_VALUES][1],
        nulls=stats[_NULL_COUNT][1] if _NULL_COUNT in stats else None,
        nans=nans.get(leaf.path),
        lower=stats[_MIN_VALUE][1] if _MIN_VALUE in stats else lower,
        upper=stats[_MAX_VALUE][1] if _MAX_VALUE in stats else upper,
    )


def _column_stats(leaf: _Leaf, chunks: Sequence[ColumnStats]) -> ColumnStats:
    """What the whole file holds of a column; a bound that one row group does not know is not known at all."""
    nulls = [c.nulls for c in chunks if c.nulls is not None]
    known = len(nulls) == len(chunks)
    bounded = known and all(c.lower is not None or _is_void(c) for c in chunks)
    lowers = [c.lower for c in chunks if c.lower is not None]
    uppers = [c.upper for c in chunks if c.upper is not None]
    return ColumnStats(
        field_id=leaf.field_id,
        path=leaf.path,
        compressed_bytes=sum(c.compressed_bytes for c in chunks),
        values=sum(c.values for c in chunks),
        nulls=sum(nulls) if known else None,
        nans=sum(c.nans or 0 for c in chunks) if any(c.nans is not None for c in chunks) else None,
        lower=min(lowers, key=leaf.order) if bounded and lowers else None,
        upper=max(uppers, key=leaf.order) if bounded and uppers else None,
    )


def _is_void(chunk: ColumnStats) -> bool:
    """True if there is nothing but nulls and NaNs."""
    return chunk.values == (chunk.nulls or 0) + (chunk.nans or 0)


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
