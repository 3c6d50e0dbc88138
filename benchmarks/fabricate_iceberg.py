"""Iceberg tables of any size for benchmarks of maintenance: real metadata, small or empty files."""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from lakemeta.iceberg.manifests.codec import write_manifest, write_manifest_list
from lakemeta.iceberg.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent, ManifestEntry
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import Snapshot, SnapshotLogEntry, SnapshotRef, TableMetadata
from lakemeta.iceberg.spec.transforms import IDENTITY
from lakemeta.iceberg.spec.types import LONG, STRING, NestedField

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakemeta.iceberg.manifests.entries import ManifestFile

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
PATH_ID, POSITION_ID = 2147483546, 2147483545


@attrs.define
class FabricatedTable:
    """A table of format version 2, partitioned by ``p``; ``save`` makes it readable."""

    root: Path
    partitions: int = 20
    snapshots: list[Snapshot] = attrs.field(factory=list)
    listed: list[ManifestFile] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        (self.root / "metadata").mkdir(parents=True)
        (self.root / "data").mkdir()

    @property
    def empty(self) -> TableMetadata:
        """The metadata without snapshots."""
        return TableMetadata(
            format_version=2,
            table_uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, str(self.root))),
            location=str(self.root),
            last_updated_ms=START_MS,
            last_column_id=2,
            schemas=(Schema((NestedField(1, "p", STRING), NestedField(2, "id", LONG))),),
            current_schema_id=0,
            partition_specs=(PartitionSpec(0, (PartitionField(1, 1000, "p", IDENTITY),)),),
            default_spec_id=0,
            last_partition_id=1000,
            sort_orders=(SortOrder(0),),
            default_sort_order_id=0,
        )

    def data_file(self, number: int, size: int, rows: int = 1000, *, exists: bool = True) -> DataFile:
        """A data file, empty on the disk."""
        partition = f"p{number % self.partitions:03}"
        path = (
            self.root / "data" / f"p={partition}" / f"{number:08}-{uuid.uuid5(uuid.NAMESPACE_OID, str(number))}.parquet"
        )
        if exists:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"")
        return DataFile(
            content=FileContent.DATA,
            file_path=str(path),
            file_format="PARQUET",
            spec_id=0,
            partition=(partition,),
            record_count=rows,
            file_size_in_bytes=size,
            value_counts={1: rows, 2: rows},
            null_value_counts={1: 0, 2: 0},
            lower_bounds={1: partition.encode()},
            upper_bounds={1: partition.encode()},
            split_offsets=(4,),
            sort_order_id=0,
        )

    def position_delete(self, of: DataFile, positions: range) -> DataFile:
        """A real position delete file for one data file."""
        schema = pa.schema(
            [
                pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
                pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
            ]
        )
        out = io.BytesIO()
        pq.write_table(pa.table([[of.file_path] * len(positions), list(positions)], schema=schema), out)
        path = of.file_path.replace(".parquet", f"-{positions.start}-deletes.parquet")
        with open(path, "wb") as file:
            file.write(out.getvalue())
        bound = {PATH_ID: of.file_path.encode()}
        return attrs.evolve(
            of,
            content=FileContent.POSITION_DELETES,
            file_path=path,
            record_count=len(positions),
            file_size_in_bytes=len(out.getvalue()),
            value_counts=None,
            null_value_counts=None,
            lower_bounds=bound,
            upper_bounds=bound,
            sort_order_id=None,
        )

    def commit(self, manifests: Sequence[Sequence[DataFile]], keep: int | None = None) -> None:
        """A snapshot with one new manifest for each group of files, of the newest ``keep`` manifests in all."""
        number = len(self.snapshots) + 1
        for at, files in enumerate(manifests):
            content = ManifestContent.DATA if files[0].content == FileContent.DATA else ManifestContent.DELETES
            entries = [ManifestEntry(EntryStatus.ADDED, number, None, None, file) for file in files]
            path = self.root / "metadata" / f"{number:05}-m{at}.avro"
            data, line = write_manifest(self.empty, 0, entries, path=str(path), content=content, snapshot_id=number)
            path.write_bytes(data)
            self.listed.append(line)
        if keep is not None:
            self.listed = self.listed[-keep:]
        parent = number - 1 or None
        data, _ = write_manifest_list(
            self.listed, format_version=2, snapshot_id=number, parent_snapshot_id=parent, sequence_number=number
        )
        self.listed = [m if m.sequence_number >= 0 else attrs.evolve(m, sequence_number=number) for m in self.listed]
        self.listed = [
            m if m.min_sequence_number >= 0 else attrs.evolve(m, min_sequence_number=number) for m in self.listed
        ]
        path = self.root / "metadata" / f"snap-{number}-1.avro"
        path.write_bytes(data)
        at_ms = START_MS + number * 60_000
        summary = {"operation": "append"}
        self.snapshots.append(Snapshot(number, at_ms, str(path), parent, number, summary, schema_id=0))

    def save(self) -> None:
        """Write the metadata file."""
        last = self.snapshots[-1]
        whole = attrs.evolve(
            self.empty,
            last_updated_ms=last.timestamp_ms,
            last_sequence_number=last.sequence_number,
            snapshots=tuple(self.snapshots),
            snapshot_log=tuple(SnapshotLogEntry(s.timestamp_ms, s.snapshot_id) for s in self.snapshots),
            current_snapshot_id=last.snapshot_id,
            refs={"main": SnapshotRef(last.snapshot_id, "branch")},
        )
        (self.root / "metadata" / "v1.metadata.json").write_bytes(dump_metadata(whole))
        (self.root / "metadata" / "version-hint.text").write_text("1")
