"""Moving entries from manifest to manifest as bytes: what is written is what decoding and encoding would write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.iceberg_cases import CASES, Cases
from support.iceberg_manifests import COUNTS, entries, files, manifests_of, written
from support.iceberg_values import added, data_file, spec, table

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.commit.manifest_filter import Removal, filter_entries, merge_entries
from lakemeta.iceberg.manifests.codec import read_manifest, write_manifest
from lakemeta.iceberg.manifests.entries import EntryStatus, FileContent, ManifestContent, ManifestEntry, file_key
from lakemeta.iceberg.manifests.entry_writer import EntryLayout
from lakemeta.iceberg.manifests.raw_copy import read_to_move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.spec.table_metadata import TableMetadata

FIELDS = ((2, "identity"), (1, "bucket[4]"))
NEW = 8  # the snapshot that moves


def rewritten(metadata: TableMetadata, spec_id: int, listed: Sequence[ManifestEntry], **more: Any) -> Any:
    """A manifest without every third live file, and then merged with itself: all that happens to old entries."""
    live = [e for e in listed if e.is_live]
    removal = Removal(frozenset(file_key(e.data_file) for e in live[::3]))
    filtered = filter_entries(listed, removal, NEW)
    merged = merge_entries([listed, filtered.entries if filtered else ()], NEW)
    return [
        write_manifest(metadata, spec_id, part, path="/new.avro", snapshot_id=NEW, **more)
        for part in (listed, filtered.entries if filtered else (), merged)
    ]


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.data(), st.sampled_from([1, 2, 3]), st.none() | COUNTS, st.sampled_from([9, 140]))
def test_moved_is_what_re_encoded_would_be(data: Any, version: int, first_row_id: int | None, bounds: int) -> None:
    """Whatever a manifest holds, its entries make the same new manifests either way, byte for byte."""
    content = data.draw(st.sampled_from(ManifestContent)) if version > 1 else ManifestContent.DATA
    kind = FileContent.POSITION_DELETES if content == ManifestContent.DELETES else FileContent.DATA
    listed = data.draw(st.lists(entries(files(bounds, kind)), max_size=5))
    metadata, by = table(spec(*FIELDS), format_version=version), spec(*FIELDS)
    stored, line = written(listed, *FIELDS, version=version, content=content)
    row_id = first_row_id if version == 3 and content == ManifestContent.DATA else None
    line = attrs.evolve(line, sequence_number=9 if version > 1 else 0, first_row_id=row_id)
    full = read_manifest(stored, line, by)
    moved = read_to_move(stored, line, by, EntryLayout.of(metadata, 0).canonical)
    assert [(e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in moved] == [
        (e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in full
    ]
    assert rewritten(metadata, 0, moved, content=content) == rewritten(metadata, 0, full, content=content)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("plan_")])
def test_recorded_manifests_move_as_they_are(name: str, iceberg_cases: Cases) -> None:
    """Manifests that the engine wrote come out as re-encoding would have them; those of data files are not decoded.

    Bounds of position delete files are whole paths, too long for the quick reader.
    """
    for metadata, stored, line in manifests_of(iceberg_cases.shared(name)):
        version = int(avro.container_metadata(stored, "recorded")["format-version"])
        of_then, by = attrs.evolve(metadata, format_version=version), metadata.specs_by_id[line.partition_spec_id]
        full = read_manifest(stored, line, by)
        moved = read_to_move(stored, line, by, EntryLayout.of(of_then, by.spec_id).canonical)
        assert line.is_deletes or all(entry.stored for entry in moved)
        one, other = (
            [read_manifest(data, made, by) for data, made in rewritten(of_then, by.spec_id, e, content=line.content)]
            for e in (moved, full)
        )
        assert one == other


@pytest.mark.parametrize("content", ManifestContent)
def test_long_paths_are_no_obstacle(content: ManifestContent) -> None:
    """Paths of data files, also in deletion vectors, are longer than other texts, and still nothing is decoded."""
    about = {"referenced_data_file": "/" + "x" * 500} if content == ManifestContent.DELETES else {}
    kind = FileContent.POSITION_DELETES if about else FileContent.DATA
    stored, line = written([added(data_file("y" * 500, content=kind, **about))], version=3, content=content)
    layout = EntryLayout.of(table(spec(), format_version=3), 0).canonical
    (entry,) = read_to_move(stored, line, spec(), layout)
    assert entry.stored is not None
    assert entry.data_file.referenced_data_file == about.get("referenced_data_file")


def test_another_layout_is_decoded() -> None:
    """Entries of a manifest of version 2 are read in full for a table that has become one of version 3."""
    stored, line = written([added(data_file(lower_bounds={1: b"x"}))], version=2)
    (entry,) = read_to_move(stored, line, spec(), EntryLayout.of(table(spec(), format_version=3), 0).canonical)
    assert entry.stored is None
    assert entry == read_manifest(stored, line, spec())[0]


def test_bytes_of_another_layout_are_not_written() -> None:
    """An entry that was read to be moved into one layout is refused by another."""
    stored, line = written([added(data_file())], version=2)
    (entry,) = read_to_move(stored, line, spec(), EntryLayout.of(table(spec()), 0).canonical)
    with pytest.raises(CorruptMetadataError, match="another layout"):
        written([entry], version=3)


def test_inherited_row_ids_are_written_out() -> None:
    """In version 3 a file that stays gets the row id that it had by its place; one that has its own keeps it."""
    listed = [
        added(data_file("a", records=5, sort_order_id=1)),
        attrs.evolve(added(data_file("gone", records=3)), status=EntryStatus.DELETED),
        added(data_file("b", records=7, first_row_id=0)),
        added(data_file("c", records=1)),
    ]
    metadata = table(spec(), format_version=3)
    stored, line = written(listed, version=3, first_row_id=40)
    moved = read_to_move(stored, line, spec(), EntryLayout.of(metadata, 0).canonical)
    assert all(entry.stored for entry in moved)
    kept = merge_entries([moved], NEW)
    again, new = write_manifest(metadata, 0, kept, path="/n", content=ManifestContent.DATA, snapshot_id=NEW)
    read = read_manifest(again, attrs.evolve(new, first_row_id=1000), spec())
    assert [e.data_file.first_row_id for e in read] == [40, 0, 45]
