"""Compares what a table's metadata table lists with what lies on storage (I/O).

Rules of this module:

1. Files that a pending clean deletes may be gone and still listed: it updates the metadata table after it has deleted.
2. A file on storage has to be listed if it belongs to a completed write. In table version 6 the name of a log file does
   not say which write made it, so log files have to be listed only while no write is pending.
3. What a clean could not delete lies there and is not listed: the metadata table was updated with what was to go.
4. Storage is listed later than the timeline was read. If the timeline has moved since, a difference means nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.finding import Finding, examples
from lakemeta.hudi.clean.rules import UNCOMMITTED
from lakemeta.hudi.files.names import parse_base_file, parse_data_file, parse_log_file
from lakemeta.hudi.metadata_table.advice import drop_advice
from lakemeta.hudi.metadata_table.table import MetadataTable
from lakemeta.hudi.timeline.action_metadata import decode_cleaner_plan
from lakemeta.hudi.timeline.loading import load_timeline
from lakemeta.hudi.view.file_groups import View
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from lakemeta.hudi.clean.partitions import PartitionRow
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.metadata_table.files import FilesPartition
    from lakemeta.hudi.timeline.state import TableState

    _Files = Mapping[tuple[str, str], int]  # (partition, file name) -> bytes


def check_metadata_table(
    place: Place,
    state: TableState,
    rows: Iterable[PartitionRow],
    wants: Callable[[str], bool],
    failures: Mapping[str, Collection[str]],
) -> Iterator[Finding]:
    """What is wrong with the metadata table, if there is one.

    ``rows`` are the partitions that ``wants`` lets through, as they lie on storage. ``failures`` are the names of files
    that completed cleans could not delete, by partition.
    """
    if not state.config.has_metadata_table:
        return
    try:
        files = MetadataTable.open(place.storage, place.root, state.config, state.timeline).files()
        gone, unlisted = _compared(state, files, rows, wants)
    except LakemetaError as error:
        sentence = f"the metadata table cannot be used: {error}"
        damaged = isinstance(error, CorruptMetadataError)
        yield Finding("metadata_table_unusable", "wrong" if damaged else "note", sentence)
        return
    unlisted = {key: size for key, size in unlisted.items() if key[1] not in failures.get(key[0], ())}
    found = [*_missing(place, state, gone), *_unlisted(place, unlisted)]
    if found and load_timeline(place.storage, place.root, state.config) != state.timeline:
        sentence = "the table is being written, so its metadata table was not compared with storage; look again later"
        found = [Finding("metadata_table_not_compared", "note", sentence)]
    yield from found


def _compared(
    state: TableState, files: FilesPartition, rows: Iterable[PartitionRow], wants: Callable[[str], bool]
) -> tuple[_Files, _Files]:
    """What the metadata table lists and storage lacks, and what it does not list of completed writes."""
    rows = tuple(rows)
    stored = {row.partition: row.files for row in rows if not row.left_out}
    hidden = tuple(f"{row.partition}/" for row in rows if row.left_out)
    gone: dict[tuple[str, str], int] = {}
    unlisted: dict[tuple[str, str], int] = {}
    for partition, listed in files.listed({*filter(wants, files.partitions), *stored}):
        if f"{partition}/".startswith(hidden):
            continue
        found = stored.get(partition, ())
        there = {file.name for file in found}
        gone |= {
            (partition, name): size for name, size in listed.items() if name not in there and parse_data_file(name)
        }
        of_writes = (file for file in found if file.reason != UNCOMMITTED and file.name not in listed)
        unlisted |= {(partition, file.name): file.size for file in of_writes if _committed(state, file.name)}
    return gone, unlisted


def _missing(place: Place, state: TableState, listed: _Files) -> Iterator[Finding]:
    gone = dict(listed)
    for key in _being_cleaned(place, state) if gone else ():
        gone.pop(key, None)
    if gone:
        sentence = (
            f"the metadata table lists {_described(gone)} not on storage, and readers that go by it fail: "
            f"{_named(gone)}; {drop_advice(place.url)}"
        )
        yield Finding("metadata_table_lists_missing", "wrong", sentence, sum(gone.values()))


def _unlisted(place: Place, unlisted: _Files) -> Iterator[Finding]:
    if unlisted:
        sentence = (
            f"the metadata table does not list {_described(unlisted)} of completed commits, and readers that go by it "
            f"miss rows: {_named(unlisted)}; {drop_advice(place.url)}"
        )
        yield Finding("metadata_table_lacks", "wrong", sentence, sum(unlisted.values()))


def _committed(state: TableState, name: str) -> bool:
    """True if a file in a committed slice is certainly that of a completed write (rule 2)."""
    log = parse_log_file(name, 0)
    if log is None:
        base = parse_base_file(name, 0)
        return base is None or base.instant not in {i.requested for i in state.timeline.pending}
    if state.completions is None:
        return not state.timeline.pending.of_actions("deltacommit", "rollback").instants
    return View.of(state.timeline.completed).counts(log.instant)


def _being_cleaned(place: Place, state: TableState) -> Iterator[tuple[str, str]]:
    for clean in state.timeline.cleans.pending:
        path = f"{place.root}/{state.config.timeline_folder}/{clean.requested}.clean.requested"
        content = place.storage.read(path)
        for partition, files in decode_cleaner_plan(content, path).files.items() if content else ():
            yield from ((partition, file.path.rpartition("/")[2]) for file in files)


def _described(files: _Files) -> str:
    return f"{count_of(len(files), 'file')} ({human_bytes(sum(files.values()))})"


def _named(files: _Files) -> str:
    return examples([f"{partition}/{name}" if partition else name for partition, name in sorted(files)])
