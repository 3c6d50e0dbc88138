"""What an Iceberg table holds, found out without lakemeta: the checker of tests that change tables.

Reads metadata JSON, Avro with fastavro and Parquet with pyarrow, applies deletes row by row, and gives rows as JSON
lines like the recorded ``rows_before.jsonl``: keys sorted, timestamps in UTC, binary as 0x hex. Data files are Parquet.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import re
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
from pyarrow import orc

ROW_ID, ROW_SEQUENCE = 2147483540, 2147483539
PATH_ID, POSITION_ID = 2147483546, 2147483545
LIST_FIELDS = {
    500: "manifest_path",
    502: "partition_spec_id",
    503: "added_snapshot_id",
    515: "sequence_number",
    517: "content",
    520: "first_row_id",
}

Read = Callable[[str], bytes]


def read_local(path: str) -> bytes:
    return Path(re.sub(r"^file:(//)?(?=/)", "", path)).read_bytes()


class TableState:
    """One snapshot of a table: the current one of the newest version of a Hadoop table at ``root``."""

    def __init__(self, metadata_file: str, read: Read = read_local, snapshot_id: int | None = None) -> None:
        self.metadata_file = metadata_file
        data = read(metadata_file)
        self.metadata = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        self.read = read
        self.lost: list[str] = []  # files that rows() looked for in vain
        self._positions: dict[str, dict[str, set[int]]] = {}  # of position delete files that were read
        wanted = self.metadata.get("current-snapshot-id") if snapshot_id is None else snapshot_id
        found = [s for s in self.metadata.get("snapshots", []) if s["snapshot-id"] == wanted]
        self.snapshot: dict[str, Any] | None = found[0] if found else None
        self.manifests = self.listed(self.snapshot) if self.snapshot else []
        self.entries = [entry for manifest in self.manifests for entry in self.of(manifest)]

    @classmethod
    def local(cls, root: Path | str) -> TableState:
        """The newest version of a Hadoop table on the local disk."""
        versions = {int(m[1]): p for p in Path(root, "metadata").iterdir() if (m := re.match(r"v(\d+)\.", p.name))}
        return cls(str(versions[max(versions)]))

    def listed(self, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
        """The manifests of a snapshot; the fields of a list are known by id."""
        reader: Any = fastavro.reader(io.BytesIO(self.read(snapshot["manifest-list"])))
        fields = reader.writer_schema["fields"]
        names = {field["name"]: LIST_FIELDS.get(field.get("field-id"), field["name"]) for field in fields}
        return [{names[name]: value for name, value in line.items()} for line in reader]

    def of(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        """The entries of a manifest, with sequence numbers, snapshot ids and first row ids inherited."""
        entries = list(fastavro.reader(io.BytesIO(self.read(manifest["manifest_path"]))))
        row_id = manifest.get("first_row_id")
        for entry in entries:
            for name in ("sequence_number", "file_sequence_number"):
                entry["own_" + name] = entry.get(name)
                if entry.get(name) is None:
                    entry[name] = manifest.get("sequence_number") or 0
            if entry["snapshot_id"] is None:
                entry["snapshot_id"] = manifest["added_snapshot_id"]
            file = entry["data_file"]
            entry["spec_id"] = manifest["partition_spec_id"]
            if row_id is not None and file.get("first_row_id") is None and entry["status"] != 2:
                file["first_row_id"] = row_id
                row_id += file["record_count"]
        return entries

    def live(self, *contents: int) -> list[dict[str, Any]]:
        """Live entries of data files (0), position deletes (1) or equality deletes (2)."""
        return [e for e in self.entries if e["status"] != 2 and e["data_file"].get("content", 0) in contents]

    def paths(self, *contents: int) -> list[str]:
        return [e["data_file"]["file_path"] for e in self.live(*contents)]

    def referenced(self) -> set[str]:
        """Every file that the metadata reaches: manifest lists, manifests, live and deleted files of all snapshots."""
        found: set[str] = set()
        for snapshot in self.metadata["snapshots"]:
            found.add(snapshot["manifest-list"])
            for manifest in self.listed(snapshot):
                found.add(manifest["manifest_path"])
                found |= {e["data_file"]["file_path"] for e in self.of(manifest)}
        return found

    def every_snapshot(self) -> list[TableState]:
        """The table at each of its snapshots."""
        return [TableState(self.metadata_file, self.read, s["snapshot-id"]) for s in self.metadata["snapshots"]]

    def needed(self) -> set[str]:
        """Every file that some snapshot needs: lists, manifests, live files, statistics."""
        found = {s["manifest-list"] for s in self.metadata["snapshots"]}
        for kind in ("statistics", "partition-statistics"):
            found |= {file["statistics-path"] for file in self.metadata.get(kind, [])}
        for state in self.every_snapshot():
            found |= {manifest["manifest_path"] for manifest in state.manifests} | set(state.paths(0, 1, 2))
        return found

    def rows_at_refs(self) -> dict[str, list[str]]:
        """The rows that each branch and tag has."""
        refs = {name: ref["snapshot-id"] for name, ref in self.metadata["refs"].items()}
        return {name: TableState(self.metadata_file, self.read, i).rows() for name, i in refs.items()}

    def rows(self) -> list[str]:
        """The rows of the snapshot, one JSON object with sorted keys a line, lines sorted."""
        schema = next(s for s in self.metadata["schemas"] if s["schema-id"] == self.metadata["current-schema-id"])
        line, lineage = line_writer(schema["fields"]), self.metadata["format-version"] >= 3
        found = []
        for entry in self.live(0):
            deleted = self._deleted_positions(entry)
            keys = self._deleted_keys(entry)
            for position, row in enumerate(self._file_rows(entry)):
                gone = position in deleted or any(tuple(row.get(i) for i in ids) in known for ids, known in keys)
                if not gone:
                    found.append(line(row, _lineage(row, entry, position) if lineage else {}))
        return sorted(found)

    def _file_rows(self, entry: dict[str, Any]) -> Iterator[dict[int, Any]]:
        file = entry["data_file"]
        try:
            data = self.read(file["file_path"])
        except FileNotFoundError:
            self.lost.append(file["file_path"])
            return
        if file["file_format"].upper() == "AVRO":
            reader = fastavro.reader(io.BytesIO(data))
            ids = {f["name"]: f["field-id"] for f in reader.writer_schema["fields"]}
            yield from ({ids[name]: value for name, value in row.items()} for row in reader)
            return
        if file["file_format"].upper() == "ORC":  # flat columns
            found = orc.ORCFile(io.BytesIO(data)).read()
            ids = {f.name: int(f.metadata[b"iceberg.id"]) for f in found.schema}
            yield from ({ids[name]: value for name, value in row.items()} for row in found.to_pylist())
            return
        assert file["file_format"].upper() == "PARQUET", file["file_format"]
        yield from rows_by_id(pq.read_table(io.BytesIO(data)))

    def _deleted_positions(self, entry: dict[str, Any]) -> set[int]:
        path, found = entry["data_file"]["file_path"], set()
        for delete in self.live(1):
            file = delete["data_file"]
            if file["file_format"].upper() == "PUFFIN":
                if file["referenced_data_file"] == path:
                    blob = self.read(file["file_path"])[file["content_offset"] :][: file["content_size_in_bytes"]]
                    found |= set(deletion_vector(blob))
            elif delete["sequence_number"] >= entry["sequence_number"]:
                found |= self._positions_in(delete).get(path, set())
        return found

    def _positions_in(self, delete: dict[str, Any]) -> dict[str, set[int]]:
        """The positions in a position delete file, by data file."""
        name = delete["data_file"]["file_path"]
        if name not in self._positions:
            positions = self._positions[name] = {}
            for row in self._file_rows(delete):
                positions.setdefault(row[PATH_ID], set()).add(row[POSITION_ID])
        return self._positions[name]

    def _deleted_keys(self, entry: dict[str, Any]) -> list[tuple[list[int], set[tuple[Any, ...]]]]:
        found = []
        for delete in self.live(2):
            same = (
                delete["data_file"]["partition"] == entry["data_file"]["partition"]
                or not delete["data_file"]["partition"]
            )
            if delete["sequence_number"] > entry["sequence_number"] and same:
                ids = delete["data_file"]["equality_ids"]
                found.append((ids, {tuple(row.get(i) for i in ids) for row in self._file_rows(delete)}))
        return found


def rows_by_id(table: Any) -> Iterator[dict[int, Any]]:
    """The rows of an Arrow table that was read from Parquet, columns and struct fields known by id."""
    fields = list(table.schema)
    columns = [_column(column.to_pylist(), field) for column, field in zip(table.columns, fields, strict=True)]
    ids = [_id(field) for field in fields]
    return (dict(zip(ids, row, strict=True)) for row in zip(*columns, strict=True))


def line_writer(fields: list[dict[str, Any]]) -> Callable[..., str]:
    """Writes rows by column id as JSON lines: with these fields of a schema, and what else is given."""
    writers = [(f["name"], f["id"], _writer(f["type"]), f.get("initial-default")) for f in fields]
    encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode

    def line(row: dict[int, Any], more: dict[str, Any]) -> str:
        found = more
        for name, field_id, write, default in writers:
            value = row.get(field_id)
            found[name] = default if value is None else write(value)
        return encode(found)

    return line


def _lineage(row: dict[int, Any], entry: dict[str, Any], position: int) -> dict[str, Any]:
    own, sequence = row.get(ROW_ID), row.get(ROW_SEQUENCE)
    return {
        "_row_id": entry["data_file"]["first_row_id"] + position if own is None else own,
        "_last_updated_sequence_number": entry["sequence_number"] if sequence is None else sequence,
    }


def deletion_vector(blob: bytes) -> Iterator[int]:
    """The positions in a deletion-vector-v1 blob (spec of Puffin): magic, 64-bit Roaring bitmap, CRC."""
    assert blob[4:8] == b"\xd1\xd3\x39\x64"
    data = io.BytesIO(blob[8:-4])
    for _ in range(struct.unpack("<q", data.read(8))[0]):
        high = struct.unpack("<i", data.read(4))[0] << 32
        yield from (high | low for low in _roaring(data))


def _roaring(data: io.BytesIO) -> Iterator[int]:
    (cookie,) = struct.unpack("<I", data.read(4))
    runs = b""
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        runs = data.read((count + 7) // 8)
    else:
        (count,) = struct.unpack("<I", data.read(4))
    headers = [struct.unpack("<HH", data.read(4)) for _ in range(count)]
    if not runs or count >= 4:
        data.read(4 * count)
    for index, (key, cardinality) in enumerate(headers):
        base = key << 16
        if runs and runs[index >> 3] >> (index & 7) & 1:
            for _ in range(struct.unpack("<H", data.read(2))[0]):
                start, length = struct.unpack("<HH", data.read(4))
                yield from range(base + start, base + start + length + 1)
        elif cardinality < 4096:
            yield from (base | low for low in struct.unpack(f"<{cardinality + 1}H", data.read(2 * cardinality + 2)))
        else:
            bits = int.from_bytes(data.read(8192), "little")
            yield from (base | low for low in range(65536) if bits >> low & 1)


def _id(field: Any) -> int:
    return int(field.metadata[b"PARQUET:field_id"]) if field.metadata else -1


def _column(values: list[Any], field: Any) -> list[Any]:
    """A column of Parquet values with struct fields known by id."""
    nested = str(field.type).startswith(("struct", "list", "map"))
    return [_by_id(value, field) for value in values] if nested else values


def _by_id(value: Any, field: Any) -> Any:
    """A Parquet value with struct fields known by id."""
    kind = field.type
    if value is None:
        return None
    if str(kind).startswith("struct"):
        return {_id(f): _by_id(value[f.name], f) for f in (kind.field(i) for i in range(kind.num_fields))}
    if str(kind).startswith("list"):
        return [_by_id(v, kind.value_field) for v in value]
    if str(kind).startswith("map"):
        return [(_by_id(k, kind.key_field), _by_id(v, kind.item_field)) for k, v in value]
    return value


def _writer(kind: Any) -> Callable[[Any], Any]:
    """Writes values of a type as :func:`_project` does."""
    if kind in ("boolean", "int", "long", "string"):
        return lambda value: value
    return float if kind in ("float", "double") else lambda value: _project(value, kind)


def _project(value: Any, kind: Any, default: Any = None) -> Any:
    """A value as the recorded rows write it, with the columns of the current schema."""
    if value is None:
        return default
    if isinstance(kind, dict) and kind["type"] == "struct":
        return {f["name"]: _project(value.get(f["id"]), f["type"], f.get("initial-default")) for f in kind["fields"]}
    if isinstance(kind, dict) and kind["type"] == "list":
        return [_project(v, kind["element"]) for v in value]
    if isinstance(kind, dict) and kind["type"] == "map":
        return {str(_project(k, kind["key"])): _project(v, kind["value"]) for k, v in value}
    return _scalar(value, kind)


def _scalar(value: Any, kind: str) -> Any:
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return float(value) if kind in ("float", "double") else value
