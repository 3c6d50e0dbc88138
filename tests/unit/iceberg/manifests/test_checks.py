"""Manifests whose Avro schema was damaged: a field renamed, of another type, or that may be null where none may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from fuzz.memory import MemoryTable
from support.iceberg_tables import create_table

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.checks import check_entry_schema
from lakemeta.iceberg.manifests.codec import read_manifest, read_manifest_list, write_manifest_list
from lakemeta.iceberg.manifests.fast_reader import scan_manifest
from lakemeta.iceberg.spec.transforms import Transform


def damaged(data: bytes, change: Callable[[str], str]) -> bytes:
    """The same blocks under a changed schema, which is of any length."""
    old = avro.container_metadata(data, "x")["avro.schema"]
    new = change(old.decode()).encode()
    assert new != old
    return data.replace(avro.encode_long(len(old)) + old, avro.encode_long(len(new)) + new)


def renamed(name: str) -> Callable[[str], str]:
    return lambda text: text.replace(f'"name":"{name}"', f'"name":"{name[:-1]}_"')


def typed(name: str, old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(f'"name":"{name}","type":{old}', f'"name":"{name}","type":{new}')


@pytest.fixture(params=[2, 3])
def stored(request: pytest.FixtureRequest) -> Any:
    table = create_table(MemoryTable({}), "/t", version=request.param)
    table.append([(1, "a", 1.0)])
    snapshot = table.head
    listed = table.storage.read(str(snapshot.manifest_list))
    (manifest,) = read_manifest_list(listed, "list.avro")
    return listed, manifest, table.storage.read(manifest.manifest_path), table.metadata.spec


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (renamed("content"), "has no content"),
        (renamed("sequence_number"), "has no"),
        (renamed("record_count"), "has no record_count"),
        (renamed("data_file"), "has no data_file"),
    ],
)
def test_damaged_schemas_of_manifests(stored: Any, change: Callable[[str], str], words: str) -> None:
    """Both readers refuse the file, and name the field."""
    _, manifest, data, spec = stored
    for read in read_manifest, lambda *of: scan_manifest(*of, frozenset()):
        with pytest.raises(CorruptMetadataError, match=words):
            read(damaged(data, change), manifest, spec)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (typed("record_count", '"long"', '"string"'), "record_count is of type string"),
        (typed("file_path", '"string"', '["null","string"]'), "lets file_path be null"),
        (typed("status", '"int"', '"bytes"'), "status is of type bytes"),
        (typed("status", '"int"', '["int","string"]'), "status is of type string"),
        (typed("file_size_in_bytes", '"long"', '{"type":"map","values":"int"}'), "is of type map"),
        (typed("value", '"long"', '"bytes"'), "value is of type bytes"),
        (
            typed("data_file", '{"type":"record"', '{"type":"array","items":"int"},"was":{"type":"record"'),
            "of type array",
        ),
    ],
)
def test_strange_types_in_manifests(stored: Any, change: Callable[[str], str], words: str) -> None:
    """A schema that its bytes fit is refused where values would be none that a reader can take."""
    text = avro.container_metadata(stored[2], "x")["avro.schema"].decode()
    assert change(text) != text
    with pytest.raises(CorruptMetadataError, match=f"^the Avro schema of m.avro .*{words}"):
        check_entry_schema(change(text), 2, "m.avro", deletes=False)


def renumbered(field_id: int) -> Callable[[str], str]:
    return lambda text: text.replace(f'"field-id":{field_id},', '"field-id":9999,').replace(
        f'"field-id":{field_id}}}', '"field-id":9999}'
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (renumbered(517), "has no content"),
        (renumbered(500), "has no manifest_path"),
        (renumbered(515), "has no sequence_number"),
    ],
)
def test_damaged_schemas_of_manifest_lists(stored: Any, change: Callable[[str], str], words: str) -> None:
    """Fields of a manifest list are known by id; without its content a list's deletes would be read as data."""
    with pytest.raises(CorruptMetadataError, match=words):
        read_manifest_list(damaged(stored[0], change), "list.avro")


@pytest.mark.parametrize(("name", "value"), [("content", b"deletes"), ("content", b""), ("partition-spec-id", b"7")])
def test_headers_that_contradict_the_list(stored: Any, name: str, value: bytes) -> None:
    """A manifest that says of itself that it holds deletes, or files of another spec, is not the one listed."""
    _, manifest, data, spec = stored
    old = avro.container_metadata(data, "x")[name]
    key = avro.encode_long(len(name)) + name.encode()
    changed = data.replace(key + avro.encode_long(len(old)) + old, key + avro.encode_long(len(value)) + value)
    with pytest.raises(CorruptMetadataError, match=f"has {name} "):
        read_manifest(changed, manifest, spec)


def test_wider_and_narrower_numbers_pass(stored: Any) -> None:
    """Writers differ in int and long, which are written alike."""
    _, manifest, data, spec = stored
    narrow = damaged(data, typed("record_count", '"long"', '"int"'))
    assert read_manifest(narrow, manifest, spec) == read_manifest(data, manifest, spec)


def test_a_manifest_without_a_partition_field_is_refused() -> None:
    """Its files would be of the null partition: deletes of it would apply to nothing. Dropped fields may be missing."""
    table = create_table(MemoryTable({}), "/t", partitioned=True)
    table.append([(1, "a", 1.0)])
    (manifest,) = read_manifest_list(table.storage.read(str(table.head.manifest_list)), "list.avro")
    data, spec = damaged(table.storage.read(manifest.manifest_path), renumbered(1000)), table.metadata.spec
    dropped = attrs.evolve(spec, fields=(attrs.evolve(spec.fields[0], transform=Transform("void")),))
    for read in read_manifest, lambda *of: scan_manifest(*of, frozenset()):
        with pytest.raises(CorruptMetadataError, match=r"m0.avro has no field p in its partitions, .* spec 0"):
            read(data, manifest, spec)
        assert [entry.data_file.partition for entry in read(data, manifest, dropped)] == [(None,)]


def test_a_list_of_version_3_gives_every_data_manifest_row_ids() -> None:
    """Without them rows would be given other ids."""
    table = create_table(MemoryTable({}), "/t", version=3)
    table.append([(1, "a", 1.0)])
    data = table.storage.read(str(table.head.manifest_list))
    (line,) = read_manifest_list(data, "list.avro")
    numbers: dict[str, Any] = {"snapshot_id": 1, "parent_snapshot_id": None, "sequence_number": 1}
    listed, _ = write_manifest_list([attrs.evolve(line, first_row_id=None)], format_version=3, **numbers)
    with pytest.raises(CorruptMetadataError, match=r"list.avro gives no first row id to .*m0.avro"):
        read_manifest_list(listed, "list.avro")
