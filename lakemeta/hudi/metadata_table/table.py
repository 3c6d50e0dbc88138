"""The metadata table of a Hudi table: reads it, and updates it with a clean (I/O).

Rules of this module:

1. What cannot be handled is refused before anything is written: an index being built, a pending compaction or
   indexing, another writer's pending delta commit, an unknown index, a table version that is not the data table's.
2. A data action at instant T is one delta commit at the same T. Readers count it only once T completes on the data
   timeline, so the order is: request T on the data table, delete files, commit here, complete T.
3. Within a commit: requested, inflight, log files, completed; each created, never replaced.
4. A delta commit at T while the clean at T is pending is what a crash left of this very clean. No reader counts
   its blocks, not even if it completed; unless it did and says what it must, it is removed and written again. Those of
   other pending cleans are left alone: these are written again, too.
5. After the commit the cleaned partitions are read back, and must have what was intended.

The caller holds the table's lock, or is the only writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import (
    CorruptMetadataError,
    PathNotFoundError,
    StalePlanError,
    StorageError,
    UnsupportedFeatureError,
)
from lakemeta.hudi.files.doors import metadata_door
from lakemeta.hudi.files.layout import METADATA_TABLE, TIMELINE_FOLDER
from lakemeta.hudi.files.logs import read_blocks
from lakemeta.hudi.files.names import parse_log_file
from lakemeta.hudi.metadata_table.advice import drop_advice
from lakemeta.hudi.metadata_table.deltacommit import (
    NewLogFile,
    Precedent,
    encode_deltacommit,
    new_log_file,
    read_precedent,
)
from lakemeta.hudi.metadata_table.files import FilesPartition
from lakemeta.hudi.metadata_table.hfile import open_hfile
from lakemeta.hudi.metadata_table.loading import (
    check_older_slices,
    check_version,
    rolled_back_since_compaction,
)
from lakemeta.hudi.metadata_table.merge import Layer, log_layers, records_about_files
from lakemeta.hudi.metadata_table.partitions import FILES, file_id_prefix, has_records_of_files
from lakemeta.hudi.metadata_table.slices import (
    Slice,
    Validity,
    counted_blocks,
    newest_slices,
)
from lakemeta.hudi.metadata_table.update import (
    CleanedPartition,
    GroupUpdate,
    file_suffixes,
    files_update,
    index_update,
    left_after,
    left_now,
    with_dropped_files,
)
from lakemeta.hudi.timeline.instants import State, Timeline, instant_file_name
from lakemeta.hudi.timeline.loading import list_instants, load_timeline
from lakemeta.hudi.timeline.rollback_metadata import decode_rollback_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.hudi.files.properties import TableConfig
    from lakemeta.hudi.metadata_table.update import Left
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.storage import Storage

_READABLE_WHEN_PENDING: Final = ("deltacommit", "clean", "rollback")


@attrs.frozen
class PreparedClean:
    """A clean's delta commit, read for and encoded but not written: its log files, and what must be ``left`` then.

    ``seen`` is all that the two timelines said of what counts, and ``cleaned`` what the clean takes away.
    """

    instant: str
    cleaned: tuple[CleanedPartition, ...] = attrs.field(repr=False)
    seen: tuple[TableConfig, Timeline, Validity] = attrs.field(repr=False)
    files: tuple[NewLogFile, ...]
    precedent: Precedent
    left: Left = attrs.field(repr=False)


@attrs.frozen
class MetadataTable:
    """The metadata table of one Hudi table, as it was when it was opened.

    ``root`` is the data table's path, ``path`` the metadata table's; ``partitions`` are those in use.
    ``data`` is the active timeline of the data table, ``timeline`` that of the metadata table.
    """

    storage: Storage
    root: str
    config: TableConfig
    data: Timeline
    timeline: Timeline
    rolled_back: frozenset[str]

    @classmethod
    def open(cls, storage: Storage, root: str, config: TableConfig, data: Timeline) -> MetadataTable:
        """Open the metadata table that ``config`` names, next to the data table's active timeline.

        Raises UnsupportedFeatureError for what rule 1 refuses for readers as well, CorruptMetadataError if
        there is none or it does not fit the data table.
        """
        for partition in config.metadata_partitions:
            file_id_prefix(partition)
        if FILES not in config.metadata_partitions:
            raise CorruptMetadataError(
                f"{storage.url(root)} has no metadata table: its properties name no partition {FILES}"
            )
        check_version(storage, root, config)
        timeline = load_timeline(storage, f"{root}/{METADATA_TABLE}", config)
        unfinished = [i for i in timeline.pending if i.action not in _READABLE_WHEN_PENDING]
        if unfinished:
            raise UnsupportedFeatureError(
                f"the metadata table has the pending action {unfinished[0]}; let a Hudi writer finish it first, or "
                + drop_advice(storage.url(root))
            )
        rolled_back = frozenset(
            rolled_back_since_compaction(storage, f"{root}/{config.timeline_folder}", data, timeline)
        )
        return cls(storage, root, config, data, timeline, rolled_back)

    @property
    def path(self) -> str:
        """The base path of the metadata table."""
        return f"{self.root}/{METADATA_TABLE}"

    @property
    def url(self) -> str:
        """What commands call the data table: its URL, or its path on this machine's disks."""
        return self.storage.url(self.root)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions in use, in order of name."""
        return tuple(sorted(self.config.metadata_partitions))

    @property
    def newest_time(self) -> str:
        """The largest time on its timeline: a new instant of the data table must be later than this too."""
        return self.timeline.newest_time

    def files(self, *, assume_completed: str | None = None) -> FilesPartition:
        """The partition ``files``, from which the files of the data table are read piece by piece.

        ``assume_completed`` is an instant to look at as if the data table had completed it.
        """
        group, *others = self.slices(FILES)
        if others:
            raise UnsupportedFeatureError(
                f"the metadata table has {len(others) + 1} file groups in partition {FILES}, where Hudi makes one; "
                + drop_advice(self.url)
            )
        logs = self._log_layers(FILES, group, self._validity(assume_completed))
        base_path = None if group.base_file is None else f"{self.path}/{FILES}/{group.base_file}"
        return FilesPartition.open(self.storage, base_path, logs)

    def check_indexed(self) -> None:
        """Raise UnsupportedFeatureError while an index is being built, which every action would have to update."""
        if self.config.metadata_partitions_inflight:
            raise UnsupportedFeatureError(
                f"{self.url} is building the index {self.config.metadata_partitions_inflight[0]} in its metadata "
                f"table; let the indexer finish, then try again, or {drop_advice(self.url)}"
            )

    def blocking(self, *own: str) -> tuple[Instant, ...]:
        """What is pending and not ``own``. Pending cleans of the data table block nothing: they are written again."""
        written_again = {i.requested for i in self.data.cleans.pending}
        return tuple(i for i in self.timeline.pending if i.requested not in written_again and i.requested not in own)

    def check_writable(self, *own: str) -> None:
        """Raise UnsupportedFeatureError unless an action may be written here, whose own instants are ``own``."""
        self.check_indexed()
        others = self.blocking(*own)
        if others:
            raise UnsupportedFeatureError(
                f"the metadata table has the pending {others[0]} of a writer that died or is at work; "
                f"lakemeta doctor {self.url} says which, and what to do"
            )

    def check_readable(self) -> None:
        """Raise what reading and writing it for a clean would raise, as far as that can be found out at little cost."""
        self.precedent("")
        self.files()
        for partition in filter(has_records_of_files, self.partitions):
            self.slices(partition)

    def pending_rollback_of(self, instant: str) -> str | None:
        """The rollback that was begun here, and not on the data table, of the delta commit at ``instant``."""
        for rollback in self.timeline.pending.of_actions("rollback"):
            path = f"{self.timeline_path}/{instant_file_name(rollback.requested, 'rollback', State.REQUESTED)}"
            content = self.storage.read(path)
            if content and decode_rollback_plan(content, path).instant == instant:
                return rollback.requested
        return None

    def prepare_clean(self, instant: str, cleaned: Iterable[CleanedPartition], now_ms: int) -> PreparedClean:
        """Everything that updating the metadata table with a clean needs to read, and the bytes to write.

        ``instant`` is the clean's, ``cleaned`` what its plan takes away, ``now_ms`` the time in ms since
        the epoch. Writes nothing, so it is the place to refuse: call it before the first file is deleted.
        """
        self.check_writable(instant)
        precedent = self.precedent(instant)
        validity = self._validity()
        cleaned = tuple(cleaned)
        files = self.files()
        dropped = files.listed(partition.path for partition in cleaned if partition.dropped)
        complete = with_dropped_files(cleaned, dict(dropped))
        updates: list[tuple[GroupUpdate, Slice]] = []
        files_group = self.slices(FILES)[0]
        if (update := files_update(complete, precedent.record_schema)) is not None:
            updates.append((update, files_group))
        updates += self._index_updates(complete, instant, precedent, validity)
        encoded = self._encode(updates, instant, precedent, now_ms)
        return PreparedClean(instant, cleaned, self._seen(), encoded, precedent, left_after(files, cleaned))

    def still_holds(self, prepared: PreparedClean, cleaned: Sequence[CleanedPartition]) -> bool:
        """True if :meth:`prepare_clean` would read the same again.

        Every write to the metadata table begins with an instant on its timeline, so that the same instants and the same
        ones that count mean the same records.
        """
        return (prepared.cleaned, prepared.seen) == (tuple(cleaned), self._seen())

    def commit_clean(self, prepared: PreparedClean, completion: str | None) -> None:
        """Write a prepared clean, and read the result back.

        ``completion`` is the completion time of the delta commit, from table version 8 on: later than every
        time on both timelines, and earlier than the completion of the clean itself. If the delta commit is
        there already and says what it must, nothing is written. Raises CorruptMetadataError if the metadata
        table does not say what was intended: then the clean must not be completed.
        """
        if any(i.completed for i in self._at(prepared.instant)) and self._says(prepared):
            return
        self._forget(prepared.instant)
        self._write(prepared.instant, prepared.files, prepared.precedent, completion)
        if not self._says(prepared):
            raise CorruptMetadataError(
                f"the metadata table {self.path} does not list what clean {prepared.instant} left, so that stays "
                f"pending; {drop_advice(self.url)}"
            )

    def _says(self, prepared: PreparedClean) -> bool:
        after = attrs.evolve(self, timeline=load_timeline(self.storage, self.path, self.config))
        return left_now(after.files(assume_completed=prepared.instant), prepared.cleaned) == prepared.left

    def _at(self, instant: str) -> list[Instant]:
        return [i for i in self.timeline if i.requested == instant and i.action == "deltacommit"]

    @property
    def timeline_path(self) -> str:
        """Where its instants lie."""
        return f"{self.path}/{self.config.timeline_folder}"

    def commit_appended(self, instant: str, update: GroupUpdate | None, now_ms: int) -> None:
        """Write a delta commit at ``instant`` with one update or none, unless it is there already (version 6)."""
        precedent = self.precedent(instant)
        updates = [] if update is None else [(update, self.slices(FILES)[0])]
        if not any(i.completed for i in self._at(instant)):
            self._forget(instant)
            self._write(instant, self._encode(updates, instant, precedent, now_ms), precedent, None)

    def _encode(
        self, updates: Iterable[tuple[GroupUpdate, Slice]], instant: str, precedent: Precedent, now_ms: int
    ) -> tuple[NewLogFile, ...]:
        schema, version = precedent.record_schema, self.config.version
        return tuple(new_log_file(u, s, instant, version, u.encode(schema, instant, now_ms)) for u, s in updates)

    def _seen(self) -> tuple[TableConfig, Timeline, Validity]:
        return self.config, self.timeline, self._validity()

    def _validity(self, assume_completed: str | None = None) -> Validity:
        return Validity.of(
            self.config.version,
            self.data,
            self.timeline,
            rolled_back=self.rolled_back,
            assume_completed=assume_completed,
        )

    def slices(self, partition: str) -> tuple[Slice, ...]:
        """The newest slice of every file group of a partition, by file id."""
        directory = f"{self.path}/{partition}"
        try:
            names = [entry.name for entry in self.storage.list_dir(directory) if not entry.is_dir]
        except PathNotFoundError:
            names = []
        slices = newest_slices(partition, names, self._validity())
        if not slices:
            raise CorruptMetadataError(
                f"the metadata table has no file group in {directory}, though the table's properties name it; "
                + drop_advice(self.url)
            )
        if self.config.version < 8 and self.storage.exists(f"{self.path}/{TIMELINE_FOLDER}"):
            check_older_slices(self.storage, directory, names, slices, self._validity())
        return slices

    def _layers(self, partition: str, group: Slice, validity: Validity) -> Iterator[Layer]:
        if group.base_file is not None:
            path = f"{self.path}/{partition}/{group.base_file}"
            yield Layer(open_hfile(self.storage.read(path), path))
        yield from self._log_layers(partition, group, validity)

    def _log_layers(self, partition: str, group: Slice, validity: Validity) -> Iterator[Layer]:
        logs = (f"{self.path}/{partition}/{log.name}" for log in group.log_files)
        return log_layers(counted_blocks(((path, self.storage.read(path)) for path in logs), validity))

    def _index_updates(
        self, cleaned: tuple[CleanedPartition, ...], instant: str, precedent: Precedent, validity: Validity
    ) -> Iterator[tuple[GroupUpdate, Slice]]:
        partitions = [partition for partition in self.partitions if has_records_of_files(partition)]
        suffixes = file_suffixes(cleaned) if partitions else frozenset()  # takes a while where many files go
        for partition in partitions:
            groups = self.slices(partition)
            for place, group in enumerate(groups):
                records = records_about_files(self._layers(partition, group, validity), suffixes)
                position = (group.file_id, place, len(groups))
                update = index_update(partition, position, records, precedent.record_schema, instant)
                if update is not None:
                    yield update, group

    def precedent(self, instant: str) -> Precedent:
        """An earlier completed delta commit than the one at ``instant``, to go by."""
        earlier = [i for i in self.timeline.completed.of_actions("deltacommit") if i.requested != instant]
        if not earlier:
            raise UnsupportedFeatureError(
                f"the metadata table {self.path} has no completed delta commit to go by; let a Hudi writer commit first"
            )
        path = f"{self.timeline_path}/{earlier[-1].file_name}"
        return read_precedent(self.storage.read(path), path)

    def _write(self, instant: str, files: tuple[NewLogFile, ...], precedent: Precedent, completion: str | None) -> None:
        version, create = self.config.version, self.storage.create
        begun = encode_deltacommit((), instant, precedent, version)
        done = encode_deltacommit(files, instant, precedent, version)
        create(f"{self.timeline_path}/{instant_file_name(instant, 'deltacommit', State.REQUESTED)}", b"")
        create(f"{self.timeline_path}/{instant_file_name(instant, 'deltacommit', State.INFLIGHT)}", begun)
        for file in files:
            create(f"{self.path}/{file.path}", file.content)
        create(f"{self.timeline_path}/{instant_file_name(instant, 'deltacommit', State.COMPLETED, completion)}", done)

    def _forget(self, instant: str) -> None:
        """Remove what a crash left of the delta commit at ``instant``: its log files, then its instant (rule 4).

        A completed one goes first of all, for then no reader counts its log files.
        """
        mine = [i for i in list_instants(self.storage, self.path, self.config) if i.requested == instant]
        deltas = sorted((i for i in mine if i.action == "deltacommit"), key=lambda i: i.state, reverse=True)
        if any(i.completed for i in deltas) and not any(i.completed for i in self._at(instant)):
            raise StalePlanError(f"{deltas[0]} was written to the metadata table by another writer; look at it again")
        if not deltas:
            return
        self.delete([f"{self.timeline_path}/{i.file_name}" for i in deltas if i.completed])
        self.delete([path for partition in self.partitions for path in self.log_files_of(partition, instant)])
        for delta in (i for i in deltas if not i.completed):
            self.delete([f"{self.timeline_path}/{delta.file_name}"])

    def log_files_of(self, partition: str, instant: str) -> Iterator[str]:
        """The paths of the log files that one delta commit wrote into a partition."""
        directory = f"{self.path}/{partition}"
        if self.config.version >= 8:
            logs = (parse_log_file(entry.name, entry.size) for entry in self.storage.list_dir(directory))
            yield from (f"{directory}/{log.name}" for log in logs if log is not None and log.instant == instant)
            return
        for group in self.slices(partition):
            for log in group.log_files:
                path = f"{directory}/{log.name}"
                writers = {block.instant_time for block in read_blocks(self.storage.read(path), path)}
                if writers == {instant}:
                    yield path
                elif instant in writers:
                    raise UnsupportedFeatureError(
                        f"{path} holds blocks of the unfinished {instant} and of others; let Hudi roll it back"
                    )

    def delete(self, paths: list[str]) -> None:
        """Delete files; absent ones are fine, StorageError names one that could not be deleted."""
        failed = [outcome for outcome in metadata_door(self.storage, self.root).delete_files(paths) if not outcome.done]
        if failed:
            raise StorageError(f"{failed[0].path} could not be deleted: {failed[0].error}")
