"""The change between two versions of a table as a REST catalog takes it: what it requires, what it updates.

Rules of this module:

1. Sent is what lakemeta's services change: snapshots and refs added and removed, refs moved, statistics set and
   removed, schemas and partition specs removed. Any other difference is refused by name: a catalog derives the rest
   (the logs, the current snapshot, the last sequence number, the next row id) from these updates.
2. The table's uuid is asserted always, and every ref that moves or is new.
3. Removing snapshots adds no requirement in Iceberg's own client (UpdateRequirements), and a catalog silently removes a
   ref whose snapshot goes. So every ref is asserted as soon as a snapshot, ref, schema or partition spec goes.
4. Where schemas or partition specs go, the current schema, the default spec and the last assigned ids are asserted: the
   ones that a writer may have added or chosen meanwhile.
5. Statistics and refs go before their snapshots: pyiceberg's catalogs take a snapshot's statistics with it and then
   miss them, and leave its partition statistics.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.spec.metadata_json import metadata_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakemeta.iceberg.spec.table_metadata import StatisticsFile, TableMetadata
    from lakemeta.iceberg.spec.types import Json

_STAYING: Final = (
    "format_version",
    "table_uuid",
    "location",
    "last_column_id",
    "current_schema_id",
    "default_spec_id",
    "last_partition_id",
    "sort_orders",
    "default_sort_order_id",
    "properties",
    "extras",
)


@attrs.frozen
class Difference:
    """Requirements and updates of a commit, each the JSON object that the REST specification has for it."""

    requirements: tuple[dict[str, Json], ...]
    updates: tuple[dict[str, Json], ...]


def difference(base: TableMetadata, new: TableMetadata) -> Difference:
    """What turns ``base`` into ``new``, and what must hold for it.

    Raises UnsupportedFeatureError for a difference that no update of rule 1 makes.
    """
    _refuse_others(base, new)
    return Difference(tuple(_requirements(base, new)), tuple(_updates(base, new)))


def _requirements(base: TableMetadata, new: TableMetadata) -> Iterator[dict[str, Json]]:
    yield {"type": "assert-table-uuid", "uuid": base.table_uuid}
    removes = (
        base.snapshots_by_id.keys() - new.snapshots_by_id.keys()
        or base.refs.keys() - new.refs.keys()
        or _cleans(base, new)
    )
    named = base.refs.keys() | new.refs.keys() if removes else _moved(base, new)
    for name in sorted(named):
        before = base.refs.get(name)
        yield {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": before.snapshot_id if before else None}
    if _cleans(base, new):
        yield {"type": "assert-current-schema-id", "current-schema-id": base.current_schema_id}
        yield {"type": "assert-last-assigned-field-id", "last-assigned-field-id": base.last_column_id}
        yield {"type": "assert-default-spec-id", "default-spec-id": base.default_spec_id}
        yield {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": base.last_partition_id}


def _cleans(base: TableMetadata, new: TableMetadata) -> bool:
    return len(new.schemas) < len(base.schemas) or len(new.partition_specs) < len(base.partition_specs)


def _moved(base: TableMetadata, new: TableMetadata) -> list[str]:
    return [name for name, ref in new.refs.items() if base.refs.get(name) != ref]


def _updates(base: TableMetadata, new: TableMetadata) -> Iterator[dict[str, Json]]:
    document = metadata_to_json(new)
    tables = _Statistics("statistics", base.statistics, new.statistics, document)
    partitions = _Statistics("partition-statistics", base.partition_statistics, new.partition_statistics, document)
    for kind in (tables, partitions):
        yield from kind.removed()
    for snapshot in document["snapshots"]:
        if snapshot["snapshot-id"] not in base.snapshots_by_id:
            yield {"action": "add-snapshot", "snapshot": snapshot}
    for name in _moved(base, new):
        yield {"action": "set-snapshot-ref", "ref-name": name, **document["refs"][name]}
    for name in base.refs.keys() - new.refs.keys():
        yield {"action": "remove-snapshot-ref", "ref-name": name}
    yield from _without("remove-snapshots", "snapshot-ids", base.snapshots_by_id, new.snapshots_by_id)
    for kind in (tables, partitions):
        yield from kind.set()
    yield from _without("remove-schemas", "schema-ids", base.schemas_by_id, new.schemas_by_id)
    yield from _without("remove-partition-specs", "spec-ids", base.specs_by_id, new.specs_by_id)


def _without(action: str, key: str, base: Iterable[int], new: Iterable[int]) -> Iterator[dict[str, Json]]:
    if gone := sorted(set(base) - set(new)):
        yield {"action": action, key: gone}


class _Statistics:
    """The statistics of one kind by snapshot, before and after."""

    def __init__(
        self, kind: str, base: tuple[StatisticsFile, ...], new: tuple[StatisticsFile, ...], document: Mapping[str, Json]
    ) -> None:
        self._kind = kind
        self._base, self._new = _by_snapshot(base), _by_snapshot(new)
        self._written = {file["snapshot-id"]: file for file in document[kind]}

    def removed(self) -> Iterator[dict[str, Json]]:
        for snapshot_id in sorted(self._base.keys() - self._new.keys()):
            yield {"action": f"remove-{self._kind}", "snapshot-id": snapshot_id}

    def set(self) -> Iterator[dict[str, Json]]:
        for snapshot_id, files in self._new.items():
            if self._base.get(snapshot_id) == files:
                continue
            if len(files) > 1:
                raise _refusal(f"several {self._kind} of snapshot {snapshot_id}")
            file = self._written[snapshot_id]
            more = {"snapshot-id": snapshot_id} if self._kind == "statistics" else {}
            yield {"action": f"set-{self._kind}", **more, self._kind: file}


def _by_snapshot(files: tuple[StatisticsFile, ...]) -> dict[int, list[StatisticsFile]]:
    ordered = sorted(files, key=lambda file: file.snapshot_id)
    return {snapshot_id: list(found) for snapshot_id, found in groupby(ordered, key=lambda file: file.snapshot_id)}


def _refuse_others(base: TableMetadata, new: TableMetadata) -> None:
    if base.table_uuid is None:
        raise UnsupportedFeatureError(f"the table at {base.location} has no uuid, by which catalogs know a table")
    for name in _STAYING:
        if getattr(base, name) != getattr(new, name):
            raise _refusal(f"a change of {name.replace('_', '-')}")
    for what, before, after in (
        ("schema", base.schemas_by_id, new.schemas_by_id),
        ("partition spec", base.specs_by_id, new.specs_by_id),
    ):
        for found in (i for i, value in after.items() if before.get(i) != value):
            raise _refusal(f"the new or changed {what} {found}")
    for snapshot in new.snapshots:
        if base.snapshots_by_id.get(snapshot.snapshot_id, snapshot) != snapshot:
            raise _refusal(f"a change of snapshot {snapshot.snapshot_id}")
    _refuse_underived(base, new)


def _refuse_underived(base: TableMetadata, new: TableMetadata) -> None:
    """Refuse numbers that a catalog would derive otherwise from the snapshots that are added."""
    added = [s for s in new.snapshots if s.snapshot_id not in base.snapshots_by_id]
    sequence_number = max((s.sequence_number for s in added), default=base.last_sequence_number)
    if base.format_version > 1 and new.last_sequence_number != sequence_number:
        raise _refusal(f"the last-sequence-number {new.last_sequence_number}")
    if base.next_row_id is not None and new.next_row_id != base.next_row_id + sum(s.added_rows or 0 for s in added):
        raise _refusal(f"the next-row-id {new.next_row_id}")
    main = new.refs.get("main")
    if new.current_snapshot_id != (main.snapshot_id if main else None):
        raise _refusal(f"the current-snapshot-id {new.current_snapshot_id}")


def _refusal(what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"{what} cannot be sent to a catalog by lakemeta; nothing was changed")
