"""Random Iceberg tables of files that need not exist: the same seed gives the same steps.

Sizes, metrics, partitions and deletes are drawn to lie at and around what the planner's rules compare with.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from generate.iceberg_columns import PRIMITIVES, Column, definitions
from generate.iceberg_filters import SPELLINGS, random_filter
from interop.engine_process import EngineError

from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.metadata_json import load_metadata
from lakemeta.iceberg.spec.transforms import Transform, fits

if TYPE_CHECKING:
    from pathlib import Path

    from generate.iceberg_recorder import Recorder
    from generate.iceberg_written import WrittenTable
    from interop.iceberg_engine import IcebergEngine

    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

MB = 1024 * 1024
PATH_ID = 2147483546
TRANSFORMS = (
    "identity",
    "bucket[4]",
    "bucket[1]",
    "truncate[1]",
    "truncate[2]",
    "truncate[10]",
    "year",
    "month",
    "day",
    "hour",
)
WORDS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


class RandomTable:
    """One random table of one engine, with its history so far."""

    def __init__(self, engine: IcebergEngine, name: str, seed: int) -> None:
        self.engine, self.name = engine, name
        self.random = random.Random(seed)
        self.version = self.random.choice((1, 2, 2, 3, 3))
        self.target = self.random.choice((1000, 1 * MB, 128 * MB, 512 * MB))
        self.count = 0
        self.live: list[dict[str, Any]] = []
        self.vectors: set[str] = set()
        self.sql(
            f"CREATE TABLE {{t}} ({definitions()}) USING iceberg {self._partitioned()} "
            f"TBLPROPERTIES ({self._properties()})"
        )

    def sql(self, statement: str) -> None:
        self.engine.sql(statement.format(t=f"ice.db.{self.name}"))

    def _properties(self) -> str:
        given = {"format-version": str(self.version)}
        if self.target != 512 * MB:
            given["write.target-file-size-bytes"] = str(self.target)
        if self.random.random() < 0.3:
            given["commit.manifest.min-count-to-merge"] = "3"
        return ", ".join(f"'{key}'='{value}'" for key, value in given.items())

    def _partitioned(self) -> str:
        fields = [self._field() for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        return f"PARTITIONED BY ({', '.join(dict.fromkeys(fields))})" if fields else ""

    def _field(self) -> str:
        """A partition field as Spark SQL spells it."""
        column = self.random.choice(PRIMITIVES)
        possible = [t for t in map(Transform.parse, TRANSFORMS) if fits(t, column.type)]
        return spelled(column, self.random.choice(possible))

    def grow(self) -> None:
        """Several commits of each kind."""
        for _ in range(self.random.randint(2, 6)):
            self.append()
            step = self.random.random()
            try:
                if step < 0.2:
                    self.evolve()
                elif step < 0.35 and len(self.live) > 3:
                    self.remove()
                elif step < 0.8 and self.version > 1:
                    self.delete_rows()
            except EngineError as error:  # two fields of one name, for instance
                print(f"{self.name}: {error}"[:200])

    def metadata(self) -> TableMetadata:
        """The table as it is now."""
        folder: Path = self.engine.path(self.name) / "metadata"
        newest = max(folder.glob("v*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
        return load_metadata(newest.read_bytes(), str(newest))

    def evolve(self) -> None:
        """Another partition spec."""
        metadata = self.metadata()
        if metadata.spec.fields and self.random.random() < 0.5:
            self.sql(f"ALTER TABLE {{t}} DROP PARTITION FIELD {self.random.choice(metadata.spec.fields).name}")
        else:
            self.sql(f"ALTER TABLE {{t}} ADD PARTITION FIELD {self._field()}")

    def append(self) -> None:
        """Files of one spec in one manifest."""
        metadata = self.metadata()
        spec = metadata.spec if self.random.random() < 0.8 else self.random.choice(metadata.partition_specs)
        pool = [self._partition(spec, metadata) for _ in range(self.random.randint(1, 4))]
        files = [self._file(spec.spec_id, self.random.choice(pool)) for _ in range(self.random.randint(1, 12))]
        self.engine.call("append", table=f"ice.db.{self.name}", files=files)
        self.live += files

    def remove(self) -> None:
        gone = self.random.sample(self.live, self.random.randint(1, 3))
        self.engine.call("remove", table=f"ice.db.{self.name}", paths=[file["file-path"] for file in gone])
        self.live = [file for file in self.live if file not in gone]

    def delete_rows(self) -> None:
        """Position deletes (vectors in version 3) and equality deletes for some files."""
        some = self.random.sample(self.live, min(len(self.live), self.random.randint(1, 6)))
        files = [found for file in some if (found := self._delete(file)) is not None]
        if files:
            self.engine.call("delete_rows", table=f"ice.db.{self.name}", files=files)

    def _file(self, spec_id: int, partition: list[Any]) -> dict[str, Any]:
        records = self.random.choice((1, 3, 10, 10, 1000))
        size = self._size()
        self.count += 1
        name = f"{self.engine.path(self.name)}/data/{self.count:05}.parquet"
        splits = list(range(4, size, self.random.choice((size, max(4, size // 3), 64 * MB))))[:20] or [4]
        file = self._content("data", name, spec_id, partition, records)
        file |= {"file-size-in-bytes": size, "split-offsets": splits} | self._metrics(records)
        return file

    def _content(self, content: str, path: str, spec_id: int, partition: list[Any], records: int) -> dict[str, Any]:
        return {
            "spec-id": spec_id,
            "content": content,
            "file-path": path,
            "file-format": "parquet",
            "partition": partition,
            "file-size-in-bytes": 1000 + self.random.randint(0, 500),
            "record-count": records,
        }

    def _size(self) -> int:
        edges = (0.75, 1.0, 1.1, 1.4, 1.8, 2.0)
        if self.random.random() < 0.3:
            return max(5, int(self.target * self.random.choice(edges)) + self.random.choice((-1, 0, 1)))
        return max(5, int(self.target * 2 ** self.random.uniform(-8, 2.5)))

    def _partition(self, spec: PartitionSpec, metadata: TableMetadata) -> list[Any]:
        found = []
        for field, kind in zip(spec.fields, metadata.partition_types(spec.spec_id), strict=True):
            column = next(c for c in PRIMITIVES if c.field_id == field.source_id)
            value = None if self.random.random() < 0.15 else self.random.choice(column.values)
            if isinstance(value, float) and not math.isfinite(value):
                value = 0.0  # JSON has no word for others
            found.append(values.to_json(kind, field.transform.apply(column.type, value)))
        return found

    def _metrics(self, records: int) -> dict[str, Any]:
        """Counts and bounds of most columns, some missing, some of nulls or NaN only."""
        metrics: dict[str, dict[int, Any]] = {
            name: {}
            for name in ("value-counts", "null-value-counts", "nan-value-counts", "lower-bounds", "upper-bounds")
        }
        if self.random.random() < 0.1:
            return {}
        for column in PRIMITIVES:
            if self.random.random() < 0.85:
                self._column_metrics(column, records, metrics)
        return {name: {"keys": list(of), "values": list(of.values())} for name, of in metrics.items()}

    def _column_metrics(self, column: Column, records: int, metrics: dict[str, dict[int, Any]]) -> None:
        nulls = self.random.choice((0, 0, 0, 1, records))
        nans = self.random.choice((0, 0, records - nulls, 1)) if column.is_float else 0
        present = {"value-counts": records, "null-value-counts": nulls}
        if column.is_float:
            present["nan-value-counts"] = nans
        for name, count in present.items():
            if self.random.random() < 0.93:
                metrics[name][column.field_id] = count
        if nulls + nans >= records and self.random.random() < 0.9:
            return
        low, high = sorted(
            self.random.choices(column.values, k=2),
            key=lambda v: values.to_bytes(column.type, v) if isinstance(v, bytes) else v,
        )
        if column.is_float and self.random.random() < 0.05:
            low = high = math.nan
        for name, bound in (("lower-bounds", low), ("upper-bounds", high)):
            if self.random.random() < 0.95:
                metrics[name][column.field_id] = values.to_bytes(column.type, bound).hex().upper()

    def _delete(self, file: dict[str, Any]) -> dict[str, Any] | None:
        self.count += 1
        path = file["file-path"]
        name = f"{self.engine.path(self.name)}/data/{self.count:05}-deletes.parquet"
        records = self.random.choice((1, 2, 3, 4, file["record-count"]))
        if self.random.random() < 0.25:
            delete = self._content("equality-deletes", name, file["spec-id"], file["partition"], records)
            return delete | {"equality-ids": self.random.choice(([1], [2, 11], [16]))} | self._metrics(records)
        delete = self._content("position-deletes", name, file["spec-id"], file["partition"], records)
        if self.version >= 3:
            if path in self.vectors:
                return None
            self.vectors.add(path)
            puffin = {"file-format": "puffin", "content-offset": 4, "content-size-in-bytes": 40}
            return delete | puffin | {"file-path": name.replace(".parquet", ".puffin"), "referenced-data-file": path}
        scope = self.random.choice(("referenced", "bounds", "partition"))
        if scope == "referenced":
            return delete | {"referenced-data-file": path}
        upper = path if scope == "bounds" else path + "~"
        bounds = {"lower-bounds": path, "upper-bounds": upper}
        return delete | {k: {"keys": [PATH_ID], "values": [v.encode().hex().upper()]} for k, v in bounds.items()}


def spelled(column: Column, transform: Transform) -> str:
    """A partition field in Spark SQL."""
    if transform.name == "identity":
        return column.name
    if transform.width:
        return f"{transform.name}({transform.width}, {column.name})"
    return f"{WORDS[transform.name]}({column.name})"


def record_plans(recorder: Recorder, table: RandomTable | WrittenTable, plans: int) -> None:
    """Plans under random options, under random filters, under both, and under filters of unusual spelling."""
    chance = table.random
    asked: list[dict[str, Any]] = [
        {"options": planner_options(chance, table.target), "where": None} for _ in range(plans)
    ]
    asked += [{"options": {"rewrite-all": "true"}, "where": random_filter(chance)} for _ in range(plans)]
    for _ in range(plans // 4):
        asked.append({"options": planner_options(chance, table.target), "where": random_filter(chance)})
    asked += [{"options": {"rewrite-all": "true"}, "where": text} for text in chance.sample(SPELLINGS, plans)]
    recorder.record(table.name, asked)


def planner_options(chance: random.Random, target: int) -> dict[str, str]:
    """Random options of the planner, now and then wrong ones."""
    possible = _possible(target)
    chosen = {name: str(chance.choice(values)) for name, values in possible.items() if chance.random() < 0.25}
    if chance.random() < 0.08:
        name = chance.choice(sorted(set(possible) - {"rewrite-all"}))  # whose wrong values Java takes for false
        chosen[name] = chance.choice(("0", "-1", "1.5", "x", "", "99999999999999999999", " 5", "NaN"))
    return chosen


def _possible(target: int) -> dict[str, tuple[Any, ...]]:
    sizes = tuple(max(1, int(target * share)) for share in (0.1, 0.5, 0.75, 1, 1.5, 1.8, 3))
    return {
        "target-file-size-bytes": sizes,
        "min-file-size-bytes": (0, *sizes[:4]),
        "max-file-size-bytes": sizes[3:],
        "min-input-files": (1, 2, 3, 8),
        "rewrite-all": ("true", "false", "TRUE"),
        "max-file-group-size-bytes": (1, *sizes),
        "max-file-group-input-files": (1, 2, 3, 5),
        "delete-file-threshold": (0, 1, 2),
        "delete-ratio-threshold": (0.1, 0.3, 0.5, 1, 1e-9),
        "rewrite-job-order": ("none", "bytes-asc", "BYTES_DESC", "files-asc", "files-desc"),
        "max-files-to-rewrite": (1, 3, 7),
        "output-spec-id": (0, 0, 1),
    }
