"""Random Hudi histories: the same seed gives the same steps, with other instants and file ids each time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING
from urllib.parse import quote

from generate.hudi_recorder import LAZY, Recorder, commits, versions
from interop.engine_process import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITIONS = ("p1", "p2", "p3", "p4")
NAMES = (PARTITIONS, PARTITIONS, ("2026/01/02", "2026/01/03", "2026/02", "2025/1"), ("a b", "x=y", "50%", "\u00fc:1"))
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ARCHIVE = {
    "hoodie.archive.automatic": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


class RandomHistory:
    """One random table: steps drawn from a seed, cleaned now and then, every clean recorded."""

    def __init__(self, recorder: Recorder, seed: int) -> None:
        self.random = random.Random(seed)
        self.recorder = recorder
        self.name = f"random{seed}"
        self.mor = self.random.random() < 0.5
        names = self.random.choice(NAMES)
        self.partitions = names[: self.random.randint(1, 4)]
        partitioned = self.random.random() < 0.85
        small = {"hoodie.parquet.small.file.limit": "104857600"} if self.random.random() < 0.3 else {}
        self.encoded = ENCODED if names is NAMES[-1] else {}
        self.hive = HIVE if self.random.random() < 0.3 else {}
        options = {**small, **self.encoded, **self.hive}
        metadata = self.random.random() < 0.4
        self.table = recorder.table(self.name, mor=self.mor, partitioned=partitioned, metadata=metadata, **options)
        self.known: list[tuple[str, str]] = []
        self.savepoints: list[str] = []
        self.partitioned = partitioned

    def run(self) -> Iterator[None]:
        """Steps without end; yields after each recorded clean."""
        self.insert()
        for step in range(1, 1000):
            kinds, weights = zip(*self.kinds(), strict=True)
            kind = self.random.choices(kinds, weights)[0]
            try:
                kind()
            except EngineError as error:
                self.table.history.append({"op": kind.__name__, "error": str(error)[:300]})
            if step % 5 == 0:
                self.clean(step)
                yield

    def kinds(self) -> list[tuple[Callable[[], None], int]]:
        """The possible steps and their weights."""
        rare = (self.delete_savepoint, self.cluster, self.crash, self.nothing, self.archive)
        steps = [(self.insert, 3), (self.upsert, 8), (self.delete, 1), *((step, 1) for step in rare)]
        steps += [(self.savepoint, 2), (self.overwrite, 2)]
        if self.partitioned:
            steps += [(self.drop, 1), (self.overwrite_whole, 1)]
        if self.mor:
            steps += [(self.schedule_compaction, 3), (self.run_compaction, 2)]
        return steps

    def some(self, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return self.random.sample(rows, self.random.randint(1, min(3, len(rows))))

    def fresh(self, partitions: tuple[str, ...]) -> list[tuple[str, str]]:
        start = self.table.clock * 10
        return [(f"{p}-{start + n}", p) for p in partitions for n in range(self.random.randint(1, 3))]

    def insert(self) -> None:
        rows = self.fresh(tuple(self.random.sample(self.partitions, self.random.randint(1, len(self.partitions)))))
        self.table.write("insert", rows)
        self.known += rows

    def upsert(self) -> None:
        if self.known:
            self.table.write("upsert", self.some(self.known))

    def delete(self) -> None:
        if self.known:
            rows = self.some(self.known)
            self.table.write("delete", rows)
            self.known = [row for row in self.known if row not in rows]

    def overwrite(self) -> None:
        partition = self.random.choice(self.partitions)
        rows = self.fresh((partition,))
        self.table.write("insert_overwrite", rows)
        self.known = [row for row in self.known if self.partitioned and row[1] != partition] + rows

    def overwrite_whole(self) -> None:
        rows = self.fresh((self.random.choice(self.partitions),))
        self.table.write("insert_overwrite_table", rows)
        self.known = rows

    def drop(self) -> None:
        partition = self.random.choice(self.partitions)
        self.table.delete_partition(self.directory(partition))
        self.known = [row for row in self.known if row[1] != partition]

    def directory(self, partition: str) -> str:
        """Where the engine keeps a partition: Hive's spelling and escapes are part of the name."""
        name = quote(partition, safe="") if self.encoded else partition
        return f"p={name}" if self.hive else name

    def nothing(self) -> None:
        """A commit that changes no file."""
        self.table.write("delete", [("nowhere", self.partitions[0])])

    def archive(self) -> None:
        """A write that archives old commits, as far as the last clean lets it."""
        if self.known:
            self.table.write("upsert", self.some(self.known), **ARCHIVE)

    def crash(self) -> None:
        if self.known:
            self.table.crash_write(self.some(self.known))

    def savepoint(self) -> None:
        instant = self.random.choice(self.table.commits()[-3:])
        self.table.savepoint(instant)
        self.savepoints.append(instant)

    def delete_savepoint(self) -> None:
        if self.savepoints:
            self.table.delete_savepoint(self.savepoints.pop(self.random.randrange(len(self.savepoints))))

    def cluster(self) -> None:
        self.table.cluster(self.random.choice(("schedule", "execute", "scheduleAndExecute")))

    def schedule_compaction(self) -> None:
        self.table.compact("schedule")

    def run_compaction(self) -> None:
        self.table.compact("run")

    def clean(self, step: int) -> None:
        """Record two cleans with random options: one on a copy, then one on the table, at times only planned."""
        self.recorder.aside(self.table, self.name, f"step{step}_aside", self.options())
        execute = self.random.random() < 0.85
        self.recorder.clean(self.table, self.name, f"step{step}", self.options(), execute=execute)

    def options(self) -> dict[str, str]:
        """Random retention; sometimes LAZY, not incremental, or a plan beside a pending one."""
        chance = self.random.random
        options = commits(self.random.randint(1, 4)) if chance() < 0.6 else versions(self.random.randint(1, 5))
        if chance() < 0.2:
            options["hoodie.cleaner.incremental.mode"] = "false"
        if chance() < 0.15:
            options |= LAZY
        if chance() < 0.1:
            options["hoodie.clean.allow.multiple"] = "true"
        return options


def record_random(recorder: Recorder, seed: int, cases: int) -> None:
    """Random histories, ten cases each, until ``cases`` are recorded."""
    while recorder.recorded < cases:
        for _ in RandomHistory(recorder, seed).run():
            if recorder.recorded >= cases or recorder.recorded % 10 == 0:
                break
        seed += 1
