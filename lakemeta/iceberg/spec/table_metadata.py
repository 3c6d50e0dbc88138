"""Table metadata of format versions 1, 2 and 3, as a value.

Names are the specification's ("Table Metadata and Snapshots"); times are milliseconds since the epoch, UTC.
What this model does not know about an object is kept in its ``extras`` and written back.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.spec.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.iceberg.spec.partitioning import PartitionSpec, SortOrder
    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.types import Json, Type

MAIN_BRANCH: Final = "main"


@attrs.frozen(slots=True)
class Snapshot:
    """One state of the table. ``manifests``: manifest paths, in old version 1 tables without list file."""

    snapshot_id: int
    timestamp_ms: int
    manifest_list: str | None
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    summary: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    manifests: tuple[str, ...] | None = None
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)

    @property
    def operation(self) -> str | None:
        """append, replace, overwrite or delete; None in old snapshots."""
        return self.summary.get("operation")


@attrs.frozen(slots=True)
class SnapshotRef:
    """A branch or tag. The ages are retention settings in milliseconds; None leaves them to the table."""

    snapshot_id: int
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)

    @property
    def is_branch(self) -> bool:
        """True for a branch, False for a tag."""
        return self.type == "branch"


@attrs.frozen(slots=True)
class SnapshotLogEntry:
    """When a snapshot became the current one."""

    timestamp_ms: int
    snapshot_id: int


@attrs.frozen(slots=True)
class MetadataLogEntry:
    """An earlier metadata file."""

    timestamp_ms: int
    metadata_file: str


@attrs.frozen(slots=True)
class StatisticsFile:
    """A file of statistics of one snapshot; Puffin table statistics or partition statistics.

    ``extras`` hold ``file-footer-size-in-bytes`` and ``blob-metadata``, which table statistics alone have.
    """

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)


@attrs.frozen(slots=False)
class TableMetadata:
    """Everything one metadata file says. Make changed copies with ``attrs.evolve``."""

    format_version: int
    table_uuid: str | None
    location: str
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: int
    last_sequence_number: int = 0
    properties: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    refs: Mapping[str, SnapshotRef] = attrs.field(factory=dict, hash=False)
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[StatisticsFile, ...] = ()
    next_row_id: int | None = None
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)

    @cached_property
    def schemas_by_id(self) -> Mapping[int, Schema]:
        """Schemas by id."""
        return {s.schema_id: s for s in self.schemas}

    @cached_property
    def specs_by_id(self) -> Mapping[int, PartitionSpec]:
        """Partition specs by id."""
        return {s.spec_id: s for s in self.partition_specs}

    @cached_property
    def sort_orders_by_id(self) -> Mapping[int, SortOrder]:
        """Sort orders by id."""
        return {o.order_id: o for o in self.sort_orders}

    @cached_property
    def snapshots_by_id(self) -> Mapping[int, Snapshot]:
        """Snapshots by id."""
        return {s.snapshot_id: s for s in self.snapshots}

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas_by_id[self.current_schema_id]

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self.specs_by_id[self.default_spec_id]

    @property
    def sort_order(self) -> SortOrder:
        """The default sort order."""
        return self.sort_orders_by_id[self.default_sort_order_id]

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The head of the main branch; None while the table is empty."""
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    def without_history(self) -> TableMetadata:
        """The table's shape alone, for workers that write: no snapshots, refs or logs, which may be large."""
        return attrs.evolve(self, snapshots=(), refs={}, current_snapshot_id=None, snapshot_log=(), metadata_log=())

    def partition_types(self, spec_id: int) -> tuple[Type, ...]:
        """The types of a spec's partition values; a dropped column's is from the last schema with it."""
        newest_first = sorted(self.schemas, key=lambda s: -s.schema_id)
        current, *others = (self.schema, *newest_first)
        spec = self.specs_by_id[spec_id]
        types = list(spec.types(current))
        for older in others:
            types = [new if old == UNKNOWN else old for old, new in zip(types, spec.types(older), strict=True)]
        return tuple(types)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot with this id; raises CorruptMetadataError if there is none."""
        found = self.snapshots_by_id.get(snapshot_id)
        if found is None:
            raise CorruptMetadataError(f"the table at {self.location} has no snapshot {snapshot_id}")
        return found

    def branch_head(self, branch: str = MAIN_BRANCH) -> Snapshot | None:
        """The newest snapshot of a branch; None if the branch is not there or the table is empty."""
        if branch == MAIN_BRANCH:
            return self.current_snapshot
        ref = self.refs.get(branch)
        return None if ref is None or not ref.is_branch else self.snapshot(ref.snapshot_id)

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """A snapshot, its parent, and so on, as far back as the metadata still knows."""
        seen: set[int] = set()
        while snapshot_id is not None and snapshot_id not in seen:
            seen.add(snapshot_id)
            found = self.snapshots_by_id.get(snapshot_id)
            if found is None:
                return
            yield found
            snapshot_id = found.parent_snapshot_id
