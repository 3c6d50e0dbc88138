"""Small Hudi tables and timelines, made in one line each. They are values and files, and share no code with lakemeta.

Time is counted in hours of the first days of 2026: ``at(3)`` is the instant of 03:00, ``done(3)`` its completion five
minutes later.
"""

from __future__ import annotations

import io
import json
import zlib
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

from lakemeta.hudi.timeline.instants import Timeline, parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

START = datetime(2026, 1, 1, tzinfo=UTC)


def moment(hour: float) -> datetime:
    """So many hours after the start."""
    return START + timedelta(hours=hour)


def at(hour: float) -> str:
    """The instant of that hour."""
    return moment(hour).strftime("%Y%m%d%H%M%S%f")[:17]


def done(hour: float) -> str:
    """The completion time of a commit that was requested at that hour."""
    return at(hour + 1 / 12)


def timeline(*words: str) -> Timeline:
    """A timeline in layout 2 from ``"1 commit"``, ``"2 compaction requested"``, ``"3 deltacommit 7"`` (done at 7)."""
    return Timeline.of(instant for word in words if (instant := parse_instant(_file_name(word))) is not None)


def _file_name(word: str) -> str:
    hour, action, *rest = word.split()
    if rest and not rest[0].isdigit():
        return f"{at(float(hour))}.{action}.{rest[0]}"
    return f"{at(float(hour))}_{at(float(rest[0])) if rest else done(float(hour))}.{action}"


def base(group: str, hour: float, token: str = "0-1-1") -> str:
    """The name of a base file."""
    return f"{group}-0_{token}_{at(hour)}.parquet"


def log(group: str, hour: float, version: int = 1, suffix: str = "") -> str:
    """The name of a log file."""
    return f".{group}-0_{at(hour)}.log.{version}_0-1-1{suffix}"


def sized(*names: str) -> list[tuple[str, int]]:
    """Files as a listing has them: names and sizes in bytes."""
    return [(name, 10) for name in names]


@cache
def schema(name: str) -> Any:
    """An Avro schema of the engine."""
    if name == "HoodieCompactionPlan":
        return fastavro.parse_schema(_COMPACTION_PLAN)
    if name == "HoodieRequestedReplaceMetadata":
        return fastavro.parse_schema(_REQUESTED_REPLACE)
    text = files("lakemeta.hudi").joinpath("schemas", f"{name}.avsc").read_text(encoding="utf-8")
    return fastavro.parse_schema(json.loads(text))


def avro(name: str, record: Mapping[str, Any]) -> bytes:
    """One record in an Avro container."""
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema(name), [record])
    return buffer.getvalue()


def clean_metadata(earliest: str, last_commit: str, savepoints: Sequence[str] = (), version: int = 2) -> bytes:
    """A completed clean that deleted nothing."""
    record = {
        "startCleanTime": last_commit,
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 0,
        "earliestCommitToRetain": earliest,
        "lastCompletedCommitTimestamp": last_commit,
        "partitionMetadata": {},
        "version": version,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": {"savepointed_timestamps": ",".join(savepoints)} if savepoints else {},
    }
    return avro("HoodieCleanMetadata", record)


def clean_plan(
    deletes: Mapping[str, Sequence[str]],
    drops: Sequence[str] | None = (),
    bootstrap: bool = False,
    version: int = 2,
    earliest: float = 1,
) -> bytes:
    """A requested clean that deletes these paths by partition and retains commits from an hour on."""
    record = {
        "earliestInstantToRetain": {"timestamp": at(earliest), "action": "commit", "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": at(1),
        "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": {},
        "version": version,
        "filePathsToBeDeletedPerPartition": {
            p: [{"filePath": path, "isBootstrapBaseFile": bootstrap} for path in paths] for p, paths in deletes.items()
        },
        "partitionsToBeDeleted": None if drops is None else list(drops),
        "extraMetadata": {},
    }
    return avro("HoodieCleanerPlan", record)


def compaction_plan(operations: Iterable[tuple[str, str, str]], logs: Sequence[str] = ()) -> bytes:
    """A requested compaction of (partition, file id, base instant) slices, each of which names these log files."""
    listed = [
        {"partitionPath": p, "fileId": f, "baseInstantTime": b, "deltaFilePaths": list(logs)} for p, f, b in operations
    ]
    return avro("HoodieCompactionPlan", {"operations": listed})


class TableFiles:
    """Writes a table on a local disk, commit by commit, an hour apart; empty data files have made-up sizes.

    Groups are named by letters; ``self.hour`` is the hour of the next action.
    """

    def __init__(
        self, root: Path, version: int = 9, *, mor: bool = False, partitioned: bool = True, **more: str
    ) -> None:
        self.root, self.version, self.mor, self.partitioned = Path(root), version, mor, partitioned
        self.timeline = self.root / ".hoodie" / ("timeline" if version >= 8 else "")
        self.timeline.mkdir(parents=True)
        self.hour = 1.0
        self.groups: dict[tuple[str, str], dict[str, Any]] = {}
        self.set_properties(**{"hoodie.table.timeline.timezone": "UTC", **more})

    def set_properties(self, **more: str) -> None:
        properties = {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(self.version),
            "hoodie.table.type": "MERGE_ON_READ" if self.mor else "COPY_ON_WRITE",
            "hoodie.table.partition.fields": "p" if self.partitioned else "",
            "hoodie.table.checksum": str(zlib.crc32(b".t")),
            **more,
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self.root / ".hoodie/hoodie.properties").write_text(text)

    def commit(self, writes: Mapping[str, str], operation: str = "UPSERT", action: str = "commit") -> str:
        """Write a new base file in each group, given as letters by partition: ``{"p1": "ab"}``; the instant."""
        stats = {p: [self._write_base(p, group) for group in groups] for p, groups in writes.items()}
        return self._complete(action, _commit(operation, stats))

    def insert(self, writes: Mapping[str, str]) -> str:
        """Write new groups."""
        return self.commit(writes, "INSERT", "deltacommit" if self.mor else "commit")

    def delta(self, writes: Mapping[str, str]) -> str:
        """Append a log file to each group."""
        stats = {p: [self._write_log(p, group) for group in groups] for p, groups in writes.items()}
        return self._complete("deltacommit", _commit("UPSERT", stats))

    def replace(
        self, replaced: Mapping[str, str], writes: Mapping[str, str] | None = None, operation: str = "INSERT_OVERWRITE"
    ) -> str:
        """Replace groups by new ones."""
        stats = {p: [self._write_base(p, group) for group in groups] for p, groups in (writes or {}).items()}
        for partition, groups in replaced.items():
            for group in groups:
                self.groups.pop((partition, group), None)
        record = {
            **_commit(operation, stats),
            "partitionToReplaceFileIds": {p: [f"{group}-0" for group in groups] for p, groups in replaced.items()},
        }
        return self._complete("replacecommit", record, "HoodieReplaceCommitMetadata")

    def delete_partition(self, partition: str) -> str:
        """Replace all groups of a partition by nothing."""
        return self.replace({partition: "".join(g for p, g in self.groups if p == partition)}, None, "DELETE_PARTITION")

    def schedule_compaction(self, groups: Mapping[str, str], action: str = "compaction", inflight: bool = False) -> str:
        """Request a compaction of groups."""
        operations = []
        for partition, letters in groups.items():
            for group in letters:
                state = self.groups[partition, group]
                operations.append((partition, f"{group}-0", state["slice"]))
                if action == "compaction":
                    state |= {"slice": at(self.hour), "logs": 0}
        self.put(f"{at(self.hour)}.{action}.requested", compaction_plan(operations))
        if inflight:
            self.put(f"{at(self.hour)}.{action}.inflight", b"")
        return self._tick()

    def complete_compaction(self, hour: float, groups: Mapping[str, str]) -> None:
        """Write the base files of a compaction requested at that hour."""
        stats = {p: [self._write_base(p, group, hour) for group in letters] for p, letters in groups.items()}
        self._put_completed(hour, "commit", "HoodieCommitMetadata", {**_commit("COMPACT", stats), "compacted": True})
        self._tick()

    def begin(self, writes: Mapping[str, str], action: str = "commit", logs: bool = False) -> str:
        """Write files of a commit that never completes."""
        groups = {key: dict(value) for key, value in self.groups.items()}
        for partition, letters in writes.items():
            for group in letters:
                write = self._write_log if logs else self._write_base
                write(partition, group)
        self.groups = groups
        self.put(f"{at(self.hour)}.{action}.requested", b"")
        self.put(f"{at(self.hour)}.inflight" if action == "commit" else f"{at(self.hour)}.{action}.inflight", b"")
        return self._tick()

    def schedule_clustering(self, paths: Sequence[str] = ()) -> str:
        """Request a clustering of slices, given by the paths of their base files."""
        action = "clustering" if self.version >= 8 else "replacecommit"
        plan = {"inputGroups": [{"slices": [{"dataFilePath": path} for path in paths]}]}
        record = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": {}, "version": 1}
        self.put(f"{at(self.hour)}.{action}.requested", avro("HoodieRequestedReplaceMetadata", record))
        return self._tick()

    def savepoint(self, hour: float, names: Mapping[str, Sequence[str]]) -> str:
        """Pin files, by partition, under the instant of that hour."""
        record = {
            "savepointedBy": "a test",
            "savepointedAt": 1,
            "comments": "",
            "partitionMetadata": {p: {"partitionPath": p, "savepointDataFile": list(n)} for p, n in names.items()},
            "version": 1,
        }
        self._put_completed(hour, "savepoint", "HoodieSavepointMetadata", record, self.hour)
        self._tick()
        return at(hour)

    def drop_savepoint(self, instant: str) -> None:
        """Remove a savepoint."""
        for path in self.timeline.glob(f"{instant}*.savepoint"):
            path.unlink()

    def clean(self, hour: float, earliest: str, last_commit: str, savepoints: Sequence[str] = ()) -> None:
        """A clean that deleted nothing."""
        name = f"{at(hour)}_{done(hour)}.clean" if self.version >= 8 else f"{at(hour)}.clean"
        self.put(name, clean_metadata(earliest, last_commit, savepoints))

    def put(self, name: str, content: bytes) -> Path:
        """Write a timeline file."""
        path = self.timeline / name
        path.write_bytes(content)
        return path

    def data(self, partition: str, name: str, size: int = 10) -> Path:
        """Write a data file, and mark its directory as a partition."""
        folder = self.root / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        (folder / name).write_bytes(b"x" * size)
        return folder / name

    def files(self) -> set[str]:
        """The data files there are, relative to the table."""
        return {p for p in tree(self.root) if not p.startswith(".hoodie/") and "_partition_metadata" not in p}

    def _write_base(self, partition: str, group: str, hour: float | None = None) -> dict[str, Any]:
        instant = self.hour if hour is None else hour
        previous = self.groups.get((partition, group))
        self.data(partition, base(group, instant))
        self.groups[partition, group] = {"slice": at(instant), "logs": 0}
        return _stat(partition, group, base(group, instant), previous and previous["slice"])

    def _write_log(self, partition: str, group: str) -> dict[str, Any]:
        state = self.groups.setdefault((partition, group), {"slice": at(self.hour), "logs": 0})
        state["logs"] += 1
        name = f".{group}-0_{state['slice']}.log.{state['logs']}_0-1-1" if self.version < 8 else log(group, self.hour)
        self.data(partition, name)
        return _stat(partition, group, name, state["slice"])

    def _complete(self, action: str, record: Mapping[str, Any], name: str = "HoodieCommitMetadata") -> str:
        self._put_completed(self.hour, action, name, record)
        return self._tick()

    def _put_completed(
        self, hour: float, action: str, name: str, record: Mapping[str, Any], completed: float | None = None
    ) -> None:
        if self.version < 8:
            content = avro(name, record) if action == "savepoint" else json.dumps(record).encode()
            self.put(f"{at(hour)}.{action}", content)
        else:
            completion = done(max(hour, self.hour if completed is None else completed))
            self.put(f"{at(hour)}_{completion}.{action}", avro(name, record))

    def _tick(self) -> str:
        self.hour += 1
        return at(self.hour - 1)


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a directory: its path there and its content."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def _commit(operation: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "partitionToWriteStats": stats,
        "compacted": False,
        "extraMetadata": {},
        "version": 1,
        "operationType": operation,
    }


def _stat(partition: str, group: str, name: str, previous: str | None) -> dict[str, Any]:
    path = f"{partition}/{name}" if partition else name
    return {
        "fileId": f"{group}-0",
        "path": path,
        "prevCommit": previous or "null",
        "partitionPath": partition,
        "fileSizeInBytes": 10,
    }


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


_COMPACTION_PLAN = {
    "type": "record",
    "name": "HoodieCompactionPlan",
    "fields": [
        _optional(
            "operations",
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieCompactionOperation",
                    "fields": [
                        *(_optional(name, "string") for name in ("baseInstantTime", "fileId", "partitionPath")),
                        _optional("deltaFilePaths", {"type": "array", "items": "string"}),
                    ],
                },
            },
        )
    ],
}
_CLUSTERING_PLAN = {
    "type": "record",
    "name": "HoodieClusteringPlan",
    "fields": [
        _optional(
            "inputGroups",
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieClusteringGroup",
                    "fields": [
                        _optional(
                            "slices",
                            {
                                "type": "array",
                                "items": {
                                    "type": "record",
                                    "name": "HoodieSliceInfo",
                                    "fields": [_optional(name, "string") for name in ("dataFilePath", "fileId")],
                                },
                            },
                        )
                    ],
                },
            },
        )
    ],
}
_REQUESTED_REPLACE = {
    "type": "record",
    "name": "HoodieRequestedReplaceMetadata",
    "fields": [
        _optional("operationType", "string"),
        _optional("clusteringPlan", _CLUSTERING_PLAN),
        _optional("extraMetadata", {"type": "map", "values": "string"}),
        {"name": "version", "type": "int", "default": 1},
    ],
}
