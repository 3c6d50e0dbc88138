"""Random histories of small Iceberg tables, one commit of the real engine a step; a seed gives the same steps again.

They hold what services decide about: branches and tags with retention of their own, staged and picked snapshots,
rollbacks, files that come back, deletes of every kind, statistics, several specs and schemas, and times that were
stretched over weeks, some of them out of order.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from typing import TYPE_CHECKING, Any

from interop.engine_process import EngineError
from support.iceberg_checker import TableState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interop.iceberg_engine import IcebergEngine

Json = Any
DAY = 86_400_000  # ms
FIRST = 2**32  # ids from here on are long in every way to Java
COLUMNS = (("id", "long"), ("p", "string"), ("q", "int"), ("v", "double"))
SPECS: dict[str, list[Json]] = {
    "none": [],
    "p": [["p", "identity"]],
    "pq": [["p", "identity"], ["q", "identity"]],
    "bucket": [["id", "bucket", 2]],
    "trunc": [["p", "truncate", 1]],
}
FIELDS: list[Json] = [
    ["identity", "q"],
    ["identity", "p"],
    ["bucket", "id", 2],
    ["bucket", "id", 4],
    ["truncate", "p", 1],
]


class History:
    """One random table; ``steps`` says what was done, and which steps the engine refused."""

    def __init__(self, engine: IcebergEngine, name: str, seed: int, emphasis: str = "") -> None:
        self.engine, self.name = engine, name
        self.random = random.Random(f"{seed} {emphasis}")
        self.emphasis = emphasis
        self.waps = self.names = 0
        self.rows = FIRST - 1
        self.steps: list[str] = []
        versions = {"deletes": (2, 2, 3, 3)}.get(emphasis, (1, 2, 2, 3, 3))
        self.version = self.random.choice(versions)
        layouts = {"partitions": ("p", "pq", "bucket", "trunc")}.get(emphasis, tuple(SPECS))
        self.layout = self.random.choice(layouts)
        fields = [{"id": i, "name": n, "required": False, "type": t} for i, (n, t) in enumerate(COLUMNS, 1)]
        self._call(
            "create",
            schema={"type": "struct", "fields": fields},
            spec=SPECS[self.layout],
            order=[],
            properties=self._properties(),
        )

    @property
    def root(self) -> Path:
        return self.engine.path(self.name)

    def _call(self, function: str, **arguments: Any) -> None:
        self.attempt({"call": function, "table": f"ice.db.{self.name}", **arguments})

    def attempt(self, request: Json) -> None:
        """A step that the engine may refuse."""
        text = json.dumps(request)
        try:
            self.engine.ask(request)
            self.steps.append(text)
        except EngineError as error:
            self.steps.append(f"{text}  -- refused: {' '.join(str(error).splitlines()[:2])[:300]}")

    def _properties(self) -> dict[str, str]:
        possible = {
            "write.metadata.compression-codec": "gzip",
            "write.data.path": f"{self.root}/elsewhere",
            "commit.manifest-merge.enabled": "false",
            "commit.manifest.min-count-to-merge": "2",
            "write.delete.granularity": "partition",
            "write.metadata.previous-versions-max": "3",
            "write.object-storage.enabled": "true",
            "history.expire.min-snapshots-to-keep": "3",
            "history.expire.max-ref-age-ms": str(9 * DAY),
            "history.expire.max-snapshot-age-ms": str(2 * DAY),
        }
        chosen = {key: value for key, value in possible.items() if self.random.random() < 0.15}
        return {"format-version": str(self.version), **chosen}

    def state(self, branch: str = "") -> TableState:
        """The table at main or at a branch, as the checker reads it."""
        now = TableState.local(self.root)
        if not branch:
            return now
        return TableState(now.metadata_file, now.read, now.metadata["refs"][branch]["snapshot-id"])

    def grow(self, steps: int) -> None:
        """So many random steps."""
        self.append()
        kinds = self._kinds()
        for _ in range(steps):
            (step,) = self.random.choices([k for k, _ in kinds], [w for _, w in kinds])
            step()

    def _kinds(self) -> list[tuple[Callable[[], None], float]]:
        deletes = self.emphasis == "deletes"
        found: list[tuple[Callable[[], None], float]] = [
            (self.append, 6),
            (self.overwrite, 2),
            (self.remove, 1),
            (self.delete, 12 if deletes else 5),
            (self.delete_keys, 3 if deletes else 1),
            (self.evolve_spec, 1),
            (self.upgrade, 0.7),
        ]
        if deletes:
            return found
        return [
            *found,
            (self.stage, 1),
            (self.pick, 1),
            (self.branch, 1.5),
            (self.tag, 1.5),
            (self.drop_ref, 0.4),
            (self.move_main, 1),
            (self.readd, 0.6),
            (self.cluster, 0.7),
            (self.statistics, 1.5),
            (self.evolve_schema, 0.7),
            (self.truncate, 0.2),
        ]

    def file(self, most: int = 4) -> Json:
        """A data file of so many rows at most."""
        count = self.random.randint(1, most)
        self.rows += count
        p = self.random.choice(("a", "b", "c", "ax", None))
        return [self.rows - count + 1, count, p, self.random.choice((1, 2, 3, None))]

    def files(self) -> Json:
        return [self.file() for _ in range(self.random.randint(1, 3))]

    def _branch(self) -> str:
        """Mostly main, which is none."""
        refs = TableState.local(self.root).metadata.get("refs", {})
        names = sorted(name for name, ref in refs.items() if ref["type"] == "branch" and name != "main")
        return self.random.choice(names) if names and self.random.random() < 0.3 else ""

    def _snapshots(self) -> list[int]:
        return [s["snapshot-id"] for s in TableState.local(self.root).metadata.get("snapshots", [])]

    def append(self) -> None:
        kind = self.random.choice(("newAppend", "newFastAppend"))
        self._call("change_files", kind=kind, add=self.files(), branch=self._branch())

    def stage(self) -> None:
        self.waps += 1
        kind = self.random.choice(("newAppend", "newOverwrite"))
        paths = sorted(self.state().paths(0)) if kind == "newOverwrite" else []
        gone = self.random.sample(paths, min(len(paths), 1))
        self._call("change_files", kind=kind, add=[self.file()], remove=gone, wap=f"w{self.waps}")

    def pick(self) -> None:
        """Publish a staged snapshot, or try to."""
        metadata = TableState.local(self.root).metadata
        staged = [s["snapshot-id"] for s in metadata.get("snapshots", []) if "wap.id" in s["summary"]]
        if staged:
            self._call("manage", steps=[["cherrypick", self.random.choice(staged)]])

    def overwrite(self) -> None:
        branch = self._branch()
        paths = sorted(self.state(branch).paths(0))
        if paths:
            gone = self.random.sample(paths, self.random.randint(1, min(3, len(paths))))
            kind = self.random.choice(("newOverwrite", "newRewrite"))
            most = 1 if kind == "newRewrite" else 4  # which adds no more rows than it replaces
            self._call("change_files", kind=kind, add=[self.file(most)], remove=gone, branch=branch)

    def remove(self) -> None:
        paths = sorted(self.state().paths(0))
        if paths:
            gone = self.random.sample(paths, self.random.randint(1, min(2, len(paths))))
            self._call("change_files", kind="newDelete", remove=gone)

    def truncate(self) -> None:
        self._call("change_files", kind="newDelete", remove=sorted(self.state().paths(0)))

    def readd(self) -> None:
        """A file that an older snapshot has and the present has not."""
        state = TableState.local(self.root)
        if state.snapshot is None:
            return
        present, found = set(state.paths(0)), []
        for old in state.every_snapshot():
            assert old.snapshot is not None
            found += [(old.snapshot["snapshot-id"], path) for path in sorted(set(old.paths(0)) - present)]
        if found:
            self._call("change_files", kind="newAppend", again=[self.random.choice(found)])

    def delete(self) -> None:
        """Positions of some files: in Parquet, shared or not, or as vectors in one Puffin file."""
        branch = self._branch()
        state = self.state(branch)
        live = sorted(state.live(0), key=lambda e: e["data_file"]["file_path"])
        if self.version < 2 or not live:
            return
        deletes = []
        for entry in self.random.sample(live, self.random.randint(1, min(4, len(live)))):
            count = entry["data_file"]["record_count"]
            beyond = 2 if self.emphasis == "deletes" and self.random.random() < 0.1 else 0
            drawn = set(self.random.sample(range(count + beyond), self.random.randint(1, count)))
            if self.version >= 3:
                drawn |= state._deleted_positions(entry)
            deletes.append([entry["data_file"]["file_path"], sorted(drawn)])
        form, shared = "vectors" if self.version >= 3 else "parquet", self.random.random() < 0.5
        self._call("delete_positions", deletes=deletes, form=form, shared=shared, branch=branch)

    def delete_keys(self) -> None:
        paths = sorted(self.state().paths(0))
        if self.version < 2 or not paths:
            return
        rows = [[self.random.randint(FIRST, self.rows)] for _ in range(self.random.randint(1, 3))]
        self._call("delete_equal", columns=["id"], rows=rows, like=self.random.choice(paths))

    def _name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def tag(self) -> None:
        if ids := self._snapshots():
            name = self._name("tag")
            steps: list[Json] = [["createTag", name, self.random.choice(ids)]]
            if self.random.random() < 0.5:
                steps.append(["setMaxRefAgeMs", name, self.random.randint(1, 30) * DAY])
            self._call("manage", steps=steps)

    def branch(self) -> None:
        if not (ids := self._snapshots()):
            return
        name = self._name("br")
        steps: list[Json] = [["createBranch", name, self.random.choice(ids)]]
        if self.random.random() < 0.2:
            name, steps = "main", []
        for method, value in (
            ("setMaxRefAgeMs", self.random.randint(1, 30) * DAY),
            ("setMinSnapshotsToKeep", self.random.randint(1, 4)),
            ("setMaxSnapshotAgeMs", self.random.randint(1, 30) * DAY),
        ):
            if self.random.random() < 0.35 and not (name == "main" and method == "setMaxRefAgeMs"):
                steps.append([method, name, value])
        if steps:
            self._call("manage", steps=steps)

    def drop_ref(self) -> None:
        refs = TableState.local(self.root).metadata.get("refs", {})
        names = sorted(set(refs) - {"main"})
        if names:
            name = self.random.choice(names)
            kind = "removeTag" if refs[name]["type"] == "tag" else "removeBranch"
            self._call("manage", steps=[[kind, name]])

    def move_main(self) -> None:
        """Roll back, set the current snapshot, or fast-forward to a branch."""
        if not (ids := self._snapshots()):
            return
        branch = self._branch()
        how = self.random.choice(("rollbackTo", "setCurrentSnapshot", "fastForwardBranch"))
        if how != "fastForwardBranch":
            self._call("manage", steps=[[how, self.random.choice(ids)]])
        elif branch:
            self._call("manage", steps=[[how, "main", branch]])

    def cluster(self) -> None:
        self._call("cluster_manifests")

    def statistics(self) -> None:
        if (ids := self._snapshots()) and self.emphasis == "partitions":
            asked = f"table => 'db.{self.name}', snapshot_id => {self.random.choice(ids)}"
            self.attempt(f"CALL ice.system.compute_partition_stats({asked})")
        elif ids:
            path = self.root / "metadata" / f"{self._name('statistics')}.stats"
            path.write_bytes(b"PFA1")
            kind = self.random.choice(("table", "partition"))
            self._call("register_statistics", kind=kind, snapshot_id=self.random.choice(ids), path=str(path))

    def evolve_schema(self) -> None:
        fields = [f["name"] for f in self.engine.schema(self.name)["fields"]][4:]
        if fields and self.random.random() < 0.4:
            self._call("evolve", method="deleteColumn", arguments=[self.random.choice(fields)])
        else:
            self._call("evolve", method="addColumn", arguments=[self._name("y"), {"type": "int"}])

    def evolve_spec(self) -> None:
        metadata = self.engine.metadata(self.name)
        spec = next(s for s in metadata["partition-specs"] if s["spec-id"] == metadata["default-spec-id"])
        names = [f["name"] for f in spec["fields"] if f["transform"] != "void"]
        if names and self.random.random() < 0.4:
            self._call("change_spec", add=[], remove=[self.random.choice(names)])
        else:
            self._call("change_spec", add=[self.random.choice(FIELDS)], remove=[])

    def upgrade(self) -> None:
        if self.version < 3:
            self.version += 1
            self._call("set_properties", properties={"format-version": str(self.version)})

    def stretch(self, now_ms: int) -> None:
        """Times of snapshots, logs and metadata over the last weeks; with a seventh of tables out of order."""
        path = self.engine.metadata_file(self.name)
        data = path.read_bytes()
        zipped = data[:2] == b"\x1f\x8b"
        metadata = json.loads(gzip.decompress(data) if zipped else data)
        logs = [*metadata.get("snapshot-log", []), *metadata.get("metadata-log", [])]
        times = sorted(
            {o["timestamp-ms"] for o in [*metadata.get("snapshots", []), *logs]} | {metadata["last-updated-ms"]}
        )
        steps = sorted(self.random.randint(DAY // 2, self.random.randint(12, 40) * DAY) for _ in times)
        new = {time: now_ms - back for time, back in zip(times, reversed(steps), strict=True)}
        for item in logs:
            item["timestamp-ms"] = new[item["timestamp-ms"]]
        skewed = self.random.random() < 0.15
        for snapshot in metadata.get("snapshots", []):
            skew = self.random.randint(-4, 4) * DAY if skewed else 0
            snapshot["timestamp-ms"] = min(new[snapshot["timestamp-ms"]] + skew, now_ms - 1)
        metadata["last-updated-ms"] = new[metadata["last-updated-ms"]]
        text = json.dumps(metadata).encode()
        path.write_bytes(gzip.compress(text) if zipped else text)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def names_of_files(self) -> set[str]:
        """Files below the table, from its root; checksums of the local file system are left out."""
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        return {name for name in found if not re.search(r"(^|/)\.[^/]*\.crc$", name)}
