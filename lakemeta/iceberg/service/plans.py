"""Plans of Iceberg's services: how their headers begin, and what is checked before one is applied (I/O).

Rules of this module:

1. A plan of an Iceberg service is called ``iceberg.<service>`` and names the table's uuid.
2. It is applied only by its own service, to the table with that uuid, which must take commits, and only if all of its
   operations are of kinds that this service makes: a plan may have been edited by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import StalePlanError
from lakemeta.plan import PlanHeader
from lakemeta.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.service.requests import ApplyRequest, PlanRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata

PREFIX: Final = "iceberg."


def id_of(snapshot: Snapshot | None) -> int | None:
    """The id of a snapshot, None for none: what plans and reports say of it."""
    return None if snapshot is None else snapshot.snapshot_id


def header_of(
    request: PlanRequest, service: str, metadata: TableMetadata, head: Snapshot | None, facts: Mapping[str, Any]
) -> PlanHeader:
    """The header of a plan; ``head`` is the snapshot that it is based on, ``facts`` what only this service says."""
    based_on = id_of(head)
    return PlanHeader(
        plan=PREFIX + service,
        table=request.place.url,
        table_format_version=metadata.format_version,
        based_on=None if based_on is None else str(based_on),
        options=request.options,
        facts={"table_uuid": metadata.table_uuid, **facts},
    )


def open_plan(request: ApplyRequest, service: str, kinds: tuple[type, ...]) -> LoadedTable:
    """The newest version of the table that a plan is of, to apply it to.

    Raises StalePlanError for a plan of another service or table, or with operations of another kind than ``kinds``;
    UnsupportedFeatureError if the table cannot be changed.
    """
    plan, place = request.plan, request.place
    if plan.header.plan != PREFIX + service or not plan.kinds <= set(kinds):
        raise StalePlanError(f"this is no plan of {PREFIX}{service}; make the plan again")
    place.operations.check_writable()
    loaded = place.operations.refresh()
    if plan.header.facts.get("table_uuid") != loaded.metadata.table_uuid:
        raise StalePlanError(f"the table at {place.url} is not the one that was planned; make the plan again")
    return loaded


def report_of(
    request: ApplyRequest,
    snapshot_id: int | None,
    result: Mapping[str, Any],
    notes: Sequence[str] = (),
    partial: bool = False,
) -> Report:
    """What came of a plan: the snapshot it committed (None: nothing), and the procedure's own result columns."""
    committed = None if snapshot_id is None else str(snapshot_id)
    plan, table = request.plan.header.plan, request.place.url
    return Report(plan, table, committed, result=dict(result), notes=tuple(notes), partial=partial)
