"""Surveys a Hudi table for a page (I/O: lists the whole table)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from lakemeta.hudi.clean.decision import clean_context
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.timeline.instants import WRITES
from lakemeta.hudi.timeline.loading import load_state
from lakemeta.hudi.view.file_groups import build_file_groups
from lakemeta.hudi.view.listing import BATCH, LeftOut, find_partitions, list_partition
from lakemeta.page.survey import Counts, Moment, Survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.view.file_groups import View
    from lakemeta.storage import Storage

_Found = tuple[Counts, Counter[str], Counter[str]]


def survey(place: Place, executor: Executor) -> Survey:
    """Read the timeline and list every partition once."""
    state = load_state(place.storage, place.root, executor)
    view = clean_context(state, CleanOptions(), state.timeline, "").view
    found = find_partitions(place.storage, place.root, executor)
    partitions = [partition for partition in found if not isinstance(partition, LeftOut)]
    counts, files, sizes = Counts(), Counter[str](), Counter[str]()
    look = partial(_look, place.storage, place.root, view)
    for part, its_files, its_sizes in executor.map_batches(look, partitions, batch_size=BATCH):
        counts.update(part)
        files.update(its_files)
        sizes.update(its_sizes)
    moments = tuple(_moment(instant, files, sizes) for instant in state.timeline)
    return Survey(counts, moments, "files that it wrote and that are still there")


def _moment(instant: Instant, files: Counter[str], sizes: Counter[str]) -> Moment:
    at = instant.requested
    state = () if instant.completed else (instant.state.name.lower(),)
    if instant.action not in WRITES:  # a savepoint has the time of the commit that it is of
        return Moment(at, None, instant.action, 0, 0, state)
    return Moment(at, None, instant.action, files[at], sizes[at], state)


def _look(storage: Storage, root: str, view: View, partitions: Sequence[str]) -> Iterator[_Found]:
    """The files of each partition: counted, and by the instant in their names."""
    for partition in partitions:
        counts, files, sizes = Counts(), Counter[str](), Counter[str]()
        entries = list_partition(storage, root, partition)
        for group in build_file_groups(partition, [(e.name, e.size) for e in entries], view):
            for file in (file for file_slice in group.slices for file in file_slice.files):
                counts.add(partition, file.size)
                files[file.instant] += 1
                sizes[file.instant] += file.size
        yield counts, files, sizes
