"""What the fuzz of parsers starts from: small files of every kind, taken from the recorded tables and made by us.

They are packed once, for unpacking all recorded tables takes too long: ``python -m fuzz.seeds`` packs them anew. A kind
has some files of different sizes. ``load`` gives them by kind.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import tarfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

PACKED = Path(__file__).parent / "seeds.tar.xz"
LARGEST = 40_000  # bytes
A_KIND = 4  # files at most, where they are many

Seeds = dict[str, list[tuple[str, bytes]]]

# The kind of a file of a table's metadata by its path; the first that matches counts.
_KINDS: tuple[tuple[str, str], ...] = (
    ("properties", r".*hoodie\.properties|.*_partition_metadata"),
    ("archive_v6", r".*\.commits_\.archive\.\d+_[\d-]+"),
    ("archive_manifest", r".*/manifest_\d+"),
    ("archive_version", r".*/_version_"),
    ("archive_lsm", r".*/\d{17}_\d{17}_\d\.parquet"),
    ("markers", r".*/MARKERS\d+"),
    ("mdt_commit", r".*/metadata/\.hoodie/.*\d\.deltacommit"),
    ("commit", r".*\d\.(commit|deltacommit|replacecommit)|.*\.(replacecommit|deltacommit|commit)\.inflight"),
    ("clean", r".*\d\.clean"),
    ("clean_plan", r".*\.clean\.(requested|inflight)"),
    ("savepoint", r".*\d\.savepoint"),
    ("rollback_plan", r".*\.rollback\.requested"),
    ("rollback", r".*\d\.rollback"),
    ("compaction_plan", r".*\.(log)?compaction\.requested"),
    ("clustering_plan", r".*\.(clustering|replacecommit)\.requested"),
    ("log", r".*/\.[^/]+\.log\.\d+_.*"),
    ("hfile", r".*\.hfile"),
    ("metadata_gz", r".*\.gz\.metadata\.json|.*\.metadata\.json\.gz"),
    ("metadata", r".*\.metadata\.json"),
    ("version_hint", r".*/version-hint\.text"),
    ("manifest_list", r".*/snap-[^/]*\.avro"),
    ("manifest", r".*-m\d+\.avro"),
    ("puffin", r".*\.(puffin|stats)"),
    ("parquet", r".*/partition-stats[^/]*\.parquet"),
)


@cache
def load() -> Seeds:
    """The files of each kind."""
    found: Seeds = defaultdict(list)
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(PACKED.read_bytes()))) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            kind, _, name = member.name.partition("/")
            found[kind].append((name, content.read()))
    return dict(found)


def of_kind(kind: str) -> list[bytes]:
    """The contents of the files of a kind."""
    return [data for _, data in load()[kind]]


def pack() -> None:
    """Collect and pack them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind, files in sorted({**_recorded(), **_rolled_back(), **_made()}.items()):
            for number, data in enumerate(files):
                info = tarfile.TarInfo(f"{kind}/{number}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    PACKED.write_bytes(lzma.compress(out.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _recorded() -> dict[str, list[bytes]]:
    from fuzz.tables import tables

    found: dict[str, set[bytes]] = defaultdict(set)
    for table in tables().values():
        for path in table.names:
            data = table.files[path][0]
            kind = next((kind for kind, shape in _KINDS if re.fullmatch(shape, path)), None)
            if kind == "archive_v6":
                data = data[: data.find(b"#HUDI#", 1)]  # the first block of many
            if kind is not None and 0 < len(data) <= LARGEST:
                found[kind].add(data)
    found["metadata_gz"] |= {gzip.compress(data, mtime=0) for data in sorted(found["metadata"])[:2]}
    return {kind: _spread(contents) for kind, contents in found.items()}


def _rolled_back() -> dict[str, list[bytes]]:
    """What rollbacks of failed writes leave on the timeline."""
    from fuzz.hudi_tables import apply_plan, make_plan, open_table
    from fuzz.memory import MemoryTable
    from fuzz.tables import tables

    found: dict[str, list[bytes]] = defaultdict(list)
    for table in [table for name, table in tables().items() if "failed" in name][:3]:
        storage = MemoryTable(table.files)
        opened = open_table(table, storage)
        apply_plan(opened, table, make_plan(opened, table, "rollback"))
        for path, (data, _) in sorted(storage.files.items()):
            if path not in table.files and data and ".rollback" in path:
                found["rollback_plan" if path.endswith(".requested") else "rollback"].append(data)
    return found


def _spread(contents: set[bytes]) -> list[bytes]:
    """A few of different sizes."""
    ordered = sorted(contents, key=lambda data: (len(data), data))
    last = len(ordered) - 1
    return [ordered[i] for i in sorted({round(n * last / (A_KIND - 1)) for n in range(A_KIND)})]


def _made() -> dict[str, list[bytes]]:
    import pyarrow as pa
    from support.iceberg_tables import _parquet, encoded

    rows = [(i, "ab"[i % 2], i / 2) for i in range(30)]
    columns = [("id", pa.int64(), 1), ("p", pa.string(), 2), ("v", pa.float64(), 3)]
    parquet = _parquet(rows, columns)
    fields = [pa.field(name, kind, metadata={"PARQUET:field_id": str(i)}) for name, kind, i in columns]
    arrays = [pa.array([row[n] for row in rows], kind) for n, (_, kind, _) in enumerate(columns)]
    table = pa.table(arrays, pa.schema(fields))
    return {
        "data_parquet": [parquet],
        "data_orc": [encoded("orc", table), _wide_timestamps()],
        "data_avro": [encoded("avro", table)],
        "deletion_vector": _vectors(),
        "plan": _plans(),
        "inventory_csv": [_INVENTORY, _INVENTORY.replace(b"true", b"")],
        "inventory_parquet": [_inventory_parquet()],
        "inventory_manifest": [json.dumps(_S3_MANIFEST).encode()],
        "lock": [b'{"expired": false, "validUntil": 1800000000000, "owner": "x"}'],
        "rewrite_mark": [json.dumps(_MARK).encode()],
        "expire_ledger": [json.dumps(_LEDGER).encode()],
    }


def _wide_timestamps() -> bytes:
    from datetime import datetime

    import pyarrow as pa
    from pyarrow import orc

    out = io.BytesIO()
    kind = pa.field("t", pa.timestamp("us"), metadata={"iceberg.id": "1"})
    moments = pa.array([datetime(1969, 12, 31, 1), None, datetime(2022, 2, 2, 1, 1, 1, 123456)] * 9, pa.timestamp("us"))
    orc.write_table(pa.table([moments], pa.schema([kind])), out, compression="zlib")
    return out.getvalue()


def _vectors() -> list[bytes]:
    import pyarrow as pa

    from lakemeta.iceberg.write.vectors import encode_vector

    return [encode_vector(pa.array(rows, pa.int64())) for rows in ([0], range(0, 200_000, 97), range(70_000))]


def _plans() -> list[bytes]:
    from fuzz.iceberg_services import LATER
    from fuzz.iceberg_tables import open_table
    from fuzz.memory import MemoryTable
    from fuzz.tables import plan_text, tables

    from lakemeta.iceberg.services import SERVICES

    hudi = [name for name in tables() if name.startswith("hudi")]
    found = {plan_text(name, service).encode() for name in hudi[:8] for service in ("clean", "rollback")}
    table = tables()["iceberg own2"]
    opened = open_table(table, MemoryTable(table.files))
    made = [opened.plan(service, {}, now=LATER).dumps().encode() for service in SERVICES]
    return _spread(found) + made


def _inventory_parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    names = ["s3://b/t/data/a.parquet", "s3://b/t/data/b c.parquet"]
    times = pa.array([1_700_000_000_000, 1_700_000_000_001], pa.timestamp("ms"))
    pq.write_table(pa.table({"file_path": names, "last_modified": times, "size": [1, 2]}), out)
    return out.getvalue()


_INVENTORY = (
    b"bucket,key,size,last_modified_date,is_latest,is_delete_marker\n"
    b'b,t/data/a.parquet,10,2026-01-01T00:00:00Z,true,false\nb,"t/data/a,""b.parquet",,2026-01-01T00:00:00.000+01:00,,\n'
)
_S3_MANIFEST: dict[str, Any] = {
    "fileFormat": "CSV",
    "fileSchema": "Bucket, Key, Size, LastModifiedDate",
    "destinationBucket": "arn:aws:s3:::inventories",
    "files": [{"key": "x/data/1.csv", "size": 3, "MD5checksum": "f"}],
}
_UUID = "6b1d29f0-0c94-4a1b-9a54-7a6b7a3f9d11"
_MARK = {"rewrite": _UUID, "commits": [_UUID], "begun_ms": 1_700_000_000_000, "snapshot_id": 77}
_LEDGER = {"expire": _UUID, "base": "/t/metadata/v2.metadata.json", "level": "all", "snapshots": [1, 2]}


if __name__ == "__main__":
    pack()
