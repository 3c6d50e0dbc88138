"""Jobs on an S3 service behind the proxy, in bad weather: what is lost, and what is said that is not so.

``python -m faults.s3_runs --count 10000 --seed 7`` does many; run ``i`` of seed ``s`` always has the same job and
weather. ``--service moto`` puts a real server behind the proxy.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any, Protocol
from unittest import mock
from urllib.parse import quote
from xml.etree import ElementTree as ET

import attrs
from contract.s3_server import s3_server
from faults import judge
from faults.commands import Result, nobody_waits, run
from faults.jobs import Files, Job, jobs
from support.s3_memory import MemoryS3, Request, Response, delete_body
from support.s3_proxy import FaultProxy, HttpService, Service, fault_proxy
from support.s3_weather import Weather

from lakemeta.storage import objects

URL = "s3://lake/t"
SECONDS = 120  # that a run may take


class Store(Protocol):
    """A service that can be filled and emptied without the proxy."""

    def load(self, files: Files) -> None: ...

    def dump(self) -> Files: ...


@attrs.frozen
class Fate:
    """What became of a run: its exit code, the faults that it met, and what is wrong with it."""

    job: str
    code: int
    met: Counter[str]
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.job}: exit code {self.code}: {'; '.join(self.wrong)}  after {dict(self.met)}"


@attrs.frozen
class Place:
    """A table's place behind the proxy, and what calm runs there leave."""

    store: Store
    proxy: FaultProxy

    def put(self, files: Files) -> None:
        self.store.load({f"lake/t/{name}": data for name, data in files.items()})

    def files(self) -> Files:
        return {name.removeprefix("lake/t/"): data for name, data in self.store.dump().items()}

    def do(self, job: Job, attempts: int | None = None) -> Result:
        return run(job.command(URL, self.proxy.options(attempts)))

    def calm(self, job: Job) -> judge.Calm:
        """Runs without faults: the report and the shape that all others are held to."""
        self.put(job.files)
        rows = judge.newest(URL, job.files).rows_at_refs() if job.format == "iceberg" else {}
        first = self.do(job)
        after = self.files()
        shapes = [judge.shape(job, URL, after)]
        self._forget_locks(job)
        for _ in range(2):
            second = self.do(job)
            assert (first.code, second.code) == (0, 0), (job.name, first, second)
            shapes.append(judge.shape(job, URL, self.files()))
        assert first.report is not None
        return judge.Calm(first.report, after, tuple(shapes), rows)

    def _forget_locks(self, job: Job) -> None:
        """What a run holds that died runs out some time."""
        if job.locks:
            self.put({name: data for name, data in self.files().items() if name not in job.locks})

    def stormy(self, job: Job, calm: judge.Calm, seed: str) -> Fate:
        """A run in bad weather, and one without faults after it."""
        random = Random(seed)
        self.put(job.files)
        self.proxy.weather = weather = Weather(seed)
        with mock.patch.object(objects, "ATTEMPTS", random.choice((1, 2, 5))):
            result = self.do(job, random.choice((0, 1, 4)))
        self.proxy.settle()
        after = self.files()
        wrong = judge.lost(job, URL, after, calm.rows) or judge.ledgers(job, URL, after)
        wrong = wrong or judge.claims(job, URL, job.files, after, result, calm)
        if not wrong and (result.code or random.random() < 0.2):
            wrong += self._completes(job, calm, result)
        return Fate(job.name, result.code, weather.met, tuple(wrong))

    def _completes(self, job: Job, calm: judge.Calm, first: Result) -> list[str]:
        self._forget_locks(job)
        again = self.do(job)
        after = self.files()
        if again.code:
            return [f"the second run ends with {again.code}: {again.err[-400:]}"]
        found = judge.shape(job, URL, judge.without_strays(after, first))
        wrong = judge.lost(job, URL, after, calm.rows)
        if found not in calm.shapes:
            wrong.append(f"the second run left {judge.difference(found, calm.shapes[0])}")
        return wrong


@contextlib.contextmanager
def memory() -> Iterator[tuple[Store, Service]]:
    """The service in memory."""
    service = MemoryS3()
    yield service, service


class ServerStore:
    """The bucket of a server, filled and emptied by requests."""

    def __init__(self, service: HttpService) -> None:
        self._service = service

    def _ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> Response:
        answer = self._service(Request(method, quote(path), query, {}, body))
        assert answer.status < 300, answer
        return answer

    def load(self, files: Files) -> None:
        wanted = {name.partition("/")[2]: data for name, data in files.items()}
        if old := [key for key in self._keys() if key not in wanted]:
            self._ask("POST", "/lake", "delete=", delete_body(old))
        for key, data in wanted.items():
            self._ask("PUT", f"/lake/{key}", body=data)

    def dump(self) -> Files:
        return {f"lake/{key}": self._ask("GET", f"/lake/{key}").body for key in self._keys()}

    def _keys(self) -> list[str]:
        answer = ET.fromstring(self._ask("GET", "/lake", "list-type=2").body)
        return [found.text or "" for found in answer.iter() if found.tag.endswith("Key")]


@contextlib.contextmanager
def moto() -> Iterator[tuple[Store, Service]]:
    """moto's server, which minds conditional puts."""
    with s3_server("lake") as server:
        service = HttpService(server.options["s3.endpoint"])
        yield ServerStore(service), service


SERVICES: dict[str, Callable[[], Any]] = {"memory": memory, "moto": moto}


@contextlib.contextmanager
def place(service: str = "memory") -> Iterator[Place]:
    """A place on a service, behind the proxy."""
    with nobody_waits(), SERVICES[service]() as (store, behind), fault_proxy(behind) as proxy:
        yield Place(store, proxy)


def runs(where: Place, seed: int, indexes: range, names: list[str]) -> Iterator[tuple[int, Fate]]:
    """Runs by number; each is a function of its seed and number."""
    calm = cache(lambda name: where.calm(jobs(URL)[name]))
    for index in indexes:
        name = names[index % len(names)]
        before = calm(name)
        signal.alarm(SECONDS)
        yield index, where.stormy(jobs(URL)[name], before, f"{seed}/{index}")
        signal.alarm(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--service", default="memory", choices=sorted(SERVICES))
    told = parser.parse_args()
    names = sorted(name for name in jobs(URL) if told.only in name)
    began, codes, met, findings = time.monotonic(), Counter[int](), Counter[str](), 0
    with place(told.service) as where:
        chosen = range(told.start, told.start + told.count * told.step, told.step)
        for done, (index, fate) in enumerate(runs(where, told.seed, chosen, names), 1):
            codes[fate.code] += 1
            met += fate.met
            findings += bool(fate.wrong)
            if fate.wrong:
                print(f"[{told.seed}/{index}] {fate}", flush=True)
            if done % 100 == 0:
                print(f"{done} runs, {time.monotonic() - began:.0f} s, {dict(codes)}", flush=True)
    print(f"{sum(codes.values())} runs of seed {told.seed}, {findings} findings, {time.monotonic() - began:.0f} s")
    print(f"exit codes {dict(codes)}; faults {dict(met)}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
