"""Writes instants: requested, inflight, completed (I/O).

Rules of this module:

1. A new instant is later than every time on the timeline, requested or completed, in the timeline's timezone.
2. Every file is created, never replaced: of two writers at one instant exactly one goes on. In layout 2 the name of a
   completed instant says its completion too, so it is looked for before.
3. The inflight file of a clean is a copy of its plan up to table version 8, which Hudi 0.15 and 1.0 need, and empty
   in version 9, as Hudi 1.2 writes it. All of them read the plan from the requested file.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import MAXYEAR, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, PathExistsError, StalePlanError, StorageError
from lakemeta.hudi.files.doors import emptied_door
from lakemeta.hudi.timeline.instants import Instant, State, instant_file_name, parse_instant
from lakemeta.hudi.timeline.times import format_instant, moment_of

if TYPE_CHECKING:
    from lakemeta.hudi.files.properties import TableConfig
    from lakemeta.storage import Storage

Clock = Callable[[], datetime]


def next_instant(newest: str, now: datetime, zone: tzinfo) -> str:
    """An instant time for ``now``, moved after ``newest`` (the newest time on the timeline) if it is not.

    Raises CorruptMetadataError if nothing can come after that.
    """
    instant = format_instant(now, zone)
    if instant > newest:
        return instant
    last = moment_of(newest.ljust(17, "9"), zone)
    if last is None or last.year == MAXYEAR:
        raise CorruptMetadataError(
            f"no instant can follow {newest}, the newest on the timeline, which is no time; find out who wrote it"
        )
    return (last.replace(tzinfo=None) + timedelta(milliseconds=1)).strftime("%Y%m%d%H%M%S%f")[:17]


@attrs.frozen
class InstantWriter:
    """Creates the files of instants of one table."""

    storage: Storage
    root: str
    config: TableConfig
    zone: tzinfo
    clock: Clock

    def requested(self, action: str, newest: str, content: bytes) -> Instant:
        """Request an action at a new instant; raises StalePlanError if another writer took the instant."""
        instant = self._instant(next_instant(newest, self.clock(), self.zone), action, State.REQUESTED)
        self._create(instant, content)
        return instant

    def inflight(self, requested: Instant, plan: bytes) -> None:
        """Mark a requested action as begun, unless it is already."""
        instant = self._instant(requested.requested, requested.action, State.INFLIGHT)
        if requested.state is State.REQUESTED:
            self._create(instant, b"" if self.config.version >= 9 else plan)

    def completed(self, requested: Instant, newest: str, content: bytes) -> Instant:
        """Complete an action; ``newest`` is the newest time on the timeline, which the completion is after.

        Raises StalePlanError if another writer completed it meanwhile.
        """
        completion = None
        if self.config.layout == 2:
            self._refuse_completed(requested)
            completion = next_instant(max(newest, requested.requested), self.clock(), self.zone)
        instant = self._instant(requested.requested, requested.action, State.COMPLETED, completion)
        self._create(instant, content)
        return instant

    def reopen(self, action: Instant) -> None:
        """Remove the empty file with which an action completed, so that it is pending again.

        Raises StalePlanError if that file is not empty after all, StorageError if it cannot be deleted.
        """
        for done in self._completions(action):
            path = f"{self.root}/{self.config.timeline_folder}/{done.file_name}"
            if done.size:
                raise StalePlanError(f"{done} was executed by another writer meanwhile; look at the table again")
            (outcome,) = emptied_door(self.storage, self.root).delete_files([path])
            if not outcome.done:
                raise StorageError(f"{path} is empty and could not be deleted: {outcome.error}")

    def _instant(self, time: str, action: str, state: State, completion: str | None = None) -> Instant:
        name = instant_file_name(time, action, state, completion)
        return Instant(time, action, state, name, completion)

    def _refuse_completed(self, requested: Instant) -> None:
        """In layout 2 two completions have two names, so that creating the file does not show it."""
        for instant in self._completions(requested):
            raise StalePlanError(f"{instant} was executed by another writer meanwhile; look at the table again")

    def _completions(self, action: Instant) -> list[Instant]:
        folder = f"{self.root}/{self.config.timeline_folder}"
        found = (parse_instant(entry.name, entry.size) for entry in self.storage.list_dir(folder) if not entry.is_dir)
        mine = (action.requested, action.action)
        return [i for i in found if i is not None and i.completed and (i.requested, i.action) == mine]

    def _create(self, instant: Instant, content: bytes) -> None:
        path = f"{self.root}/{self.config.timeline_folder}/{instant.file_name}"
        try:
            self.storage.create(path, content)
        except PathExistsError as error:
            raise StalePlanError(
                f"{path} was written by another writer meanwhile; look at the table and plan again"
            ) from error
