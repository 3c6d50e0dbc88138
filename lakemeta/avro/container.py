"""Avro containers and bare records, as bytes in and plain values out, over fastavro.

Values are plain: logical types are not applied, so a date is its int of days, a decimal its big-endian
bytes, a uuid its 16 bytes, and what was read is written back bit for bit. A value of a union that has more
than one record type is a dict. Writing also takes (full type name, dict), which says which record of a union is
meant (``IntWrapper`` and ``LongWrapper`` look alike).

Schemas are taken as Java writes them (``avro.java.string``, ``null`` defaults in any place), as JSON text or
as parsed JSON. The shape of each is checked before anything is decoded with it (``schema``), and what blocks
unpack to is bounded (``unpack``).
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from functools import lru_cache
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import fastavro

from lakemeta import unpack
from lakemeta.avro.schema import SchemaShapeError, Shape, check_schema
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")
Schema = Any  # JSON text, or what json.loads made of it

MAGIC: Final = b"Obj\x01"
SYNC_SIZE: Final = 16
_BLOCK_RECORDS: Final = 4000
_HEADER_MAP: Final = '{"type":"map","values":"bytes"}'
_CODECS_ELSEWHERE: Final = ("lz4",)

# What fastavro raises for bytes that are not what the schema says, and for schemas that are none.
_DECODE_ERRORS: Final = (
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    MemoryError,
    RecursionError,
    struct.error,
    fastavro.schema.SchemaParseException,
)


def read_container(data: bytes, where: str, *, limit: int | None = None) -> tuple[dict[str, Any], list[Any]]:
    """The writer schema, which is a record's, and all records of an Avro object container file.

    Raises CorruptMetadataError, naming ``where`` and the byte, if the file is empty, truncated, not Avro, or unpacks
    to more than ``limit`` bytes (by default what metadata may take), and UnsupportedFeatureError for codec lz4. A
    file cut exactly between two blocks cannot be told from a whole one: the format has no end mark.
    """
    schema, blocks = read_record_blocks(data, where, limit)
    return schema, [record for _, records in blocks for record in records]


def read_record_blocks(
    data: bytes, where: str, limit: int | None = None
) -> tuple[dict[str, Any], Iterator[tuple[int, list[Any]]]]:
    """As ``read_container``, but block by block: the unpacked bytes of each, and its records."""
    header = _read_header(data, where)
    schema = _record_schema(header, where)
    blocks, text = _blocks(data, header, where, limit), header.schema_text
    return schema, ((len(b.content), _decode_block(text, b, where, limit is None)) for b in blocks)


def read_blocks(data: bytes, where: str) -> tuple[dict[str, Any], Iterator[tuple[int, bytes]]]:
    """The writer schema of a container, and the number of records and raw bytes of each block, unpacked.

    For readers that know which parts of a record they can step over; raises as ``read_container`` does.
    """
    header = _read_header(data, where)
    blocks = ((block.count, block.content) for block in _blocks(data, header, where, None))
    return _record_schema(header, where), blocks


def read_from(schema: Schema, stream: BytesIO, where: str) -> Any:
    """Decode one bare value from a stream that goes on after it; raises CorruptMetadataError naming ``where``."""
    return _decode(_parsed(schema_text(schema), where), stream, where, stream.tell())


def container_metadata(data: bytes, where: str) -> dict[str, bytes]:
    """The key-value metadata in the header of a container, ``avro.schema`` and ``avro.codec`` included."""
    return dict(_read_header(data, where).metadata)


def ends_whole(head: bytes, tail: bytes, size: int) -> bool:
    """True if a container of ``size`` bytes ends with a block, judged by its first bytes and its last 16.

    ``head`` must reach past the header, whose length depends on the schema; if it does not, the answer is False.
    """
    try:
        header = _read_header(head, "")
    except CorruptMetadataError:
        return False
    return size > header.end and tail == header.sync_marker


def write_container(
    schema: Schema,
    records: Iterable[Any],
    *,
    codec: str = "null",
    metadata: Mapping[str, bytes | str] | None = None,
    sync_marker: bytes | None = None,
) -> bytes:
    """An Avro object container file with the given records; the same arguments give the same bytes.

    ``codec`` is null or deflate. ``sync_marker`` is 16 bytes; by default they are a hash of the records.
    Raises ValueError if a record does not fit the schema.
    """
    text = schema_text(schema)
    blocks = [(len(batch), _encode_block(text, batch)) for batch in _batches(records)]
    return _container(text, blocks, codec, metadata or {}, sync_marker)


def join_container(
    schema: Schema, encoded: Iterable[bytes], *, codec: str = "null", metadata: Mapping[str, bytes | str] | None = None
) -> bytes:
    """As ``write_container``, of records that are encoded already (``write_datum``)."""
    blocks = [(len(batch), b"".join(batch)) for batch in _batches(encoded)]
    return _container(schema_text(schema), blocks, codec, metadata or {}, None)


def _container(
    text: str,
    blocks: list[tuple[int, bytes]],
    codec: str,
    metadata: Mapping[str, bytes | str],
    sync_marker: bytes | None,
) -> bytes:
    if codec not in ("null", "deflate"):
        raise ValueError(f"Avro files are written with codec null or deflate, not {codec}")
    if codec == "deflate":
        blocks = [(count, _deflate(raw)) for count, raw in blocks]
    sync = sync_marker or hashlib.sha256(b"".join(raw for _, raw in blocks)).digest()[:SYNC_SIZE]
    if len(sync) != SYNC_SIZE:
        raise ValueError(f"a sync marker has {SYNC_SIZE} bytes, not {len(sync)}")
    header: dict[str, bytes] = {"avro.schema": text.encode()}
    if codec != "null":
        header["avro.codec"] = codec.encode()
    header |= {k: v.encode() if isinstance(v, str) else v for k, v in metadata.items()}
    parts = [MAGIC, write_datum(_HEADER_MAP, header), sync]
    for count, raw in blocks:
        parts += [encode_long(count), encode_long(len(raw)), raw, sync]
    return b"".join(parts)


def read_datum(schema: Schema, data: bytes, where: str) -> Any:
    """Decode one bare value that fills ``data`` exactly; raises CorruptMetadataError naming ``where``."""
    stream = BytesIO(data)
    value = _decode(_parsed(schema_text(schema), where), stream, where, 0)
    if stream.tell() != len(data):
        raise _corrupt(where, stream.tell(), f"an Avro value ends here, {len(data)} bytes were to be read")
    return value


def read_data(schema: Schema, values: Sequence[bytes], where: str) -> list[Any]:
    """Decode many bare values of one schema in one go, several times faster than one by one."""
    text = schema_text(schema)
    try:
        return _decode_block(text, _Block(len(values), b"".join(values), 0, 0), where, False)
    except CorruptMetadataError:
        # One by one, so that the error names the value.
        named = ((f"value {number} of {where}", value) for number, value in enumerate(values))
        return [read_datum(text, value, name) for name, value in named]


def write_datum(schema: Schema, value: Any) -> bytes:
    """Encode one bare value; raises ValueError if it does not fit the schema."""
    out = BytesIO()
    parsed = _parsed(schema_text(schema), "the schema to write with")
    try:
        fastavro.schemaless_writer(out, parsed, value)
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error) as error:
        raise ValueError(f"a value does not fit its Avro schema: {error}") from error
    return out.getvalue()


def write_data(schema: Schema, values: Sequence[Any]) -> list[bytes]:
    """Encode many bare values of one schema; raises ValueError if one does not fit."""
    text = schema_text(schema)
    return [write_datum(text, value) for value in values]


@lru_cache(maxsize=4096)
def encode_long(value: int) -> bytes:
    """One Avro long (or int): zigzag, seven bits a byte."""
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def schema_text(schema: Schema) -> str:
    """The JSON text of a schema; text is taken as it is."""
    return schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))


def spelled_out(schema: Any) -> Any:
    """A parsed schema with every reference to a named type replaced by its definition, which comes before it."""
    return _spelled_out(schema, {})


def _spelled_out(schema: Any, known: dict[str, Any]) -> Any:
    if isinstance(schema, str):
        return known.get(schema, schema)
    if isinstance(schema, list):
        return [_spelled_out(branch, known) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for key in ("type", "items", "values"):
        if key in out:
            out[key] = _spelled_out(out[key], known)
    if "fields" in out:
        out["fields"] = [_spelled_out(field, known) for field in out["fields"]]
    if "name" in out and out["type"] in ("record", "fixed", "enum"):
        known[out["name"]] = out
    return out


@lru_cache(maxsize=256)
def canonical(schema_text: str) -> str:
    """The Parsing Canonical Form of a schema: equal for schemas whose values have the same bytes and names."""
    return fastavro.schema.to_parsing_canonical_form(json.loads(schema_text))


@attrs.frozen(slots=True)
class _Header:
    metadata: Mapping[str, bytes]
    schema_text: str
    codec: str
    sync_marker: bytes
    end: int


def _read_header(data: bytes, where: str) -> _Header:
    if not data:
        raise CorruptMetadataError(f"{where} is empty; an Avro file was expected")
    if not data.startswith(MAGIC):
        raise CorruptMetadataError(f"{where} is not an Avro file: it starts with {data[:4]!r}")
    stream = BytesIO(data)
    stream.seek(len(MAGIC))
    metadata = _decode(_parsed(_HEADER_MAP, where), stream, where, len(MAGIC))
    sync = stream.read(SYNC_SIZE)
    if len(sync) != SYNC_SIZE:
        raise _corrupt(where, len(data), "the file ends within its header")
    try:
        schema = metadata["avro.schema"].decode()
        codec = metadata.get("avro.codec", b"null").decode()
    except (KeyError, UnicodeDecodeError) as error:
        raise _corrupt(where, len(MAGIC), "the header has no readable avro.schema and avro.codec") from error
    return _Header(metadata, schema, codec, sync, stream.tell())


def _record_schema(header: _Header, where: str) -> dict[str, Any]:
    _parsed(_array(header.schema_text), where)
    schema = json.loads(header.schema_text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise CorruptMetadataError(f"{where} carries an Avro schema of no records")
    return schema


@attrs.frozen(slots=True)
class _Block:
    count: int
    content: bytes
    position: int
    packed: int


def _blocks(data: bytes, header: _Header, where: str, limit: int | None) -> Iterator[_Block]:
    position, room = header.end, unpack.allowance(len(data)) if limit is None else limit
    records = unpack.most_records(len(data))
    while position < len(data):
        try:
            count, position = _read_long(data, position)
            size, position = _read_long(data, position)
        except IndexError as error:
            raise _corrupt(where, position, "the file ends within a block header") from error
        end = position + size
        if size < 0 or data[end : end + SYNC_SIZE] != header.sync_marker:
            raise _corrupt(where, position, "a block of records is damaged or cut off")
        block = _unpack(data[position:end], header, where, position, room)
        room, records = room - len(block), records - count
        if limit is None and records < 0:
            raise _corrupt(where, position, f"{count} more records are more than a file of {len(data)} bytes has")
        yield _Block(count, block, position, size)
        position = end + SYNC_SIZE


def _unpack(block: bytes, header: _Header, where: str, position: int, limit: int) -> bytes:
    try:
        content = unpack.unpack_block(header.codec, block, limit)
    except unpack.ERRORS as error:
        raise _corrupt(where, position, f"a {header.codec} block does not decompress: {error}") from error
    if content is not None:
        return content
    if header.codec in _CODECS_ELSEWHERE:
        raise UnsupportedFeatureError(f"{where} uses Avro codec {header.codec}; lakemeta does not read that")
    raise CorruptMetadataError(f"{where} names an Avro codec that does not exist: {header.codec[:60]!r}")


def _deflate(raw: bytes) -> bytes:
    # On manifests 6 takes up to twice as long and Java's default of 9 up to seven times, to save a tenth at best.
    packer = zlib.compressobj(4, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(raw) + packer.flush()


def _decode_block(text: str, block: _Block, where: str, counted: bool) -> list[Any]:
    # n records back to back are an Avro array without its frame; fastavro reads a whole array in one call.
    count, size = block.count, len(block.content)
    if not 0 <= count * _shape(text, where).least <= size:
        raise _corrupt(where, block.position, f"{count} records cannot lie in {size} bytes")
    prefix = encode_long(count) if count else b""
    framed = b"".join((prefix, block.content, b"\0"))
    stream = unpack.reader(framed, block.packed) if counted else BytesIO(framed)
    records: list[Any] = _decode(_parsed(_array(text), where), stream, where, block.position)
    if len(records) != count or stream.tell() != len(prefix) + size + 1:
        raise _corrupt(where, block.position, f"the next {size} bytes do not hold exactly {count} records")
    return records


def _encode_block(text: str, records: Sequence[Any]) -> bytes:
    framed = write_datum(_array(text), records)
    return framed[len(encode_long(len(records))) : -1]


def _array(text: str) -> str:
    return f'{{"type":"array","items":{text}}}'


def _batches(records: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(records)
    while batch := list(islice(iterator, _BLOCK_RECORDS)):
        yield batch


def _decode(parsed: Any, stream: BytesIO, where: str, position: int) -> Any:
    start = stream.tell()
    try:
        return fastavro.schemaless_reader(stream, parsed, None)
    except _DECODE_ERRORS as error:
        problem = f"not what its Avro schema says ({type(error).__name__} {error})"
        raise _corrupt(where, position + stream.tell() - start, problem) from error


@lru_cache(maxsize=256)
def _parse_text(text: str) -> tuple[Shape, Any]:
    schema = json.loads(text)
    return check_schema(schema), fastavro.parse_schema(_without_logical_types(schema))


def _parsed(text: str, where: str) -> Any:
    return _checked(text, where)[1]


def _shape(text: str, where: str) -> Shape:
    """The shape of the records of a container; an array of them is what is decoded."""
    return _checked(text, where)[0]


def _checked(text: str, where: str) -> tuple[Shape, Any]:
    try:
        return _parse_text(text)
    except SchemaShapeError as error:
        raise CorruptMetadataError(f"{where} carries an Avro schema that {error}") from error
    except _DECODE_ERRORS as error:
        problem = " ".join(str(error).split())[:200]
        raise CorruptMetadataError(f"{where} carries an Avro schema that does not parse: {problem}") from error


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k != "logicalType"}
    for nested in ("type", "items", "values"):
        if nested in kept:
            kept[nested] = _without_logical_types(kept[nested])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_without_logical_types(field) for field in kept["fields"]]
    return kept


def _corrupt(where: str, position: int, problem: str) -> CorruptMetadataError:
    return CorruptMetadataError(f"{where} is damaged at byte {position}: {problem}")


def _read_long(data: bytes, position: int) -> tuple[int, int]:
    shift = zigzag = 0
    while True:
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 56:
            return (zigzag >> 1) ^ -(zigzag & 1), position
        shift += 7
