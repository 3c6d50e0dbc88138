"""Plans expire-snapshots (I/O: reads metadata, manifest lists and manifests)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.catalogs.doors import Doors
from lakemeta.iceberg.expire.options import ExpireOptions
from lakemeta.iceberg.expire.retention import Retention, decide
from lakemeta.iceberg.expire.unreferenced import CONTENT, Retained, Unreferenced, find_unreferenced, spec_ids
from lakemeta.iceberg.expire.unused_metadata import Unused, unused
from lakemeta.iceberg.service.plans import header_of
from lakemeta.iceberg.spec.locations import within
from lakemeta.iceberg.spec.properties import bool_property
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete, Expire, RemoveRef, RemoveUnused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.iceberg.expire.unreferenced import Kind
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.plan_operations import Operation

EXPIRE_SNAPSHOTS: Final = "expire-snapshots"
_NAMED: Final = 20  # how many files a sentence names


def plan_expire(request: PlanRequest) -> Plan:
    """Plan on the newest version of the table.

    Raises OptionError for options that make no sense, UnsupportedFeatureError if the table forbids it
    (``gc.enabled=false``), in Iceberg's words; CorruptMetadataError or StorageError if a manifest list or manifest
    cannot be read.
    """
    request.refuse_where(EXPIRE_SNAPSHOTS)
    options = ExpireOptions.parse(request.options)
    operations = request.place.operations
    metadata = operations.refresh().metadata
    check_gc(metadata)
    retention = decide(metadata, options, request.now_ms)
    retained = Retained(operations.storage, request.executor)
    files = files_of(retained, metadata, retention)
    surplus = unused_of(retained, metadata, retention) if options.clean_expired_metadata else Unused()
    doors = Doors.of_table(operations.storage, metadata)
    gone = [file for file in files if goes(file.kind, options)]
    deleted = [file for file in gone if doors.find(file.location)]
    facts = {
        "now_ms": request.now_ms,
        "kept_snapshots": len(metadata.snapshots) - len(retention.expired),
        "notes": list(_notes(metadata, options, [file for file in gone if not doors.find(file.location)])),
    }
    header = header_of(request, EXPIRE_SNAPSHOTS, metadata, metadata.current_snapshot, facts)
    changes = (*_expired(metadata, retention, files), *_surplus(surplus))
    return Plan(header, [*changes, *(_delete(metadata, file) for file in deleted)])


def check_gc(metadata: TableMetadata) -> None:
    """Raise UnsupportedFeatureError if the table is not to lose any file."""
    if not bool_property(metadata.properties, "gc.enabled", True):
        raise UnsupportedFeatureError(
            "Cannot expire snapshots: GC is disabled (deleting files may corrupt other tables)"
        )


def files_of(retained: Retained, metadata: TableMetadata, retention: Retention) -> list[Unreferenced]:
    """The files that nothing names once what expires is gone. Nothing is read if nothing expires."""
    if not retention.expired:
        return []
    retained.add(metadata, retention.kept)
    return find_unreferenced(retained, metadata, retention.expired)


def unused_of(retained: Retained, metadata: TableMetadata, retention: Retention) -> Unused:
    """The schemas and partition specs that nothing needs then. Manifest lists are read if there are several specs."""
    specs: set[int] = set()
    if len(metadata.partition_specs) > 1:
        retained.add(metadata, retention.kept)
        specs = retained.spec_ids | spec_ids(retained, metadata, retention.ruled & retention.expired.keys())
    return unused(metadata, retention.ruled, specs)


def goes(kind: Kind, options: ExpireOptions) -> bool:
    """True if files of a kind go with what names them, as far as the options say."""
    return options.level == "all" or (options.level == "metadata" and kind not in CONTENT)


def _expired(metadata: TableMetadata, retention: Retention, files: Iterable[Unreferenced]) -> Iterator[Operation]:
    counts, sizes = Counter[int](), Counter[int]()
    for file in files:
        if file.alone:
            counts[file.holder] += 1
            sizes[file.holder] += file.size
    for snapshot_id, reason in retention.expired.items():
        time = metadata.snapshot(snapshot_id).timestamp_ms
        yield Expire(snapshot_id, time, counts[snapshot_id], sizes[snapshot_id], reason)
    for name in retention.removed_refs:
        yield RemoveRef(name, metadata.refs[name].snapshot_id, "too_old")


def _surplus(surplus: Unused) -> Iterator[Operation]:
    yield from (RemoveUnused("schema", schema_id, "unused") for schema_id in surplus.schemas)
    yield from (RemoveUnused("partition-spec", spec_id, "unused") for spec_id in surplus.specs)


def _delete(metadata: TableMetadata, file: Unreferenced) -> Delete:
    return Delete("", within(metadata.location, file.location), file.size, file.kind, str(file.holder))


def _notes(metadata: TableMetadata, options: ExpireOptions, outside: Sequence[Unreferenced]) -> Iterator[str]:
    unknown = [i for i in options.snapshot_ids if i not in metadata.snapshots_by_id]
    if unknown:
        yield f"the table has no snapshot {_some(map(str, unknown))}"
    if outside:
        where = "outside of the table's own locations, or have names that lakemeta deletes no file of"
        yield f"files that nothing names any more stay, as they lie {where}: {_some(f.location for f in outside)}"


def _some(names: Iterable[str]) -> str:
    first, *others = names
    listed = [first, *others][:_NAMED]
    return ", ".join(listed) + (f" and {len(others) + 1 - _NAMED} more" if len(others) >= _NAMED else "")
