"""Runs mutations in processes of their own, so that a signal, a hang and a blow-up of memory are results like others.

What is mutated is a subject: whole tables here, what parsers read in ``fuzz.inputs``. A worker says before each
mutation which one it is about to do, and is killed by its own alarm clock if that takes too long.
``python -m fuzz.runner --count 100000`` runs many; mutation ``i`` of seed ``s`` is always the same one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing as mp
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

import attrs
from fuzz import mutate, tables

SECONDS = 10  # that a mutation may take
MEMORY = 3 * 2**30  # bytes of address space beyond what a worker starts with
_EDITED_PLANS = 0.1
_TELL_EVERY = 60.0  # seconds


@attrs.frozen
class Finding:
    """What went wrong with a mutation."""

    table: str
    index: int
    done: tuple[str, ...]
    moved: bool
    wrong: tuple[str, ...]
    contents: dict[str, bytes | None] = attrs.field(repr=False)

    def __str__(self) -> str:
        return f"[{self.index}] {self.table}: {'; '.join(self.wrong)}  after  {', '.join(self.done)}"

    def tell(self, folder: Path | None, seed: int) -> Finding:
        """Print it, and write it as a case of the corpus."""
        print(self, flush=True)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._write(folder / f"{self.table.replace(' ', '_')}-{seed}-{self.index}.json")
        return self

    def _write(self, path: Path) -> None:
        text = {
            "table": self.table,
            "wrong": self.wrong,
            "done": self.done,
            "moved": self.moved,
            "changed": mutate.pack(self.contents),
        }
        path.write_text(json.dumps(text, indent=1, ensure_ascii=True) + "\n")


@attrs.frozen
class Mutation:
    """A mutated table: its metadata afterwards, and what was done."""

    table: tables.Table
    index: int
    contents: dict[str, bytes] = attrs.field(repr=False)
    done: tuple[str, ...]
    moved: bool

    def run(self) -> tuple[str, ...]:
        """What goes wrong with everything that is done with it."""
        return tables.run(self.table, self.table.mutated(self.contents), moved=self.moved).wrong

    def found(self, *wrong: str) -> Finding:
        """What went wrong with it."""
        changed = changes(self.table, self.contents)
        return Finding(self.table.name, self.index, self.done, self.moved, wrong, changed)


class Found(Protocol):
    """Something that went wrong."""

    def tell(self, folder: Path | None, seed: int) -> Any:
        """Print it, and write it where such cases are kept."""
        ...


class Case(Protocol):
    """One mutation."""

    def run(self) -> Sequence[str]:
        """What goes wrong with it."""
        ...

    def found(self, *wrong: str) -> Found: ...


@attrs.frozen
class Subject:
    """What is mutated: ``make`` gives the mutation of a number, the same one in every process."""

    seed: int
    make: Callable[[int], Case]


def make(seed: int, names: list[str], index: int) -> Mutation:
    """The mutation of a number."""
    random = Random(f"{seed}/{index}")
    formats = sorted({name.split()[0] for name in names})
    chosen = random.choice(formats)
    table = tables.tables()[random.choice([name for name in names if name.startswith(chosen)])]
    contents = table.contents()
    if random.random() < _EDITED_PLANS:
        service = random.choice(("clean", "rollback"))
        text, told = mutate.edit_plan(tables.plan_text(table.name, service), random)
        return Mutation(table, index, contents | {tables.EDITED: text.encode()}, (f"edited plan {told}",), moved=False)
    done, moved = mutate.mutate(contents, table.names, random)
    return Mutation(table, index, contents, tuple(done), moved)


def changes(table: tables.Table, contents: dict[str, bytes]) -> dict[str, bytes | None]:
    """What differs from the table before."""
    before = table.contents()
    changed: dict[str, bytes | None] = {path: None for path in before if path not in contents}
    return changed | {path: data for path, data in contents.items() if before.get(path) != data}


def replay(path: Path) -> tables.Outcome:
    """Run a kept case."""
    kept = json.loads(path.read_text())
    table = tables.tables()[kept["table"]]
    contents = table.contents()
    for name, data in mutate.unpack(kept["changed"]).items():
        if data is None:
            contents.pop(name, None)
        else:
            contents[name] = data
    return tables.run(table, table.mutated(contents), moved=kept["moved"])


def _limit() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(pipe: Any, at: Any, done: Any, subject: Subject, indexes: range, deadline: float) -> None:
    _limit()
    for index in indexes:
        if time.monotonic() > deadline:
            break
        at.value = index
        case = subject.make(index)
        if wrong := _timed(case):
            pipe.send(case.found(*wrong))
        done.value += 1
    at.value = -1


def _timed(case: Case) -> Sequence[str]:
    """Run it by the clocks of the machine and of the processor."""
    signal.setitimer(signal.ITIMER_REAL, 20 * SECONDS)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return case.run()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_many(
    seed: int,
    indexes: range,
    *,
    workers: int = 2,
    seconds: float = float("inf"),
    names: list[str] | None = None,
    keep: Path | None = None,
) -> tuple[int, list[Any]]:
    """Mutate tables until all are done or time is up; how many were done, and what went wrong, which is kept."""
    chosen = names or sorted(tables.tables())
    tables.prepare(chosen)
    subject = Subject(seed, partial(make, seed, chosen))
    return run_subject(subject, indexes, workers=workers, seconds=seconds, keep=keep)


def run_subject(
    subject: Subject, indexes: range, *, workers: int, seconds: float = float("inf"), keep: Path | None = None
) -> tuple[int, list[Any]]:
    """The same for any subject."""
    deadline = time.monotonic() + seconds
    findings: list[Any] = []
    done = 0
    context = mp.get_context("fork")
    running = [_Worker.start(context, subject, indexes[n::workers], deadline) for n in range(workers)]
    told = time.monotonic()
    while running:
        if time.monotonic() > told + _TELL_EVERY:
            told = time.monotonic()
            print(f"{done + sum(worker.done.value for worker in running)} mutations", flush=True)
        for worker in list(running):
            ended = not worker.process.is_alive()
            findings += [found.tell(keep, subject.seed) for found in worker.told()]
            if not ended:
                continue
            running.remove(worker)
            done += worker.done.value
            at = worker.at.value
            if at >= 0:  # it died at work
                died = subject.make(at).found(f"the process ended with {worker.process.exitcode}")
                findings.append(died.tell(keep, subject.seed))
                rest = worker.job[worker.job.index(at) + 1 :]
                if rest and time.monotonic() < deadline:
                    running.append(_Worker.start(context, subject, rest, deadline))
    return done, findings


@attrs.frozen
class _Worker:
    """A process, what it tells, which mutation it is at (-1 at the end), and how many it has done."""

    process: Any
    pipe: Any
    at: Any
    done: Any
    job: range

    @classmethod
    def start(cls, context: Any, subject: Subject, job: range, deadline: float) -> _Worker:
        receive, send = context.Pipe(duplex=False)
        at, done = context.Value("q", -1, lock=False), context.Value("q", 0, lock=False)
        process = context.Process(target=_work, args=(send, at, done, subject, job, deadline))
        process.start()
        send.close()
        return cls(process, receive, at, done, job)

    def told(self) -> list[Any]:
        found = []
        with contextlib.suppress(EOFError):
            while self.pipe.poll(0.05):
                found.append(self.pipe.recv())
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    told = parser.parse_args()
    import lakemeta.hudi.timeline.loading

    lakemeta.hudi.timeline.loading._WAITS = ()
    names = [name for name in sorted(tables.tables()) if told.only in name]
    begun = time.monotonic()
    indexes = range(told.start, told.start + told.count)
    done, findings = run_many(
        told.seed, indexes, workers=told.workers, seconds=told.seconds, names=names, keep=told.keep
    )
    print(f"{done} mutations of seed {told.seed}, {len(findings)} findings, {time.monotonic() - begun:.0f} s")
    os._exit(1 if findings else 0)


if __name__ == "__main__":
    main()
