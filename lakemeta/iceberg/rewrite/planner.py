"""Plans a rewrite of data files from the stored table (I/O: reads metadata and manifests)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.iceberg.filters.expressions import TRUE, Expression
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.filters.strict import all_rows_match
from lakemeta.iceberg.rewrite import bin_pack, split_combine
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions
from lakemeta.iceberg.rewrite.options import JobOptions
from lakemeta.iceberg.rewrite.row_order import row_order
from lakemeta.iceberg.rewrite.split_combine import SplitCombineOptions
from lakemeta.iceberg.scan.stored_scan import scan
from lakemeta.iceberg.service.branches import branch_head
from lakemeta.iceberg.service.dangling import plan_dangling
from lakemeta.iceberg.service.plans import header_of, id_of
from lakemeta.iceberg.write.settings import check_format
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.rewrite.groups import RewriteGroup
    from lakemeta.iceberg.rewrite.verdict import Verdict
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.plan_operations import Operation

REWRITE_DATA_FILES: Final = "rewrite-data-files"


def plan_rewrite(request: PlanRequest) -> Plan:
    """Plan on the newest version of the table; an empty table gives an empty plan.

    Dangling deletes that are to be removed are in the plan only if nothing is rewritten: a rewrite makes others.
    Raises OptionError for options or a filter that make no sense, in the engine's words where it has any.
    """
    place, options, where = request.place, request.options, request.where
    metadata = place.operations.refresh().metadata
    job = JobOptions.parse(options)
    check_format(metadata.properties, write_parquet=job.write_parquet)
    row_order(metadata, job)
    head = branch_head(metadata, job.branch, "rewrite data files")
    expression = TRUE if where is None else parse_where(where, metadata.schema)
    groups = [] if head is None else find_groups(place, metadata, head, options, expression, request.executor)
    whole = None if where is None else _wholly_matching(groups, metadata, expression)
    facts = {
        "branch": job.branch,
        "snapshot_id": id_of(head),
        "where": where,
        "groups": len(groups),
        **_match_counts(groups, whole),
    }
    header = header_of(request, REWRITE_DATA_FILES, metadata, head, facts)
    matching: Sequence[int | None] = whole or [None] * len(groups)
    lines: list[Operation] = [g.to_operation(metadata, n) for g, n in zip(groups, matching, strict=True)]
    if job.remove_dangling_deletes and head is not None and not groups:
        lines += plan_dangling(request, metadata, head)
    return Plan(header, lines)


def find_groups(
    place: Place,
    metadata: TableMetadata,
    head: Snapshot,
    options: Mapping[str, str],
    where: Expression,
    executor: Executor,
) -> list[RewriteGroup]:
    """The groups of a rewrite of those files of one snapshot that may hold rows matching ``where``."""
    tasks = scan(place.operations.storage, metadata, head, executor, where)
    return planner_of(options, metadata).plan(metadata, tasks)


@attrs.frozen
class Planner:
    """What chooses and packs files, with its options: the groups of some files, and what becomes of one of them."""

    plan: Callable[[TableMetadata, Iterable[FileScanTask]], list[RewriteGroup]]
    judge: Callable[[TableMetadata, Sequence[FileScanTask], FileScanTask], Verdict]


def planner_of(options: Mapping[str, str], metadata: TableMetadata) -> Planner:
    """The planner that the options name; raises OptionError for options that make no sense to it."""
    if split_combine.is_asked_for(options):
        combine = SplitCombineOptions.parse(options, metadata)
        plan = partial(split_combine.plan_split_combine, options=combine)
        return Planner(plan, partial(split_combine.judge, options=combine))
    pack = RewriteOptions.parse(options, metadata)
    return Planner(partial(bin_pack.plan_groups, options=pack), partial(bin_pack.judge, options=pack))


def _wholly_matching(groups: Sequence[RewriteGroup], metadata: TableMetadata, where: Expression) -> list[int]:
    """Of each group, how many files hold nothing but matching rows for certain."""
    specs = metadata.specs_by_id.items()
    certain = {spec_id: all_rows_match(where, spec, metadata.schema) for spec_id, spec in specs}
    return [sum(certain[task.data_file.spec_id](task.data_file) for task in group.tasks) for group in groups]


def _match_counts(groups: Sequence[RewriteGroup], whole: Sequence[int] | None) -> dict[str, int]:
    if whole is None:
        return {}
    files, certain = sum(len(group.tasks) for group in groups), sum(whole)
    return {"wholly_matching_files": certain, "possibly_matching_files": files - certain}
