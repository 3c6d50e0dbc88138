"""Random arguments of services, and the table of a seed on which each is compared with Spark's procedure."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from generate.iceberg_histories import DAY, FIRST, History
from interop.iceberg_beside import Beside

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interop.iceberg_engine import IcebergEngine

Call = tuple[dict[str, str], dict[str, Any]]  # properties of the table to set first, and arguments

LATER = datetime(2100, 1, 1, tzinfo=UTC)
PLANTED = (
    *("data/orphan.parquet", "data/p=a/orphan.parquet", "data/_hidden.parquet", "data/_temporary/0/x.parquet"),
    *("data/.hidden", "metadata/.hidden.avro", "metadata/stray.avro", "metadata/deep/er/x.avro", "top.txt"),
    *("data/_h=1/x", "data/p_trunc=a/x", "data/_p=1/x", "data/.p=2/x", "data/with space.parquet", "data/enc%2Fx"),
    *("data/a#b", "data/a?b", "data/quote'x", 'data/double"x', "data/back\\slash", "data/br[1]", "data/tilde~"),
    *("data/plus+x", "data/ümlaut", "other/dir/f", "metadata/00000-dead.metadata.json", "data/p=a/q=1/.part.crc"),
    *("metadata/snap-1-1-dead.avro", "data/empty", "_top/x", "elsewhere/orphan"),
)


def compare(engine: IcebergEngine, service: str, seed: int, scratch: Path, at_most: int = 9) -> Beside:
    """Grow the table of a seed, and let both sides work on it several times, ``at_most`` so many."""
    emphasis, calls = SERVICES[service]
    history = History(engine, f"{service}_{seed}", seed, emphasis)
    history.grow(history.random.randint(4, 20))
    history.stretch(int(time.time() * 1000))
    if service == "orphans":
        plant(history)
    beside = Beside(engine, history, scratch)
    for properties, arguments in islice(calls(beside, history.random), at_most):
        beside.call(service, arguments, properties)
    return beside


def plant(history: History) -> None:
    """Files that the table knows nothing of, with odd names and of all ages; its own files are old."""
    chance, now = history.random, time.time()
    for path in sorted(p for p in history.root.rglob("*") if p.is_file()):
        os.utime(path, (now - 45 * 86_400,) * 2)
    for name in chance.sample(PLANTED, chance.randint(8, len(PLANTED))):
        path = history.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * chance.randint(0, 9))
        age = chance.choice((0, 0.5, 2.9, 3.1, 10, 40))
        os.utime(path, (now - age * 86_400,) * 2)


def _expire(beside: Beside, chance: random.Random) -> Iterator[Call]:
    snapshots = beside.before.metadata.get("snapshots", [])
    times, ids = [s["timestamp-ms"] for s in snapshots], [s["snapshot-id"] for s in snapshots]
    yield {}, chance.choice(({}, {"older_than": LATER}))
    for _ in range(4):
        found: dict[str, Any] = {}
        if chance.random() < 0.7:
            ms = chance.choice(times) + chance.choice((0, 0, 1, DAY))
            found["older_than"] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        if chance.random() < 0.3:
            found["retain_last"] = chance.randint(1, 5)
        if chance.random() < 0.3:
            found["snapshot_ids"] = chance.sample(ids, chance.randint(1, min(3, len(ids))))
        if chance.random() < 0.4:
            found["clean_expired_metadata"] = True
        yield {}, found


def _manifests(beside: Beside, chance: random.Random) -> Iterator[Call]:
    metadata = beside.before.metadata
    sizes: dict[Any, int] = {}
    for m in beside.before.manifests:
        key = m.get("content") or 0, m["partition_spec_id"]
        sizes[key] = sizes.get(key, 0) + m["manifest_length"]
    for _ in range(4):
        found, properties = {}, {}
        spec_id = metadata["default-spec-id"]
        if chance.random() < 0.5:
            spec_id = found["spec_id"] = chance.choice(metadata["partition-specs"])["spec-id"]
        spec = next(s for s in metadata["partition-specs"] if s["spec-id"] == spec_id)
        names = [field["name"] for field in spec["fields"]]
        if names and chance.random() < 0.3:
            found["sort_by"] = chance.sample(names, chance.randint(1, len(names)))
        if chance.random() < 0.6:
            target = int(chance.choice(list(sizes.values())) / chance.choice((1.5, 2.5, 3.5, 5.5)))
            properties["commit.manifest.target-size-bytes"] = str(target)
        yield properties, found


def _position_deletes(beside: Beside, chance: random.Random) -> Iterator[Call]:
    yield {}, {"options": {"rewrite-all": "true"}}
    for _ in range(3):
        options = {"min-input-files": str(chance.randint(1, 3))}
        found: dict[str, Any] = {"options": chance.choice(({"rewrite-all": "true"}, options))}
        properties = {}
        if chance.random() < 0.3:
            found["where"] = chance.choice(("p = 'a'", "p = 'b'", "p IS NULL", "q = 1", f"id < {FIRST + 6}"))
        if chance.random() < 0.3:
            properties["write.delete.granularity"] = chance.choice(("file", "partition"))
        if chance.random() < 0.3:
            properties["format-version"] = "3"
        yield properties, found


def _dangling(beside: Beside, chance: random.Random) -> Iterator[Call]:
    yield {}, {}


def _partition_statistics(beside: Beside, chance: random.Random) -> Iterator[Call]:
    ids = [s["snapshot-id"] for s in beside.before.metadata["snapshots"]]
    yield {}, {}
    for _ in range(2):
        yield {}, {"snapshot_id": chance.choice(ids)}


def _orphans(beside: Beside, chance: random.Random) -> Iterator[Call]:
    now, root = datetime.now(UTC), beside.history.root
    places = ("", "/data", "/metadata", "/nosuch", "/data/_temporary", "/elsewhere", "/data/p=a")
    for _ in range(3):
        found: dict[str, Any] = {}
        if chance.random() < 0.6:
            found["older_than"] = now - timedelta(days=chance.choice((1.1, 5, 30, 50)))
        if chance.random() < 0.6:
            found["location"] = chance.choice(("", "file:", "file://")) + str(root) + chance.choice(places)
        if chance.random() < 0.2:
            found["prefix_listing"] = True
        if chance.random() < 0.2:
            found["prefix_mismatch_mode"] = chance.choice(("IGNORE", "DELETE", "ERROR", "ignore"))
        yield {}, found


SERVICES: dict[str, tuple[str, Callable[[Beside, random.Random], Iterator[Call]]]] = {
    "expire": ("", _expire),
    "manifests": ("", _manifests),
    "position_deletes": ("deletes", _position_deletes),
    "dangling": ("deletes", _dangling),
    "partition_statistics": ("partitions", _partition_statistics),
    "orphans": ("", _orphans),
}
