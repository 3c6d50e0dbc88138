"""Checks what a clean plan names, ours or another writer's, before anything of it is deleted (I/O).

Rules of this module:

1. Every path must be a data file's inside the table, in the partition it is listed under and not in ``.hoodie``; every
   dropped partition a directory of the table. Both must be what :mod:`lakemeta.hudi.files.doors` lets through, and not
   in another table that lies in this one.
2. No completed savepoint may name a file of it, and no plan of a pending compaction, log compaction or clustering.
3. The earliest commit to retain is an instant, no later than the newest completed commit.
4. What must stay as the table is now (:mod:`lakemeta.hudi.clean.live`) may not be named. Its partitions are listed for
   that, each on its own and where batches of work run.
5. What commits say that the table has must be there, in these listings, and may not be named either
   (:mod:`lakemeta.hudi.view.closure`).

A plan that breaks one of these is refused as a whole.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.executor import nearby
from lakemeta.hudi.clean.decision import clean_context
from lakemeta.hudi.clean.live import still_needed
from lakemeta.hudi.options import CleanOptions, Policy
from lakemeta.hudi.timeline.instants import is_instant
from lakemeta.hudi.view.closure import Closure, Problem, problems, read_closure, refuse_damage, refuse_planned
from lakemeta.hudi.view.listing import directory_of, list_partition, other_table
from lakemeta.hudi.view.named_files import NamedFiles
from lakemeta.paths import base_of, inside
from lakemeta.safeguards import Proved

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.timeline.action_metadata import CleanerPlan
    from lakemeta.hudi.timeline.state import TableState

    _Planned = tuple[str, frozenset[str], Closure]  # a partition, names of files in it, and what is to be there

_BATCH = 8
_ADVICE = "if another writer left this plan, delete its .clean.requested and .clean.inflight files; then clean again"
_INSTEAD = "or delete the plan's .clean.requested file, and clean again"


@attrs.frozen
class Checked:
    """A plan that may be executed: its store paths by partition, and what was proved.

    ``sizes`` are the bytes of its files that are there, by store path; ``listed`` those of all files of its partitions.
    """

    paths: dict[str, list[str]]
    sizes: dict[str, int]
    listed: int
    proved: Proved

    @property
    def going(self) -> int:
        """The bytes that go."""
        return sum(self.sizes.values())


class _Looked(NamedTuple):
    """A partition that was looked at: bytes, how many files of the closure are there, and what does not fit."""

    sizes: dict[str, int]
    listed: int
    kept: int
    needed: str | None
    problems: list[Problem]


def check_plan(
    door: Door, root: str, plan: CleanerPlan, state: TableState, executor: Executor, proof: str = "off"
) -> Checked:
    """Raise CorruptMetadataError or UnsupportedFeatureError, with nothing done, if a plan may not be executed."""
    checked = check_names(door, root, plan, state)
    door.check_files(path for listed in checked.values() for path in listed)
    for partition in filter(None, plan.partitions_to_delete or ()):
        door.check_directory(f"{root}/{partition}")
        if (other := other_table(door.storage, root, partition)) is not None:
            raise CorruptMetadataError(f"the clean plan drops {partition}, but {other} is another table; {_ADVICE}")
    planned = {p: frozenset(path.rpartition("/")[2] for path in paths) for p, paths in checked.items()}
    closure = _closure(door, root, plan, state, proof, planned)
    planned |= {partition: frozenset[str]() for partition in closure.kept if partition not in planned}
    work = partial(_judge, door, root, _context(plan, state))
    where = executor if len(planned) > _BATCH else nearby(executor)
    items = ((partition, names, closure.of(partition)) for partition, names in planned.items())
    looked = list(where.map_batches(work, items, batch_size=_BATCH))
    found = [problem for one in looked for problem in one.problems]
    refuse_damage(door.storage, root, state, found)
    needed = next((one.needed for one in looked if one.needed is not None), None)
    if needed is not None:
        raise CorruptMetadataError(f"the clean plan deletes {needed}; {_ADVICE}")
    refuse_planned(found)
    proved = Proved(proof, sum(one.kept for one in looked), closure.how)
    sizes = {path: size for one in looked for path, size in one.sizes.items()}
    return Checked(checked, sizes, sum(one.listed for one in looked), proved)


def _closure(
    door: Door, root: str, plan: CleanerPlan, state: TableState, proof: str, planned: Collection[str]
) -> Closure:
    if proof == "off":
        return Closure({}, frozenset(), 0, 0)
    earliest = plan.earliest[0] if plan.earliest else ""
    return read_closure(door.storage, root, state, earliest, everything=proof == "full", partitions=frozenset(planned))


def _context(plan: CleanerPlan, state: TableState) -> CleanContext:
    """What a partition is judged with: the plan's own policy and boundary, and a single version to keep."""
    if plan.policy not in Policy.__members__:
        raise CorruptMetadataError(
            f"the clean plan follows {plan.policy!r}, a policy that Hudi does not have; {_ADVICE}"
        )
    earliest = plan.earliest[0] if plan.earliest else ""
    newest = max((i.requested for i in state.timeline.commits_and_compaction.completed), default="")
    if earliest and not (is_instant(earliest) and earliest <= newest):
        raise CorruptMetadataError(
            f"the clean plan retains commits from {earliest!r} on, and the newest completed one is {newest or None}; "
            f"{_ADVICE}"
        )
    options = attrs.evolve(CleanOptions(), policy=Policy(plan.policy), versions_retained=1)
    return clean_context(state, options, state.timeline, earliest)


def _judge(door: Door, root: str, context: CleanContext, batch: Sequence[_Planned]) -> Iterator[_Looked]:
    for partition, planned, closure in batch:
        files = {entry.name: entry.size for entry in list_partition(door.storage, root, partition)}
        found = list(problems(closure, partition, files, planned))
        folder = directory_of(root, partition)
        going = {f"{folder}/{name}": size for name, size in files.items() if name in planned}
        kept = len(closure.kept.get(partition, ()))
        yield _Looked(going, sum(files.values()), kept, _needed(door, root, context, partition, files, planned), found)


def _needed(
    door: Door, root: str, context: CleanContext, partition: str, files: Mapping[str, int], planned: frozenset[str]
) -> str | None:
    """The first file of a plan in a partition that must stay, and why, as a clause; None if there is none."""
    if not planned:
        return None
    prefix = f"{partition}/" if partition else ""
    if (other := other_table(door.storage, root, partition)) is not None:
        return f"{prefix}{min(planned)}, which lies in {other}, another table"
    found = next(still_needed(context, partition, files.items(), planned), None)
    return None if found is None else f"{prefix}{found[0]}, which {found[1]}"


def check_names(door: Door, root: str, plan: CleanerPlan, state: TableState) -> dict[str, list[str]]:
    """As :func:`check_plan`, by what names files alone: of a plan that was judged a moment ago."""
    named = NamedFiles.of("the clean plan", root, state.savepoints, state.needed, _INSTEAD)
    base = base_of(door.storage.scheme, root)
    checked: dict[str, list[str]] = {}
    for partition, files in plan.files.items():
        folder = named.folder(partition)
        for file in files:
            path = inside(base, file.path)
            if file.is_bootstrap_base:
                raise UnsupportedFeatureError(
                    f"the clean plan deletes the bootstrap base file {path}; run it with Hudi"
                )
            named.file(partition, folder, path)
            checked.setdefault(partition, []).append(path)
    for partition in plan.partitions_to_delete or ():
        named.folder(partition)
    return checked
