"""Processes killed at work, as a machine that goes down does it: no exception, no handler, no thread lives on.

A job runs in a process of its own, forked from one that has everything imported. It is killed at one of its storage
operations (before it, after it, or with half of its files deleted), or after some time. Then a checker looks at the
table, and another run has to complete the work. ``python -m faults.many_kills --count 1000 --seed 7`` does many.
"""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Protocol

import attrs
from faults import commands, judge, s3_runs
from faults.jobs import Files, Job, jobs
from support.faults import MUTATING
from support.s3_memory import LONG_AGO

from lakemeta.storage.contract import TEMPORARY_SUFFIX
from lakemeta.storage.local import LocalStorage
from lakemeta.storage.s3 import S3Storage

_LOOKING = ("read", "list_dir", "exists", "stat")


@attrs.frozen
class Blow:
    """When a process is killed: at its ``at``-th operation, or after ``seconds``; never, if neither is given."""

    at: int | None = None
    when: str = "before"
    seconds: float | None = None

    def __str__(self) -> str:
        return f"after {self.seconds:.3f} s" if self.seconds is not None else f"{self.when} operation {self.at}"


class Ground(Protocol):
    """Where a table lies."""

    url: str
    options: dict[str, str]

    def put(self, files: Files) -> None: ...

    def files(self) -> Files: ...


@attrs.frozen
class Disk:
    """A table in a directory."""

    url: str
    options: dict[str, str] = attrs.field(factory=dict)

    def put(self, files: Files) -> None:
        shutil.rmtree(self.url, ignore_errors=True)
        for name, data in files.items():
            path = Path(self.url, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))

    def files(self) -> Files:
        """The files there are; what a write did not end is no file of the table, and nobody sees it."""
        found = (path for path in Path(self.url).rglob("*") if path.is_file())
        return {
            path.relative_to(self.url).as_posix(): path.read_bytes()
            for path in found
            if not path.name.endswith((TEMPORARY_SUFFIX, ".crc"))
        }


@attrs.frozen
class Bucket:
    """A table on the S3 service in memory, which lives on in this process."""

    place: s3_runs.Place
    url: str
    options: dict[str, str]

    def put(self, files: Files) -> None:
        self.place.put(files)

    def files(self) -> Files:
        return self.place.files()


@contextlib.contextmanager
def grounds() -> Iterator[dict[str, Ground]]:
    """A directory and a bucket."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with s3_runs.place() as place, tempfile.TemporaryDirectory(dir=memory) as folder:
        yield {
            "local": Disk(f"{folder}/t"),
            "s3": Bucket(place, s3_runs.URL, place.proxy.options()),
        }


def work(arguments: list[str], blow: Blow, told: str) -> None:
    """Run ``lakemeta`` in this process until the blow; how many operations there were is written to a file."""
    count = [0]
    for kind in (LocalStorage, S3Storage):
        for name in (*MUTATING, *_LOOKING):
            setattr(kind, name, _struck(getattr(kind, name), name, blow, count))
    with commands.nobody_waits():
        code = commands.run(arguments).code
    Path(told).write_text(str(count[0]))
    os._exit(code)


def _struck(operation: Any, name: str, blow: Blow, count: list[int]) -> Any:
    def struck(self: Any, path: Any, *more: Any) -> Any:
        count[0] += 1
        if count[0] != blow.at:
            return operation(self, path, *more)
        if blow.when == "after":
            operation(self, path, *more)
        elif blow.when == "half" and name == "delete_many":
            operation(self, path[: len(path) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    return struck


@attrs.frozen
class Fate:
    """What became of a killed run: ``killed`` is false if it had ended before."""

    job: str
    blow: Blow
    killed: bool
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.job}, killed {self.blow}: {'; '.join(self.wrong)}"


@attrs.frozen
class Known:
    """Of a job on a ground: what calm runs leave, how many operations one has, and how long it takes."""

    calm: judge.Calm
    operations: int
    seconds: float


@attrs.define
class Killer:
    """Kills jobs on a ground."""

    ground: Ground
    _context: Any = attrs.field(factory=lambda: mp.get_context("forkserver"))
    _known: dict[str, Known] = attrs.field(factory=dict)

    def strike(self, job: Job, random: Random) -> Fate:
        """Kill a run of a job, look, and run it again."""
        known = self._of(job)
        if random.random() < 0.5:
            blow = Blow(random.randint(1, known.operations), random.choice(("before", "half", "after")))
        else:
            blow = Blow(seconds=random.uniform(0, known.seconds))
        self.ground.put(job.files)
        code, _, _ = self._run(job, blow)
        wrong = self._lost(job, known.calm) or self._completes(job, known.calm)
        return Fate(job.name, blow, code == -signal.SIGKILL, tuple(wrong))

    def _of(self, job: Job) -> Known:
        if job.name not in self._known:
            rows = judge.newest(self.ground.url, job.files).rows_at_refs() if job.format == "iceberg" else {}
            self.ground.put(job.files)
            code, operations, seconds = self._run(job, Blow())
            assert code == 0, (job.name, code)
            after = self.ground.files()
            shapes = [judge.shape(job, self.ground.url, after)]
            for _ in range(2):
                again = commands.run(job.command(self.ground.url, self.ground.options))
                assert again.code == 0, (job.name, again)
                shapes.append(judge.shape(job, self.ground.url, self.ground.files()))
            self._known[job.name] = Known(judge.Calm({}, after, tuple(shapes), rows), operations, seconds)
        return self._known[job.name]

    def _run(self, job: Job, blow: Blow) -> tuple[int, int, float]:
        """The exit code of a run in a process of its own, its operations, and its seconds."""
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder, "operations")
            arguments = job.command(self.ground.url, self.ground.options)
            process = self._context.Process(target=work, args=(arguments, blow, str(told)))
            began = time.monotonic()
            process.start()
            if blow.seconds is not None:
                process.join(blow.seconds)
                process.kill()
            process.join(120)
            assert process.exitcode is not None, "it hangs"
            operations = int(told.read_text()) if told.exists() else 0
            return process.exitcode, operations, time.monotonic() - began

    def _lost(self, job: Job, calm: judge.Calm) -> list[str]:
        files = self.ground.files()
        return judge.lost(job, self.ground.url, files, calm.rows) or judge.ledgers(job, self.ground.url, files)

    def _completes(self, job: Job, calm: judge.Calm) -> list[str]:
        for lock in job.locks:  # what a dead process holds runs out some time
            files = self.ground.files()
            if files.pop(lock, None) is not None:
                self.ground.put(files)
        again = commands.run(job.command(self.ground.url, self.ground.options))
        if again.code:
            return [f"the second run ends with {again.code}: {again.err[-400:]}"]
        found = judge.shape(job, self.ground.url, self.ground.files())
        wrong = [] if found in calm.shapes else [f"the second run left {judge.difference(found, calm.shapes[0])}"]
        return self._lost(job, calm) + wrong


def strikes(seed: int, indexes: range, only: str = "") -> Iterator[tuple[int, str, Fate]]:
    """Blows by number, on disks and S3 in turn."""
    mp.get_context("forkserver").set_forkserver_preload(["faults.kills", "pyarrow.parquet", "s3fs"])
    with grounds() as found:
        killer = cache(lambda name: Killer(found[name]))
        for index in indexes:
            where = ("local", "s3")[index % 2]
            every = jobs(found[where].url)
            names = [name for name in sorted(every) if only in name and (where == "s3" or "lock object" not in name)]
            yield index, where, killer(where).strike(every[names[index // 2 % len(names)]], Random(f"{seed}/{index}"))
