"""Writes small real Hudi tables without a JVM: for the demo, for examples and for trying things out (I/O).

A :class:`SampleTable` is a copy-on-write table of version 9 with one record key and one partition field. It writes what
Hudi writes: base files with the five metadata columns, partition metadata files, and requested, inflight and completed
instants with Avro commit metadata, so that lakemeta and Hudi's readers take it for what it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from lakemeta.avro.container import write_container
from lakemeta.errors import PathExistsError
from lakemeta.hudi.files.layout import PROPERTIES, TIMELINE_FOLDER
from lakemeta.hudi.files.names import PARTITION_METADATA
from lakemeta.hudi.files.properties import checksum, format_properties
from lakemeta.hudi.timeline.action_metadata import engine_schema
from lakemeta.hudi.timeline.instants import State, instant_file_name
from lakemeta.hudi.timeline.times import format_instant
from lakemeta.moments import epoch_ms
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]

_STEP: Final = timedelta(minutes=10)
_TABLE_SCHEMA: Final = (
    '{"type":"record","name":"trips_record","namespace":"hoodie.trips","fields":['
    '{"name":"id","type":["null","string"],"default":null},'
    '{"name":"ts","type":["null","long"],"default":null},'
    '{"name":"fare","type":["null","double"],"default":null},'
    '{"name":"city","type":["null","string"],"default":null}]}'
)


class SampleTable:
    """A table of taxi trips (id, ts, fare, city), partitioned by city, written commit by commit.

    Every commit takes place ten minutes after the one before; ids of file groups are counted, so that the same calls
    write the same names.
    """

    def __init__(self, url: str, start: datetime) -> None:
        """Create an empty table at ``url``, whose first commit will be at ``start`` (with a timezone)."""
        self.storage, self.root = open_storage(url)
        self._now = start
        self._groups: dict[str, dict[str, list[Row]]] = {}
        self._files: dict[str, str] = {}
        self._written = 0
        self._create(PROPERTIES, format_properties(self._properties(), f"Properties saved on {start.isoformat()}"))

    def insert(self, rows: Mapping[str, Sequence[Row]]) -> str:
        """Commit a new file group for each city; the instant of the commit."""
        instant = self._begin("commit")
        stats = {city: [self._write(instant, city, self._new_group(), list(r))] for city, r in rows.items()}
        return self._complete(instant, "commit", "HoodieCommitMetadata", _commit("INSERT", stats))

    def upsert(self, rows: Mapping[str, Sequence[Row]]) -> str:
        """Commit a new slice of each city's newest file group, with these rows updated; the instant."""
        instant = self._begin("commit")
        stats = {}
        for city, changed in rows.items():
            group = next(reversed(self._groups[city]))
            merged = {row["id"]: row for row in [*self._groups[city][group], *changed]}
            stats[city] = [self._write(instant, city, group, list(merged.values()))]
        return self._complete(instant, "commit", "HoodieCommitMetadata", _commit("UPSERT", stats))

    def insert_overwrite(self, city: str, rows: Sequence[Row]) -> str:
        """Replace all file groups of a city by a new one; the instant of the replace commit."""
        instant = self._begin("replacecommit")
        replaced = list(self._groups[city])
        self._groups[city] = {}
        stats = {city: [self._write(instant, city, self._new_group(), list(rows))]}
        record = {**_commit("INSERT_OVERWRITE", stats), "partitionToReplaceFileIds": {city: replaced}}
        return self._complete(instant, "replacecommit", "HoodieReplaceCommitMetadata", record)

    def savepoint(self, instant: str) -> None:
        """Pin the files that are the newest now under a savepoint of this instant."""
        partitions = {
            city: {"partitionPath": city, "savepointDataFile": [self._files[group] for group in groups]}
            for city, groups in self._groups.items()
        }
        record = {
            "savepointedBy": "lakemeta",
            "savepointedAt": epoch_ms(self._now),
            "comments": "a version to come back to",
            "partitionMetadata": partitions,
            "version": 1,
        }
        self._put(instant_file_name(instant, "savepoint", State.INFLIGHT), b"")
        self._complete(instant, "savepoint", "HoodieSavepointMetadata", record)

    def _begin(self, action: str) -> str:
        self._now += _STEP
        instant = format_instant(self._now, UTC)
        self._put(instant_file_name(instant, action, State.REQUESTED), b"")
        # An inflight commit carries no action in its name, an inflight replace commit does.
        inflight = f"{instant}.inflight" if action == "commit" else f"{instant}.{action}.inflight"
        self._put(inflight, b"")
        return instant

    def _complete(self, instant: str, action: str, schema: str, record: Mapping[str, Any]) -> str:
        self._now += timedelta(seconds=2)
        completion = format_instant(self._now, UTC)
        content = write_container(engine_schema(schema), [record])
        self._put(instant_file_name(instant, action, State.COMPLETED, completion), content)
        return instant

    def _new_group(self) -> str:
        self._written += 1
        return f"00000000-0000-4000-8000-{self._written:012d}-0"

    def _write(self, instant: str, city: str, group: str, rows: list[Row]) -> dict[str, Any]:
        previous = self._files.get(group)
        name = f"{group}_0-{len(self._files)}-{self._written}_{instant}.parquet"
        self._groups.setdefault(city, {})[group] = rows
        self._files[group] = name
        self._mark_partition(city, instant)
        content = _parquet(rows, instant, city, name)
        self._create(f"{city}/{name}", content)
        return _write_stat(group, city, name, previous=previous, rows=len(rows), size=len(content))

    def _mark_partition(self, city: str, instant: str) -> None:
        content = format_properties({"commitTime": instant, "partitionDepth": "1"}, "partition metadata")
        try:
            self._create(f"{city}/{PARTITION_METADATA}", content)
        except PathExistsError:
            return  # the partition is there already

    def _put(self, name: str, content: bytes) -> None:
        self._create(f"{TIMELINE_FOLDER}/{name}", content)

    def _create(self, path: str, content: bytes) -> None:
        self.storage.create(f"{self.root}/{path}", content)

    def _properties(self) -> dict[str, str]:
        properties = {
            "hoodie.table.name": "trips",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "9",
            "hoodie.table.initial.version": "9",
            "hoodie.table.format": "native",
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "city",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.populate.meta.fields": "true",
            "hoodie.datasource.write.hive_style_partitioning": "false",
            "hoodie.datasource.write.partitionpath.urlencode": "false",
            "hoodie.table.create.schema": _TABLE_SCHEMA,
        }
        return {**properties, "hoodie.table.checksum": str(checksum(properties))}


def write_sample_table(url: str, start: datetime) -> SampleTable:
    """Write the demo's table: inserts, five rounds of upserts, an overwrite and a savepoint, in three cities."""
    table = SampleTable(url, start)
    rows = {city: _trips(city, 400, 0) for city in ("berlin", "lagos", "lima")}
    table.insert(rows)
    for round_ in range(1, 6):
        instant = table.upsert({city: _trips(city, 40, round_) for city in rows if (len(city) + round_) % 3})
        if round_ == 2:
            table.savepoint(instant)
    table.insert_overwrite("lima", _trips("lima", 150, 6))
    table.upsert({"berlin": _trips("berlin", 25, 7)})
    return table


def _trips(city: str, number: int, round_: int) -> list[Row]:
    return [
        {"id": f"{city}-{n:05d}", "ts": 1000 * round_ + n, "fare": round(3.5 + (n * 37 + round_) % 400 / 10, 2)}
        for n in range(number)
    ]


def _commit(operation: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "partitionToWriteStats": stats,
        "compacted": False,
        "extraMetadata": {"schema": _TABLE_SCHEMA},
        "version": 1,
        "operationType": operation,
    }


def _write_stat(group: str, city: str, name: str, *, previous: str | None, rows: int, size: int) -> dict[str, Any]:
    return {
        "fileId": group,
        "path": f"{city}/{name}",
        "prevCommit": previous.rpartition("_")[2].removesuffix(".parquet") if previous else "null",
        "prevBaseFile": previous,
        "partitionPath": city,
        "numWrites": rows,
        "numInserts": 0 if previous else rows,
        "totalWriteBytes": size,
        "fileSizeInBytes": size,
    }


def _parquet(rows: Sequence[Row], instant: str, city: str, name: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "_hoodie_commit_time": [instant] * len(rows),
        "_hoodie_commit_seqno": [f"{instant}_0_{n}" for n in range(len(rows))],
        "_hoodie_record_key": [row["id"] for row in rows],
        "_hoodie_partition_path": [city] * len(rows),
        "_hoodie_file_name": [name] * len(rows),
        "id": [row["id"] for row in rows],
        "ts": pa.array([row["ts"] for row in rows], pa.int64()),
        "fare": pa.array([row["fare"] for row in rows], pa.float64()),
        "city": [city] * len(rows),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="gzip")
    content: bytes = sink.getvalue().to_pybytes()
    return content
