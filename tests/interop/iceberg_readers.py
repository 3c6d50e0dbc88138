"""Every reader of Iceberg tables that the interop tests ask, each giving Arrow tables of the columns that it knows.

``UNKNOWN_TO`` says which types a reader cannot read at all; their columns, and only theirs, are left out for it.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from generate.iceberg_schemas import KEY, SPARK_LACKS, arrow_schema, holds, without
from interop.iceberg_canonical import canonical
from pyiceberg.table import StaticTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.iceberg_engine import IcebergEngine

Json = Any
LINEAGE = (("_row_id", 2147483540), ("_last_updated_sequence_number", 2147483539))
UNKNOWN_TO: dict[str, tuple[str, ...]] = {
    "spark": SPARK_LACKS,
    "parquet of spark": (*SPARK_LACKS, "unknown", "uuid", "fixed"),
    "generics": (),
    "pyiceberg": (),
    "duckdb": ("unknown",),  # has no column in a file
    "polars": ("unknown",),
}


def columns_of(reader: str, schema: Json) -> Json:
    """The part of a schema that a reader can read."""
    names = UNKNOWN_TO[reader]
    return without(schema, lambda kind: kind.partition("[")[0] in names)


def with_lineage(schema: Json) -> Json:
    """The schema with the two columns that every row of version 3 has."""
    more = [{"id": i, "name": name, "required": False, "type": "long"} for name, i in LINEAGE]
    return schema | {"fields": [*schema["fields"], *more]}


class Readers:
    """Reads one table of an engine; every read gives canonical rows with the columns that the reader knows."""

    def __init__(self, engine: IcebergEngine, name: str, scratch: Path) -> None:
        self.engine, self.name, self.scratch = engine, name, scratch
        self.metadata = engine.metadata(name)
        self.schema = engine.schema(name)
        self.live = engine.call("live", table=f"ice.db.{name}")
        self.split = max(1, sum(file["bytes"] for file in self.live) // 12)

    @property
    def lineage(self) -> bool:
        return bool(self.metadata["format-version"] >= 3)

    @property
    def _pages_v2(self) -> bool:
        return bool(self.metadata["properties"].get("write.parquet.page-version") == "v2")

    def generics(self, *, small: bool = False) -> pa.Table:
        """Iceberg's generic Java reader: all types, deletes, lineage."""
        schema = with_lineage(self.schema) if self.lineage else self.schema
        name = self._view("generics", {"read.split.target-size": str(self.split)}) if small else self.name
        out = self.scratch / f"{uuid.uuid4()}.parquet"
        self.engine.call("generics_read", table=f"ice.db.{name}", schema=schema, out=str(out))
        table = pq.ParquetFile(out).read() if out.exists() else arrow_schema(schema).empty_table()  # no row, no file
        for field in schema["fields"]:
            if field["type"] == "unknown":
                table = table.append_column(field["name"], pa.nulls(len(table)))
        out.unlink(missing_ok=True)
        return canonical(table, schema)

    def expected(self) -> pa.Table:
        """What IcebergGenerics reads; with ORC files, all of whose rows get one id there, the lineage is Spark's."""
        rows = self.generics()
        if self.lineage and any(file["format"] == "ORC" for file in self.live):
            theirs = self.spark(vectorised=False)
            if theirs.column(KEY).equals(rows.column(KEY)):
                for name, _ in LINEAGE:
                    rows = rows.set_column(rows.column_names.index(name), name, theirs.column(name))
        return rows

    def spark(self, *, vectorised: bool, small: bool = False) -> pa.Table:
        """Spark through Iceberg; its vectorised reader takes tables of flat columns only, so only these are asked."""
        schema = columns_of("spark", self.schema)
        name = self.name if schema == self.schema else self._view("spark", {})
        if vectorised:
            schema = schema | {"fields": [f for f in schema["fields"] if self._vectorised(f["type"])]}
        schema = with_lineage(schema) if self.lineage else schema
        options = {"vectorization-enabled": str(vectorised).lower()}
        if small:
            options |= {"split-size": str(self.split), "file-open-cost": "1"}
        return self._of_spark("spark_read", schema, table=f"ice.db.{name}", options=options)

    def _vectorised(self, kind: Json) -> bool:
        """Flat, and no boolean in pages of version 2, which Spark cannot read in its own files either ("RLE")."""
        return isinstance(kind, str) and not (self._pages_v2 and kind == "boolean")

    def spark_parquet(self) -> pa.Table:
        """Spark's own Parquet reader over the live files, cut into splits at any byte."""
        schema = self._in_files("parquet of spark")
        like = str(self.scratch / "like.parquet")
        pq.write_table(arrow_schema(schema, spark=True).empty_table(), like)
        return self._of_spark("spark_parquet", schema, paths=self._paths(), like=like, split=self.split)

    def _of_spark(self, call: str, schema: Json, **arguments: Any) -> pa.Table:
        out = self.scratch / f"{uuid.uuid4()}.arrow"
        columns = [f"`{f['name']}`" for f in schema["fields"]]
        self.engine.call(call, columns=columns, out=str(out), **arguments)
        if not out.stat().st_size:
            return canonical(arrow_schema(schema).empty_table(), schema)
        with pa.ipc.open_file(str(out)) as file:
            table = file.read_all()
        out.unlink()
        return canonical(table, schema)

    def pyiceberg(self) -> pa.Table:
        """pyiceberg, from the metadata file alone; without columns whose nulls it gives as empty (0.12)."""
        schema = columns_of("pyiceberg", self.schema)
        schema |= {"fields": [f for f in schema["fields"] if not _repeats_structs(f["type"])]}
        scan = StaticTable.from_metadata(str(self.engine.metadata_file(self.name))).scan()
        return canonical(scan.select(*(f["name"] for f in schema["fields"])).to_arrow(), schema)

    def duckdb(self) -> pa.Table:
        """DuckDB over the live files."""
        schema = self._in_files("duckdb")
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone='UTC'; SET threads=2")
            files = connection.read_parquet(self._paths(), hive_partitioning=False)
            return canonical(files.to_arrow_table(), schema)

    def polars(self) -> pa.Table:
        """Polars over the live files; without arrays of fixed length in pages of version 2, whose encoding it lacks."""
        schema = self._in_files("polars")
        if self._pages_v2:
            schema |= {"fields": [f for f in schema["fields"] if not holds(f["type"], _fixed_length)]}
        names = [f["name"] for f in schema["fields"]]
        return canonical(pl.read_parquet(self._paths(), columns=names, hive_partitioning=False).to_arrow(), schema)

    def _in_files(self, reader: str) -> Json:
        return columns_of(reader, self.schema)

    def _paths(self) -> list[str]:
        return [file["path"].removeprefix("file:") for file in self.live]

    def _view(self, suffix: str, properties: dict[str, str]) -> str:
        """Another table of the same files, of which Spark can read every column, with other properties."""
        metadata, name = json.loads(json.dumps(self.metadata)), f"{self.name}_{suffix}"
        schema = columns_of(suffix, self.schema)
        new_id = 1 + max(s["schema-id"] for s in metadata["schemas"])
        metadata["schemas"].append(schema | {"schema-id": new_id})
        metadata |= {"current-schema-id": new_id, "schema": schema | {"schema-id": new_id}}
        metadata |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}
        metadata["properties"] |= properties
        root = self.engine.path(name)
        shutil.rmtree(root, ignore_errors=True)
        (root / "metadata").mkdir(parents=True)
        (root / "metadata" / "v1.metadata.json").write_text(json.dumps(metadata))
        (root / "metadata" / "version-hint.text").write_text("1")
        return name

    def all(self) -> dict[str, Callable[[], pa.Table]]:
        """Every reader of a table without delete files."""
        return {
            **self.of_tables(),
            "Spark's own Parquet reader": self.spark_parquet,
            "pyiceberg": self.pyiceberg,
            "DuckDB": self.duckdb,
            "Polars": self.polars,
        }

    def of_tables(self) -> dict[str, Callable[[], pa.Table]]:
        """The readers that apply deletes of every kind; each also with small splits."""
        return {
            "IcebergGenerics": self.generics,
            "IcebergGenerics, small splits": lambda: self.generics(small=True),
            "Spark": lambda: self.spark(vectorised=False),
            "Spark, small splits": lambda: self.spark(vectorised=False, small=True),
            "Spark, vectorised": lambda: self.spark(vectorised=True),
            "Spark, vectorised, small splits": lambda: self.spark(vectorised=True, small=True),
        }


def _fixed_length(kind: str) -> bool:
    """True for what Parquet stores as arrays of a fixed length."""
    digits = int(kind[8:].split(",")[0]) if kind.startswith("decimal(") else 0
    return kind == "uuid" or kind.startswith("fixed[") or digits > 18


def _repeats_structs(kind: Json) -> bool:
    """True if a list has structs for elements, or a map for values, anywhere in a type."""
    if isinstance(kind, str):
        return False
    if kind["type"] == "struct":
        return any(_repeats_structs(f["type"]) for f in kind["fields"])
    inner = kind["element" if kind["type"] == "list" else "value"]
    return isinstance(inner, dict) and (inner["type"] == "struct" or _repeats_structs(inner))
