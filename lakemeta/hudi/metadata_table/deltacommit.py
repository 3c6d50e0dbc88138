"""Delta commits of the metadata table: names of the log files they write, and their commit metadata.

Version 6 writes HoodieCommitMetadata as JSON, version 8 and newer as an Avro container. Both go by an
earlier delta commit of the same table: it has the schema of the records, and for Avro the writer schema,
which differs between releases.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.metadata_table.records import RecordSchema
from lakemeta.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.hudi.metadata_table.slices import Slice
    from lakemeta.hudi.metadata_table.update import GroupUpdate

WRITE_TOKEN: Final = "0-0-0"  # noqa: S105 - Hudi's name for the number of the write attempt
_ZEROS: Final = (
    "numInserts",
    "numUpdates",
    "totalWriteErrors",
    "totalLogRecords",
    "totalLogFilesCompacted",
    "totalLogSizeCompacted",
    "totalLogReadTimeMs",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "logOffset",
)
_NULLS_V6: Final = ("cdcStats", "tempPath", "minEventTime", "maxEventTime", "runtimeStats", "recordsStats")


@attrs.frozen
class Precedent:
    """An earlier completed delta commit: the record schema, and in version 8+ the Avro schema of such commits."""

    record_schema: RecordSchema
    commit_schema: str | None


@attrs.frozen(slots=True)
class NewLogFile:
    """A log file to be written: its name and number, the slice it goes on top of, and its content."""

    update: GroupUpdate
    name: str
    number: int
    slice: Slice
    content: bytes = attrs.field(repr=False)

    @property
    def path(self) -> str:
        """Its path relative to the base path of the metadata table."""
        return f"{self.update.partition}/{self.name}"


def read_precedent(data: bytes, where: str) -> Precedent:
    """Read a completed delta commit; raises CorruptMetadataError if it has no schema of the records."""
    schema = None
    if data.startswith(avro.MAGIC):
        _, records = avro.read_container(data, where)
        schema = avro.container_metadata(data, where)["avro.schema"].decode()
        commit = records[0] if records else {}
    else:
        commit = _json(data, where)
    extra = commit.get("extraMetadata") if isinstance(commit, dict) else None
    text = extra.get("schema") if isinstance(extra, dict) else None
    if not isinstance(text, str) or '"HoodieMetadataRecord"' not in text:
        raise CorruptMetadataError(f"{where} has no schema of the metadata table's records; rebuild the metadata table")
    return Precedent(RecordSchema(text), schema)


def new_log_file(update: GroupUpdate, onto: Slice, instant: str, table_version: int, content: bytes) -> NewLogFile:
    """Name a log file: version 6 by the slice's base instant and the next number, version 8+ by its own instant."""
    numbers = [log.version for log in onto.log_files if table_version < 8 or log.instant == instant]
    number = max(numbers, default=0) + 1
    named_by = onto.base_instant if table_version < 8 else instant
    return NewLogFile(update, f".{update.file_id}_{named_by}.log.{number}_{WRITE_TOKEN}", number, onto, content)


def encode_deltacommit(files: Iterable[NewLogFile], instant: str, precedent: Precedent, table_version: int) -> bytes:
    """The commit metadata of a delta commit that wrote these log files; of none for an inflight one."""
    stats: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        stats.setdefault(file.update.partition, []).append(_write_stat(file, instant, table_version))
    commit = {
        "partitionToWriteStats": stats,
        "compacted": False,
        "extraMetadata": {"schema": precedent.record_schema.text},
        "operationType": "UPSERT_PREPPED",
    }
    if precedent.commit_schema is None:
        return json.dumps(commit, indent=2).encode()
    return avro.write_container(precedent.commit_schema, [commit])


def _write_stat(file: NewLogFile, instant: str, table_version: int) -> dict[str, Any]:
    puts, size = len(file.update.puts), len(file.content)
    old_layout = table_version < 8
    earlier = [log.name for log in file.slice.log_files] if old_layout else []
    stat: dict[str, Any] = {
        "fileId": file.update.file_id,
        "path": file.path,
        "prevCommit": file.slice.base_instant if old_layout else instant,
        "numWrites": puts,
        "numDeletes": len(file.update.deleted_keys),
        "numUpdateWrites": puts,
        "totalWriteBytes": size,
        "fileSizeInBytes": size,
        "partitionPath": file.update.partition,
        "logVersion": file.number,
        "baseFile": (file.slice.base_file or "") if old_layout else "",
        "logFiles": [*earlier, file.name],
        **dict.fromkeys(_ZEROS, 0),
    }
    if old_layout:
        stat |= dict.fromkeys(_NULLS_V6)
        del stat["numUpdates"], stat["totalLogReadTimeMs"]
    return stat


def _json(data: bytes, where: str) -> dict[str, Any]:
    try:
        commit = parse_json(data)
    except ValueError as error:
        raise CorruptMetadataError(f"{where} is not commit metadata: {error}; rebuild the metadata table") from error
    if not isinstance(commit, dict):
        raise CorruptMetadataError(f"{where} is JSON but no commit metadata; rebuild the metadata table")
    return commit
