"""The services of Iceberg tables by name: what plans each of them, and what applies its plans (I/O).

Planner and applier are named as ``module:function`` and imported when they are called, so that planning one service
loads nothing that only another one needs. A planner takes a PlanRequest and gives a Plan; an applier takes an
ApplyRequest and gives a Report.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import OptionError, StalePlanError
from lakemeta.iceberg.service.plans import PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.service.requests import ApplyRequest, PlanRequest
    from lakemeta.plan import Plan
    from lakemeta.report import Report


@attrs.frozen
class Service:
    """One service: its name on the command line and, after ``iceberg.``, in plans, and what it does in one sentence.

    ``flags`` are arguments that are options of their own on the command line: their names, and what each is for.
    ``deletes`` says that its plans name files of the table to delete, so that safeguards apply.
    """

    name: str
    does: str
    planner: str
    applier: str
    flags: Mapping[str, str] = attrs.field(factory=dict)
    deletes: bool = False

    def plan(self, request: PlanRequest) -> Plan:
        """Plan without changing anything."""
        plan: Plan = _imported(self.planner)(request)
        return plan

    def apply(self, request: ApplyRequest) -> Report:
        """Apply a plan, or refuse it with nothing changed."""
        report: Report = _imported(self.applier)(request)
        return report


SERVICES: Final = {
    service.name: service
    for service in (
        Service(
            "rewrite-data-files",
            "Rewrite small, large or deleted-from data files together.",
            "lakemeta.iceberg.rewrite.planner:plan_rewrite",
            "lakemeta.iceberg.rewrite.apply:apply_rewrite",
        ),
        Service(
            "rewrite-manifests",
            "Cluster the entries of manifests by partition, in manifests of the target size.",
            "lakemeta.iceberg.manifest_rewrite.planner:plan_rewrite_manifests",
            "lakemeta.iceberg.manifest_rewrite.apply:apply_rewrite_manifests",
        ),
        Service(
            "remove-orphan-files",
            "Delete old files in the table's directories that none of its metadata names.",
            "lakemeta.iceberg.orphans.planner:plan_orphans",
            "lakemeta.iceberg.orphans.apply:apply_orphans",
            {"inventory": "Do not list; look at the files of this .parquet, .csv or manifest.json of S3 Inventory."},
            deletes=True,
        ),
        Service(
            "rewrite-position-deletes",
            "Rewrite small or large position delete files together; tables of version 3 get deletion vectors.",
            "lakemeta.iceberg.delete_rewrite.planner:plan_rewrite_position_deletes",
            "lakemeta.iceberg.delete_rewrite.apply:apply_rewrite_position_deletes",
        ),
        Service(
            "convert-equality-deletes",
            "Convert equality deletes to position deletes, or to deletion vectors in tables of version 3.",
            "lakemeta.iceberg.delete_rewrite.convert:plan_convert_equality_deletes",
            "lakemeta.iceberg.delete_rewrite.convert:apply_convert_equality_deletes",
        ),
        Service(
            "remove-dangling-deletes",
            "Take delete files that apply to no data file out of the table.",
            "lakemeta.iceberg.delete_rewrite.dangling:plan_remove_dangling",
            "lakemeta.iceberg.delete_rewrite.dangling:apply_remove_dangling",
        ),
        Service(
            "expire-snapshots",
            "Remove old snapshots, and delete the files that nothing names then.",
            "lakemeta.iceberg.expire.planner:plan_expire",
            "lakemeta.iceberg.expire.apply:apply_expire",
            deletes=True,
        ),
        Service(
            "compute-partition-stats",
            "Count files, rows and deletes of each partition, from manifests alone.",
            "lakemeta.iceberg.statistics.planner:plan_partition_stats",
            "lakemeta.iceberg.statistics.partition_apply:apply_partition_stats",
        ),
        Service(
            "compute-table-stats",
            "Estimate how many different values columns have, and keep sketches of them.",
            "lakemeta.iceberg.statistics.planner:plan_table_stats",
            "lakemeta.iceberg.statistics.table_apply:apply_table_stats",
        ),
    )
}


def service_named(name: str) -> Service:
    """The service of this name; raises OptionError if there is none."""
    if name not in SERVICES:
        raise OptionError(f"there is no service {name} of Iceberg tables; known are {', '.join(sorted(SERVICES))}")
    return SERVICES[name]


def service_of(plan: Plan) -> Service:
    """The service whose plan this is; raises StalePlanError if it is none of them."""
    name = plan.header.plan.removeprefix(PREFIX)
    if plan.header.plan.startswith("hudi."):
        kind, table = plan.header.plan, plan.header.table
        raise StalePlanError(f"{kind} is no plan for an Iceberg table, but for the Hudi table {table}; apply it there")
    if not plan.header.plan.startswith(PREFIX) or name not in SERVICES:
        raise StalePlanError(f"{plan.header.plan} is no plan for an Iceberg table that this lakemeta can apply")
    return SERVICES[name]


def _imported(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)
