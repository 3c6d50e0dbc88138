"""File groups and file slices of one partition (``HoodieFileGroup``, ``AbstractTableFileSystemView``).

Rules of this module:

1. A slice is a base file and the log files on top of it; a group is the slices of one file id, newest first.
2. Table version 6: the instant in a log file's name is the instant of its slice.
3. Version 8 and newer: it is the log file's own delta commit D. The file belongs to the newest slice whose instant is
   not after the completion of D; without such a slice it starts one at D; if D never completed it belongs to the
   newest slice. Base files make slices first, then the pending compaction, then the log files in order.
4. A pending compaction adds an empty slice at its instant.
5. A slice counts if it is committed: its instant is not after the last instant of the view, and is on the view or
   before its first one (then it was archived). Log files inside a counted slice are not filtered.
6. Unlike Hudi, a file whose instant is no instant at all (fewer than 14 digits, or other characters) never counts: it
   is a foreign file with an unlucky name, and nothing of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.hudi.files.names import BaseFile, LogFile, parse_base_file, parse_log_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakemeta.hudi.timeline.instants import Timeline


@attrs.frozen(slots=True)
class FileSlice:
    """One version of a file group: its instant, its base file if any, and its log files in order."""

    instant: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...]

    @property
    def files(self) -> tuple[BaseFile | LogFile, ...]:
        """The base file, then the log files newest first: the order in which a clean plan names them."""
        logs = self.log_files[::-1]
        return (self.base_file, *logs) if self.base_file else logs

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


@attrs.frozen(slots=True)
class FileGroup:
    """All slices of one file id in one partition, newest first, committed or not."""

    partition: str
    file_id: str
    slices: tuple[FileSlice, ...]


@attrs.frozen
class View:
    """What a partition is looked at with: the committed instants, and what else decides about slices.

    ``completions`` maps a requested time to its completion time (table version 8 and newer, active and archived);
    None stands for version 6. ``pending_compactions`` maps (partition, file id) to the instant of the compaction.
    ``rolled_back`` are failed writes whose files are looked at as if they were gone already.
    """

    instants: frozenset[str]
    first: str
    last: str
    completions: Mapping[str, str] | None = None
    pending_compactions: Mapping[tuple[str, str], str] = attrs.field(factory=dict)
    rolled_back: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        timeline: Timeline,
        completions: Mapping[str, str] | None = None,
        pending_compactions: Mapping[tuple[str, str], str] | None = None,
        rolled_back: frozenset[str] = frozenset(),
    ) -> View:
        """The view over an active timeline."""
        view = timeline.view
        return cls(
            frozenset(i.requested for i in view),
            view.first.requested if view.first else "",
            view.last.requested if view.last else "",
            completions,
            pending_compactions or {},
            rolled_back,
        )

    def counts(self, instant: str) -> bool:
        """True if a slice at this instant is committed (rule 5 and 6)."""
        if instant > self.last or not (instant in self.instants or instant < self.first):
            return False
        return len(instant) >= 14 and instant.isdecimal()


class _Group:
    """A file group while it is being put together."""

    __slots__ = ("bases", "logs")

    def __init__(self) -> None:
        self.bases: dict[str, BaseFile] = {}
        self.logs: list[LogFile] = []


def build_file_groups(partition: str, files: Iterable[tuple[str, int]], view: View) -> list[FileGroup]:
    """The file groups of a partition from the (name, size in bytes) of its files, in order of file id.

    Of two base files of one group and instant the one with the greater name counts, as in a sorted listing.
    Names that are neither base nor log files are left out.
    """
    groups: dict[str, _Group] = {}
    for name, size in sorted(files):
        base = parse_base_file(name, size)
        if base is not None:
            if base.instant not in view.rolled_back:
                groups.setdefault(base.file_id, _Group()).bases[base.instant] = base
            continue
        log = parse_log_file(name, size)
        if log is not None and not _log_is_rolled_back(log, view):
            groups.setdefault(log.file_id, _Group()).logs.append(log)
    return [
        FileGroup(partition, file_id, _slices(group, view.pending_compactions.get((partition, file_id)), view))
        for file_id, group in sorted(groups.items())
    ]


def _log_is_rolled_back(log: LogFile, view: View) -> bool:
    # In version 6 the name says the slice, not the write, and a rollback appends a block: the file stays.
    return view.completions is not None and log.instant in view.rolled_back


def _slices(group: _Group, compaction: str | None, view: View) -> tuple[FileSlice, ...]:
    if not group.logs and compaction is None:
        return tuple(FileSlice(i, group.bases[i], ()) for i in sorted(group.bases, reverse=True))
    logs: dict[str, list[LogFile]] = {instant: [] for instant in group.bases}
    if compaction is not None:
        logs.setdefault(compaction, [])
    for log in sorted(group.logs, key=lambda file: file.order):
        logs.setdefault(_slice_instant(log, logs, view), []).append(log)
    return tuple(FileSlice(i, group.bases.get(i), tuple(logs[i])) for i in sorted(logs, reverse=True))


def _slice_instant(log: LogFile, slices: Iterable[str], view: View) -> str:
    if view.completions is None:
        return log.instant
    newest_first = sorted(slices, reverse=True)
    completion = view.completions.get(log.instant)
    if completion is None:
        return newest_first[0] if newest_first else log.instant
    return next((instant for instant in newest_first if completion >= instant), log.instant)
