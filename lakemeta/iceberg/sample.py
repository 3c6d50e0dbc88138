"""Writes a small real Iceberg table without a JVM: for the demo, for examples and for trying things out (I/O).

A :class:`SampleTable` is a Hadoop table of version 2, partitioned by city. Every append is a commit of its own with one
small data file a city, as a streaming writer leaves them; deletes are position delete files.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakemeta.environment import Environment
from lakemeta.iceberg.catalogs.hadoop import HINT, HadoopTableOperations
from lakemeta.iceberg.commit.committer import commit, new_snapshot_id
from lakemeta.iceberg.commit.new_manifests import NewManifests
from lakemeta.iceberg.commit.snapshot_producer import next_snapshot
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.rows.arrow import arrow_schema, parquet_schema
from lakemeta.iceberg.rows.delete_filter import POSITION_DELETE_FIELDS
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import TableMetadata
from lakemeta.iceberg.spec.transforms import IDENTITY
from lakemeta.iceberg.spec.types import DOUBLE, LONG, STRING, TIMESTAMPTZ, NestedField
from lakemeta.iceberg.write.data_file_writer import FileFactory, FileLimits, GroupWriter
from lakemeta.iceberg.write.metrics import metrics_modes
from lakemeta.moments import epoch_ms
from lakemeta.parquet.footer import WriteOptions
from lakemeta.parquet.writer import ParquetWriter
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]

_SCHEMA: Final = Schema(
    (
        NestedField(1, "id", LONG, required=True),
        NestedField(2, "city", STRING),
        NestedField(3, "at", TIMESTAMPTZ),
        NestedField(4, "fare", DOUBLE),
    )
)
_SPEC: Final = PartitionSpec(0, (PartitionField(2, 1000, "city", IDENTITY),))
_PROPERTIES: Final = {"write.format.default": "parquet", "write.parquet.compression-codec": "zstd"}
_LIMITS: Final = FileLimits(bytes=1 << 29, bytes_per_row=8.0, row_group_memory=1 << 26)
_STEP_MS: Final = 300_000  # the clock is looked at twice a commit


class SampleTable:
    """A table of taxi trips (id, city, at, fare). Commits are ten minutes apart; same calls give the same files."""

    def __init__(self, url: str, start: datetime) -> None:
        """Create an empty table at ``url``, whose first commit will be ten minutes after ``start``."""
        self.storage, self.root = open_storage(url)
        start_ms = epoch_ms(start)
        clock, ids = count(start_ms + _STEP_MS, _STEP_MS), count(1)
        self._env = Environment(
            lambda: datetime.fromtimestamp(next(clock) / 1000, UTC),
            lambda _: None,
            lambda: 0.0,
            lambda: str(uuid.UUID(int=next(ids) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128), version=4)),
        )
        self._create(start_ms)
        self.operations = HadoopTableOperations(self.storage, self.root)

    def append(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Commit one data file for each city."""
        added = tuple(self._write(city, list(trips)) for city, trips in rows.items())
        self._commit(SnapshotUpdate("append", added))

    def delete_positions(self, file: DataFile, positions: Sequence[int]) -> None:
        """Commit a position delete file for some rows of one data file, counted from 0."""
        fields = POSITION_DELETE_FIELDS
        columns = {"file_path": [file.file_path] * len(positions), "pos": sorted(positions)}
        table = pa.Table.from_pydict(columns, schema=arrow_schema(fields))
        location = f"{file.file_path.rpartition('/')[0]}/{self._env.new_uuid()}-deletes.parquet"
        path = store_path(self.storage.scheme, location)
        with self.storage.open_output(path) as sink:
            writer = ParquetWriter(sink, parquet_schema(fields), WriteOptions())
            writer.write(table)
            writer.close()
        bound = {fields[0].field_id: file.file_path.encode()}
        delete = DataFile(
            FileContent.POSITION_DELETES,
            location,
            "PARQUET",
            file.spec_id,
            file.partition,
            len(positions),
            self.storage.size(path),
            lower_bounds=bound,
            upper_bounds=bound,
        )
        self._commit(SnapshotUpdate("delete", added_deletes=((delete, None),)))

    def data_files(self) -> list[DataFile]:
        """The live data files, newest manifest first."""
        metadata = self.operations.refresh().metadata
        assert metadata.current_snapshot is not None
        stored = StoredManifests(self.storage, metadata.specs_by_id)
        entries = stored.entries(stored.of(metadata.current_snapshot))
        live = (entry.data_file for part in entries for entry in part if entry.is_live)
        return [file for file in live if file.content == FileContent.DATA]

    def _create(self, start_ms: int) -> None:
        metadata = TableMetadata(
            format_version=2,
            table_uuid=self._env.new_uuid(),
            location=self.storage.url(self.root),
            last_updated_ms=start_ms,
            last_column_id=4,
            schemas=(_SCHEMA,),
            current_schema_id=0,
            partition_specs=(_SPEC,),
            default_spec_id=0,
            last_partition_id=1000,
            sort_orders=(SortOrder(0),),
            default_sort_order_id=0,
            properties=_PROPERTIES,
        )
        self.storage.create(f"{self.root}/metadata/v1.metadata.json", dump_metadata(metadata))
        self.storage.replace(f"{self.root}/metadata/{HINT}", b"1")

    def _write(self, city: str, rows: list[Row]) -> DataFile:
        metadata = self.operations.refresh().metadata
        modes = metrics_modes(metadata.properties, _SCHEMA, metadata.sort_order)
        factory = FileFactory.make(
            metadata.location, metadata.properties, _SCHEMA, _SPEC, modes, 0, self._env.new_uuid(), 0, 0
        )
        writer = GroupWriter(factory, _LIMITS, self._open_output, self._read_range, None)
        writer.write((city,), pa.Table.from_pylist(rows, schema=arrow_schema(_SCHEMA.fields)))
        (file,) = writer.close()
        return file

    def _open_output(self, location: str) -> Any:
        return self.storage.open_output(store_path(self.storage.scheme, location))

    def _read_range(self, location: str, start: int, length: int) -> bytes:
        return self.storage.read_range(store_path(self.storage.scheme, location), start, length)

    def _commit(self, update: SnapshotUpdate) -> None:
        metadata = self.operations.refresh().metadata
        new = NewManifests(
            self.operations.metadata_location,
            self._env.new_uuid(),
            new_snapshot_id(self._env, metadata.snapshots_by_id),
        )
        stored = StoredManifests(self.storage, metadata.specs_by_id)
        commit(self.operations, lambda base: next_snapshot(update, base, stored, new), self._env)


def write_sample_table(url: str, start: datetime) -> SampleTable:
    """Write the demo's table: eight small appends to three cities, and deletes on two of the files."""
    table = SampleTable(url, start)
    for round_ in range(8):
        table.append({city: _trips(city, round_, start) for city in ("berlin", "lagos", "lima")})
    first, second = table.data_files()[:2]
    table.delete_positions(first, range(0, first.record_count, 2))
    table.delete_positions(second, [3, 5, 8])
    return table


def _trips(city: str, round_: int, start: datetime) -> list[Row]:
    at = int(start.timestamp() * 1_000_000) + round_ * 1000 * _STEP_MS
    number = 20 + 5 * len(city)
    return [
        {"id": round_ * 1000 + n, "city": city, "at": at + n * 1_000_000, "fare": round(3.5 + (n * 37) % 400 / 10, 2)}
        for n in range(number)
    ]
