"""Reads the facts of a Hudi table that planning rests on: configuration, timeline, and what instants say (I/O).

Nothing here lists data files. Every completed commit on the active timeline is checked to be whole, also those
whose content no decision needs: a table with a cut-off commit is refused, not cleaned.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from itertools import chain, takewhile
from typing import TYPE_CHECKING, TypeVar

import attrs

from lakemeta.errors import CorruptMetadataError, PathNotFoundError, TableNotFoundError
from lakemeta.executor import nearby
from lakemeta.hudi.files.layout import PROPERTIES
from lakemeta.hudi.files.properties import TableConfig, parse_table_config
from lakemeta.hudi.timeline.action_metadata import (
    CommitMetadata,
    decode_clean,
    decode_commit,
    decode_compaction_plan,
    decode_replace_commit,
    decode_requested_clustering,
    decode_savepoint,
    looks_whole,
)
from lakemeta.hudi.timeline.archive import (
    LSM_VERSION_FILE,
    ArchivedTimeline,
    is_archive_file,
    manifest_files,
    newest_manifest,
    read_archived_lsm,
    read_archived_v6,
)
from lakemeta.hudi.timeline.instants import WRITES, Instant, State, Timeline, parse_instant
from lakemeta.hudi.timeline.state import TableState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized

    from lakemeta.executor import Executor
    from lakemeta.storage import Storage

_HEAD = 64 * 1024  # reaches past the Avro schema in the header of a commit
_TAIL = 16
_FEW = 64  # instants, and
_SMALL = 8 * 2**20  # bytes, which threads have read before a cluster has begun
_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds between reads of a timeline that moves under the reader
_LOOKS = 5  # at heartbeats and the timeline of a table that moves
S = TypeVar("S")
T = TypeVar("T")


def load_config(storage: Storage, root: str) -> TableConfig:
    """Read ``hoodie.properties``, or its backup while a writer is replacing it.

    Raises:
        TableNotFoundError: there is no Hudi table at ``root``.
        CorruptMetadataError, UnsupportedFeatureError: see :func:`lakemeta.hudi.files.properties.parse_table_config`.
    """
    path = f"{root}/{PROPERTIES}"
    for candidate in (path, f"{path}.backup"):
        try:
            return parse_table_config(storage.read(candidate), candidate)
        except PathNotFoundError:
            continue
    raise TableNotFoundError(f"{root} is no Hudi table: it has no {PROPERTIES}; give the directory that has it")


def load_timeline(storage: Storage, root: str, config: TableConfig) -> Timeline:
    """List the active timeline."""
    return Timeline.of(list_instants(storage, root, config))


def list_instants(storage: Storage, root: str, config: TableConfig) -> list[Instant]:
    """Every instant file of the active timeline, one for each state that an action has come through."""
    folder = f"{root}/{config.timeline_folder}"
    try:
        entries = storage.list_dir(folder)
    except PathNotFoundError as error:
        raise CorruptMetadataError(f"{folder} is missing, so the table has no timeline; restore it") from error
    instants = (parse_instant(entry.name, entry.size) for entry in entries if not entry.is_dir)
    return [instant for instant in instants if instant is not None]


def load_state(storage: Storage, root: str, executor: Executor) -> TableState:
    """Read everything that planning needs except listings of data files.

    A writer at work may archive an instant between the moment it is listed and the moment it is read, and where files
    do not appear as a whole (Hudi 0.15 on a local disk) half of one may be read. So what is missing or damaged is read
    again a few times before it is believed. So is a completed clean whose file is empty.
    """
    for wait in _WAITS:
        try:
            state = _load_state(storage, root, executor)
            if not state.emptied_cleans:
                return state
        except (PathNotFoundError, CorruptMetadataError):
            pass
        time.sleep(wait)
    return _load_state(storage, root, executor)


def _load_state(storage: Storage, root: str, executor: Executor) -> TableState:
    config = load_config(storage, root)
    instants = list_instants(storage, root, config)
    timeline = Timeline.of(instants)
    timeline.check_writes()
    reader = InstantReader(storage, f"{root}/{config.timeline_folder}", executor)
    reader.check_whole(timeline.completed.where(lambda i: i.action in WRITES))
    emptied = _emptied_cleans(timeline)
    last_clean = None if emptied else timeline.cleans.completed.last
    savepoints = dict(reader.decode(timeline.savepoints, decode_savepoint))
    compactions = list(reader.decode(requested_files(timeline, "compaction"), decode_compaction_plan))
    log_compactions = list(reader.decode(requested_files(timeline, "logcompaction"), decode_compaction_plan))
    clusterings = _clusterings(reader, timeline, "replacecommit")
    reads = chain(
        ((f"compaction {instant}", o.files) for instant, operations in compactions for o in operations),
        ((f"log compaction {instant}", o.files) for instant, operations in log_compactions for o in operations),
        ((f"clustering {instant}", names) for instant, names in clusterings.items()),
        ((f"clustering {instant}", names) for instant, names in _clusterings(reader, timeline, "clustering").items()),
    )
    return TableState(
        config,
        timeline,
        decode_clean(*reader.read(last_clean)) if last_clean else None,
        {instant: frozenset(chain.from_iterable(pinned.values())) for instant, pinned in savepoints.items()},
        _replaced(reader, timeline),
        tuple((instant, operation) for instant, operations in compactions for operation in operations),
        tuple(operation for _, operations in log_compactions for operation in operations),
        frozenset(clusterings),
        load_completions(storage, root, config, timeline),
        {name: what for what, names in reads for name in names},
        _pinned(savepoints),
        tuple(_reopened(instants, clean, reader) for clean in emptied),
    )


def _emptied_cleans(timeline: Timeline) -> tuple[Instant, ...]:
    """The newest completed cleans, as far as their files are empty."""
    newest_first = reversed(timeline.cleans.completed.instants)
    return tuple(takewhile(lambda clean: clean.size == 0, newest_first))[::-1]


def _reopened(instants: Iterable[Instant], clean: Instant, reader: InstantReader) -> Instant:
    """A clean that completed with an empty file as it was before; its plan must be there to be executed again."""
    before = [i for i in instants if (i.requested, i.action) == (clean.requested, "clean") and not i.completed]
    if not any(i.state is State.REQUESTED and i.size for i in before):
        named = " and ".join(reader.path(i) for i in (clean, *before))
        raise CorruptMetadataError(f"clean {clean.requested} is empty, and so is its plan; delete {named}, clean again")
    return max(before, key=lambda i: i.state)


@attrs.frozen
class InstantReader:
    """Reads the files of instants, many at a time."""

    storage: Storage
    folder: str
    executor: Executor

    def path(self, instant: Instant) -> str:
        """Where the file of an instant lies."""
        return f"{self.folder}/{instant.file_name}"

    def read(self, instant: Instant) -> tuple[bytes, str]:
        """The content of one instant's file, and its path."""
        path = self.path(instant)
        return self.storage.read(path), path

    def decode(self, instants: Iterable[Instant], decode: Callable[[bytes, str], T]) -> Iterator[tuple[str, T]]:
        """The requested time and decoded content of each instant, in order."""
        return self._map(instants, partial(_decode_all, self.storage, decode))

    def decode_active(self, instants: Iterable[Instant], decode: Callable[[bytes, str], T]) -> Iterator[tuple[str, T]]:
        """Like :meth:`decode`, without those that a writer has archived since they were listed."""
        for instant, found in self._map(instants, partial(_decode_if_there, self.storage, decode)):
            yield from ((instant, content) for content in found)

    def _map(self, instants: Iterable[Instant], read: Callable[[Sequence[str]], list[S]]) -> Iterator[tuple[str, S]]:
        listed = list(instants)
        paths = [self.path(instant) for instant in listed]
        executor = self._executor(listed, sum(instant.size for instant in listed))
        values = executor.map_batches(read, paths, batch_size=1)
        yield from zip((instant.requested for instant in listed), values, strict=True)

    def commits(self, instants: Iterable[Instant]) -> Iterator[tuple[Instant, CommitMetadata]]:
        """The metadata of completed commits, in order."""
        listed = list(instants)
        for instant, (_, commit) in zip(listed, self.decode(listed, decode_commit), strict=True):
            yield instant, commit

    def check_whole(self, instants: Iterable[Instant]) -> None:
        """Raise CorruptMetadataError if the file of a completed commit is empty or cut off."""
        listed = [(self.path(instant), instant.size) for instant in instants]
        executor = self._executor(listed, 0)  # heads and tails alone are read
        for _ in executor.map_batches(partial(_check_whole, self.storage), listed, batch_size=4):
            pass

    def _executor(self, listed: Sequence[object], size: int) -> Executor:
        return nearby(self.executor) if len(listed) <= _FEW and size <= _SMALL else self.executor


def load_completions(storage: Storage, root: str, config: TableConfig, timeline: Timeline) -> Mapping[str, str] | None:
    """Requested -> completion times of all writes, archived ones too where log files may need them."""
    if config.layout == 1:
        return None
    active = {i.requested: i.completion for i in timeline.completed if i.action in WRITES and i.completion}
    has_log_files = config.table_type == "MERGE_ON_READ" or config.properties.get("hoodie.table.cdc.enabled") == "true"
    if not has_log_files:
        return active
    return {**load_archive(storage, root, config).completion_times(), **active}


def load_archive(storage: Storage, root: str, config: TableConfig) -> ArchivedTimeline:
    """Read the archived timeline; empty if there is none."""
    folder = f"{root}/{config.archive_folder}"
    try:
        names = [entry.name for entry in storage.list_dir(folder) if not entry.is_dir]
    except PathNotFoundError:
        return ArchivedTimeline()
    if config.layout == 1:
        archived = (name for name in names if is_archive_file(name))
        return read_archived_v6((name, storage.read(f"{folder}/{name}")) for name in archived)
    version = storage.read(f"{folder}/{LSM_VERSION_FILE}") if LSM_VERSION_FILE in names else None
    manifest = newest_manifest(version, names, folder)
    if manifest is None:
        return ArchivedTimeline()
    live = manifest_files(storage.read(f"{folder}/{manifest}"), f"{folder}/{manifest}")
    return read_archived_lsm([(file, storage.read(f"{folder}/{file.name}")) for file in live])


def requested_files(timeline: Timeline, action: str) -> Iterator[Instant]:
    """The requested files of the pending instants of an action: a plan stays there when its action is inflight."""
    for instant in timeline.pending.of_actions(action):
        name = instant.file_name.replace(".inflight", ".requested")
        yield attrs.evolve(instant, state=State.REQUESTED, file_name=name)


def _replaced(reader: InstantReader, timeline: Timeline) -> dict[tuple[str, str], str]:
    replaces = timeline.completed.of_actions("replacecommit")
    return {
        (partition, file_id): instant
        for instant, commit in reader.decode(replaces, decode_replace_commit)
        for partition, file_ids in commit.replaced.items()
        for file_id in file_ids
    }


def _pinned(savepoints: Mapping[str, Mapping[str, frozenset[str]]]) -> dict[str, dict[str, str]]:
    pinned: dict[str, dict[str, str]] = {}
    for instant, partitions in sorted(savepoints.items(), reverse=True):
        for partition, names in partitions.items():
            pinned.setdefault(partition, {}).update(dict.fromkeys(names, instant))
    return pinned


def _clusterings(reader: InstantReader, timeline: Timeline, action: str) -> dict[str, tuple[str, ...]]:
    """The pending clusterings under an action, with the names of the files that they read."""
    found = reader.decode(requested_files(timeline, action), decode_requested_clustering)
    return {instant: names for instant, names in found if names is not None}


def _decode_all(storage: Storage, decode: Callable[[bytes, str], T], paths: Sequence[str]) -> list[T]:
    return [decode(storage.read(path), path) for path in paths]


def _decode_if_there(storage: Storage, decode: Callable[[bytes, str], T], paths: Sequence[str]) -> list[tuple[T, ...]]:
    return [tuple(_if_there(storage, decode, path)) for path in paths]


def _if_there(storage: Storage, decode: Callable[[bytes, str], T], path: str) -> Iterator[T]:
    with suppress(PathNotFoundError):
        yield decode(storage.read(path), path)


def _check_whole(storage: Storage, files: Sequence[tuple[str, int]]) -> list[None]:
    for path, size in files:
        head = storage.read_range(path, 0, min(size, _HEAD))
        tail = head[-_TAIL:] if size <= _HEAD else storage.read_range(path, size - _TAIL, _TAIL)
        if not looks_whole(head, tail, size):
            raise CorruptMetadataError(
                f"{path} is empty or cut off, so what it committed is not known; restore it or roll it back"
            )
    return []


def settled(look: Callable[[], tuple[TableState, T]], failed: Callable[[T], Sized]) -> tuple[TableState, T]:
    """The state of the table and what follows from it, as ``look`` finds them once no write seems failed that is not.

    A write that completes right after the timeline was read has no heartbeat any more, and looks ``failed``. So where
    writes look failed the timeline is read again, until it has not moved around the look at heartbeats. Applying looks
    once more, so a table that never holds still only makes for a stale plan.
    """
    found = look()
    for _ in range(_LOOKS):
        state, follows = found
        if not failed(follows):
            break
        found = look()
        if found[0].digest == state.digest:
            break  # what had no heartbeat then is pending still, so it was not about to complete
    return state, follows
