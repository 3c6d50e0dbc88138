"""The service that takes delete files without use out of a table; ``service.dangling`` has the rules (I/O).

Iceberg has an action for it, and no procedure. The report has the names of its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.service.branches import branch_head
from lakemeta.iceberg.service.dangling import plan_dangling, remove_dangling
from lakemeta.iceberg.service.option_tables import reject_others
from lakemeta.iceberg.service.plans import header_of, id_of, open_plan, report_of
from lakemeta.iceberg.spec.locations import within
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH
from lakemeta.plan import Plan
from lakemeta.plan_operations import Remove

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.service.requests import ApplyRequest, PlanRequest
    from lakemeta.report import Report

SERVICE: Final = "remove-dangling-deletes"


def plan_remove_dangling(request: PlanRequest) -> Plan:
    """Plan on the newest version of the table. The only option is ``branch``; there is no filter.

    Raises OptionError for anything else that is asked for.
    """
    request.refuse_where(SERVICE)
    branch = _branch(request.options)
    metadata = request.place.operations.refresh().metadata
    head = branch_head(metadata, branch, "remove dangling deletes")
    facts = {"branch": branch, "snapshot_id": id_of(head)}
    lines = [] if head is None else plan_dangling(request, metadata, head)
    return Plan(header_of(request, SERVICE, metadata, head, facts), lines)


def apply_remove_dangling(request: ApplyRequest) -> Report:
    """Apply a plan; the report has how many delete files left the table, and which.

    Raises:
        StalePlanError: a file of the plan is gone, or applies to a data file now; nothing was changed.
        CommitConflictError: other commits came first again and again; nothing was changed.
        CommitStateUnknownError: it is unknown whether the commit happened.
        UnsupportedFeatureError: the table cannot be changed by lakemeta.
    """
    branch = _branch(request.plan.header.options)
    metadata = open_plan(request, SERVICE, (Remove,)).metadata
    snapshot, removed = remove_dangling(request, branch)
    names = sorted(within(metadata.location, file.file_path) for file in removed)
    result = {"removed_delete_files_count": len(removed), "removed": names}
    return report_of(request, id_of(snapshot), result)


def _branch(options: Mapping[str, str]) -> str:
    reject_others(SERVICE, options)
    return options.get("branch", MAIN_BRANCH)
