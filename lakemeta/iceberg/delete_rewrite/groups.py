"""Which position delete files are rewritten together (engine: BinPackRewritePositionDeletePlanner).

Sizes are bytes, of a deletion vector those of its blob. Files of one partition of one spec are packed in manifest-list
order; the engine packs partitions of two specs that look the same together, and fails to write them then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from lakemeta import binpack
from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.manifests.delete_entries import content_size, delete_name, partition_key
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.rewrite.bin_pack import is_enough, wrong_size
from lakemeta.iceberg.rewrite.groups import partition_json
from lakemeta.iceberg.rows.row_account import check_entry
from lakemeta.plan_operations import Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry
    from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value

PartitionKey = tuple[int, tuple["Value", ...]]


def partition_of(file: DataFile) -> PartitionKey:
    """The partition of a file, of its spec, as a dictionary key."""
    return file.spec_id, partition_key(file.partition)


@attrs.frozen(slots=True, hash=False)
class DeleteGroup:
    """Position delete files of one partition to rewrite together; ``number`` is its place in the order of work."""

    number: int
    entries: tuple[ManifestEntry, ...] = attrs.field(repr=lambda entries: f"<{len(entries)} files>")
    bytes: int
    split_size: int
    expected_outputs: int
    max_output_size: int

    def to_operation(self, metadata: TableMetadata) -> Rewrite:
        """The group as an operation of a plan file."""
        first = self.entries[0].data_file
        return Rewrite(
            group=self.number,
            partition=partition_json(first.partition, metadata, first.spec_id),
            spec_id=first.spec_id,
            inputs=[delete_name(metadata.location, entry.data_file) for entry in self.entries],
            deletes=(),
            bytes=self.bytes,
            expected_outputs=self.expected_outputs,
            split_size=self.split_size,
            max_output_size=self.max_output_size,
        )


def plan_groups(
    metadata: TableMetadata, entries: Iterable[ManifestEntry], options: RewriteOptions
) -> list[DeleteGroup]:
    """The groups of some live delete files, in the order in which to rewrite them.

    Of a table of version 3 there are none if all of its position deletes are deletion vectors.
    """
    found = _position_deletes(entries)
    if metadata.format_version >= 3 and all(entry.data_file.is_deletion_vector for entry in found):
        return []
    partitions: dict[PartitionKey, list[ManifestEntry]] = {}
    for entry in found:
        if options.rewrite_all or _wrong(entry, options):
            check_readable(entry.data_file)
            partitions.setdefault(partition_of(entry.data_file), []).append(entry)
    groups = [group for files in partitions.values() for group in _pack(files, options)]
    return _in_order(groups, options.rewrite_job_order)


DeleteReason = Literal["only vectors", "rewrite all", "too small", "too large", "good size", "poor group"]


def judge(
    metadata: TableMetadata, entries: Sequence[ManifestEntry], entry: ManifestEntry, options: RewriteOptions
) -> tuple[DeleteGroup | None, DeleteReason]:
    """What ``plan_groups`` does with one of ``entries``: the group that takes it, if any, and why."""
    groups = plan_groups(metadata, entries, options)
    group = next((group for group in groups if any(one is entry for one in group.entries)), None)
    reason: DeleteReason = _wrong(entry, options) or ("rewrite all" if options.rewrite_all else "good size")
    if group is None and reason != "good size":
        vectors = all(one.data_file.is_deletion_vector for one in _position_deletes(entries))
        reason = "only vectors" if metadata.format_version >= 3 and vectors else "poor group"
    return group, reason


def _position_deletes(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    return [entry for entry in entries if entry.data_file.content == FileContent.POSITION_DELETES]


def _wrong(entry: ManifestEntry, options: RewriteOptions) -> Literal["too small", "too large"] | None:
    return wrong_size(content_size(entry.data_file), options)


def check_readable(file: DataFile) -> None:
    """Raise UnsupportedFeatureError for an encrypted file, CorruptMetadataError for one without size."""
    if file.key_metadata is not None:
        raise UnsupportedFeatureError(f"{file.file_path} is encrypted, which lakemeta does not handle")
    check_entry(file)


def _pack(entries: list[ManifestEntry], options: RewriteOptions) -> list[DeleteGroup]:
    packed = binpack.pack(
        entries,
        lambda entry: content_size(entry.data_file),
        target=options.max_file_group_size_bytes,
        max_items=options.max_file_group_input_files,
    )
    groups = [_group(files, options) for files in packed]
    return [g for g in groups if options.rewrite_all or is_enough(len(g.entries), g.bytes, options)]


def _group(entries: list[ManifestEntry], options: RewriteOptions) -> DeleteGroup:
    size = sum(content_size(entry.data_file) for entry in entries)
    return DeleteGroup(
        number=0,
        entries=tuple(entries),
        bytes=size,
        split_size=options.split_size(size),
        expected_outputs=options.expected_outputs(size),
        max_output_size=options.max_output_size,
    )


def _in_order(groups: list[DeleteGroup], order: str) -> list[DeleteGroup]:
    """Sort by job order (stable), and number from 0."""
    what, _, direction = order.partition("-")
    if what in ("bytes", "files"):
        groups = sorted(
            groups, key=lambda g: g.bytes if what == "bytes" else len(g.entries), reverse=direction == "desc"
        )
    return [attrs.evolve(group, number=number) for number, group in enumerate(groups)]
