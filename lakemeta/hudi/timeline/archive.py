"""The archived timeline: instants that Hudi has moved out of the active timeline.

Table version 6 keeps log files of HoodieArchivedMetaEntry records (``.commits_.archive.N_*``), one record a
state. Version 8 and later keep a log-structured tree of Parquet files in ``timeline/history``: the file
``_version_`` names the newest ``manifest_N``, which lists the live files; every instant in them is
completed. Sources: HoodieArchivedTimeline (0.15), ArchivedTimelineV2 and LSMTimeline (1.x).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.logs import BlockType, CorruptBlock, LogBlock, read_blocks
from lakemeta.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LSM_VERSION_FILE: Final = "_version_"
_ARCHIVE_NAME: Final = re.compile(r"\.commits_\.archive\.(\d+)(_.*)?")
_MANIFEST_NAME: Final = re.compile(r"manifest_(\d+)")
_NUMBER: Final = re.compile("[0-9]{1,18}")
_AVRO_BLOCK_VERSION: Final = 3
_INT: Final = struct.Struct(">i")


@attrs.frozen(slots=True)
class ArchivedInstant:
    """One archived instant in one state (``REQUESTED``, ``INFLIGHT`` or ``COMPLETED``).

    ``completion`` is when it got into that state; entries of old writers have none.
    """

    requested: str
    action: str
    state: str
    completion: str | None


@attrs.frozen(slots=True)
class ArchivedTimeline:
    """Archived instants by requested time; ``torn`` says in words which blocks a crash left half written."""

    instants: tuple[ArchivedInstant, ...] = ()
    torn: tuple[str, ...] = ()

    def completed(self) -> Iterator[ArchivedInstant]:
        """The instants in state COMPLETED."""
        return (instant for instant in self.instants if instant.state == "COMPLETED")

    def completion_times(self) -> dict[str, str]:
        """Requested time -> completion time of every completed instant that has one."""
        return {i.requested: i.completion for i in self.completed() if i.completion is not None}


@attrs.frozen(slots=True)
class LsmFile:
    """A live Parquet file of the archive, as a manifest lists it; ``size`` in bytes."""

    name: str
    size: int


def is_archive_file(name: str) -> bool:
    """True for the name of a version 6 archive file."""
    return _ARCHIVE_NAME.fullmatch(name) is not None


def read_archived_v6(files: Iterable[tuple[str, bytes]]) -> ArchivedTimeline:
    """Read version 6 archive files, given as (name, content) in any order; other names are passed over.

    A torn block is passed over, as Hudi does, and named in ``torn``. Raises CorruptMetadataError if a whole
    block does not hold what it says.
    """
    instants: dict[tuple[str, str, str], ArchivedInstant] = {}
    torn: list[str] = []
    for name, data in files:
        if not is_archive_file(name):
            continue
        for block in read_blocks(data, name):
            if isinstance(block, CorruptBlock):
                torn.append(f"{name} has a torn block at byte {block.offset}")
                continue
            for instant in _block_instants(block, name):
                instants[instant.requested, instant.action, instant.state] = instant
    return _timeline(instants.values(), torn)


def newest_manifest(version: bytes | None, names: Iterable[str], where: str) -> str | None:
    """The name of the manifest that counts, or None if nothing was ever archived.

    ``version`` is the content of ``_version_`` (None if there is no such file: then the highest manifest
    counts, as in LSMTimeline), ``names`` the files of the history directory ``where``. Raises
    CorruptMetadataError if the manifest that ``_version_`` names is missing.
    """
    versions = {int(m[1]) for name in names if (m := _MANIFEST_NAME.fullmatch(name))}
    if version is None:
        return f"manifest_{max(versions)}" if versions else None
    text = version.decode("ascii", "replace").strip()
    if not _NUMBER.fullmatch(text) or int(text) not in versions:
        raise CorruptMetadataError(f"{where}/{LSM_VERSION_FILE} names manifest {text!r:.100}, which does not exist")
    return f"manifest_{int(text)}"


def manifest_files(manifest: bytes, where: str) -> tuple[LsmFile, ...]:
    """The live files that a manifest lists; raises CorruptMetadataError if it is none or a name is a path."""
    try:
        files = tuple(LsmFile(str(f["fileName"]), int(f["fileLen"])) for f in parse_json(manifest)["files"])
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptMetadataError(f"{where} is not a manifest of an archived timeline: {error!r}") from error
    for file in files:
        if "/" in file.name or not file.name.endswith(".parquet"):
            raise CorruptMetadataError(f"{where} lists {file.name!r}, which is no file of an archived timeline")
    return files


def read_archived_lsm(files: Sequence[tuple[LsmFile, bytes]]) -> ArchivedTimeline:
    """Read the live Parquet files of a version 8+ archive; raises CorruptMetadataError if one is damaged."""
    instants: dict[tuple[str, str], ArchivedInstant] = {}
    for file, data in files:
        if len(data) != file.size:
            raise CorruptMetadataError(f"{file.name} has {len(data)} bytes, the manifest says {file.size}")
        for instant in _parquet_instants(file.name, data):
            instants[instant.requested, instant.action] = instant
    return _timeline(instants.values(), ())


def _timeline(instants: Iterable[ArchivedInstant], torn: Iterable[str]) -> ArchivedTimeline:
    states = {"REQUESTED": 0, "INFLIGHT": 1, "COMPLETED": 2}
    ordered = sorted(instants, key=lambda i: (i.requested, i.action, states.get(i.state, 3)))
    return ArchivedTimeline(tuple(ordered), tuple(torn))


def _block_instants(block: LogBlock, where: str) -> Iterator[ArchivedInstant]:
    place = f"{where}, block at byte {block.offset}"
    if block.type is not BlockType.AVRO_DATA or block.schema is None:
        raise CorruptMetadataError(f"{place}: an archive holds Avro data with a schema, this is a {block.type.name}")
    for entry in avro.read_data(block.schema, list(_avro_values(block.content, place)), place):
        yield _entry_instant(entry, place)


def _avro_values(content: bytes, where: str) -> Iterator[bytes]:
    # HoodieAvroDataBlock: i32 version, i32 count, then (i32 length, Avro binary) each.
    try:
        version, count = struct.unpack_from(">ii", content)
        if version != _AVRO_BLOCK_VERSION:
            raise CorruptMetadataError(f"{where}: Avro block version {version} is unknown")
        position = 8
        for _ in range(count):
            (length,) = _INT.unpack_from(content, position)
            end = position + 4 + length
            if length < 0 or end > len(content):
                raise CorruptMetadataError(f"{where}: a record runs past the end of its block")
            yield content[position + 4 : end]
            position = end
    except struct.error as error:
        raise CorruptMetadataError(f"{where}: the block ends within its records") from error


def _entry_instant(entry: Mapping[str, Any], where: str) -> ArchivedInstant:
    requested, action, state = entry.get("commitTime"), entry.get("actionType"), entry.get("actionState")
    if not (isinstance(requested, str) and isinstance(action, str) and isinstance(state, str)):
        raise CorruptMetadataError(f"{where}: an entry has no commitTime, actionType or actionState")
    return ArchivedInstant(requested, action, state, entry.get("stateTransitionTime"))


def _parquet_instants(name: str, data: bytes) -> Iterator[ArchivedInstant]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["instantTime", "completionTime", "action"]
    try:
        table = pq.read_table(pa.BufferReader(data), columns=columns)
        if missing := set(columns) - set(table.column_names):
            raise CorruptMetadataError(f"{name} has no column {min(missing)}; it is no archived timeline")
        rows = table.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise CorruptMetadataError(f"{name} is not a readable Parquet file: {' '.join(str(error).split())}") from error
    for row in rows:
        requested, completion, action = row["instantTime"], row["completionTime"], row["action"]
        if not (requested and completion and action):
            raise CorruptMetadataError(f"{name} has a row without instant, completion time or action")
        yield ArchivedInstant(requested, action, "COMPLETED", completion)
