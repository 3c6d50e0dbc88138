"""What may go wrong between a client and S3, as a function of a seed: which request meets which fault.

A fault is decided by the seed and by the request itself and how often it came, so that threads that ask in another
order meet the same ones. Numbers and uuids that differ from run to run do not count. Nothing here is a well-formed lie:
every answer is one that S3 documents, and what it says was not done was not done, or may not have been.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Literal

import attrs

from support.s3_memory import Request

Kind = Literal[
    "slow down", "internal error", "internal error after", "timeout answer", "conflict",
    "reset before", "reset after", "late", "cut body", "slow body", "stall", "some keys", "error in 200",
]  # fmt: skip

_VARIABLE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{9,}")
_ANY: tuple[Kind, ...] = (
    "slow down", "internal error", "internal error after", "timeout answer",
    "reset before", "reset after", "late", "cut body", "slow body", "stall",
)  # fmt: skip


@attrs.frozen
class Storm:
    """Requests ``start`` to ``end`` of a run are all answered with SlowDown."""

    start: int
    end: int


class Weather:
    """The faults of one run; calm if there is no seed. ``met`` counts those that came to pass."""

    def __init__(self, seed: str | None) -> None:
        self.seed = seed
        self.met: Counter[str] = Counter()
        self.page_size: int | None = None
        self.rates: dict[Kind, float] = {}
        self.storms: tuple[Storm, ...] = ()
        self._seen: Counter[str] = Counter()
        if seed is not None:
            self._forecast(Random(seed))

    def _forecast(self, random: Random) -> None:
        worst = random.choice((0.005, 0.01, 0.02, 0.05, 0.1, 0.4))
        kinds = random.sample(_ANY, random.randint(0, 4))
        self.rates = {kind: random.uniform(0, worst) for kind in kinds if kind != "stall"}
        if "stall" in kinds:
            self.rates["stall"] = 0.01
        if random.random() < 0.5:
            self.rates["some keys"] = random.choice((0.3, 0.7, 1.0))
        if random.random() < 0.3:
            self.rates["conflict"] = random.choice((0.1, 0.5))
        if random.random() < 0.2:
            self.rates["error in 200"] = 0.3
        if random.random() < 0.4:
            self.page_size = random.choice((1, 2, 3))
        starts = [random.randrange(120) for _ in range(random.choice((0, 0, 0, 1, 2)))]
        self.storms = tuple(Storm(start, start + random.choice((2, 4, 8, 100))) for start in starts)

    def of(self, request: Request) -> tuple[Kind | None, Random]:
        """What befalls a request, and chance for its details."""
        number = self._seen.total()
        name = _VARIABLE.sub("#", f"{request.method} {request.path}?{request.query}")
        self._seen[name] += 1
        random = Random(f"{self.seed} {name} {self._seen[name]}")
        kind = self._kind(request, number, random)
        if kind is not None:
            self.met[kind] += 1
        return kind, random

    def _kind(self, request: Request, number: int, random: Random) -> Kind | None:
        if any(storm.start <= number < storm.end for storm in self.storms):
            return "slow down"
        for kind, rate in self.rates.items():
            if _fits(kind, request) and random.random() < rate:
                return kind
        return None


def _fits(kind: Kind, request: Request) -> bool:
    if kind == "some keys":
        return request.is_bulk_delete
    if kind == "conflict":
        return request.is_conditional_put
    if kind == "error in 200":
        return request.is_bulk_delete or "x-amz-copy-source" in request.headers
    if kind == "cut body":
        return request.method == "GET" or request.is_bulk_delete
    if kind == "late":
        return request.method in ("PUT", "POST", "DELETE")
    return True
