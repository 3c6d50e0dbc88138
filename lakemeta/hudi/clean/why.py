"""Says in one sentence why one file of a table stays or would go (I/O: lists one partition)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import OptionError
from lakemeta.hudi.clean import rules as clean
from lakemeta.hudi.clean.boundary import partitions_touched
from lakemeta.hudi.clean.decision import decide
from lakemeta.hudi.clean.failed_deletions import read_failures, still_there
from lakemeta.hudi.clean.partitions import plan_partitions
from lakemeta.hudi.clean.planner import failures_context, heartbeats
from lakemeta.hudi.files.layout import METADATA_FOLDER
from lakemeta.hudi.files.names import is_partition_metadata, parse_data_file
from lakemeta.hudi.timeline.action_metadata import decode_cleaner_plan
from lakemeta.hudi.timeline.loading import InstantReader, load_state, requested_files
from lakemeta.hudi.timeline.times import timezone
from lakemeta.hudi.view.listing import list_partition
from lakemeta.paths import relative, split_scheme

if TYPE_CHECKING:
    from datetime import datetime

    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.decision import Decision
    from lakemeta.hudi.clean.partitions import FileRow
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.hudi.timeline.state import TableState

_SENTENCES: Final = {
    clean.SUPERSEDED: "would be deleted: it is superseded by the slice of {by}",
    clean.REPLACED: "would be deleted: its file group was replaced by {by}",
    clean.LATEST: "stays: it is in the latest slice of its file group",
    clean.NEWEST_BEFORE: "stays: its slice is the newest before the earliest commit to retain, {by}",
    clean.RETAINED: "stays: its commit {by} is retained",
    clean.WITHIN_VERSIONS: "stays: its slice is among the newest versions to retain",
    clean.SAVEPOINT: "stays: it is needed by savepoint {by}",
    clean.COMPACTION: "stays: it is pinned by the pending compaction of its file group",
    clean.REPLACED_RETAINED: "stays: its file group was replaced by {by}, which is retained",
    clean.UNCOMMITTED: "stays: no completed commit {by} is on the timeline, so a clean leaves it alone",
}


def why(place: Place, file: str, options: CleanOptions, now: datetime, executor: Executor) -> str:
    """One sentence on one file, named relative to the table root, by full path or by URL.

    Raises:
        OptionError: the file does not exist in the table, or is not a path in it.
        CorruptMetadataError: the path lies outside the table.
    """
    path = _relative(place, file)
    partition, _, name = path.rpartition("/")
    names = {entry.name for entry in list_partition(place.storage, place.root, partition)}
    if name not in names:
        raise OptionError(f"{path} is not a file of {place.url}; give a path relative to the table root")
    if is_partition_metadata(name):
        return f"{path} stays: it marks its directory as a partition"
    if path.startswith(f"{METADATA_FOLDER}/") or parse_data_file(name) is None:
        return f"{path} stays: it is no data file of the table, so a clean leaves it alone"
    state = load_state(place.storage, place.root, executor)
    pending = _pending_clean(place, state, executor, partition, path)
    if pending is not None:
        return f"{path} would be deleted: the pending clean {pending} plans to"
    decision = decide(state, options, heartbeats(place, options), now, timezone(state.config, options))
    failed = _failed_before(place, state, options, decision, executor, partition, name)
    if failed is not None:
        return f"{path} would be deleted: clean {failed} could not delete it, and the next one tries again"
    if decision.nothing is not None:
        return f"{path} stays: nothing would be cleaned, because {decision.nothing}"
    if decision.scope.commits is None and not any(map(is_partition_metadata, names)):
        return f"{path} stays: its directory is no partition of the table, so a clean leaves it alone"
    if decision.scope.commits is None and not options.wants(partition):
        return f"{path} stays: the partition filters leave {partition or 'the table'} out"
    if partition not in _visited(place, state, decision, executor, partition):
        return f"{path} stays: an incremental clean does not visit {partition or 'the table'} ({decision.scope.reason})"
    return f"{path} {_verdict(place, decision, executor, partition, name)}"


def _relative(place: Place, file: str) -> str:
    if file.startswith("/") or split_scheme(file)[0]:
        return relative(place.base, file)
    return relative(place.base, f"{place.root}/{file}")


def _pending_clean(place: Place, state: TableState, executor: Executor, partition: str, path: str) -> str | None:
    reader = InstantReader(place.storage, f"{place.root}/{state.config.timeline_folder}", executor)
    for instant, plan in reader.decode(requested_files(state.timeline, "clean"), decode_cleaner_plan):
        paths = {relative(place.base, file.path) for file in plan.files.get(partition, ())}
        if path in paths or partition in (plan.partitions_to_delete or ()):
            return instant
    return None


def _failed_before(
    place: Place, state: TableState, options: CleanOptions, decision: Decision, executor: Executor, *at: str
) -> str | None:
    """The clean that could not delete a file, given by partition and name, if the next one will."""
    if not options.wants(at[0]):
        return None
    named = read_failures(place, state, executor).get(at[0], {})
    context = failures_context(state, decision)
    found = still_there(place, context, {at[0]: named} if at[1] in named else {}, executor)
    return next((failed.clean for failed in found if failed.file.name == at[1] and failed.file.delete), None)


def _visited(place: Place, state: TableState, decision: Decision, executor: Executor, partition: str) -> list[str]:
    if decision.scope.commits is None:
        return [partition]
    reader = InstantReader(place.storage, f"{place.root}/{state.config.timeline_folder}", executor)
    commits = reader.commits(decision.scope.commits)
    return partitions_touched(commits, copy_on_write=state.config.table_type == "COPY_ON_WRITE")


def _verdict(place: Place, decision: Decision, executor: Executor, partition: str, name: str) -> str:
    rows = plan_partitions(place.storage, place.root, decision.context, executor, [partition], explain=True)
    row = next(iter(rows))
    if row.left_out:
        return f"stays: {row.note}"
    found = next((file for file in row.files if file.name == name), None)
    if row.drop:
        return "would be deleted: no file group of its partition is live, so the directory is dropped"
    if found is None:
        return _unjudged(decision, name)
    return _sentence(found)


def _unjudged(decision: Decision, name: str) -> str:
    file = parse_data_file(name)
    if file is not None and file.instant in decision.rolled_back:
        return f"would be deleted: its write {file.instant} failed and is rolled back"
    return "stays: another base file of its slice has the same instant, and only that one is looked at"


def _sentence(row: FileRow) -> str:
    return _SENTENCES[row.reason].format(by=row.by)
