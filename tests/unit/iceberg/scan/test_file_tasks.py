"""Scan planning over manifests that a caller reads."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from support.iceberg_values import SCHEMA, added, data_file, delete_file, spec, table

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifests.codec import summarise
from lakemeta.iceberg.manifests.entries import EntryStatus, FileContent, ManifestContent, ManifestEntry, ManifestFile
from lakemeta.iceberg.scan.file_tasks import plan_files

METADATA = table(spec((2, "identity")))


class Manifests:
    """Manifests in memory that remember what was asked of them."""

    def __init__(self) -> None:
        self.lines: list[ManifestFile] = []
        self.entries: dict[str, list[ManifestEntry]] = {}
        self.asked: list[tuple[str, Any]] = []

    def add(self, name: str, *entries: ManifestEntry, deletes: bool = False, **more: Any) -> None:
        content = ManifestContent.DELETES if deletes else ManifestContent.DATA
        summary = summarise(METADATA.partition_types(0), [e.data_file.partition for e in entries])
        self.lines.append(ManifestFile(name, 1, 0, content, 1, 1, 1, partitions=summary, **more))
        self.entries[name] = list(entries)

    def read(self, manifests: Any, metrics: Any) -> Any:
        for manifest in manifests:
            self.asked.append((manifest.manifest_path, metrics))
            yield self.entries[manifest.manifest_path]

    def plan(self, where: str = "true", metadata: Any = METADATA) -> list[tuple[str, list[str]]]:
        tasks = plan_files(metadata, self.lines, self.read, parse_where(where, SCHEMA))
        return [(name(t.data_file), [name(d) for d in t.deletes]) for t in tasks]


def name(file: Any) -> str:
    return str(file.file_path.rpartition("/")[2])


def entry(path: str, partition: str, sequence: int | None = 1, **more: Any) -> ManifestEntry:
    return added(data_file(path, partition=(partition,), **more), sequence)


def test_files_come_in_manifest_list_order_with_their_deletes() -> None:
    """Delete manifests are read first; data manifests with just the metrics that are needed."""
    manifests = Manifests()
    manifests.add("m2", entry("c", "a"), entry("b", "b"))
    manifests.add("d", added(delete_file("p", partition=("a",)), 2), deletes=True)
    equality = delete_file("e", FileContent.EQUALITY_DELETES, partition=("b",), equality_ids=(1,))
    manifests.add("d2", added(equality, 2), deletes=True)
    manifests.add("m1", entry("a", "a", 3))
    assert manifests.plan("v > 0") == [("c", ["p"]), ("b", ["e"]), ("a", [])]
    assert manifests.asked == [("d", frozenset()), ("d2", frozenset()), ("m2", {1, 4}), ("m1", {1, 4})]


def test_removed_files_are_not_scanned() -> None:
    """Deleted entries are skipped; manifests of nothing else by their counts are read like the others."""
    manifests = Manifests()
    gone = attrs.evolve(entry("gone", "a"), status=EntryStatus.DELETED)
    kept = attrs.evolve(entry("kept", "a"), status=EntryStatus.EXISTING)
    manifests.add("m", gone, kept)
    manifests.add("empty", gone, added_files_count=0, existing_files_count=0, deleted_files_count=1)
    assert manifests.plan() == [("kept", [])]
    assert [path for path, _ in manifests.asked] == ["m", "empty"]


def test_where_leaves_out_manifests_partitions_and_files() -> None:
    """By partition summaries, by partition values, and by metrics, in that order; deletes likewise."""
    manifests = Manifests()
    manifests.add("a", entry("a", "a"))
    manifests.add("bc", entry("b", "b"), entry("c", "c"), entry("empty", "b", records=0))
    manifests.add("d", added(delete_file("p", partition=("a",)), 2), deletes=True)
    assert manifests.plan("name = 'b'") == [("b", [])]
    assert [path for path, _ in manifests.asked] == ["bc"]


def test_unknown_specs_and_missing_sequence_numbers_are_corrupt() -> None:
    """The message names the manifest or file."""
    manifests = Manifests()
    manifests.add("m", entry("f", "a", None))
    with pytest.raises(CorruptMetadataError, match="/f has no data sequence number"):
        manifests.plan()
    with pytest.raises(CorruptMetadataError, match="m is of spec 0"):
        manifests.plan(metadata=table(spec(spec_id=5)))
