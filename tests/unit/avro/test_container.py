"""Avro containers and bare values."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

PAIR = {
    "type": "record",
    "name": "Pair",
    "fields": [
        {"name": "name", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "size", "type": ["null", "long"], "default": None},
    ],
}
WRAPPED = {
    "type": "record",
    "name": "Holder",
    "namespace": "n",
    "fields": [
        {
            "name": "value",
            "type": [
                "null",
                {"type": "record", "name": "IntWrapper", "fields": [{"name": "value", "type": "int"}]},
                {"type": "record", "name": "LongWrapper", "fields": [{"name": "value", "type": "long"}]},
            ],
        }
    ],
}
PAIRS = [{"name": "a", "size": 1}, {"name": "ü", "size": None}, {"name": "", "size": -(2**63)}]
pairs = st.lists(
    st.fixed_dictionaries({"name": st.text(), "size": st.none() | st.integers(min_value=-(2**63), max_value=2**63 - 1)})
)


@given(pairs, st.sampled_from(["null", "deflate"]))
def test_containers_come_back(records: list, codec: str) -> None:
    """What is written is read, with both codecs."""
    data = avro.write_container(PAIR, records, codec=codec)
    assert avro.read_container(data, "x") == (PAIR, records)


@given(pairs)
def test_the_same_records_give_the_same_bytes(records: list) -> None:
    """Without a sync marker of its own a container is a function of its content."""
    assert avro.write_container(PAIR, records) == avro.write_container(PAIR, records)


def test_an_independent_reader_reads_them(tmp_path) -> None:
    """Several blocks, metadata and a given sync marker are as Avro has them."""
    many = [{"name": str(i), "size": i} for i in range(9001)]
    data = avro.write_container(PAIR, many, codec="deflate", metadata={"k": "v"}, sync_marker=b"s" * 16)
    path = tmp_path / "x.avro"
    path.write_bytes(data)
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        assert list(reader) == many
        assert reader.metadata["k"] == "v"
    assert avro.container_metadata(data, "x")["k"] == b"v"
    assert data.endswith(b"s" * 16)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_codecs_of_other_writers_are_read(tmp_path, codec: str) -> None:
    """The codecs of the Avro specification that need no other library."""
    path = tmp_path / "x.avro"
    with path.open("wb") as file:
        fastavro.writer(file, PAIR, PAIRS, codec=codec)
    assert avro.read_container(path.read_bytes(), "x")[1] == PAIRS


def packed(codec: str, pack: Any) -> bytes:
    """PAIRS in one block of a container, packed by another writer."""
    header = avro.write_container(PAIR, [], codec="deflate")
    block = pack(b"".join(avro.write_data(PAIR, PAIRS)))
    sizes = avro.write_datum('"long"', len(PAIRS)) + avro.write_datum('"long"', len(block))
    name = bytes([2 * len(codec)]) + codec.encode()
    return header.replace(b"\x0edeflate", name) + sizes + block + header[-16:]


def test_codecs_that_arrow_knows_are_read() -> None:
    """Iceberg's Avro data files may be packed with zstandard, or with snappy, which has a checksum of its own."""
    zstandard = packed("zstandard", lambda body: pa.compress(body, "zstd", asbytes=True))
    snappy = packed(
        "snappy", lambda body: pa.compress(body, "snappy", asbytes=True) + zlib.crc32(body).to_bytes(4, "big")
    )
    damaged = packed("snappy", lambda body: pa.compress(body, "snappy", asbytes=True) + b"none")
    assert avro.read_container(zstandard, "x")[1] == PAIRS
    assert avro.read_container(snappy, "x")[1] == PAIRS
    with pytest.raises(CorruptMetadataError, match="checksum"):
        avro.read_container(damaged, "x")


@pytest.mark.parametrize(
    ("codec", "error"),
    [("lz4", UnsupportedFeatureError), ("zip", CorruptMetadataError)],
)
def test_other_codecs_are_refused_by_name(codec: str, error: type[Exception]) -> None:
    """A codec we do not read is named; one that does not exist is damage."""
    data = avro.write_container(PAIR, PAIRS, codec="deflate").replace(
        b"\x0edeflate", bytes([2 * len(codec)]) + codec.encode()
    )
    with pytest.raises(error, match=codec):
        avro.read_container(data, "x")


def test_every_truncation_is_noticed() -> None:
    """No cut anywhere reads as a whole file, or as another error than CorruptMetadataError that names the file."""
    data = avro.write_container(PAIR, PAIRS)
    end_of_header = data.index(data[-16:]) + 16
    for length in range(len(data)):
        if length != end_of_header:  # a file without blocks is a whole file
            with pytest.raises(CorruptMetadataError, match=r"t/x\.avro"):
                avro.read_container(data[:length], "t/x.avro")


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_damage_is_an_error_or_another_value_but_never_another_exception(at: int, flip: int) -> None:
    """One damaged byte: CorruptMetadataError, an unknown codec, or a value that the format allows."""
    data = bytearray(avro.write_container(PAIR, PAIRS, codec="deflate" if at % 2 else "null"))
    data[at % len(data)] ^= flip
    with suppress(CorruptMetadataError, UnsupportedFeatureError):
        avro.read_container(bytes(data), "x")


@given(st.binary(max_size=200), st.booleans())
def test_junk_is_refused(junk: bytes, with_magic: bool) -> None:
    """Random bytes are never a container."""
    with pytest.raises(CorruptMetadataError):
        avro.read_container(avro.MAGIC + junk if with_magic else junk, "x")


def test_logical_types_are_left_alone() -> None:
    """A date is its int of days, a decimal its bytes: no value is out of Python's range, all come back exactly."""
    date = {"type": "int", "logicalType": "date"}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": date}, {"name": "b", "type": ["null", decimal]}],
    }
    record = {"a": -(2**31), "b": b"\xff\xee"}
    data = avro.write_container(schema, [record])
    assert avro.read_container(data, "x") == (schema, [record])
    assert avro.read_datum(schema, avro.write_datum(schema, record), "x") == record


def test_tagged_values_say_which_record_of_a_union_they_are() -> None:
    """A LongWrapper is written as one though an IntWrapper looks the same."""
    data = avro.write_datum(WRAPPED, {"value": ("n.LongWrapper", {"value": 5})})
    assert avro.read_datum(WRAPPED, data, "x") == {"value": {"value": 5}}
    assert data == b"\x04\x0a"


def test_bare_values_fill_their_bytes() -> None:
    """Bytes left over are damage, and the message says where."""
    with pytest.raises(CorruptMetadataError, match="x is damaged at byte 1"):
        avro.read_datum('"int"', b"\2\2", "x")


def test_many_values_are_read_in_one_go_and_errors_name_the_value() -> None:
    """A batch is its values; the damaged one is named."""
    values = avro.write_data(PAIR, PAIRS)
    assert avro.read_data(PAIR, values, "x") == PAIRS
    assert avro.read_data(PAIR, [], "x") == []
    with pytest.raises(CorruptMetadataError, match="value 1 of x"):
        avro.read_data(PAIR, [values[0], b"\x7f", values[2]], "x")


def test_values_that_do_not_fit_are_a_value_error() -> None:
    """Writing never makes a file that cannot be read."""
    for bad in ({"name": 5, "size": 1}, {"size": 1}, {"name": "a", "size": 2**63}, None):
        with pytest.raises(ValueError):  # noqa: PT011 - fastavro's own words
            avro.write_container(PAIR, [bad])


def test_a_damaged_schema_is_damage() -> None:
    """A schema that is no schema is CorruptMetadataError, not fastavro's or json's error."""
    data = avro.write_container(PAIR, PAIRS)
    for broken in (b'"recurd"', b'"re\\u0"]'):
        with pytest.raises(CorruptMetadataError, match="x"):
            avro.read_container(data.replace(b'"record"', broken), "x")


def test_java_default_quirks_parse() -> None:
    """Avro's Java library lets a default be of any branch of a union, and nests defaults in types."""
    field = {"name": "m", "type": ["null", {"type": "map", "values": "string", "default": None}], "default": None}
    other = {"name": "v", "type": ["int", "null"], "default": 1}
    schema = json.dumps({"type": "record", "name": "r", "fields": [field, other]})
    assert avro.read_datum(schema, avro.write_datum(schema, {"m": None, "v": None}), "x") == {"m": None, "v": None}
