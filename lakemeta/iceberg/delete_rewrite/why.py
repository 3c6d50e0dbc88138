"""Says what the services on delete files do with one of them, and why (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.delete_rewrite.convert import CONVERT, plan_convert_equality_deletes
from lakemeta.iceberg.delete_rewrite.dangling import SERVICE as DANGLING
from lakemeta.iceberg.delete_rewrite.dangling import plan_remove_dangling
from lakemeta.iceberg.delete_rewrite.groups import judge
from lakemeta.iceberg.delete_rewrite.options import PositionDeleteOptions
from lakemeta.iceberg.delete_rewrite.planner import REWRITE_POSITION_DELETES
from lakemeta.iceberg.filters.expressions import TRUE
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifests.delete_entries import content_size, delete_name
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.manifests.entries import file_key as entry_key
from lakemeta.iceberg.rewrite.verdict import SENTENCES
from lakemeta.iceberg.scan.stored_scan import live_deletes, scan
from lakemeta.iceberg.service.branches import branch_head
from lakemeta.iceberg.spec.locations import file_key, whole
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH
from lakemeta.plan_operations import Remove
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.iceberg.manifests.entries import ManifestEntry
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.plan import Plan

_LOOKING: Final = "look at delete files"
_OF_DELETES: Final[Mapping[str, str]] = {
    **{str(reason): sentence for reason, sentence in SENTENCES.items()},
    "good size": "its {bytes} bytes lie from {least} to {most}",
    "only vectors": "all position deletes of the table are deletion vectors",
}


def why_rewritten(request: PlanRequest, location: str) -> str:
    """Of rewrite-position-deletes, the end of a sentence. Raises OptionError if the table has no such delete file."""
    operations = request.place.operations
    metadata = operations.refresh().metadata
    sizes = PositionDeleteOptions.parse(request.options, metadata).sizes
    entry = _live(request, metadata, location, MAIN_BRANCH)
    if entry.data_file.content != FileContent.POSITION_DELETES:
        return f"stays: it holds equality deletes, which {CONVERT} takes"
    where = TRUE if request.where is None else parse_where(request.where, metadata.schema)
    head = branch_head(metadata, MAIN_BRANCH, _LOOKING)
    entries = [] if head is None else live_deletes(operations.storage, metadata, head, request.executor, where)
    chosen = _named(entries, metadata, location)
    if chosen is None:
        return "stays: its partition cannot match the filter"
    group, reason = judge(metadata, entries, chosen, sizes)
    numbers = {
        "bytes": content_size(chosen.data_file),
        "least": sizes.min_file_size_bytes,
        "most": sizes.max_file_size_bytes,
        "min_input_files": sizes.min_input_files,
    }
    sentence = _OF_DELETES[reason].format_map(numbers)
    if group is None:
        return f"stays: {sentence}"
    return f"would be rewritten: {sentence}; group {group.number} has {count_of(len(group.entries), 'file')}"


def why_converted(request: PlanRequest, location: str) -> str:
    """Of convert-equality-deletes, the end of a sentence. Raises OptionError if the branch has no such delete file."""
    metadata = request.place.operations.refresh().metadata
    entry = _live(request, metadata, location, request.options.get("branch", MAIN_BRANCH))
    line = _line(plan_convert_equality_deletes(request), metadata, entry)
    if line is not None:
        return f"would be converted: it {line.reason}"
    if entry.data_file.content != FileContent.EQUALITY_DELETES:
        return "stays: it holds position deletes already"
    return "stays: its partition cannot match the filter"


def why_dangling(request: PlanRequest, location: str) -> str:
    """Of remove-dangling-deletes, the end of a sentence. Raises OptionError if the branch has no such delete file."""
    metadata = request.place.operations.refresh().metadata
    branch = request.options.get("branch", MAIN_BRANCH)
    entry = _live(request, metadata, location, branch)
    line = _line(plan_remove_dangling(request), metadata, entry)
    if line is not None:
        return f"would be taken out of the table: it {line.reason}"
    return f"stays: it applies to {_applied(request, metadata, branch, entry)}"


def why_live(request: PlanRequest, location: str) -> str:
    """What becomes of a delete file, by the service for its kind, and whether it is of any use."""
    metadata = request.place.operations.refresh().metadata
    entry = _live(request, metadata, location, MAIN_BRANCH)
    positions = entry.data_file.content == FileContent.POSITION_DELETES
    service, found = (REWRITE_POSITION_DELETES, why_rewritten) if positions else (CONVERT, why_converted)
    verdict = f"{found(request, location)} ({service})"
    dangling = plan_remove_dangling(attrs.evolve(request, options={}, where=None))
    if _line(dangling, metadata, entry) is not None:
        return f"{verdict}; it applies to no data file, so {DANGLING} takes it out of the table"
    return f"{verdict}; it applies to {_applied(request, metadata, MAIN_BRANCH, entry)}, and goes once none is left"


def _live(request: PlanRequest, metadata: TableMetadata, location: str, branch: str) -> ManifestEntry:
    head = branch_head(metadata, branch, _LOOKING)
    storage = request.place.operations.storage
    found = [] if head is None else live_deletes(storage, metadata, head, request.executor)
    entry = _named(found, metadata, location)
    if entry is None:
        raise OptionError(f"{location} is no delete file of the branch {branch} of {request.place.url}")
    return entry


def _named(entries: Sequence[ManifestEntry], metadata: TableMetadata, location: str) -> ManifestEntry | None:
    """The delete file at a location; of several vectors in one file the first, unless an offset is given."""
    for entry in entries:
        name = whole(metadata.location, delete_name(metadata.location, entry.data_file))
        if file_key(location) in (file_key(name), file_key(entry.data_file.file_path)):
            return entry
    return None


def _line(plan: Plan, metadata: TableMetadata, entry: ManifestEntry) -> Remove | None:
    name = delete_name(metadata.location, entry.data_file)
    return next((op for op in plan.operations if isinstance(op, Remove) and op.path == name), None)


def _applied(request: PlanRequest, metadata: TableMetadata, branch: str, entry: ManifestEntry) -> str:
    """To how many data files a delete file applies."""
    head, key = branch_head(metadata, branch, _LOOKING), entry_key(entry.data_file)
    tasks = () if head is None else scan(request.place.operations.storage, metadata, head, request.executor)
    return count_of(sum(any(entry_key(delete) == key for delete in task.deletes) for task in tasks), "data file")
