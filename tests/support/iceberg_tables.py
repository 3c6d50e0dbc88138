"""Small Iceberg tables made in a line: a writer with just enough to append, delete and overwrite.

Tables have the columns id (long), p (string) and v (double). Rows are (id, p, v). Names and times are counted, not
random, so that two runs write the same files; give two writers of one table different ``seed``.
"""

from __future__ import annotations

import io
import uuid
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakemeta.environment import Environment
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.commit.committer import commit, new_snapshot_id
from lakemeta.iceberg.commit.new_manifests import NewManifests
from lakemeta.iceberg.commit.snapshot_producer import next_snapshot
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import DOUBLE, LONG, STRING, NestedField

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.storage import Storage

Row = tuple[int, str, float]

SCHEMA = Schema((NestedField(1, "id", LONG), NestedField(2, "p", STRING), NestedField(3, "v", DOUBLE)))
BY_P = PartitionSpec(0, (PartitionField(2, 1000, "p", Transform.parse("identity")),))
PATH_ID, POSITION_ID = 2147483546, 2147483545
EPOCH_MS = 1_767_225_600_000


def still_env(seed: int = 0) -> Environment:
    """An environment without time and chance: the clock ticks a millisecond a look, uuids count up from the seed."""
    clock, ids = count(EPOCH_MS), count(1)
    return Environment(
        lambda: datetime.fromtimestamp(next(clock) / 1000, UTC),
        lambda _: None,
        lambda: 0.0,
        lambda: str(uuid.UUID(int=(seed << 96) | (next(ids) * 0x9E3779B97F4A7C15) % (1 << 96), version=4)),
    )


def create_table(
    storage: Storage,
    root: str,
    *,
    version: int = 2,
    partitioned: bool = False,
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> SmallTable:
    """An empty Hadoop table at ``root``."""
    metadata = TableMetadata(
        format_version=version,
        table_uuid=str(uuid.UUID(int=1)),
        location=location or root,
        last_updated_ms=EPOCH_MS,
        last_column_id=3,
        schemas=(SCHEMA,),
        current_schema_id=0,
        partition_specs=(BY_P if partitioned else PartitionSpec(0),),
        default_spec_id=0,
        last_partition_id=1000 if partitioned else 999,
        sort_orders=(SortOrder(0),),
        default_sort_order_id=0,
        properties=dict(properties or {}),
        next_row_id=0 if version >= 3 else None,
    )
    storage.create(f"{root}/metadata/v1.metadata.json", dump_metadata(metadata))
    storage.replace(f"{root}/metadata/version-hint.text", b"1")
    return SmallTable(storage, root)


class SmallTable:
    """A writer of a table at ``root``."""

    def __init__(self, storage: Storage, root: str, *, seed: int = 0) -> None:
        self.storage, self.root = storage, root
        self.operations = HadoopTableOperations(storage, root)
        self.env = still_env(seed)

    @property
    def metadata(self) -> TableMetadata:
        return self.operations.refresh().metadata

    @property
    def head(self) -> Snapshot:
        snapshot = self.metadata.current_snapshot
        assert snapshot
        return snapshot

    def files(self) -> list[DataFile]:
        """The live data and delete files, in manifest order."""
        metadata = self.metadata
        if metadata.current_snapshot is None:
            return []
        stored = StoredManifests(self.storage, metadata.specs_by_id)
        entries = stored.entries(stored.of(metadata.current_snapshot))
        return [entry.data_file for part in entries for entry in part if entry.is_live]

    def data_files(self) -> list[DataFile]:
        return [file for file in self.files() if file.content == FileContent.DATA]

    def append(self, *batches: Sequence[Row], **changes: Any) -> Snapshot:
        """One data file a batch, in one snapshot."""
        return self.update(SnapshotUpdate("append", tuple(self.write(rows) for rows in batches), **changes))

    def remove(self, *files: DataFile, **changes: Any) -> Snapshot:
        """Remove whole data files, as a delete of all their rows does."""
        return self.update(
            SnapshotUpdate("delete", removed=files, starting_snapshot_id=self.head.snapshot_id, **changes)
        )

    def overwrite(self, old: DataFile, rows: Sequence[Row]) -> Snapshot:
        """Copy on write: a data file is replaced by one with other rows."""
        return self.update(
            SnapshotUpdate("overwrite", (self.write(rows),), (old,), starting_snapshot_id=self.head.snapshot_id)
        )

    def delete_positions(self, file: DataFile, positions: Iterable[int], *, scoped: bool = True) -> Snapshot:
        """A position delete file for one data file; with bounds that say so if ``scoped``."""
        rows = [(file.file_path, position) for position in positions]
        bounds = {PATH_ID: file.file_path.encode()} if scoped else None
        data = _parquet(rows, [("file_path", pa.string(), PATH_ID), ("pos", pa.int64(), POSITION_ID)])
        delete = self._file(FileContent.POSITION_DELETES, data, len(rows), file.partition, bounds, bounds)
        return self.update(SnapshotUpdate("delete", added_deletes=((delete, None),)))

    def delete_ids(self, *ids: int, partition: tuple[Any, ...] = ()) -> Snapshot:
        """An equality delete file on column id."""
        data = _parquet([(i,) for i in ids], [("id", pa.int64(), 1)])
        delete = self._file(FileContent.EQUALITY_DELETES, data, len(ids), partition, equality_ids=(1,))
        return self.update(SnapshotUpdate("delete", added_deletes=((delete, None),)))

    def write(self, rows: Sequence[Row]) -> DataFile:
        """Write a data file and do not commit it."""
        columns = [("id", pa.int64(), 1), ("p", pa.string(), 2), ("v", pa.float64(), 3)]
        partition = (rows[0][1],) if self.metadata.spec.fields else ()
        return self._file(FileContent.DATA, _parquet(rows, columns), len(rows), partition)

    def update(self, update: SnapshotUpdate) -> Snapshot:
        """Commit an update with all its retries."""
        metadata = self.metadata
        new = NewManifests(
            self.operations.metadata_location,
            self.env.new_uuid(),
            new_snapshot_id(self.env, metadata.snapshots_by_id),
        )
        stored = StoredManifests(self.storage, metadata.specs_by_id)
        draft = commit(self.operations, lambda base: next_snapshot(update, base, stored, new), self.env)
        assert draft
        assert draft.snapshot
        return draft.snapshot

    def _file(
        self,
        content: FileContent,
        data: bytes,
        records: int,
        partition: tuple[Any, ...],
        lower: Mapping[int, bytes] | None = None,
        upper: Mapping[int, bytes] | None = None,
        **fields: Any,
    ) -> DataFile:
        name = f"data/{self.env.new_uuid()}.parquet"
        self.storage.create(f"{self.root}/{name}", data)
        location = f"{self.metadata.location}/{name}"
        return DataFile(
            content,
            location,
            "PARQUET",
            0,
            partition,
            records,
            len(data),
            lower_bounds=lower,
            upper_bounds=upper,
            sort_order_id=0 if content == FileContent.DATA else None,
            **fields,
        )


def _parquet(rows: Sequence[tuple[Any, ...]], columns: Sequence[tuple[str, pa.DataType, int]]) -> bytes:
    fields = [pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)}) for name, kind, field_id in columns]
    arrays = [pa.array([row[i] for row in rows], kind) for i, (_, kind, _) in enumerate(columns)]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), out, store_schema=False)
    return out.getvalue()


def encoded(kind: str, data: pa.Table) -> bytes:
    """The rows of a small table in another format (orc, avro), with field ids."""
    out = io.BytesIO()
    if kind == "orc":
        fields = [f.with_metadata({"iceberg.id": f.metadata[b"PARQUET:field_id"].decode()}) for f in data.schema]
        orc.write_table(data.cast(pa.schema(fields)), out)
        return out.getvalue()
    types = zip(data.schema, ("long", "string", "double"), strict=True)
    columns = [{"name": f.name, "type": ["null", t], "field-id": i} for i, (f, t) in enumerate(types, 1)]
    fastavro.writer(out, {"type": "record", "name": "r", "fields": columns}, data.to_pylist())
    return out.getvalue()
