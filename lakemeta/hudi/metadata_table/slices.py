"""File slices of the metadata table, and which of their log blocks count.

Rules of this module:

1. Base files are ``<fileId>_<token>_<instant>.hfile`` and count if their instant is completed, or older than the
   first instant of the active timeline (then it was archived).
2. Version 6: the instant in a log file's name is that of its slice's base; every delta commit adds a log file.
3. Version 8 and newer: it is the delta commit's own; the file belongs on top of base file B iff the delta commit
   completed after B's instant. Log files of delta commits that did not complete count nowhere.
4. A block counts if its INSTANT_TIME is valid: completed on the data timeline; or a completed delta commit of the
   metadata table that is not pending on the data timeline (not being there at all is fine: archived); or rolled back
   by the data table since the last compaction; or a rollback of the metadata table itself.
5. Version 6: a rollback command drops the earlier blocks of its target. Later ones stay, for an interrupted action
   is done again at the same instant.
6. After a downgrade to version 6, the names of log files may say another slice than they count into. That is refused:
   a slice on top of base files that has none, or a log file of an older slice with blocks later than the newest base.

Sources: HoodieTableMetadataUtil.getValidInstantTimestamps, AbstractHoodieLogRecordReader, HoodieFileGroup.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.files.logs import CorruptBlock, HeaderKey, LogBlock, read_blocks
from lakemeta.hudi.files.names import LogFile, parse_log_file
from lakemeta.hudi.metadata_table.advice import drop_advice
from lakemeta.hudi.metadata_table.partitions import file_id_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakemeta.hudi.timeline.instants import Timeline

INIT_PREFIX: Final = "0" * 14
_BASE: Final = re.compile(r"(?P<file_id>[^_.].*)_(?P<token>\d+-\d+-\d+)_(?P<instant>\d+)\.hfile")


@attrs.frozen(slots=True)
class Slice:
    """The newest slice of one file group: what has to be merged, base first, then the logs in order.

    ``base_instant`` is what version 6 puts into the names of new log files; empty from version 8 on where
    there is no base file.
    """

    file_id: str
    base_file: str | None
    base_instant: str
    log_files: tuple[LogFile, ...]


@attrs.frozen
class Validity:
    """What of the metadata table counts, seen from both timelines.

    ``completed`` maps the completed instants of the metadata table to their completion times (version 6: to
    themselves); ``first`` is the first instant of its active timeline, ``valid`` the instants whose blocks
    count.
    """

    table_version: int
    completed: dict[str, str]
    first: str
    valid: frozenset[str]

    @classmethod
    def of(
        cls,
        table_version: int,
        data: Timeline,
        metadata: Timeline,
        *,
        rolled_back: Iterable[str] = (),
        assume_completed: str | None = None,
    ) -> Validity:
        """The validity that follows from the data timeline and the metadata table's own.

        ``rolled_back`` are the instants that completed rollbacks and restores of the data table name, as
        far as they are newer than the last compaction of the metadata table. ``assume_completed`` is an
        instant to look at as if the data table had completed it.
        """
        completed = {i.requested: i.completion or i.requested for i in metadata.completed}
        pending = {i.requested for i in data.pending} - {assume_completed}
        valid = {i.requested for i in data.completed} | set(rolled_back)
        for instant in metadata.completed:
            deltas = instant.action == "deltacommit" and instant.requested not in pending
            if deltas or instant.action in ("rollback", "restore"):
                valid.add(instant.requested)
        first = metadata.first.requested if metadata.first else ""
        return cls(table_version, completed, first, frozenset(valid))

    def base_counts(self, instant: str) -> bool:
        """True if a base file of this instant counts."""
        return instant in self.completed or instant < self.first


def newest_slices(partition: str, names: Iterable[str], validity: Validity) -> tuple[Slice, ...]:
    """The newest slice of every file group of a metadata partition, by file id.

    ``names`` are the names of the files in its directory. Raises UnsupportedFeatureError for a file group
    of another partition (Hudi 1.2.0 misplaces those of expression indexes), since groups are found by their
    number.
    """
    bases: dict[str, dict[str, str]] = defaultdict(dict)
    logs: dict[str, list[LogFile]] = defaultdict(list)
    groups: set[str] = set()
    for name in sorted(names):
        if match := _BASE.fullmatch(name):
            groups.add(match["file_id"])
            if validity.base_counts(match["instant"]):
                bases[match["file_id"]][match["instant"]] = name
        elif log := parse_log_file(name, 0):
            groups.add(log.file_id)
            logs[log.file_id].append(log)
    prefix = file_id_prefix(partition)
    if foreign := [file_id for file_id in groups if not file_id.startswith(prefix)]:
        raise UnsupportedFeatureError(
            f"the metadata table has file group {min(foreign)} in partition {partition}, where it does not belong; "
            f"drop that index with Hudi, or {drop_advice()}"
        )
    newest = _newest_v6 if validity.table_version < 8 else _newest_v8
    return tuple(newest(i, bases[i], logs[i], validity) for i in sorted(groups))


def _newest_v6(file_id: str, bases: dict[str, str], logs: list[LogFile], validity: Validity) -> Slice:
    counted = [log for log in logs if log.instant in bases or validity.base_counts(log.instant)]
    ahead = {log.instant for log in counted if log.instant > max(bases, default="")}
    if (ahead and bases) or len(ahead) > 1:
        raise misplaced(f"has log files at {max(ahead)} of group {file_id} without a base file")
    instant = max([*bases, *(log.instant for log in counted)], default="")
    on_top = sorted((log for log in counted if log.instant == instant), key=lambda log: log.order)
    return Slice(file_id, bases.get(instant), instant, tuple(on_top))


def misplaced(what: str) -> UnsupportedFeatureError:
    """The error for log files that lie in another slice by their names than they count into (rule 6)."""
    return UnsupportedFeatureError(
        f"the metadata table {what}, as a downgrade from table version 8 or 9 may leave it, so what of it counts is "
        f"not certain; {drop_advice()}"
    )


def older_log_files(names: Iterable[str], newest: Iterable[Slice]) -> Iterator[tuple[Slice, LogFile]]:
    """The log files of older slices, by their names, each with the newest slice of its group."""
    by_id = {onto.file_id: onto for onto in newest}
    logs = (log for name in sorted(names) if (log := parse_log_file(name, 0)) is not None)
    return ((by_id[log.file_id], log) for log in logs if log.instant < by_id[log.file_id].base_instant)


def _newest_v8(file_id: str, bases: dict[str, str], logs: list[LogFile], validity: Validity) -> Slice:
    instant = max(bases, default="")
    completions = ((_completion(log, validity), log) for log in logs)
    on_top = sorted(
        ((c, log) for c, log in completions if c is not None and c > instant), key=lambda pair: (pair[0], pair[1].order)
    )
    return Slice(file_id, bases.get(instant), instant, tuple(log for _, log in on_top))


def _completion(log: LogFile, validity: Validity) -> str | None:
    if log.instant < validity.first:
        return log.instant
    return validity.completed.get(log.instant)


def counted_blocks(files: Iterable[tuple[str, bytes]], validity: Validity) -> Iterator[tuple[str, LogBlock]]:
    """The blocks that count, each with its path, of the log files of a slice: (path, content) in slice order.

    Raises CorruptMetadataError for a torn block, unless it says that it is of an instant that does not
    count: that is what a writer leaves that died.
    """
    kept: list[tuple[str, LogBlock]] = []
    for where, data in files:
        for block in read_blocks(data, where):
            if isinstance(block, CorruptBlock):
                if block.instant_time is None or block.instant_time in validity.valid:
                    raise CorruptMetadataError(
                        f"{where} is damaged at byte {block.offset}: {block.problem}; rebuild the metadata table"
                    )
            elif HeaderKey.COMPACTED_BLOCK_TIMES in block.header:
                raise UnsupportedFeatureError(f"{where} has log-compacted blocks, which lakemeta does not read")
            elif block.instant_time in validity.valid:
                target = block.rolled_back_instant
                if target is not None:
                    kept = [earlier for earlier in kept if earlier[1].instant_time != target]
                else:
                    kept.append((where, block))
    return iter(kept)
