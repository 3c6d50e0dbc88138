"""Data and delete files of every format as Arrow batches with field ids (I/O)."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs
import pyarrow as pa
from pyarrow import orc

from lakemeta import unpack
from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, LakemetaError, UnsupportedFeatureError
from lakemeta.executor import batched
from lakemeta.iceberg.rows.arrow import FIELD_ID
from lakemeta.iceberg.spec.values import scaled
from lakemeta.orc.timestamps import OUT_OF_RANGE, WideTimestamps
from lakemeta.parquet.reader import open_parquet, read_batches, row_group_middles
from lakemeta.row_sort import BATCH_BYTES, rows_of
from lakemeta.storage.failure import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from decimal import Decimal

_AVRO_ROWS: Final = 16_384
_PLAIN: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "null": pa.null(),
}

Convert = Any  # a function from a plain Avro value to what Arrow takes, or None if they are the same


@attrs.frozen
class FilePart:
    """``rows`` rows of a file from ``first_row`` on, None for all that follow. Of Parquet they are ``row_groups``."""

    first_row: int = 0
    rows: int | None = None
    row_groups: tuple[int, ...] = ()


WHOLE: Final = FilePart()


@attrs.frozen
class OpenFile:
    """A file that is open: its columns as Arrow fields with ids, and a way to stream some of them.

    ``rows`` is how many there are, None if the file does not say. ``blocks`` gives the middle, in bytes, and the rows
    of each row group of a Parquet file.
    """

    schema: pa.Schema
    read: Callable[[Sequence[str], FilePart], Iterator[pa.RecordBatch]]
    rows: int | None = None
    blocks: Callable[[], Sequence[tuple[int, int]]] | None = None

    def part(self, start: int, end: int, size: int, rows: int) -> FilePart:
        """The rows that the bytes from ``start`` to before ``end`` of a file of ``size`` bytes and ``rows`` rows are.

        A row group belongs to the part that its middle is in, as in Parquet's own readers; whatever its footer says
        of the middle, it is in exactly one part, and the row groups of a part follow each other. Other files say
        nothing about their blocks: as many of the rows as of the bytes, and in the last part all that follow.
        """
        if self.blocks is None:
            first = rows * start // size
            return FilePart(first, None if end == size else rows * end // size - first)
        blocks = self.blocks()
        middles = accumulate((min(max(0, middle), size - 1) for middle, _ in blocks), max)
        chosen = tuple(i for i, middle in enumerate(middles) if start <= middle < end)
        first = sum(count for _, count in blocks[: chosen[0]]) if chosen else 0
        return FilePart(first, sum(blocks[i][1] for i in chosen), chosen)


def open_data_file(file_format: str, source: BinaryIO | bytes, where: str) -> OpenFile:
    """Open a data or delete file of a format as manifests name it.

    Raises UnsupportedFeatureError for a format that is not Parquet, ORC or Avro, CorruptMetadataError, naming
    ``where``, for a file that does not parse, StorageError where the store fails.
    """
    kind = file_format.upper()
    if kind not in ("PARQUET", "ORC", "AVRO"):
        raise UnsupportedFeatureError(f"{where} is a {file_format} file; lakemeta reads Parquet, ORC and Avro")
    with _damage(source, where):
        if kind == "PARQUET":
            opened = _open_parquet(source, where)
        elif kind == "ORC":
            opened = _open_orc(source, where)
        else:
            opened = _open_avro(source if isinstance(source, bytes) else source.read(), where)
        _check_names(opened.schema)
    return attrs.evolve(opened, read=lambda columns, part: _guarded(opened.read(columns, part), source, where))


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError for a name that is no text: Arrow reads names only when it is asked for them."""
    for field in fields:
        field.name  # noqa: B018
        _check_names(field.type.field(i) for i in range(field.type.num_fields))


def size_of(source: BinaryIO | bytes) -> int:
    """The bytes of a file; one that is open is at its beginning again."""
    if isinstance(source, bytes):
        return len(source)
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    return size


@contextmanager
def _damage(source: BinaryIO | bytes, where: str) -> Iterator[None]:
    """Turn what Arrow raises for bytes that it cannot read into CorruptMetadataError, but not what the store raised."""
    try:
        yield
    except LakemetaError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if (failure := failure_of(source)) is not None:
            raise failure from None
        raise CorruptMetadataError(f"{where} cannot be read: {' '.join(str(error).split())}") from error


def _guarded(batches: Iterator[pa.RecordBatch], source: BinaryIO | bytes, where: str) -> Iterator[pa.RecordBatch]:
    with _damage(source, where):
        yield from batches


def _open_parquet(source: BinaryIO | bytes, where: str) -> OpenFile:
    opened = open_parquet(source, where)
    file = opened.file

    def read(columns: Sequence[str], part: FilePart) -> Iterator[pa.RecordBatch]:
        return read_batches(opened, columns, row_groups=None if part == WHOLE else part.row_groups)

    return OpenFile(file.schema_arrow, read, file.metadata.num_rows, lambda: row_group_middles(file))


def _open_orc(source: BinaryIO | bytes, where: str) -> OpenFile:
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    file = orc.ORCFile(stream)

    def read(columns: Sequence[str], part: FilePart) -> Iterator[pa.RecordBatch]:
        return _rows_of(stripes(columns), part)

    def stripes(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = list(columns) or file.schema.names[:1]  # rows count even if no column is wanted
        for stripe in range(file.nstripes):
            batch = read_stripe(stripe, wanted).select(list(columns))
            rows = rows_of(batch.num_rows, batch.nbytes)
            yield from (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))

    def read_stripe(stripe: int, columns: list[str]) -> pa.RecordBatch:
        try:
            return file.read_stripe(stripe, columns=columns)
        except pa.ArrowInvalid as error:
            if OUT_OF_RANGE not in str(error):
                raise
        return WideTimestamps.open(stream, file.schema, where).read_stripe(stripe, columns)

    return OpenFile(file.schema, read, file.nrows)


def _open_avro(data: bytes, where: str) -> OpenFile:
    limit = unpack.allowance(len(data), unpack.DATA_RATIO)
    schema, _ = avro.read_record_blocks(data, where, limit)
    try:
        parts = [(field["name"], *_avro_field(field)) for field in avro.spelled_out(schema)["fields"]]
    except LakemetaError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise CorruptMetadataError(f"{where} has an Avro schema that no table's rows have") from error

    def read(columns: Sequence[str], part: FilePart) -> Iterator[pa.RecordBatch]:
        return _rows_of(blocks(columns), part)

    def blocks(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = [part for part in parts if part[0] in columns]
        for rows in _bounded_batches(avro.read_record_blocks(data, where, limit)[1]):
            arrays = [_array([row[name] for row in rows], field, via) for name, field, via in wanted]
            fields = pa.schema([field for _, field, _ in wanted])
            yield pa.RecordBatch.from_struct_array(_rows(arrays, fields, len(rows)))

    return OpenFile(pa.schema([field for _, field, _ in parts]), read)


def _rows_of(batches: Iterator[pa.RecordBatch], part: FilePart) -> Iterator[pa.RecordBatch]:
    skip, left = part.first_row, part.rows
    if left == 0:
        return
    for batch in batches:
        cut = batch.slice(skip, left)
        skip = max(0, skip - batch.num_rows)
        left = None if left is None else left - cut.num_rows
        if cut.num_rows:
            yield cut
        if left == 0:
            return


def _rows(arrays: list[pa.Array], fields: pa.Schema, count: int) -> pa.StructArray:
    if not arrays:  # no column is wanted, but rows count
        return pa.array([{}] * count, pa.struct([]))
    return pa.StructArray.from_arrays(arrays, fields=list(fields))


def _array(values: list[Any], field: pa.Field, via: Convert) -> pa.Array:
    return pa.array(values if via is None else list(map(via, values)), field.type)


def _bounded_batches(blocks: Iterable[tuple[int, list[Any]]]) -> Iterator[list[Any]]:
    """Records of blocks, whose sizes in bytes are known, in batches of bounded rows and bytes."""
    held: list[Any] = []
    size = 0
    for block_bytes, records in blocks:
        step = rows_of(len(records), block_bytes, _AVRO_ROWS)
        for part in batched(records, step):
            part_bytes = block_bytes * len(part) // len(records)
            if held and (len(held) + len(part) > _AVRO_ROWS or size + part_bytes > BATCH_BYTES):
                yield held
                held, size = [], 0
            held += part
            size += part_bytes
    if held:
        yield held


def _avro_field(field: dict[str, Any]) -> tuple[pa.Field, Convert]:
    return _named(field["name"], field["type"], field.get("field-id"))


def _named(name: str, schema: Any, field_id: int | None) -> tuple[pa.Field, Convert]:
    nullable = isinstance(schema, list)
    if nullable:
        (schema,) = [branch for branch in schema if branch != "null"] or ["null"]
    kind, via = _avro_type(schema)
    metadata = None if field_id is None else {FIELD_ID: str(field_id)}
    return pa.field(name, kind, metadata=metadata), _or_none(via) if nullable else via


def _or_none(via: Convert) -> Convert:
    return None if via is None else lambda value: None if value is None else via(value)


def _avro_type(schema: Any) -> tuple[pa.DataType, Convert]:
    """The Arrow type of an Avro schema (spec: "Appendix A", Avro), and how its values become Arrow's."""
    if isinstance(schema, str):
        schema = {"type": schema}
    name, logical = schema["type"], schema.get("logicalType")
    if name == "record":
        return _avro_record(schema)
    if name == "array":
        return _avro_array(schema)
    if name == "map":
        key = pa.field("key", pa.string(), nullable=False, metadata=_id(schema.get("key-id")))
        value, via = _named("value", schema["values"], schema.get("value-id"))
        return pa.map_(key, value), lambda pairs: [(k, via(v) if via else v) for k, v in pairs.items()]
    if logical == "decimal":
        return _avro_decimal(schema["precision"], schema.get("scale", 0))
    if name == "fixed":
        return pa.binary(schema["size"]), None
    if isinstance(name, dict | list):
        return _avro_type(name)
    return _avro_logical(logical, schema) or _PLAIN[name], None


def _id(value: int | None) -> dict[bytes, str] | None:
    return None if value is None else {FIELD_ID: str(value)}


def _avro_logical(logical: str | None, schema: dict[str, Any]) -> pa.DataType | None:
    zone = "UTC" if schema.get("adjust-to-utc") else None
    return {
        "date": pa.date32(),
        "time-micros": pa.time64("us"),
        "timestamp-millis": pa.timestamp("ms", tz=zone),
        "timestamp-micros": pa.timestamp("us", tz=zone),
        "timestamp-nanos": pa.timestamp("ns", tz=zone),
    }.get(logical or "")


def _avro_decimal(precision: int, scale: int) -> tuple[pa.DataType, Convert]:
    def via(value: bytes) -> Decimal:
        return scaled(int.from_bytes(value, "big", signed=True), scale)

    return pa.decimal128(precision, scale), via


def _avro_record(schema: dict[str, Any]) -> tuple[pa.DataType, Convert]:
    parts = [_avro_field(field) for field in schema["fields"]]
    vias = {field.name: via for field, via in parts if via is not None}

    def via_fields(row: dict[str, Any]) -> dict[str, Any]:
        return {k: vias[k](v) if k in vias else v for k, v in row.items()}

    return pa.struct([field for field, _ in parts]), via_fields if vias else None


def _avro_array(schema: dict[str, Any]) -> tuple[pa.DataType, Convert]:
    if schema.get("logicalType") == "map":  # a map whose keys are no strings
        (key, key_via), (value, value_via) = (_avro_field(f) for f in schema["items"]["fields"])
        same = _same
        key_of, value_of = key_via or same, value_via or same
        kind = pa.map_(key.with_nullable(False), value)
        return kind, lambda rows: [(key_of(r["key"]), value_of(r["value"])) for r in rows]
    element, via = _named("element", schema["items"], schema.get("element-id"))
    return pa.list_(element), None if via is None else lambda values: [via(v) for v in values]


def _same(value: Any) -> Any:
    return value
