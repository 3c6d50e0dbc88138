"""Hypothesis strategies: histories of Hudi tables, played on real files.

A history is a list of steps; a step is a kind and a few small numbers that pick among what the table then has, so that
every list is playable and shrinks well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from support.builders import TableFiles, at, log
from support.checker import Retention

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = ("p1", "p2/q=1")


class Step(NamedTuple):
    """One thing that happens to a table; ``pick`` chooses a group or savepoint, ``partition`` a partition."""

    kind: str
    partition: int
    pick: int


class Policy(NamedTuple):
    """A cleaning policy, by the number of what it retains."""

    name: str
    option: str
    number: int

    @property
    def options(self) -> dict[str, str]:
        """The engine's options."""
        return {"hoodie.clean.policy": self.name, self.option: str(self.number)}

    def retention(self, hour: float) -> Retention:
        """The same for the checker, when it is that hour."""
        if self.name == "KEEP_LATEST_COMMITS":
            return Retention(commits=self.number)
        if self.name == "KEEP_LATEST_BY_HOURS":
            return Retention(since=at(hour - self.number))
        return Retention(versions=self.number)


# The commoner, the more often named: what never ends, such as a failed write, keeps cleans from going on.
COW_KINDS = ("insert", *["upsert"] * 10, "overwrite", "drop", "savepoint", "savepoint", "unsave", "unsave")
MOR_KINDS = (*COW_KINDS, *["delta"] * 8, "compact", "compact", "complete", "complete", "complete")
RARE_KINDS = ("cluster", "fail")
RARE_MOR_KINDS = (*RARE_KINDS, "fail_log", "logcompact")


def histories(*, mor: bool) -> st.SearchStrategy[list[Step]]:
    """Lists of steps that a table of this type can take."""
    common = st.sampled_from(MOR_KINDS if mor else COW_KINDS)
    rare = st.sampled_from(RARE_MOR_KINDS if mor else RARE_KINDS)
    kinds = st.integers(0, 39).flatmap(lambda n: rare if n == 39 else common)
    return st.lists(st.builds(Step, kinds, st.integers(0, 1), st.integers(0, 3)), min_size=8, max_size=18)


def policies() -> st.SearchStrategy[Policy]:
    """Policies of all kinds, from tight to loose."""
    commits = st.builds(
        Policy, st.just("KEEP_LATEST_COMMITS"), st.just("hoodie.clean.commits.retained"), st.integers(1, 4)
    )
    hours = st.builds(
        Policy, st.just("KEEP_LATEST_BY_HOURS"), st.just("hoodie.clean.hours.retained"), st.integers(1, 8)
    )
    versions = st.builds(
        Policy, st.just("KEEP_LATEST_FILE_VERSIONS"), st.just("hoodie.clean.fileversions.retained"), st.integers(1, 3)
    )
    return st.one_of(commits, commits, hours, versions)


def play(table: TableFiles, steps: list[Step]) -> None:
    """Let the steps happen; one that cannot happen now is passed over."""
    for partition in PARTITIONS:
        if not _groups(table, partition):
            _insert(table, partition, 0)
    for step in steps:
        _KINDS[step.kind](table, PARTITIONS[step.partition], step.pick)


def _groups(table: TableFiles, partition: str) -> list[str]:
    return sorted(group for where, group in table.groups if where == partition)


def _chosen(table: TableFiles, partition: str, pick: int) -> str | None:
    groups = _groups(table, partition)
    return groups[pick % len(groups)] if groups else None


def _letter(table: TableFiles) -> str:
    table.letters = getattr(table, "letters", 0) + 1
    return f"g{table.letters}"


def _insert(table: TableFiles, partition: str, pick: int) -> None:
    table.insert({partition: [_letter(table)]})


def _upsert(table: TableFiles, partition: str, pick: int) -> None:
    if group := _chosen(table, partition, pick):
        table.commit({partition: [group]})


def _delta(table: TableFiles, partition: str, pick: int) -> None:
    if group := _chosen(table, partition, pick):
        table.delta({partition: [group]})


def _overwrite(table: TableFiles, partition: str, pick: int) -> None:
    table.replace({partition: _groups(table, partition)}, {partition: [_letter(table)]})


def _drop(table: TableFiles, partition: str, pick: int) -> None:
    if groups := _groups(table, partition):
        table.replace({partition: groups}, operation="DELETE_PARTITION")


def _savepoint(table: TableFiles, partition: str, pick: int) -> None:
    """Pin the newest slices as they are now, under the instant of the last action."""
    names: dict[str, list[str]] = {}
    for (where, group), state in table.groups.items():
        bases = (table.root / where).glob(f"{group}-0_*_{state['slice']}.parquet")
        names.setdefault(where, []).extend(path.name for path in bases)
        if table.mor and table.version < 8:
            names[where] += [p.name for p in (table.root / where).glob(f".{group}-0_{state['slice']}.log.*")]
        elif table.mor:
            names[where] += [p.name for p in (table.root / where).glob(log(group, table.hour - 1))]
    if names and not list(table.timeline.glob(f"{at(table.hour - 1)}*.savepoint")):
        table.savepoint(table.hour - 1, names)


def _unsave(table: TableFiles, partition: str, pick: int) -> None:
    saved = sorted(path.name[:17] for path in table.timeline.glob("*.savepoint"))
    if saved:
        table.drop_savepoint(saved[pick % len(saved)])


def _cluster(table: TableFiles, partition: str, pick: int) -> None:
    table.schedule_clustering()


def _fail(table: TableFiles, partition: str, pick: int) -> None:
    group = _chosen(table, partition, pick)
    table.begin({partition: [group] if group and pick % 2 else [_letter(table)]})


def _fail_log(table: TableFiles, partition: str, pick: int) -> None:
    if group := _chosen(table, partition, pick):
        table.begin({partition: [group]}, "deltacommit", logs=True)


def _compact(table: TableFiles, partition: str, pick: int) -> None:
    group = _chosen(table, partition, pick)
    pending = getattr(table, "pending", {})
    if group and (partition, group) not in pending:
        table.pending = {**pending, (partition, group): table.hour}
        table.schedule_compaction({partition: [group]}, inflight=pick % 2 == 0)


def _logcompact(table: TableFiles, partition: str, pick: int) -> None:
    group = _chosen(table, partition, pick)
    if group and (partition, group) not in getattr(table, "pending", {}):
        table.schedule_compaction({partition: [group]}, "logcompaction")


def _complete(table: TableFiles, partition: str, pick: int) -> None:
    pending = getattr(table, "pending", {})
    if pending:
        key = sorted(pending)[pick % len(pending)]
        hour = pending.pop(key)
        if key in table.groups:
            table.complete_compaction(hour, {key[0]: [key[1]]})


_KINDS: dict[str, Callable[[TableFiles, str, int], None]] = {
    "insert": _insert,
    "upsert": _upsert,
    "delta": _delta,
    "overwrite": _overwrite,
    "drop": _drop,
    "savepoint": _savepoint,
    "unsave": _unsave,
    "cluster": _cluster,
    "fail": _fail,
    "fail_log": _fail_log,
    "compact": _compact,
    "logcompact": _logcompact,
    "complete": _complete,
}
