"""Make a big copy-on-write Hudi table fast, without an engine: real names, a real timeline, one template as data.

    python benchmarks/fabricate_hudi.py OUT --partitions 200 --groups 50 --versions 4 --table-version 6

The first commit inserts ``groups`` file groups in each partition, every later one rewrites them all. Real Hudi reads
and cleans what comes out. ``--empty`` makes data files of no bytes: enough to plan with, and gentle to the disk.
Table version 6 has JSON commits, version 9 Avro ones in ``.hoodie/timeline`` with completion times.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import uuid
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

START = datetime(2024, 1, 1, tzinfo=UTC)
META_FIELDS = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
FIELDS = {"id": "string", "ts": "long", "val": "string", "p": "string"}


def optional(name: str, kind: Any) -> dict[str, Any]:
    """An Avro field that may be null."""
    return {"name": name, "type": ["null", kind], "default": None}


TEXT = {"type": "string", "avro.java.string": "String"}
TEXT_STATS = ("fileId", "path", "prevCommit", "partitionPath")
LONG_STATS = (
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "numInserts",
    "totalWriteBytes",
    "totalWriteErrors",
    "fileSizeInBytes",
)
STAT_FIELDS = [*(optional(name, TEXT) for name in TEXT_STATS), *(optional(name, "long") for name in LONG_STATS)]
ROW_FIELDS = [optional(name, kind) for name, kind in FIELDS.items()]
ROW_SCHEMA = {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": ROW_FIELDS}
COMMIT_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            optional(
                "partitionToWriteStats",
                {
                    "type": "map",
                    "avro.java.string": "String",
                    "values": {
                        "type": "array",
                        "items": {
                            "type": "record",
                            "name": "HoodieWriteStat",
                            "fields": [optional(n, TEXT) for n in TEXT_STATS]
                            + [optional(n, "long") for n in LONG_STATS],
                        },
                    },
                },
            ),
            optional("extraMetadata", {"type": "map", "values": TEXT, "avro.java.string": "String"}),
            {"name": "version", "type": ["int", "null"], "default": 1},
            optional("operationType", TEXT),
        ],
    }
)


@attrs.frozen
class Shape:
    """How big a table is, and which version of the format it has (6 or 9)."""

    partitions: int
    groups: int
    versions: int
    table_version: int
    empty: bool = False

    @property
    def files(self) -> int:
        """The number of data files."""
        return self.partitions * self.groups * self.versions


def template() -> bytes:
    """A Parquet file of one row with the columns and footer that Hudi gives a base file."""
    names = [f"_hoodie_{name}" for name in META_FIELDS]
    schema = {**ROW_SCHEMA, "fields": [*(optional(name, "string") for name in names), *ROW_FIELDS]}
    columns = {name: pa.array(["x"]) for name in names}
    columns |= {"id": pa.array(["1"]), "ts": pa.array([1], pa.int64()), "val": pa.array(["v"]), "p": pa.array(["p"])}
    footer = {"parquet.avro.schema": json.dumps(schema), "hoodie_min_record_key": "1", "hoodie_max_record_key": "1"}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(footer), sink, compression="gzip", store_schema=False)
    return sink.getvalue()


def instant(version: int, *, seconds: int = 0) -> str:
    """The requested time of the n-th commit, one a minute; a commit takes five seconds."""
    return (START + timedelta(minutes=version, seconds=seconds)).strftime("%Y%m%d%H%M%S000")


def properties(table_version: int) -> str:
    """The content of ``hoodie.properties``."""
    values = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": table_version,
        "hoodie.table.checksum": zlib.crc32(b".t"),
        "hoodie.table.partition.fields": "p",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.populate.meta.fields": "true",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.cdc.enabled": "false",
    }
    if table_version < 8:
        values |= {
            "hoodie.timeline.layout.version": "1",
            "hoodie.archivelog.folder": "archived",
            "hoodie.table.precombine.field": "ts",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        }
    else:
        values |= {
            "hoodie.timeline.layout.version": "2",
            "hoodie.archivelog.folder": "history",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.table.initial.version": table_version,
            "hoodie.table.format": "native",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        }
    return "#Properties saved on 2024-01-01T00:00:00Z\n" + "".join(f"{key}={value}\n" for key, value in values.items())


def fabricate(out: Path, shape: Shape, seed: int = 7) -> None:
    """Write the whole table at ``out``, which must not exist."""
    rng = random.Random(seed)
    timeline = out / ".hoodie" / ("timeline" if shape.table_version >= 8 else "")
    (timeline / ("history" if shape.table_version >= 8 else "archived")).mkdir(parents=True)
    (out / ".hoodie/hoodie.properties").write_text(properties(shape.table_version))
    data = b"" if shape.empty else template()
    ids = {
        f"p{number:05d}": [f"{uuid.UUID(int=rng.getrandbits(128), version=4)}-0" for _ in range(shape.groups)]
        for number in range(shape.partitions)
    }
    for partition in ids:
        (out / partition).mkdir()
        marker = f"#partition metadata\ncommitTime={instant(0)}\npartitionDepth=1\n"
        (out / partition / ".hoodie_partition_metadata").write_text(marker)
    for version in range(shape.versions):
        stats = {partition: list(write_files(out, partition, ids[partition], version, data)) for partition in ids}
        write_commit(timeline, shape, version, stats)


def write_files(out: Path, partition: str, ids: list[str], version: int, data: bytes) -> Iterator[dict[str, Any]]:
    """Write one version of a partition's file groups; yields their write stats."""
    directory = f"{out}/{partition}"
    size = len(data)
    for number, file_id in enumerate(ids):
        name = f"{file_id}_{number}-{version}-{version * len(ids) + number}_{instant(version)}.parquet"
        with open(f"{directory}/{name}", "wb") as file:
            file.write(data)
        yield {
            "fileId": file_id,
            "path": f"{partition}/{name}",
            "prevCommit": instant(version - 1) if version else "null",
            "partitionPath": partition,
            "numWrites": 1,
            "numDeletes": 0,
            "numUpdateWrites": 1 if version else 0,
            "numInserts": 0 if version else 1,
            "totalWriteBytes": size,
            "totalWriteErrors": 0,
            "fileSizeInBytes": size,
        }


def write_commit(timeline: Path, shape: Shape, version: int, stats: dict[str, list[dict[str, Any]]]) -> None:
    """Write the three files of one completed commit."""
    requested = instant(version)
    metadata = {
        "partitionToWriteStats": stats,
        "compacted": False,
        "extraMetadata": {"schema": json.dumps(ROW_SCHEMA, separators=(",", ":"))},
        "operationType": "UPSERT" if version else "INSERT",
    }
    pending = {**metadata, "partitionToWriteStats": {}, "extraMetadata": {}}
    (timeline / f"{requested}.commit.requested").write_bytes(b"")
    if shape.table_version < 8:
        (timeline / f"{requested}.inflight").write_text(json.dumps(pending))
        (timeline / f"{requested}.commit").write_text(json.dumps(metadata, indent=2))
    else:
        done = f"{requested}_{instant(version, seconds=5)}.commit"
        for name, value in ((f"{requested}.inflight", pending), (done, metadata)):
            with (timeline / name).open("wb") as file:
                fastavro.writer(file, COMMIT_SCHEMA, [{**value, "version": 1}])


def main() -> None:
    """Fabricate one table as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--versions", type=int, default=4)
    parser.add_argument("--table-version", type=int, choices=(6, 9), default=6)
    parser.add_argument("--empty", action="store_true", help="data files of no bytes")
    given = parser.parse_args()
    shape = Shape(given.partitions, given.groups, given.versions, given.table_version, given.empty)
    fabricate(given.out, shape)
    print(f"{shape.files} data files in {given.out}")


if __name__ == "__main__":
    main()
