"""Manifests and manifest lists: the same bytes of meaning in and out, inheritance, and the quick way to read them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.iceberg_cases import CASES, PARAMS, Cases
from support.iceberg_manifests import COUNTS, entries, files, manifests_of, written
from support.iceberg_values import added, data_file, spec, table
from support.sampling import one_in

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.manifests.avro_schemas import avro_name, avro_record, manifest_entry_type, manifest_list_type
from lakemeta.iceberg.manifests.codec import (
    read_manifest,
    read_manifest_list,
    summarise,
    write_manifest,
    write_manifest_list,
)
from lakemeta.iceberg.manifests.entries import (
    EntryStatus,
    ManifestContent,
    ManifestEntry,
    PartitionFieldSummary,
)
from lakemeta.iceberg.manifests.entry_writer import EntryLayout
from lakemeta.iceberg.manifests.fast_reader import scan_manifest
from lakemeta.iceberg.manifests.raw_copy import read_to_move
from lakemeta.iceberg.spec.metadata_json import load_metadata
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.types import DOUBLE, STRING, UUID, DecimalType, FixedType, NestedField, StructType

if TYPE_CHECKING:
    pass


@pytest.mark.parametrize("name", one_in(3, [n for n in CASES if not n.startswith("plan_")]))
def test_manifests_come_out_as_the_engine_writes_them(name: str, iceberg_cases: Cases) -> None:
    """Header, Avro schema, summaries and counts of a manifest written again are those of the engine."""
    for metadata, data, line in manifests_of(iceberg_cases.shared(name)):
        header = avro.container_metadata(data, "recorded")
        version = int(header["format-version"])
        of_then = attrs.evolve(metadata, format_version=version, current_schema_id=schema_of(metadata, header))
        entries = read_manifest(data, line, metadata.specs_by_id[line.partition_spec_id])
        again, written_line = write_manifest(
            of_then,
            line.partition_spec_id,
            entries,
            path=line.manifest_path,
            content=line.content,
            snapshot_id=line.added_snapshot_id or 0,
            first_row_id=line.first_row_id,
        )
        ours = avro.container_metadata(again, "ours")
        assert json.loads(ours.pop("avro.schema")) == json.loads(header.pop("avro.schema"))
        assert ours.pop("schema-id") == str(of_then.current_schema_id).encode()
        assert ours == header
        same = {f: getattr(line, f) for f in ("manifest_length", "sequence_number", "min_sequence_number")}
        assert attrs.evolve(written_line, **same) == line
        assert read_manifest(again, line, metadata.specs_by_id[line.partition_spec_id]) == entries


def schema_of(metadata: Any, header: dict[str, bytes]) -> int:
    return int(json.loads(header["schema"])["schema-id"])


@pytest.mark.parametrize("name", one_in(3, [n for n in CASES if not n.startswith("plan_")]))
def test_manifest_lists_come_out_as_the_engine_writes_them(name: str, iceberg_cases: Cases) -> None:
    """A manifest list written again has the engine's header and lines."""
    case = iceberg_cases.shared(name)
    path = case.metadata_files()[-1]
    for snapshot in load_metadata(path.read_bytes(), str(path)).snapshots:
        assert snapshot.manifest_list is not None
        data = case.local(snapshot.manifest_list).read_bytes()
        header, lines = avro.container_metadata(data, "recorded"), read_manifest_list(data, "recorded")
        again, _ = write_manifest_list(
            lines,
            format_version=int(header["format-version"]),
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
        )
        ours = avro.container_metadata(again, "ours")
        assert json.loads(ours.pop("avro.schema")) == json.loads(header.pop("avro.schema"))
        assert ours == header
        assert read_manifest_list(again, "ours") == lines


def slim(entry: ManifestEntry, columns: frozenset[int]) -> ManifestEntry:
    """What the quick reader keeps of an entry."""
    maps = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    kept = {name: _some(getattr(entry.data_file, name), columns) for name in maps}
    gone = ("column_sizes", "equality_ids")
    return attrs.evolve(entry, data_file=attrs.evolve(entry.data_file, **kept, **dict.fromkeys(gone)))


def _some(metrics: Any, columns: frozenset[int]) -> Any:
    return None if metrics is None or not columns else {i: v for i, v in metrics.items() if i in columns}


@pytest.mark.parametrize("name", PARAMS)
def test_the_quick_reader_reads_the_same(name: str, iceberg_cases: Cases) -> None:
    """On every recorded data manifest, the quick reader gives what the full one gives, less what it leaves out."""
    columns = frozenset({1, 3})
    for metadata, data, line in manifests_of(iceberg_cases.shared(name)):
        if not line.is_deletes:
            by = metadata.specs_by_id[line.partition_spec_id]
            full = read_manifest(data, line, by)
            for chosen in (columns, frozenset[int]()):
                for quick, whole in zip(scan_manifest(data, line, by, chosen), full, strict=True):
                    assert quick in (slim(whole, chosen), whole)  # entries of odd shape are left to the full reader


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(st.lists(entries(files()), max_size=4), st.sampled_from([2, 3]), st.none() | COUNTS)
def test_entries_round_trip_either_way(listed: list[ManifestEntry], version: int, first_row_id: int | None) -> None:
    """Whatever is written is read back with what it inherits, in full and by the quick reader."""
    by = spec((2, "identity"), (1, "bucket[4]"))
    first_row_id = first_row_id if version == 3 else None
    data, line = written(listed, (2, "identity"), (1, "bucket[4]"), version=version, first_row_id=first_row_id)
    line = attrs.evolve(line, sequence_number=9)
    read = read_manifest(data, line, by)
    for before, after in zip(listed, read, strict=True):
        is_added = before.status == EntryStatus.ADDED
        assert after.sequence_number == (9 if is_added and before.sequence_number is None else before.sequence_number)
        assert attrs.evolve(after.data_file, first_row_id=None) == attrs.evolve(before.data_file, first_row_id=None)
    for columns in (frozenset[int](), frozenset(i for e in listed for i in e.data_file.value_counts or {})):
        assert comparable(scan_manifest(data, line, by, columns)) in (
            comparable(read),
            comparable([slim(e, columns) for e in read]),
        )


def comparable(entries: list[ManifestEntry]) -> list[Any]:
    """Empty maps of metrics say as much as the missing ones of other columns."""
    return [attrs.astuple(e, recurse=True) for e in entries]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 127, 128, 5000])
def test_long_bounds_are_read_in_full(length: int) -> None:
    """Bounds of any length are read right, whether the quick reader knows the length or leaves it to the other."""
    bounds = {2: b"x" * length}
    data, line = written([added(data_file(lower_bounds=bounds, upper_bounds=bounds))])
    (entry,) = scan_manifest(data, line, spec(), frozenset({2}))
    assert entry.data_file.upper_bounds == bounds


def test_version_1_entries_have_sequence_number_0() -> None:
    """Manifests of version 1 hold no sequence numbers, and readers take 0."""
    existing = attrs.evolve(added(data_file()), status=EntryStatus.EXISTING, sequence_number=None)
    data, line = written([existing], version=1)
    (entry,) = read_manifest(data, attrs.evolve(line, sequence_number=0), spec())
    assert (entry.sequence_number, entry.file_sequence_number) == (0, 0)
    assert "content" not in avro.container_metadata(data, "m")


def test_row_ids_go_on_from_the_manifests() -> None:
    """In version 3, live files without a first row id take the next ones; deleted ones take none."""
    files = [data_file("a", records=5), data_file("b", records=7, first_row_id=100), data_file("c", records=1)]
    gone = attrs.evolve(added(data_file("gone", records=3)), status=EntryStatus.DELETED)
    data, line = written([added(files[0]), gone, added(files[1]), added(files[2])], version=3, first_row_id=40)
    for read in (read_manifest(data, line, spec()), scan_manifest(data, line, spec(), frozenset())):
        assert [e.data_file.first_row_id for e in read] == [40, None, 100, 45]
    upgraded = attrs.evolve(line, first_row_id=None)
    assert {e.data_file.first_row_id for e in read_manifest(data, upgraded, spec())} == {None}


def test_manifest_lists_assign_sequence_numbers_and_row_ids() -> None:
    """New manifests get the snapshot's sequence number; data manifests room for their rows, in order."""
    _, new = written([added(data_file(records=10), None)])
    old = attrs.evolve(new, sequence_number=3, min_sequence_number=2, added_snapshot_id=1, first_row_id=0)
    deletes = attrs.evolve(new, content=ManifestContent.DELETES)
    data, next_row_id = write_manifest_list(
        [new, deletes, old, new],
        format_version=3,
        snapshot_id=7,
        parent_snapshot_id=None,
        sequence_number=9,
        first_row_id=500,
    )
    lines = read_manifest_list(data, "l")
    assert [line.sequence_number for line in lines] == [9, 9, 3, 9]
    assert [line.min_sequence_number for line in lines] == [9, 9, 2, 9]
    assert [line.first_row_id for line in lines] == [500, None, 0, 510]
    assert next_row_id == 520
    assert avro.container_metadata(data, "l")["parent-snapshot-id"] == b"null"


def test_strange_manifests_are_not_listed() -> None:
    """A manifest of another snapshot must have a sequence number; version 1 has no delete manifests."""
    _, line = written([])
    names: dict[str, Any] = {"snapshot_id": 8, "parent_snapshot_id": 1, "sequence_number": 2}
    with pytest.raises(CorruptMetadataError, match="no sequence number"):
        write_manifest_list([line], format_version=2, **names)
    deletes = attrs.evolve(line, content=ManifestContent.DELETES, sequence_number=1, min_sequence_number=1)
    with pytest.raises(CorruptMetadataError, match="version 1"):
        write_manifest_list([deletes], format_version=1, **names)


def test_summaries() -> None:
    """Nulls and NaN are flags, bounds are over the rest; -0.0 comes before 0.0."""
    nan = float("nan")
    assert summarise([DOUBLE, STRING], [(0.0, "b"), (-0.0, None), (nan, "a")]) == (
        PartitionFieldSummary(False, True, b"\0\0\0\0\0\0\0\x80", b"\0\0\0\0\0\0\0\0"),
        PartitionFieldSummary(True, False, b"a", b"b"),
    )
    assert summarise([DOUBLE], [(None,)]) == (PartitionFieldSummary(True, False),)


def test_partition_values_of_every_kind() -> None:
    """Decimals, UUIDs, fixed and odd names survive in partition tuples."""
    schema = Schema(
        (NestedField(1, "d", DecimalType(9, 2)), NestedField(2, "u", UUID), NestedField(3, "f", FixedType(3)))
    )
    values = (Decimal("-1.25"), bytes(range(16)), b"abc")
    fields = [(1, "identity"), (2, "identity"), (3, "identity")]
    by = spec(*fields)
    odd = attrs.evolve(by, fields=tuple(attrs.evolve(f, name=f"9-{f.name} ü") for f in by.fields))
    metadata = table(odd, schema=schema)
    names: dict[str, Any] = {"path": "/m.avro", "content": ManifestContent.DATA, "snapshot_id": 7}
    data, line = write_manifest(metadata, 0, [added(data_file(partition=values))], **names)
    assert read_manifest(data, line, odd)[0].data_file.partition == values
    assert scan_manifest(data, line, odd, frozenset())[0].data_file.partition == values


def of_kinds(*kinds: Any) -> tuple[Any, Any]:
    """Metadata of a table partitioned by columns of these types, and its spec."""
    by = spec(*((i, "identity") for i in range(1, len(kinds) + 1)))
    schema = Schema(tuple(NestedField(i, f"c{i}", kind) for i, kind in enumerate(kinds, 1)))
    return table(by, schema=schema), by


def test_partition_fields_of_one_type_beside_others() -> None:
    """Names of decimals stand beside values of type fixed, and each is still defined once."""
    kinds = (DecimalType(9, 2), FixedType(3), UUID)
    values = (Decimal("-1.25"), b"abc", bytes(16))
    metadata, by = of_kinds(*kinds, *kinds)
    listed = [added(data_file(partition=(*values, *values)))]
    data, line = write_manifest(metadata, 0, listed, path="/m.avro", content=ManifestContent.DATA, snapshot_id=7)
    assert read_manifest(data, line, by)[0].data_file.partition == (*values, *values)
    assert scan_manifest(data, line, by, frozenset())[0].data_file.partition == (*values, *values)


@pytest.mark.parametrize("kind", [DecimalType(9, 2), FixedType(3), UUID], ids=str)
def test_partition_fields_of_one_type_share_its_avro_name(kind: Any) -> None:
    """Avro defines a name once; fields after the first name it, as Java writes them, and every reader follows."""
    values = {UUID: (bytes(16), b"\1" * 16), FixedType(3): (b"abc", b"xyz")}.get(
        kind, (Decimal("-1.25"), Decimal("7.50"))
    )
    metadata, by = of_kinds(kind, kind, kind)
    listed = [added(data_file(str(i), partition=(values[0], None, values[i]))) for i in range(2)]
    data, line = write_manifest(metadata, 0, listed, path="/m.avro", content=ManifestContent.DATA, snapshot_id=7)
    assert avro.container_metadata(data, "m")["avro.schema"].count(b'"fixed"') == 1
    expected = [entry.data_file.partition for entry in listed]
    assert [e.data_file.partition for e in read_manifest(data, line, by)] == expected
    assert [e.data_file.partition for e in scan_manifest(data, line, by, frozenset({1}))] == expected
    moved = read_to_move(data, line, by, EntryLayout.of(metadata, 0).canonical)
    assert [e.data_file.partition for e in moved] == expected
    again, _ = write_manifest(metadata, 0, moved, path="/m.avro", content=ManifestContent.DATA, snapshot_id=7)
    assert read_manifest(again, line, by) == read_manifest(data, line, by)


def test_partition_values_of_type_fixed_have_their_length_before_them() -> None:
    """Iceberg for Java writes and reads them so, whatever its schema says; manifests of others are read by theirs."""
    metadata, by = of_kinds(FixedType(3), STRING)
    entry = added(data_file(partition=(b"abc", "x")))
    data, line = write_manifest(metadata, 0, [entry], path="/m.avro", content=ManifestContent.DATA, snapshot_id=7)
    schema, blocks = avro.read_blocks(data, "m")
    ((_, block),) = blocks
    assert b"\x02\x06abc\x02\x02x" in block
    plain = block.replace(b"\x06abc", b"abc")
    record = avro.read_datum(schema, plain, "m")
    header = {k: v for k, v in avro.container_metadata(data, "m").items() if not k.startswith("avro.")}
    by_the_schema = avro.write_container(schema, [record], metadata=header)
    for found in (data, by_the_schema):
        assert read_manifest(found, line, by)[0].data_file.partition == (b"abc", "x")
        assert scan_manifest(found, line, by, frozenset())[0].data_file.partition == (b"abc", "x")


def test_partition_fields_are_found_by_id() -> None:
    """A renamed field is found, a dropped one that the manifest does not have is None."""
    data, line = written([added(data_file(partition=("x",)))], (2, "identity"))
    other = attrs.evolve(spec((2, "identity"), (1, "void")))
    renamed = attrs.evolve(other, fields=(attrs.evolve(other.fields[0], name="new"), other.fields[1]))
    assert read_manifest(data, line, renamed)[0].data_file.partition == ("x", None)


@pytest.mark.parametrize("read", [read_manifest, lambda d, m, s: scan_manifest(d, m, s, frozenset())])
def test_broken_manifests_are_corrupt(read: Any) -> None:
    """Another Avro file, or bytes that are none, are refused with the path; so is a newer format version."""
    data, line = written([added(data_file())])
    not_avro, other = b"nonsense", avro.write_container('"long"', [1])
    for bad in (not_avro, other, data[:-3]):
        with pytest.raises(CorruptMetadataError, match=r"/m\.avro"):
            read(bad, line, spec())
    schema, records = avro.read_container(data, "m")
    newer = avro.write_container(schema, records, metadata={"format-version": "4"})
    with pytest.raises(UnsupportedFeatureError, match="format version 4"):
        read(newer, line, spec())


def test_encrypted_manifests_are_refused() -> None:
    """A manifest with key metadata cannot be read."""
    _, line = written([])
    keyed = attrs.evolve(line, key_metadata=b"k", sequence_number=1, min_sequence_number=1)
    data, _ = write_manifest_list([keyed], format_version=2, snapshot_id=7, parent_snapshot_id=None, sequence_number=1)
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        read_manifest_list(data, "/l.avro")


def test_old_names_in_manifest_lists() -> None:
    """Fields are known by id: old writers called added_files_count added_data_files_count."""
    struct = manifest_list_type(1)
    fields = tuple(attrs.evolve(f, name=f.name.replace("_files_", "_data_files_")) for f in struct.fields)
    record = {f.name: None for f in fields} | {
        "manifest_path": "/m",
        "manifest_length": 5,
        "partition_spec_id": 0,
        "added_snapshot_id": 1,
        "added_data_files_count": 3,
    }
    data = avro.write_container(avro_record("manifest_file", StructType(fields)), [record])
    (line,) = read_manifest_list(data, "/l")
    assert (line.added_files_count, line.existing_files_count, line.content) == (3, None, ManifestContent.DATA)
    assert line.may_have_live_files


def test_names_are_made_fit_for_avro() -> None:
    """Other characters become their code, a leading digit gets an underscore; the name is kept beside."""
    assert [avro_name(n) for n in ("a-b", "1a", "a b", "_x")] == ["a_x2Db", "_1a", "a_x20b", "_x"]
    struct = manifest_entry_type(2, StructType((NestedField(1000, "a-b", STRING),)))
    data_file_fields = avro_record("manifest_entry", struct)["fields"][-1]["type"]["fields"]
    (field,) = next(f for f in data_file_fields if f["name"] == "partition")["type"]["fields"]
    assert (field["name"], field["iceberg-field-name"], field["field-id"]) == ("a_x2Db", "a-b", 1000)
