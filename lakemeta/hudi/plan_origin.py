"""Refuses plans that are not for this table, or not of the kind that is to be applied (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.paths import same_store
from lakemeta.storage import place_of_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.hudi.files.place import Place
    from lakemeta.plan import Plan, PlanHeader
    from lakemeta.plan_operations import Operation


def _same_place(place: Place, table: str) -> bool:
    scheme, root = place_of_url(table)
    return root == place.root and same_store(place.storage.scheme, scheme)


def _elsewhere(header: PlanHeader) -> str:
    return "; it is for the Iceberg table " + header.table if header.plan.startswith("iceberg.") else ""


def refuse_foreign(
    place: Place, plan: Plan, kind: str, needed: Iterable[str], possible: tuple[type[Operation], ...]
) -> None:
    """Raise StalePlanError for a plan of another kind or table.

    Raises CorruptMetadataError for one without the ``needed`` facts, or with operations that are not ``possible``.
    """
    header = plan.header
    if header.plan != kind:
        raise StalePlanError(f"this is a {header.plan} plan, not a {kind} plan; nothing was done{_elsewhere(header)}")
    if not _same_place(place, header.table):
        raise StalePlanError(f"this plan is for {header.table}, not for {place.url}; nothing was done")
    missing = [fact for fact in needed if fact not in header.facts]
    if missing:
        raise CorruptMetadataError(f"the plan's first line has no {missing[0]}; make the plan again")
    strange = next((op.op for op in plan.operations if not isinstance(op, possible)), None)
    if strange is not None:
        raise CorruptMetadataError(f"a {kind} plan cannot {strange}; make the plan again")
