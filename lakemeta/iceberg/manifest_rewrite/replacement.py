"""The next version of a table with some manifests replaced by clustered ones (Iceberg's BaseRewriteManifests).

Rules of this module:

1. Every manifest that is replaced is in the table's current snapshot; otherwise the commit is in conflict.
2. Live entries move as they are, with snapshot id, both sequence numbers and first row id, and have status EXISTING;
   entries of removed files are forgotten. No other manifest is touched.
3. New manifests come first, data before deletes; in version 3 new data manifests take row ids, as any do in a commit.
4. Before anything is committed the new manifests' bytes are read again, and must hold just the live entries of the old
   ones: as many as the lists say, each of them equal.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CommitConflictError, CorruptMetadataError
from lakemeta.iceberg.commit.snapshot_producer import draft_of
from lakemeta.iceberg.commit.summary import ENGINE, totals
from lakemeta.iceberg.manifest_rewrite.clustering import Clustering
from lakemeta.iceberg.manifest_rewrite.gain import Opened, in_order
from lakemeta.iceberg.manifests.entries import EntryColumns, ManifestContent, ManifestFile
from lakemeta.iceberg.manifests.entry_writer import EntryLayout
from lakemeta.iceberg.manifests.lines import check_snapshots
from lakemeta.iceberg.manifests.raw_copy import holds_moved
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.iceberg.commit.draft import Base, Draft
    from lakemeta.iceberg.commit.new_manifests import NewManifests
    from lakemeta.iceberg.commit.snapshot_update import Manifests
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value


@attrs.frozen
class Replaced:
    """Manifests of one partition spec and content that are replaced, by path."""

    spec_id: int
    content: ManifestContent
    paths: tuple[str, ...]


@attrs.define(eq=False, kw_only=True)
class Replacement:
    """What all attempts of one commit have in common. ``sort_by`` and the target (bytes) are the options'.

    ``created`` is how many manifests the last attempt has made, ``notes`` say what a query gains by them.
    """

    groups: tuple[Replaced, ...]
    sort_by: tuple[str, ...] | None
    target_size_bytes: int
    manifests: Manifests
    new: NewManifests
    created: int = 0
    notes: list[str] = attrs.field(factory=list)

    def next_version(self, base: Base) -> Draft:
        """The version after the manifests were replaced.

        Raises CommitConflictError if one of them is no longer in the current snapshot, and CorruptMetadataError if an
        entry would be lost, doubled or changed.
        """
        head = base.metadata.current_snapshot
        listed = () if head is None else self.manifests.of(head)
        known = {m.manifest_path: m for m in listed}
        for path in (path for group in self.groups for path in group.paths):
            if head is None or path not in known:
                found = f"Deleted manifest {path} could not be found in the latest snapshot"
                raise CommitConflictError(f"{found} {head.snapshot_id if head else None}; plan again")
        if head is not None:
            check_snapshots(listed, head, base.metadata)
        created: list[ManifestFile] = []
        self.notes.clear()
        for group in sorted(self.groups, key=attrgetter("content")):
            created += self._rewritten(group, [known[path] for path in group.paths], base.metadata)
        gone = {path for group in self.groups for path in group.paths}
        kept = [m for m in listed if m.manifest_path not in gone]
        _check_counts(created, [known[path] for path in gone])
        self.created = len(created)
        summary = {
            "operation": "replace",
            **ENGINE,
            **_counts(created, kept, gone),
            **totals(head.summary if head else None, {}),
        }
        return draft_of(MAIN_BRANCH, base, head, [*created, *kept], summary, self.new)

    def _rewritten(self, group: Replaced, old: Sequence[ManifestFile], metadata: TableMetadata) -> list[ManifestFile]:
        live = EntryColumns.joined(self.manifests.live_to_move(old, metadata))
        spec = metadata.specs_by_id[group.spec_id]
        clustering = Clustering.of(old, spec, self.sort_by, self.target_size_bytes)
        outputs = clustering.outputs(live.partitions)
        _check_spread(outputs, len(live.heads))
        created: list[ManifestFile] = []
        for number, positions in enumerate(outputs):
            entries = live.take(positions)
            key = ("clustered", group.content, group.spec_id, number)
            manifest = self.new.write_moved(key, metadata, group.content, group.spec_id, entries)
            _check_written(self.new.data([manifest])[manifest.manifest_path], manifest, entries, metadata)
            created.append(manifest)
        self._note(group, old, created, in_order(live.partitions, clustering.key), metadata)
        return created

    def _note(
        self,
        group: Replaced,
        old: Sequence[ManifestFile],
        created: Sequence[ManifestFile],
        partitions: Sequence[tuple[Value, ...]],
        metadata: TableMetadata,
    ) -> None:
        types = metadata.partition_types(group.spec_id)
        before, after = (Opened.count([m.partitions for m in side], types, partitions) for side in (old, created))
        kind = "delete" if group.content == ManifestContent.DELETES else "data"
        what = f"{kind} manifests of partition spec {group.spec_id}"
        self.notes.append(
            f"of {what} a query of one partition opened {before.describe()}, and opens {after.describe()}"
        )


def _counts(created: Sequence[ManifestFile], kept: Sequence[ManifestFile], gone: Iterable[str]) -> Mapping[str, str]:
    return {
        "manifests-created": str(len(created)),
        "manifests-kept": str(len(kept)),
        "manifests-replaced": str(len(set(gone))),
        "entries-processed": "0",
        "changed-partition-count": "0",
    }


def _check_counts(created: Iterable[ManifestFile], replaced: Iterable[ManifestFile]) -> None:
    """Raise CorruptMetadataError unless the lines of the lists say that as many files live as before."""
    new, old = (sum(live_files(m) for m in side) for side in (created, replaced))
    if new != old:
        raise CorruptMetadataError(
            f"Replaced and created manifests must have the same number of active files: {new} (new), {old} (old); "
            f"nothing was committed"
        )


def live_files(manifest: ManifestFile) -> int:
    """How many files of a manifest live, by its line in the list."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _check_spread(outputs: Sequence[Sequence[int]], files: int) -> None:
    """Raise CorruptMetadataError unless every file has one place in one manifest."""
    if sorted(at for positions in outputs for at in positions) != list(range(files)):
        raise CorruptMetadataError(f"{files} files would not have been spread over manifests; nothing was committed")


def _check_written(data: bytes, manifest: ManifestFile, entries: EntryColumns, metadata: TableMetadata) -> None:
    """Raise CorruptMetadataError unless the bytes of a manifest hold just these entries, in this order."""
    layout = EntryLayout.of(metadata, manifest.partition_spec_id)
    if not holds_moved(data, manifest.manifest_path, entries, layout):
        raise CorruptMetadataError(
            f"{manifest.manifest_path} would not have held the entries that it is to hold; nothing was committed"
        )
