"""What instants say: commits, replace commits, cleans, savepoints, compaction and clustering plans.

Commits are JSON up to table version 6 and Avro from version 8 on; everything else is Avro in every version. The
encoding is recognised by the bytes, so tables that were upgraded read the same. Partition names are physical paths
relative to the table root, ``""`` for a table without partitions.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro.container import MAGIC, ends_whole, read_container, write_container
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.timeline.fields import Record
from lakemeta.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CLEAN_PLAN_VERSION: Final = 2
SAVEPOINTED_TIMESTAMPS: Final = "savepointed_timestamps"


@attrs.frozen
class CommitMetadata:
    """A commit, delta commit or replace commit: its write statistics by partition and the file ids it replaced."""

    operation: str
    write_stats: Mapping[str, Sequence[Mapping[str, Any]]]
    replaced: Mapping[str, Sequence[str]]
    extra: Mapping[str, str]

    def partitions(self) -> Iterator[str]:
        """The partitions it wrote to or replaced file groups in."""
        yield from self.write_stats
        yield from (partition for partition in self.replaced if partition not in self.write_stats)

    def has_update(self, partition: str) -> bool:
        """True if it wrote a new version of an existing file group in this partition."""
        stats = self.write_stats.get(partition, ())
        return any(stat.get("prevCommit") not in (None, "null") for stat in stats)


@attrs.frozen
class CleanMetadata:
    """A completed clean (``HoodieCleanMetadata``), as far as the next one needs it."""

    earliest_to_retain: str
    last_completed_commit: str
    savepoints: frozenset[str]


@attrs.frozen
class CleanPlanFile:
    """One file of a clean plan, as the engine names it: a path with or without scheme."""

    path: str
    is_bootstrap_base: bool = False


@attrs.frozen
class CleanerPlan:
    """``HoodieCleanerPlan`` version 2. ``earliest`` is (time, action) of the earliest commit to retain, or None."""

    policy: str
    earliest: tuple[str, str] | None
    last_completed_commit: str
    files: Mapping[str, tuple[CleanPlanFile, ...]]
    partitions_to_delete: tuple[str, ...] | None
    extra: Mapping[str, str]


@attrs.frozen(slots=True)
class CompactionOperation:
    """A file group that a pending compaction will merge, from its slice at ``base_instant`` on; ``files`` are names."""

    partition: str
    file_id: str
    base_instant: str
    files: tuple[str, ...] = ()


def decode_commit(data: bytes, where: str, *, replaces: bool = False) -> CommitMetadata:
    """Read a commit or delta commit in either encoding; with ``replaces`` a replace commit."""
    record = Record(one_record(data, where) if data.startswith(MAGIC) else _json_object(data, where), where)
    stats = record.nullable_lists("partitionToWriteStats", dict)
    if replaces or "partitionToReplaceFileIds" in record.fields:
        replaced = record.nullable_lists("partitionToReplaceFileIds", str)
    else:
        replaced = {}
    return CommitMetadata(
        record.optional("operationType", str) or "UNKNOWN",
        stats,
        replaced,
        record.optional("extraMetadata", dict) or {},
    )


def decode_replace_commit(data: bytes, where: str) -> CommitMetadata:
    """Read a completed replace commit in either encoding."""
    return decode_commit(data, where, replaces=True)


def decode_clean(data: bytes, where: str) -> CleanMetadata:
    """Read a completed clean."""
    record = Record(one_record(data, where), where)
    _check_version(record)
    savepoints = record.optional_texts("extraMetadata").get(SAVEPOINTED_TIMESTAMPS, "")
    return CleanMetadata(
        record.need("earliestCommitToRetain", str),
        record.optional("lastCompletedCommitTimestamp", str) or "",
        frozenset(filter(None, savepoints.split(","))),
    )


def decode_failed_deletes(data: bytes, where: str) -> dict[str, tuple[str, ...]]:
    """The names of the files that a completed clean could not delete, by partition."""
    partitions = Record(one_record(data, where), where).record_map("partitionMetadata")
    return {partition: names for partition, p in partitions.items() if (names := p.need_strings("failedDeleteFiles"))}


def decode_cleaner_plan(data: bytes, where: str) -> CleanerPlan:
    """Read the plan of a requested clean; plans older than version 2 are refused."""
    record = Record(one_record(data, where), where)
    _check_version(record)
    earliest = record.nullable_record("earliestInstantToRetain")
    return CleanerPlan(
        record.need("policy", str),
        (earliest.need("timestamp", str), earliest.need("action", str)) if earliest else None,
        record.optional("lastCompletedCommitTimestamp", str) or "",
        {
            partition: tuple(_plan_file(file, where) for file in listed)
            for partition, listed in record.nullable_lists("filePathsToBeDeletedPerPartition", dict).items()
        },
        record.optional_strings("partitionsToBeDeleted"),
        record.optional_texts("extraMetadata"),
    )


def encode_cleaner_plan(plan: CleanerPlan) -> bytes:
    """The bytes of ``<ts>.clean.requested``, with the writer schema of the engine."""
    earliest = plan.earliest and {
        "timestamp": plan.earliest[0],
        "action": plan.earliest[1],
        "state": "COMPLETED",
    }
    record = {
        "earliestInstantToRetain": earliest,
        "lastCompletedCommitTimestamp": plan.last_completed_commit,
        "policy": plan.policy,
        # The engine leaves the superseded field out where it visited no partition, and empty elsewhere.
        "filesToBeDeletedPerPartition": None if plan.partitions_to_delete is None else {},
        "version": CLEAN_PLAN_VERSION,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": f.path, "isBootstrapBaseFile": f.is_bootstrap_base} for f in listed]
            for partition, listed in plan.files.items()
        },
        "partitionsToBeDeleted": None if plan.partitions_to_delete is None else list(plan.partitions_to_delete),
        "extraMetadata": dict(plan.extra),
    }
    return write_container(engine_schema("HoodieCleanerPlan"), [record])


def encode_clean_metadata(record: Mapping[str, Any]) -> bytes:
    """The bytes of a completed clean from the fields of ``HoodieCleanMetadata``."""
    return write_container(engine_schema("HoodieCleanMetadata"), [record])


def decode_savepoint(data: bytes, where: str) -> dict[str, frozenset[str]]:
    """The names of the data files that a completed savepoint pins, by partition."""
    partitions = Record(one_record(data, where), where).record_map("partitionMetadata")
    return {partition: frozenset(p.need_strings("savepointDataFile")) for partition, p in partitions.items()}


def decode_compaction_plan(data: bytes, where: str) -> tuple[CompactionOperation, ...]:
    """The operations of a requested compaction or log compaction."""
    operations = Record(one_record(data, where), where).need_records("operations")
    return tuple(
        CompactionOperation(
            o.need("partitionPath", str), o.need("fileId", str), o.need("baseInstantTime", str), _named_files(o)
        )
        for o in operations
    )


def decode_requested_clustering(data: bytes, where: str) -> tuple[str, ...] | None:
    """The names of the files that a requested clustering reads; None if it is a replace commit of another kind.

    In table version 6 a clustering is requested as a replace commit, and an empty request is an overwrite.
    """
    if not data:
        return None
    record = Record(one_record(data, where), where)
    if record.nullable("operationType", str) != "CLUSTER":
        return None
    plan = record.nullable_record("clusteringPlan")
    groups = plan.records("inputGroups") if plan else ()
    return tuple(
        name for group in groups for file_slice in group.records("slices") for name in _named_files(file_slice)
    )


def looks_whole(head: bytes, tail: bytes, size: int) -> bool:
    """True if a commit file of ``size`` bytes is not cut off, judged by its first bytes and its last 16.

    JSON ends with its brace. An Avro container ends with the sync marker that also ends its header, so ``head``
    must reach past the schema.
    """
    if head.startswith(MAGIC):
        return ends_whole(head, tail, size)
    return head.lstrip()[:1] == b"{" and tail.rstrip()[-1:] == b"}"


@cache
def engine_schema(name: str) -> str:
    """The Avro schema of an engine record, byte for byte as Hudi 0.15 to 1.2 write it."""
    return files("lakemeta.hudi").joinpath("schemas", f"{name}.avsc").read_text(encoding="utf-8")


def _named_files(file_slice: Record) -> tuple[str, ...]:
    """The names of the base file and the log files of a slice in a plan."""
    base = file_slice.optional("dataFilePath", str)
    paths = (*((base,) if base else ()), *(file_slice.optional_strings("deltaFilePaths") or ()))
    return tuple(path.rpartition("/")[2] for path in paths)


def _plan_file(value: object, where: str) -> CleanPlanFile:
    file = Record.of(value, where)
    if not (path := file.nullable("filePath", str)):
        raise CorruptMetadataError(f"{where} plans to delete a file without a path; delete that plan with Hudi's tools")
    return CleanPlanFile(path, bool(file.optional("isBootstrapBaseFile", bool)))


def _check_version(record: Record) -> None:
    version = record.nullable("version", int)
    if version != CLEAN_PLAN_VERSION:
        raise UnsupportedFeatureError(f"{record.where} has clean version {version}; lakemeta handles version 2 only")


def one_record(data: bytes, where: str) -> dict[str, Any]:
    """The only record of an Avro container; raises CorruptMetadataError if it holds none or several."""
    _, records = read_container(data, where)
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptMetadataError(f"{where} holds {len(records)} records where one was expected; restore it")
    record: dict[str, Any] = records[0]
    return record


def _json_object(data: bytes, where: str) -> dict[str, Any]:
    try:
        record = parse_json(data)
    except ValueError as error:
        raise CorruptMetadataError(f"{where} is cut off or damaged: {error}; restore it or roll it back") from error
    if not isinstance(record, dict):
        raise CorruptMetadataError(f"{where} is JSON but no commit metadata; restore it or roll it back")
    return record
