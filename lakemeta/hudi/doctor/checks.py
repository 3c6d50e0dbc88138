"""Says in plain words what keeps a table from being cleaned, what is wrong with it, and what each would free (I/O)."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.finding import Finding, Findings, examples
from lakemeta.hudi.clean import rules as clean
from lakemeta.hudi.clean.decision import decide
from lakemeta.hudi.clean.failed_deletions import read_failures, still_there
from lakemeta.hudi.clean.partitions import plan_all_partitions
from lakemeta.hudi.clean.planner import failures_context
from lakemeta.hudi.clean.savepoints import advice, doubt
from lakemeta.hudi.clean.waiting import waiting_cleans
from lakemeta.hudi.doctor.leftovers import find_leftovers
from lakemeta.hudi.doctor.metadata_check import check_metadata_table
from lakemeta.hudi.files.names import parse_base_file
from lakemeta.hudi.metadata_table.leftovers import read_leftovers
from lakemeta.hudi.timeline.failed_writes import is_alive
from lakemeta.hudi.timeline.heartbeats import read_heartbeats
from lakemeta.hudi.timeline.instants import WRITES
from lakemeta.hudi.timeline.loading import InstantReader, load_state
from lakemeta.hudi.timeline.rollback_metadata import decode_rollback_plan
from lakemeta.hudi.timeline.times import moment_of, timezone
from lakemeta.hudi.view.file_groups import build_file_groups
from lakemeta.moments import epoch_ms
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo

    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.decision import Decision
    from lakemeta.hudi.clean.partitions import FileRow, PartitionRow
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.state import TableState

_SERVICES: Final = {"compaction": "compaction", "logcompaction": "log compaction", "clustering": "clustering"}


@attrs.frozen
class _Table:
    """The table as it was found."""

    place: Place
    state: TableState
    options: CleanOptions
    decision: Decision
    rows: tuple[PartitionRow, ...]
    heartbeats: Mapping[str, int]
    now: datetime
    zone: tzinfo
    executor: Executor


def diagnose(place: Place, options: CleanOptions, now: datetime, executor: Executor) -> Findings:
    """Look at a table as a clean with these options would, and list every file once."""
    state = load_state(place.storage, place.root, executor)
    heartbeats = read_heartbeats(place.storage, place.root)
    zone = timezone(state.config, options)
    decision = decide(state, options, heartbeats, now, zone)
    rows = plan_all_partitions(place.storage, place.root, decision.context, executor, options.wants, explain=True)
    table = _Table(place, state, options, decision, tuple(rows), heartbeats, now, zone, executor)
    pending = (_pending_writes, _pending_services, _pending_cleans, _pending_rollbacks)
    checks = (
        *pending,
        _failed_deletions,
        _left_out,
        _archived_ahead,
        _savepoints,
        _savepoints_lost,
        _missing,
        _orphans,
        _metadata_table,
        _metadata_leftovers,
        _leftovers,
        _due,
    )
    return Findings(finding for check in checks for finding in check(table))


def _pending_writes(table: _Table) -> Iterator[Finding]:
    actions = ("commit", "deltacommit", "replacecommit")
    for instant in table.state.timeline.pending.of_actions(*actions):
        if instant.requested in table.state.clusterings:
            continue
        written = _files_of(table, instant.requested)
        size = sum(file.size for file in written)
        sentence = (
            f"{instant.action} {instant.requested} has been {instant.state.name.lower()} for "
            f"{_age(table, instant)}, {_heartbeat(table, instant)}; it wrote {count_of(len(written), 'file')}"
        )
        yield Finding("pending_write", "blocks", sentence, size)


def _heartbeat(table: _Table, instant: Instant) -> str:
    beat = table.heartbeats.get(instant.requested)
    if beat is None:
        return "without a heartbeat: if no writer is at work, roll it back"
    silent = timedelta(milliseconds=epoch_ms(table.now) - beat)
    tolerated = table.options.heartbeat_interval_ms * table.options.heartbeat_misses
    if silent > timedelta(milliseconds=tolerated):
        return f"and its heartbeat stopped {_words(silent)} ago: roll it back"
    return "and its heartbeat is fresh: a writer is at work, leave it alone"


def _pending_services(table: _Table) -> Iterator[Finding]:
    for instant in table.state.timeline.pending:
        name = _SERVICES.get(instant.action)
        if name is None and instant.requested in table.state.clusterings:
            name = "clustering"
        if name is not None:
            sentence = (
                f"{name} {instant.requested} has been pending for {_age(table, instant)}, and no commit after it is "
                "cleaned; run it or unschedule it with Hudi"
            )
            yield Finding("pending_service", "blocks", sentence)


def _pending_cleans(table: _Table) -> Iterator[Finding]:
    shown = {clean.instant: clean for clean in waiting_cleans(table.place, table.state, table.executor)}
    for instant in table.state.timeline.cleans.pending:
        clean = shown.get(instant.requested)
        size = clean.bytes if clean else None
        deletes = f", and deletes {count_of(len(clean.deletes), 'file')} ({human_bytes(clean.bytes)})" if clean else ""
        sentence = (
            f"clean {instant.requested} has been pending for {_age(table, instant)}{deletes}; "
            f"run lakemeta clean {table.place.url}"
        )
        yield Finding("pending_clean", "blocks", sentence, size)
    for instant in table.state.emptied_cleans:
        sentence = (
            f"clean {instant.requested} completed with an empty file, as a crash leaves it; run lakemeta clean, which "
            "executes its plan again"
        )
        yield Finding("emptied_clean", "wrong", sentence)


def _pending_rollbacks(table: _Table) -> Iterator[Finding]:
    for instant in table.state.timeline.pending.of_actions("rollback"):
        if is_alive(instant.requested, table.heartbeats, table.options, epoch_ms(table.now)):
            then = "and its heartbeat is fresh: a writer is at work, leave it alone"
        else:
            then = "and what it undoes is half there; run lakemeta rollback"
        what = f"rollback {instant.requested} of {_undone(table, instant)}"
        yield Finding("pending_rollback", "wrong", f"{what} has been pending for {_age(table, instant)}, {then}")
    for instant in table.state.timeline.pending.of_actions("restore"):
        sentence = (
            f"restore {instant.requested} has been pending for {_age(table, instant)}, and the table is half as it "
            "was before; finish it with Hudi before you do anything else"
        )
        yield Finding("pending_restore", "wrong", sentence)


def _undone(table: _Table, rollback: Instant) -> str:
    folder = f"{table.place.root}/{table.state.config.timeline_folder}"
    path = f"{folder}/{rollback.requested}.rollback.requested"
    content = table.place.storage.read(path)
    if not content:
        return "a write that it does not name"
    plan = decode_rollback_plan(content, path)
    return f"{plan.action} {plan.instant}"


def _failed_deletions(table: _Table) -> Iterator[Finding]:
    failures = read_failures(table.place, table.state, table.executor)
    context = failures_context(table.state, table.decision)
    left = list(still_there(table.place, context, failures, table.executor))
    if left:
        size = sum(failed.file.size for failed in left)
        then = (
            f"run lakemeta clean {table.place.url}, which tries again"
            if any(f.file.delete for f in left)
            else "the policy keeps them now"
        )
        sentence = (
            f"{count_of(len(left), 'file')} ({human_bytes(size)}) that clean {max(f.clean for f in left)} could not "
            f"delete, still there: {examples([failed.path for failed in left])}; {then}"
        )
        yield Finding("failed_deletions", "wrong", sentence, size)


def _left_out(table: _Table) -> Iterator[Finding]:
    for row in table.rows:
        if row.left_out:
            yield Finding("left_out", "wrong", f"{row.note}; put the directory itself there, or take it out")


def _archived_ahead(table: _Table) -> Iterator[Finding]:
    if table.decision.scope.commits is None and "archived" in table.decision.scope.reason:
        sentence = f"{table.decision.scope.reason}, so the next clean looks at the whole table; clean more often"
        yield Finding("archived_ahead", "note", sentence)


def _savepoints(table: _Table) -> Iterator[Finding]:
    pinned: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for file in _judged(table):
        if file.reason == clean.SAVEPOINT and file.by is not None:
            pinned[file.by] += file.size
            files[file.by] += 1
    for savepoint in table.state.timeline.savepoints:
        at = savepoint.requested
        if files[at]:
            sentence = (
                f"savepoint {at} alone keeps {count_of(files[at], 'file')} ({human_bytes(pinned[at])}) that a clean "
                "would delete"
            )
            yield Finding("savepoint", "note", sentence, pinned[at])


def _savepoints_lost(table: _Table) -> Iterator[Finding]:
    """Files that savepoints name and that are not there, and partitions of which they name none, though they should."""
    context = table.decision.context
    for row in table.rows:
        there = {file.name: file.size for file in row.files}
        lost = sorted(table.state.pinned.get(row.partition, {}).keys() - there) if there else []
        if lost:
            sentence = (
                f"{count_of(len(lost), 'file')} that savepoints name in {row.partition or 'the table'} is not there: "
                f"{examples(lost)}; nothing there is cleaned until those savepoints are deleted"
            )
            yield Finding("savepoint_lost", "wrong", sentence)
            continue
        unclear = doubt(context, row.partition, build_file_groups(row.partition, there.items(), context.view), there)
        if there and unclear is not None:
            yield Finding("savepoint_lost", "wrong", f"{unclear.clause}; {advice(unclear.savepoint)}")


def _missing(table: _Table) -> Iterator[Finding]:
    """Newest base files that completed commits wrote and that are not there."""
    timeline = table.state.timeline
    folder = f"{table.place.root}/{table.state.config.timeline_folder}"
    reader = InstantReader(table.place.storage, folder, table.executor)
    newest: dict[tuple[str, str], str] = {}
    for _, commit in reader.commits(timeline.completed.where(lambda i: i.action in WRITES)):
        for partition, stats in commit.write_stats.items():
            for stat in stats:
                name = str(stat.get("path") or "").rpartition("/")[2]
                base = parse_base_file(name, 0)
                if base is not None:
                    newest[partition, base.file_id] = name
    there = {file.name for file in _judged(table)}
    hidden = tuple(f"{row.partition}/" for row in table.rows if row.left_out)
    missing = sorted(
        f"{partition}/{name}" if partition else name
        for (partition, file_id), name in newest.items()
        if name not in there
        and (partition, file_id) not in table.state.replaced
        and not f"{partition}/".startswith(hidden)
    )
    if missing:
        sentence = (
            f"{count_of(len(missing), 'file')} of completed commits is not there: {examples(missing)}; "
            "restore a savepoint"
        )
        yield Finding("missing_files", "wrong", sentence)


def _orphans(table: _Table) -> Iterator[Finding]:
    pending = {instant.requested for instant in table.state.timeline.pending}
    orphans = [f for f in _judged(table) if f.reason == clean.UNCOMMITTED and f.by not in pending]
    if orphans:
        size = sum(file.size for file in orphans)
        sentence = (
            f"{count_of(len(orphans), 'file')} ({human_bytes(size)}) belong to no commit on the timeline, and a clean "
            f"leaves them alone: {examples([file.name for file in orphans])}"
        )
        yield Finding("orphans", "wrong", sentence, size)


def _metadata_table(table: _Table) -> Iterator[Finding]:
    failures = read_failures(table.place, table.state, table.executor)
    return check_metadata_table(table.place, table.state, table.rows, table.options.wants, failures)


def _metadata_leftovers(table: _Table) -> Iterator[Finding]:
    dead, working = read_leftovers(table.place, table.state, table.options, table.now)
    for instant in dead:
        sentence = (
            f"delta commit {instant.requested} of the metadata table has been pending for {_age(table, instant)}: a "
            "compaction, clustering or rollback left it that failed, and nothing is cleaned; if no writer is at work, "
            f"run lakemeta rollback {table.place.url}"
        )
        yield Finding("metadata_table_pending", "blocks", sentence)
    for instant in working:
        sentence = f"delta commit {instant.requested} of the metadata table is pending, and its writer is at work"
        yield Finding("metadata_table_written", "note", sentence)


def _leftovers(table: _Table) -> Iterator[Finding]:
    now_ms = epoch_ms(table.now)
    return find_leftovers(table.place, table.state.timeline, table.options, table.heartbeats, now_ms)


def _due(table: _Table) -> Iterator[Finding]:
    if table.decision.nothing is not None:
        yield Finding("nothing_due", "note", f"nothing would be cleaned now: {table.decision.nothing}")
        return
    going = [file for file in _judged(table) if file.delete]
    if going:
        size = sum(file.size for file in going)
        sentence = f"a clean of the whole table would free {human_bytes(size)} in {count_of(len(going), 'file')}"
        yield Finding("clean_due", "note", sentence, size)


def _judged(table: _Table) -> Iterator[FileRow]:
    return (file for row in table.rows for file in row.files)


def _files_of(table: _Table, instant: str) -> list[FileRow]:
    return [file for file in _judged(table) if file.reason == clean.UNCOMMITTED and file.by == instant]


def _age(table: _Table, instant: Instant) -> str:
    begun = moment_of(instant.requested, table.zone)
    return "a time that its name does not say" if begun is None else _words(table.now - begun)


def _words(age: timedelta) -> str:
    minutes = max(0, int(age.total_seconds() // 60))
    for unit, size in (("day", 1440), ("hour", 60)):
        if minutes >= size:
            return count_of(minutes // size, unit)
    return count_of(minutes, "minute")
