"""Bytes from strangers: schemas, counts, compressed blocks and JSON that are made to exhaust memory, time or the stack.

Every case ends in CorruptMetadataError, in one sentence that names the file, before anything large is made of it.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import zlib
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pytest

from lakemeta import unpack
from lakemeta.avro import container as avro
from lakemeta.avro.schema import check_schema
from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.spec.json_object import JsonObject
from lakemeta.iceberg.spec.metadata_json import load_metadata
from lakemeta.json_text import MAX_DEPTH, parse_json
from lakemeta.plan import Plan, PlanHeader

LONG = avro.encode_long


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": k, "type": v} for k, v in fields.items()]}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def nested(depth: int) -> Any:
    kind: Any = "int"
    for _ in range(depth):
        kind = array(kind)
    return kind


def unfolding(times: int) -> dict[str, Any]:
    """Each type names the one before twice, so a value has 2 ** times parts."""
    fields: dict[str, Any] = {"f0": record("r0", a="int")}
    for i in range(1, times):
        fields[f"f{i}"] = record(f"r{i}", a=f"r{i - 1}", b=f"r{i - 1}")
    return record("top", **fields)


SCHEMAS = {
    "a record in itself": (record("a", next=["null", "a"]), "contains itself"),
    "an array of itself": (record("a", items=array("a")), "contains itself"),
    "a type in itself across a namespace": ({**record("a", x=["null", "n.a"]), "namespace": "n"}, "contains itself"),
    "nulls in an array": (record("a", x=array("null")), "items that take no bytes"),
    "empty records in an array": (record("a", x=array(record("b"))), "items that take no bytes"),
    "fixed 0 in an array": (record("a", x=array({"type": "fixed", "name": "f", "size": 0})), "take no bytes"),
    "a named empty type in an array": (record("a", x=record("b"), y=array("b")), "take no bytes"),
    "a record whose fields were renamed": (
        record("a", x=array({"type": "record", "name": "b", "fieldz": [{"name": "k", "type": "int"}]})),
        "without a list of fields",
    ),
    "a deep type": (record("a", x=nested(100)), "nested more than"),
    "a deep chain of names": (unfolding(30), "unfolds into more than"),
    "many nulls in few bytes": (record("a", x="int", **{f"n{i}": "null" for i in range(1000)}), "take no bytes"),
    "a negative size": (record("a", x={"type": "fixed", "name": "f", "size": -6}), "fixed of size -6"),
    "a huge size": (record("a", x={"type": "fixed", "name": "f", "size": 2**70}), "fixed of size"),
    "a size of text": (record("a", x={"type": "fixed", "name": "f", "size": "6"}), "fixed of size"),
    "one name twice": (record("a", x=record("b", k="int"), y=record("b", k="int")), "defines 'b' twice"),
    "one field twice": (
        {"type": "record", "name": "a", "fields": [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]},
        "fields of no name or of one name",
    ),
    "an unknown name": (record("a", x="b"), "names a type 'b'"),
    "no type": (record("a", x=3), "where a type should stand"),
    "no types": (record("a", x=[]), "a union of no types"),
}


@pytest.mark.parametrize(("schema", "words"), SCHEMAS.values(), ids=list(SCHEMAS))
def test_schemas_are_checked_before_anything_is_decoded(schema: Any, words: str) -> None:
    """Neither a container, even one without records, nor a bare value is decoded with such a schema."""
    container = avro.write_container("int", []).replace(
        b"\x06int", LONG(len(json.dumps(schema))) + json.dumps(schema).encode()
    )
    for read in (
        lambda: avro.read_container(container, "file.avro"),
        lambda: avro.read_blocks(container, "file.avro"),
        lambda: avro.read_datum(schema, LONG(2**40) * 3, "file.avro"),
        lambda: avro.read_data(schema, [LONG(2**40)], "file.avro"),
    ):
        with pytest.raises(
            CorruptMetadataError, match=r"^(value 0 of )?file.avro carries an Avro schema that"
        ) as caught:
            read()
        assert words in str(caught.value)


def test_the_schemas_of_hudi_and_iceberg_pass() -> None:
    """Types used by name, unions of wrappers, maps of nulls and one empty partition record are all in real files."""
    for path in files("lakemeta.hudi").joinpath("schemas").iterdir():
        assert check_schema(array(json.loads(path.read_text()))).parts > 3, path
    used_twice = record("a", x=record("b", k="int"), y="b", z=array("b"))
    assert check_schema(used_twice).least == 3
    assert check_schema({"type": "map", "values": "null"}).least == 1
    assert check_schema(record("entry", partition=record("r102"), path="string")).least == 1


def test_json_schemas_too_deep_for_the_parser() -> None:
    """A schema of a hundred thousand brackets is damage like any other."""
    deep = '{"type":"array","items":' * 50_000
    with pytest.raises(CorruptMetadataError, match="does not parse"):
        avro.read_datum(deep, b"", "file.avro")


def test_containers_hold_records() -> None:
    """A container of ints is no metadata, with or without blocks."""
    with pytest.raises(CorruptMetadataError, match="schema of no records"):
        avro.read_container(avro.write_container('"int"', [1, 2]), "file.avro")


def test_counts_are_bounded_by_the_bytes_there_are() -> None:
    """Records of eight bytes at least: four bytes cannot hold two."""
    schema = record("a", x="double")
    whole = avro.write_container(schema, [{"x": 1.0}], sync_marker=b"s" * 16)
    with pytest.raises(CorruptMetadataError, match="9 records cannot lie in 8 bytes"):
        avro.read_container(whole.replace(b"s" * 16 + LONG(1), b"s" * 16 + LONG(9)), "file.avro")


BOMB = bytes(unpack.FLOOR + 2**20)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy"])
def test_blocks_unpack_to_a_bounded_size(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of every codec that unpacks to more than the file may is refused, without unpacking all of it."""
    monkeypatch.setattr(unpack, "FLOOR", 2**20)
    body = bytes(2**20 + 1)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = {
        "deflate": lambda: squeeze.compress(body) + squeeze.flush(),
        "bzip2": lambda: bz2.compress(body),
        "xz": lambda: lzma.compress(body),
        "zstandard": lambda: pa.compress(body, "zstd", asbytes=True),
        "snappy": lambda: pa.compress(body, "snappy", asbytes=True) + zlib.crc32(body).to_bytes(4, "big"),
    }[codec]()
    with pytest.raises(unpack.TooLargeError, match="more than 1048576 bytes"):
        unpack.unpack_block(codec, packed, 2**20)
    assert unpack.unpack_block(codec, packed, 2**20 + 1) == body


def test_the_bound_holds_for_all_blocks_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small blocks that each unpack to a little less are one bomb."""
    monkeypatch.setattr(unpack, "FLOOR", 100_000)
    schema = record("a", x="bytes")
    data = avro.write_container(schema, [{"x": bytes(60)} for _ in range(3 * 4000)], codec="deflate")
    with pytest.raises(CorruptMetadataError, match=r"^file.avro is damaged .* unpacks to more than"):
        avro.read_container(data, "file.avro")


def bomb(schema: dict[str, Any], raw: bytes, count: int) -> bytes:
    """A container of one block that shrinks to a thousandth."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = squeeze.compress(raw) + squeeze.flush()
    header = avro.write_container(schema, [], codec="deflate", sync_marker=b"s" * 16)
    return b"".join((header, LONG(count), LONG(len(packed)), packed, b"s" * 16))


@pytest.mark.slow
def test_a_small_file_has_few_records_and_values() -> None:
    """A value is two hundred times its byte in memory: a file that is small and unpacks to millions is refused.

    Those of arrays are counted as they are read, where a block shrank as no metadata does.
    """
    many = bomb(record("a", x="long"), bytes(2**20), 2**20)
    with pytest.raises(CorruptMetadataError, match="1048576 more records are more than a file of"):
        avro.read_container(many, "file.avro")
    pair = array(record("pair", key="int", value="long"))
    items = 2**22
    nested = bomb(record("a", x=pair), LONG(items) + bytes(2 * items) + b"\0", 1)
    with pytest.raises(CorruptMetadataError, match="it holds more values than a block of its size does"):
        avro.read_container(nested, "file.avro")
    assert len(avro.read_container(nested, "data.avro", limit=2**30)[1][0]["x"]) == items


def test_a_small_gzipped_json_has_few_values() -> None:
    """4 MB of empty objects are 4 kB of gzip."""
    with pytest.raises(CorruptMetadataError, match="it holds more values than a file of its size does"):
        load_metadata(gzip.compress(b"[" + b"{}," * 1_100_000 + b"{}]"), "m.json")


@pytest.mark.slow
def test_gzipped_metadata_unpacks_to_a_bounded_size() -> None:
    """70 kB of gzip that hold 65 MB are refused; several members count together."""
    with pytest.raises(CorruptMetadataError, match=r"^m.json is not the JSON .* unpacks to more than"):
        load_metadata(gzip.compress(BOMB), "m.json")
    half = gzip.compress(BOMB[: len(BOMB) // 2 + 1])
    with pytest.raises(CorruptMetadataError, match="unpacks to more than"):
        load_metadata(half + half, "m.json")
    assert unpack.gunzip(gzip.compress(b"ab") + gzip.compress(b"cd") + b"\0\0", 4) == b"abcd"
    for damaged in (half[:-9], half[:40], b"\x1f\x8b", half + b"x"):
        with pytest.raises(CorruptMetadataError, match="is not the JSON"):
            load_metadata(damaged, "m.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested more than"),
        ('{"a":' * 100_000, "nested more than"),
        ('{"a": NaN}', "no number"),
        ('{"a": -Infinity}', "no number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": "\\ud800"}', "surrogates not allowed"),
        ('{"\\uDC00": 1}', "surrogates not allowed"),
        (f'{{"a": {"9" * 5000}}}', "limit"),
        ("", "Expecting value"),
    ],
)
def test_json_that_trips_others_up_later(text: str, words: str) -> None:
    """What parses, and cannot be written, walked through or encoded afterwards, is refused where it is read."""
    for data in (text, text.encode()):
        with pytest.raises(ValueError, match=words):
            parse_json(data)


def test_json_that_is_fine() -> None:
    """Pairs of surrogates, nesting up to the bound and large numbers stay."""
    assert parse_json('["\\ud83d\\ude00", 1.5, 18446744073709551616]') == ["😀", 1.5, 2**64]
    parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)


def test_numbers_of_more_than_64_bits() -> None:
    """No field of metadata holds them; Avro could not write them back."""
    with pytest.raises(CorruptMetadataError, match="more than 64 bits"):
        JsonObject({"n": 2**63}, "it").need("n", int)
    assert JsonObject({"n": -(2**63)}, "it").need("n", int) == -(2**63)


def test_messages_are_one_line_that_prints() -> None:
    """Whatever a hostile name holds, a message has no line ends, no escape sequences and no half characters."""
    told = str(CorruptMetadataError("a\nb \x1b[2J \ud800 \x85 é 表"))
    assert told == r"a\nb \x1b[2J \ud800 \x85 é 表"
    assert told.encode()


DELETE = {"op": "delete", "partition": "p", "path": "p/f", "size": 1, "reason": "r"}
REWRITE = {
    "op": "rewrite", "group": 0, "partition": {}, "spec_id": 0, "inputs": [], "deletes": [], "bytes": 1,
    "expected_outputs": 1,
}  # fmt: skip


def plan_with(header: dict[str, Any], *operations: dict[str, Any]) -> str:
    """A plan file that is whole but for what its lines say."""
    import hashlib

    first = PlanHeader("p", "t", 1, None, {}, {}).to_json() | header
    lines = [json.dumps(line) + "\n" for line in (first, *operations)]
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    return "".join([*lines, json.dumps({"end": True, "ops": len(operations), "sha256": digest})])


@pytest.mark.parametrize(
    ("line", "name"),
    [(DELETE, name) for name in ("partition", "path", "size", "reason", "by", "op")]
    + [(REWRITE, name) for name in REWRITE],
)
@pytest.mark.parametrize("value", [[], {}, -1, 1.5, True, 2**70, [3], {"a": [1]}, "x"])
def test_fields_of_operations_of_another_kind(line: dict[str, Any], name: str, value: Any) -> None:
    """A plan is read, or refused with the line named; no value of JSON's makes another error."""
    text = plan_with({}, {**line, name: value})
    with contextlib.suppress(CorruptMetadataError):
        plan = Plan.loads(text)
        plan.summary()
        assert Plan.loads(plan.dumps()) == plan


@pytest.mark.parametrize(
    "name",
    [
        "plan", "table", "table_format_version", "based_on", "options", "created_by", "savepoints", "policy",
        "earliest_to_retain", "failed_writes", "rollback_blocks", "notes", "partitions", "pending_cleans",
        "pending_rollbacks", "timeline_digest", "table_uuid", "empty_clean",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [-1, 1.5, 2**70, [3], [[]], [[3]], {"a": 3}])
def test_facts_of_another_kind(name: str, value: Any) -> None:
    """What applying reads from the first line is what it should be, or the plan is refused."""
    with pytest.raises(CorruptMetadataError, match=f"the plan's first line: {name} is not"):
        Plan.loads(plan_with({name: value}))
