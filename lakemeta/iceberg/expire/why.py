"""Says in one sentence whether a snapshot would expire, or a file go with it, and why (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import OptionError
from lakemeta.iceberg.expire.left import left_by_expires
from lakemeta.iceberg.expire.options import ExpireOptions
from lakemeta.iceberg.expire.planner import EXPIRE_SNAPSHOTS, files_of, goes, pinned_snapshots
from lakemeta.iceberg.expire.retention import NAMED, TOO_OLD, UNREACHABLE, decide
from lakemeta.iceberg.expire.unreferenced import Retained
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.spec.locations import file_key
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from lakemeta.iceberg.expire.retention import Retention
    from lakemeta.iceberg.expire.unreferenced import Unreferenced
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_REASONS: Final = {
    NAMED: "snapshot_ids names it",
    TOO_OLD: "it is older than the cutoff, and not one of the newest of its branch that are kept",
    UNREACHABLE: "no branch or tag that stays reaches it, and it is older than the cutoff",
}


def why_snapshot(request: PlanRequest, snapshot_id: int) -> str:
    """One sentence on a snapshot. Raises OptionError if the table does not have it."""
    metadata, retention, options = _decided(request)
    if snapshot_id not in metadata.snapshots_by_id:
        raise OptionError(f"{request.place.url} has no snapshot {snapshot_id}")
    if snapshot_id not in retention.expired:
        return f"snapshot {snapshot_id} stays: {retention.kept[snapshot_id]}"
    alone = [f for f in _files(request, metadata, retention) if f.alone and f.holder == snapshot_id]
    what = f"{count_of(len(alone), 'file')} of {human_bytes(sum(file.size for file in alone))}"
    left = "" if options.level == "all" else f", of which cleanup-level={options.level} leaves some"
    return (
        f"snapshot {snapshot_id} would expire: {_REASONS[retention.expired[snapshot_id]]}; it alone holds {what}{left}"
    )


def why_file(request: PlanRequest, location: str) -> str:
    """The end of a sentence on a file, given by its location. Raises OptionError if no snapshot names it."""
    found = find_file(request, location)
    if found is None:
        where = f"no snapshot of {request.place.url} names {location}"
        raise OptionError(f"{where}; ask --service remove-orphan-files about such a file")
    return found


def find_file(request: PlanRequest, location: str) -> str | None:
    """The same, and None if no snapshot names the file."""
    request.refuse_where(EXPIRE_SNAPSHOTS)
    metadata, retention, options = _decided(request)
    key = file_key(location)
    gone = next((f for f in _files(request, metadata, retention) if file_key(f.location) == key), None)
    left, arguments = left_by_expires(request.place.operations, request.executor)
    if gone is None and any(file_key(file.location) == key for file in left):
        return (
            "would be deleted: no snapshot names it, and an expire-snapshots that was to delete it did not; run "
            f"lakemeta expire-snapshots {request.place.url}{arguments}"
        )
    if gone is not None and goes(gone.kind, options):
        return f"would be deleted: it goes with snapshot {gone.holder}, and no snapshot that stays names it"
    if gone is not None:
        return f"stays, though no snapshot that stays names it: cleanup-level is {options.level}"
    holder = _holder(request, metadata, retention, key)
    if holder is None:
        return None
    return f"stays: snapshot {holder} names it, which stays: {retention.kept[holder]}"


def _decided(request: PlanRequest) -> tuple[TableMetadata, Retention, ExpireOptions]:
    options, operations = ExpireOptions.parse(request.options), request.place.operations
    metadata = operations.refresh().metadata
    pinned = pinned_snapshots(operations, metadata, options)
    return metadata, decide(metadata, options, request.now_ms, pinned), options


def _files(request: PlanRequest, metadata: TableMetadata, retention: Retention) -> list[Unreferenced]:
    return files_of(Retained(request.place.operations.storage, request.executor), metadata, retention, [])


def _holder(request: PlanRequest, metadata: TableMetadata, retention: Retention, key: str) -> int | None:
    """The newest snapshot that stays and names a file; every manifest is read once."""
    stored = StoredManifests(request.place.operations.storage, metadata.specs_by_id, request.executor)
    passed: set[str] = set()
    for snapshot in reversed([s for s in metadata.snapshots if s.snapshot_id in retention.kept]):
        manifests = [m for m in stored.of(snapshot) if m.manifest_path not in passed]
        passed |= {manifest.manifest_path for manifest in manifests}
        names = [snapshot.manifest_list or "", *(manifest.manifest_path for manifest in manifests)]
        entries = (entry for part in stored.stream(manifests, frozenset()) for entry in part if entry.is_live)
        files = (entry.data_file.file_path for entry in entries)
        if any(file_key(name) == key for part in (names, files) for name in part):
            return snapshot.snapshot_id
    return None
