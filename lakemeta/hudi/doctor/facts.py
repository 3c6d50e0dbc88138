"""What a Hudi table is and how healthy it is (I/O: lists the whole table)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from lakemeta.hudi.clean.decision import clean_context
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.timeline.loading import load_archive, load_state
from lakemeta.hudi.view.file_groups import build_file_groups
from lakemeta.hudi.view.listing import LeftOut, find_partitions, list_partition
from lakemeta.words import facts_html

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.storage import Storage

SMALL_FILE = 100 * 1024 * 1024  # hoodie.parquet.small.file.limit, bytes


@attrs.frozen
class HudiFacts:
    """The facts of one table; sizes are bytes, times are instants.

    ``older_bytes`` is what lies in slices that are not the newest of their group or in replaced groups: the most that
    cleaning could ever free. ``small_files`` are base files of newest slices below Hudi's small-file limit (100 MiB).
    ``archive_torn`` names blocks of the archived timeline that a crash left half written; Hudi passes over them.
    """

    name: str
    table_type: str
    version: int
    partitions: int
    file_groups: int
    files: int
    bytes: int
    older_files: int
    older_bytes: int
    small_files: int
    actions: Mapping[str, int]
    archived_actions: Mapping[str, int]
    archive_torn: tuple[str, ...]
    pending: tuple[str, ...]
    savepoints: tuple[str, ...]
    first_instant: str | None
    last_instant: str | None
    earliest_retained: str | None
    metadata_partitions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The facts as a JSON object."""
        return attrs.asdict(self)

    def _repr_html_(self) -> str:
        return facts_html(self.name, self.to_json())


class _Counts(NamedTuple):
    """One partition in numbers, small to ship: groups, files, bytes, older files, older bytes, small files."""

    groups: int
    files: int
    bytes: int
    older_files: int
    older_bytes: int
    small_files: int


def inspect(place: Place, executor: Executor) -> HudiFacts:
    """Read the timeline and list every partition once."""
    state = load_state(place.storage, place.root, executor)
    context = clean_context(state, CleanOptions(), state.timeline, "")
    found = find_partitions(place.storage, place.root, executor)
    partitions = [partition for partition in found if not isinstance(partition, LeftOut)]
    counts = executor.map_batches(partial(_count, place.storage, place.root, context), partitions, batch_size=8)
    totals = _Counts(*map(sum, zip(_Counts(0, 0, 0, 0, 0, 0), *counts, strict=True)))
    return _facts(place, state, len(partitions), totals)


def _facts(place: Place, state: TableState, partitions: int, totals: _Counts) -> HudiFacts:
    timeline = state.timeline
    archived = load_archive(place.storage, place.root, state.config)
    return HudiFacts(
        name=state.config.name,
        table_type=state.config.table_type,
        version=state.config.version,
        partitions=partitions,
        file_groups=totals.groups,
        files=totals.files,
        bytes=totals.bytes,
        older_files=totals.older_files,
        older_bytes=totals.older_bytes,
        small_files=totals.small_files,
        actions=dict(sorted(Counter(i.action for i in timeline.completed).items())),
        archived_actions=dict(sorted(Counter(i.action for i in archived.completed()).items())),
        archive_torn=archived.torn,
        pending=tuple(str(i) for i in timeline.pending),
        savepoints=tuple(i.requested for i in timeline.savepoints),
        first_instant=timeline.first.requested if timeline.first else None,
        last_instant=timeline.last.requested if timeline.last else None,
        earliest_retained=state.last_clean.earliest_to_retain or None if state.last_clean else None,
        metadata_partitions=state.config.metadata_partitions,
    )


def _count(storage: Storage, root: str, context: CleanContext, partitions: Sequence[str]) -> Iterator[_Counts]:
    for partition in partitions:
        entries = list_partition(storage, root, partition)
        groups = build_file_groups(partition, [(e.name, e.size) for e in entries], context.view)
        files = older = older_bytes = size = small = 0
        for group in groups:
            replaced = (partition, group.file_id) in context.replaced
            for position, file_slice in enumerate(group.slices):
                files += len(file_slice.files)
                size += file_slice.size
                if position > 0 or replaced:
                    older += len(file_slice.files)
                    older_bytes += file_slice.size
                elif file_slice.base_file is not None and file_slice.base_file.size < SMALL_FILE:
                    small += 1
        yield _Counts(len(groups), files, size, older, older_bytes, small)
