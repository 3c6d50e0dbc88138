"""The quick reader beside fastavro on manifests of any layout: other types, codecs, blocks, fields more and fewer."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.codec import read_manifest
from lakemeta.iceberg.manifests.columns import ManifestColumns
from lakemeta.iceberg.manifests.entries import ManifestFile
from lakemeta.iceberg.manifests.fast_reader import FIELDS, scan_manifest
from lakemeta.iceberg.manifests.raw_copy import read_columns
from lakemeta.iceberg.manifests.record_patterns import FILE, UNFAMILIAR, record_scanner
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec
from lakemeta.iceberg.spec.transforms import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Mapping

Make = Callable[[random.Random], Any]
ALPHABET = "abc=/-_0123456789\u00e9\u4e16\U0001f600"
FIXED = {"type": "fixed", "name": "id", "size": 16, "logicalType": "uuid"}
DECIMAL = {"type": "fixed", "name": "dec", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}
CODECS = ["null", "deflate", "bzip2", "xz"]  # the others need libraries of fastavro's own


def bits(most: int) -> Make:
    """Numbers of up to so many bits, of either sign: as many bytes in Avro as not."""
    return lambda r: r.getrandbits(r.randint(0, most)) * r.choice((1, -1))


def count(r: random.Random) -> int:
    return r.getrandbits(r.randint(0, 40))


def size(r: random.Random) -> int:
    return r.choice((0, 1, 8, 16, 63, 64, 65, 127, 128, r.randint(0, 300)))


def text(r: random.Random) -> str:
    return "".join(r.choices(ALPHABET, k=size(r)))


def binary(r: random.Random) -> bytes:
    return r.randbytes(size(r))


def pairs(value: Make) -> Make:
    """A map of metrics; as a rule of the same columns."""

    def made(r: random.Random) -> list[dict[str, Any]]:
        keys = range(1, r.choice((4, 4, 4, 40, 90))) if r.random() < 0.8 else r.sample(range(1, 2**31), r.randint(0, 5))
        return [{"key": key, "value": value(r)} for key in keys]

    return made


def item(name: str, value: str) -> dict[str, Any]:
    """The type of a map of metrics, as Iceberg has them."""
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": value}]
    return {"type": "array", "items": {"type": "record", "name": f"of_{name}", "fields": fields}, "logicalType": "map"}


PARTITIONS: dict[str, tuple[Any, Make]] = {
    "boolean": ("boolean", lambda r: r.random() < 0.5),
    "int": ("int", bits(31)),
    "long": ("long", bits(63)),
    "float": ("float", lambda r: r.randint(-99, 99) / 4),
    "double": ("double", lambda r: r.uniform(-1e300, 1e300)),
    "string": ("string", text),
    "bytes": ("bytes", binary),
    "uuid": (FIXED, lambda r: r.randbytes(16)),
    "decimal": (DECIMAL, lambda r: Decimal(r.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2)),
}
# Name, type, values, and whether another writer may leave it out.
FILE_FIELDS: list[tuple[str, Any, Make, bool]] = [
    ("content", "int", lambda _: 0, False),
    ("file_path", "string", text, False),
    ("file_format", "string", lambda r: r.choice(["PARQUET", "orc"]), False),
    ("partition", None, lambda _: None, False),
    ("record_count", "long", count, False),
    ("file_size_in_bytes", "long", count, False),
    *((n, item(n, "long"), pairs(count), True) for n in ("value_counts", "null_value_counts", "nan_value_counts")),
    *((n, item(n, "bytes"), pairs(binary), True) for n in ("lower_bounds", "upper_bounds")),
    ("key_metadata", "bytes", binary, True),
    ("split_offsets", {"type": "array", "items": "long"}, lambda r: [count(r) for _ in range(r.choice((1, 70)))], True),
    ("sort_order_id", "int", lambda r: r.randint(0, 9), True),
    ("another_engines", "string", text, True),
    ("first_row_id", "long", count, True),
]


@attrs.frozen
class Made:
    """A manifest, its partition spec, and what was written."""

    data: bytes
    spec: PartitionSpec
    file_schema: Mapping[str, Any]
    records: list[dict[str, Any]]


def manifest(seed: int) -> Made:
    """A manifest of random layout that fastavro wrote."""
    r = random.Random(seed)
    version = r.choice([1, 2, 3])
    chosen = r.sample(sorted(PARTITIONS), r.randint(0, 3))
    fields = [
        {"name": f"p_{name}", "type": ["null", PARTITIONS[name][0]], "field-id": 1000 + i}
        for i, name in enumerate(chosen)
    ]
    file_fields: list[dict[str, Any]] = []
    values: dict[str, Make] = {}
    for name, kind, of, may_lack in FILE_FIELDS:
        if name == "partition":
            file_fields.append({"name": name, "type": {"type": "record", "name": "r102", "fields": fields}})
            values[name] = lambda r: {f"p_{n}": _maybe(r, PARTITIONS[n][1]) for n in chosen}
        elif not may_lack:
            file_fields.append({"name": name, "type": kind})
            values[name] = of
        elif r.random() < 0.8:
            file_fields.append({"name": name, "type": ["null", kind]})
            values[name] = partial(_maybe, value=of)
    file = {"type": "record", "name": "r2", "fields": file_fields}
    numbers = ["snapshot_id", *(["sequence_number", "file_sequence_number"] if version > 1 else [])]
    head = [{"name": "status", "type": "int"}, *({"name": n, "type": ["null", "long"]} for n in numbers)]
    schema = {"type": "record", "name": "manifest_entry", "fields": [*head, {"name": "data_file", "type": file}]}
    records = [
        {
            "status": r.randint(0, 2),
            **{name: _maybe(r, count) for name in numbers},
            "data_file": {name: value(r) for name, value in values.items()},
        }
        for _ in range(r.choice((0, 1, 3, 60)))
    ]
    out, interval = io.BytesIO(), r.choice((1, 3000, 16000))
    metadata = {"format-version": str(version)}
    fastavro.writer(out, schema, records, r.choice(CODECS), sync_interval=interval, metadata=metadata)
    spec = PartitionSpec(0, tuple(PartitionField(i, 1000 + i, f"p_{n}", IDENTITY) for i, n in enumerate(chosen)))
    return Made(out.getvalue(), spec, file, records)


def _maybe(r: random.Random, value: Make) -> Any:
    return None if r.random() < 0.2 else value(r)


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 2**32), st.sets(st.integers(1, 40), max_size=3).map(frozenset))
def test_the_quick_reader_finds_what_was_written(seed: int, metrics: frozenset[int]) -> None:
    """Field by field, whatever fields there are, and without falling back to the full reader."""
    made = manifest(seed)
    line = ManifestFile("m", len(made.data), 0, sequence_number=9, added_snapshot_id=7)
    columns = ManifestColumns(made.data, line, made.spec, FIELDS | {FILE})
    assert columns.count == len(made.records)
    scanned = scan_manifest(made.data, line, made.spec, metrics)
    for record, entry, partition, stored in zip(
        made.records, scanned, columns.partitions, columns.encoded[FILE], strict=True
    ):
        file = record["data_file"]
        assert fastavro.schemaless_reader(io.BytesIO(stored), made.file_schema, None) == file
        assert (
            partition == entry.data_file.partition == tuple(file["partition"][field.name] for field in made.spec.fields)
        )
        assert entry.status == record["status"]
        assert entry.snapshot_id == (7 if record["snapshot_id"] is None else record["snapshot_id"])
        for name in ("file_path", "file_format", "record_count", "file_size_in_bytes", "key_metadata", "sort_order_id"):
            assert getattr(entry.data_file, name) == file.get(name), name
        offsets = file.get("split_offsets")
        assert entry.data_file.split_offsets == (None if offsets is None else tuple(offsets))
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            found = file.get(name)
            wanted = {i["key"]: i["value"] for i in found or () if i["key"] in metrics}
            assert getattr(entry.data_file, name) == (None if found is None or not metrics else wanted), name


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 1, exclude_max=True), st.sampled_from([None, 0x01, 0x40, 0x80]))
def test_damage_is_refused_as_by_the_full_reader(seed: int, where: float, flip: int | None) -> None:
    """What the full reader refuses the quick one refuses, and of what it reads both read the same."""
    made = manifest(seed)
    at = int(where * len(made.data))
    rest = b"" if flip is None else bytes([made.data[at] ^ flip]) + made.data[at + 1 :]
    damaged = made.data[:at] + rest
    line = ManifestFile("m", len(damaged), 0, sequence_number=9, added_snapshot_id=7)
    readers = {
        "full": lambda: [(e.status, e.sequence_number, e.data_file) for e in read_manifest(damaged, line, made.spec)],
        "quick": lambda: [
            (e.status, e.sequence_number, e.data_file) for e in scan_manifest(damaged, line, made.spec, frozenset())
        ],
        "columns": lambda: read_columns(damaged, line, made.spec),
    }
    found: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            found[name] = read()
        except CorruptMetadataError as error:
            found[name] = str(error)
    assert {type(of) is str for of in found.values()} in ({True}, {False})
    if isinstance(found["full"], str):
        assert found["quick"] == found["columns"] == found["full"]
    else:
        rows = [(status, sequence, repr(file.partition), file.record_count) for status, sequence, file in found["full"]]
        quick = [
            (status, sequence, repr(file.partition), file.record_count) for status, sequence, file in found["quick"]
        ]
        columns = found["columns"]
        told = [
            (head[0], head[2], repr(partition), records)
            for head, partition, records in zip(columns.heads, columns.partitions, columns.record_counts, strict=True)
        ]
        assert rows == quick == told


@pytest.mark.parametrize("count", [0, 1, 3, -1])
def test_blocks_hold_as_many_records_as_they_say(count: int) -> None:
    """Neither more nor fewer are taken from one."""
    scanner = record_scanner(
        '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}', frozenset("n")
    )
    assert scanner.rows(2, b"\x02\x04") == [(b"\x02",), (b"\x04",)]
    with pytest.raises(UNFAMILIAR):
        scanner.rows(count, b"\x02\x04")
