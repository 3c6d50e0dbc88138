"""Plans expire-snapshots (I/O: reads metadata, manifest lists and manifests)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.catalogs.doors import Doors, metadata_folder
from lakemeta.iceberg.expire.flink import flink_snapshots
from lakemeta.iceberg.expire.ledger import unfinished
from lakemeta.iceberg.expire.nested import refuse_nested
from lakemeta.iceberg.expire.options import ExpireOptions
from lakemeta.iceberg.expire.retention import Retention, decide
from lakemeta.iceberg.expire.unreferenced import CONTENT, Going, Retained, Unreferenced, find_unreferenced, spec_ids
from lakemeta.iceberg.expire.unused_metadata import Unused, unused
from lakemeta.iceberg.rewrite.unfinished import base_snapshots
from lakemeta.iceberg.service.plans import header_of
from lakemeta.iceberg.spec.locations import within
from lakemeta.iceberg.spec.properties import check_gc
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete, Expire, RemoveRef, RemoveUnused
from lakemeta.words import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakemeta.iceberg.catalogs.operations import TableOperations
    from lakemeta.iceberg.expire.ledger import Former
    from lakemeta.iceberg.expire.unreferenced import Kind
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.plan_operations import Operation

EXPIRE_SNAPSHOTS: Final = "expire-snapshots"
EXPIRING: Final = "expire snapshots"  # in sentences
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
    loaded = operations.refresh()
    metadata = loaded.metadata
    check_gc(metadata.properties, EXPIRING)
    retention = decide(metadata, options, request.now_ms, pinned_snapshots(operations, metadata, options))
    retained = Retained(operations.storage, request.executor)
    former, notes = unfinished(operations, metadata)
    files = files_of(retained, metadata, retention, former_of(former, options))
    surplus = unused_of(retained, metadata, retention) if options.clean_expired_metadata else Unused()
    doors = Doors.of_table(operations.storage, metadata)
    gone = [(file, doors.find(file.location)) for file in files if goes(file.kind, options)]
    outside = [file for file, place in gone if place is None]
    going = [(file, place) for file, place in gone if place is not None]
    refuse_nested(operations.storage, loaded, (place for _, place in going), options.foreign_uuids, request.executor)
    content = sum(file.size for file, _ in gone if file.kind in CONTENT)
    facts = {
        "now_ms": request.now_ms,
        "table_bytes": content + retained.head_bytes,
        "kept_snapshots": len(metadata.snapshots) - len(retention.expired),
        "notes": notes + list(_notes(metadata, options, outside)),
    }
    header = header_of(request, EXPIRE_SNAPSHOTS, metadata, metadata.current_snapshot, facts)
    changes = (*_expired(metadata, retention, files), *_surplus(surplus))
    return Plan(header, [*changes, *(_delete(metadata, file) for file, _ in going)])


def pinned_snapshots(operations: TableOperations, metadata: TableMetadata, options: ExpireOptions) -> Mapping[int, str]:
    """The snapshots that stay for others' sake, and why: what rewrites work on, and what Flink jobs look for.

    Raises CorruptMetadataError for a mark of a rewrite that says nothing.
    """
    pinned = flink_snapshots(metadata) if options.keep_flink else {}
    try:
        return {**pinned, **base_snapshots(operations.storage, metadata_folder(operations))}
    except UnsupportedFeatureError:  # nothing is written from here, and so no rewrite runs
        return pinned


def former_of(former: Iterable[Former], options: ExpireOptions) -> list[Going]:
    """What expires that did not end have left, of those kinds of files that are to go now."""
    taken = (one for one in former if options.level == one.level and one.snapshots)
    return [Going(one.version, one.snapshots, former=True) for one in taken]


def files_of(
    retained: Retained, metadata: TableMetadata, retention: Retention, former: Sequence[Going]
) -> list[Unreferenced]:
    """The files that nothing names once what expires is gone. Nothing is read if nothing expires."""
    if not retention.expired and not former:
        return []
    retained.add(metadata, retention.kept)
    return find_unreferenced(retained, [*former, Going(metadata, retention.expired)])


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
        yield f"the table has no snapshot {some(unknown, _NAMED)}"
    if outside:
        where = "outside of the table's own locations, or have names that lakemeta deletes no file of"
        named = some([file.location for file in outside], _NAMED)
        yield f"files that nothing names any more stay, as they lie {where}: {named}"
