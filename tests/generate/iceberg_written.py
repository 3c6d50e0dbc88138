"""Random Iceberg tables with rows, written by Spark: the same seed gives the same statements."""

from __future__ import annotations

import io
import random
import uuid
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from generate.iceberg_columns import COLUMNS, LONG_TEXT, PRIMITIVES, definitions, literal
from interop.engine_process import EngineError

if TYPE_CHECKING:
    from interop.iceberg_engine import IcebergEngine

SPECS = (
    *("", "", "s", "n", "d", "f", "day", "at", "b", "bin", "st.x", "lt"),
    *("bucket(4, id)", "bucket(3, s)", "truncate(2, s)", "truncate(10, i)", "truncate(50, n)", "truncate(1, bin)"),
    *("years(at)", "months(day)", "days(at)", "hours(lt)", "s, days(at)", "bucket(2, id), truncate(1, s)"),
)
CHANGES = (
    "ADD COLUMN extra INT",
    "ADD COLUMN st.z DOUBLE",
    "RENAME COLUMN d TO dd",
    "ALTER COLUMN i TYPE BIGINT",
    "ALTER COLUMN f TYPE DOUBLE",
    "ALTER COLUMN n TYPE DECIMAL(20, 2)",
    "DROP COLUMN big",
    "ALTER COLUMN s FIRST",
    "WRITE ORDERED BY id DESC",
    "ADD PARTITION FIELD bucket(2, id)",
    "ADD PARTITION FIELD b",
)
CONDITIONS = (
    "id = 1",
    "i < 0",
    "s = 'a'",
    "b",
    "id % 3 = 0",
    "day IS NULL",
    "at < TIMESTAMP '1970-01-01'",
    "n > 0",
    "l IS NULL",
)
MODES = ("copy-on-write", "merge-on-read", "merge-on-read")


class WrittenTable:
    """One random table with its statements so far; ones that Spark refuses are left out."""

    def __init__(self, engine: IcebergEngine, name: str, seed: int) -> None:
        self.engine, self.name = engine, name
        self.random = random.Random(seed)
        self.version = self.random.choice((1, 2, 2, 2, 3, 3, 3))
        self.target = 4000  # bytes; some files of a few rows are larger and some smaller
        self.changed = False
        spec = self.random.choice(SPECS)
        partitioned = f"PARTITIONED BY ({spec})" if spec else ""
        self.statements: list[str] = []
        self.sql(
            f"CREATE TABLE {{t}} ({definitions()}) USING iceberg {partitioned} TBLPROPERTIES ({self._properties()})"
        )

    def sql(self, statement: str) -> None:
        self.engine.sql(statement.format(t=f"ice.db.{self.name}"))
        self.statements.append(statement)

    def _properties(self) -> str:
        given = {"format-version": str(self.version), "write.distribution-mode": self.random.choice(("none", "hash"))}
        if self.version > 1:
            given |= {f"write.{kind}.mode": self.random.choice(MODES) for kind in ("delete", "update", "merge")}
            given["write.delete.granularity"] = self.random.choice(("file", "partition"))
        if self.random.random() < 0.2:
            given["commit.manifest.min-count-to-merge"] = "3"
        if self.random.random() < 0.2:
            given["write.metadata.metrics.default"] = self.random.choice(("none", "counts", "truncate(2)", "full"))
        return ", ".join(f"'{key}'='{value}'" for key, value in given.items())

    def grow(self) -> None:
        """Appends with deletes, updates and changes of the schema in between."""
        for _ in range(self.random.randint(3, 7)):
            self.insert()
            for step in self.random.choices(
                (self.delete, self.update, self.overwrite, self.change, self.equality), k=2
            ):
                if self.random.random() < 0.4:
                    try:
                        step()
                    except EngineError as error:
                        print(f"{self.name}: {str(error).splitlines()[0]}"[:160])

    def insert(self, into: str = "INSERT INTO") -> None:
        """A few rows; columns that were added or changed meanwhile are null."""
        known = {c.name for c in COLUMNS if c.sql_type and not (self.changed and c.name in ("d", "big", "st"))}
        described = [row["col_name"] for row in self.engine.sql(f"DESCRIBE TABLE ice.db.{self.name}")]
        columns = list(takewhile(lambda name: name and not name.startswith("#"), described))
        rows = [[self._cell(name) if name in known else "NULL" for name in columns] for _ in range(self._some())]
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        self.sql(f"{into} {{t}} ({', '.join(columns)}) VALUES {listed}")

    def _some(self) -> int:
        return self.random.randint(1, 8)

    def _cell(self, name: str) -> str:
        if self.random.random() < 0.1:
            return "NULL"
        if name == "st":
            return f"named_struct('x', {self._cell('st.x')}, 'y', {self._cell('st.y')})"
        if name == "l":
            return self.random.choice(("array()", "array(1, NULL, 3)", "array(7)")).replace(
                "array()", "cast(array() AS ARRAY<INT>)"
            )
        if name == "m":
            return self.random.choice(("map('a', 1)", "map('', NULL, 'b', 2)")).replace("NULL", "cast(NULL AS INT)")
        column = next(c for c in PRIMITIVES if c.name == name)
        if column.is_float and self.random.random() < 0.2:
            return literal(column, float("nan"))
        value = self.random.choice([v for v in column.values if v not in (LONG_TEXT, "\uffff")])
        text = literal(column, value)
        return f"CAST({text} AS {column.sql_type})" if column.sql_type else text

    def delete(self) -> None:
        self.sql(f"DELETE FROM {{t}} WHERE {self.random.choice(CONDITIONS)}")

    def update(self) -> None:
        self.sql(f"UPDATE {{t}} SET id = {self.random.randint(1, 9)} WHERE {self.random.choice(CONDITIONS)}")

    def overwrite(self) -> None:
        if self.random.random() < 0.3:
            self.insert("INSERT OVERWRITE")

    def change(self) -> None:
        """The schema, order or partitioning evolves; from then on only columns that never change are written."""
        statement = f"ALTER TABLE {{t}} {self.random.choice(CHANGES)}"
        self.sql(statement)
        self.changed = True

    def equality(self) -> None:
        """An equality delete on column id, as streaming writers leave it, for a partition that has files."""
        if self.version == 1:
            return
        file = self.random.choice(self.engine.call("files", table=f"ice.db.{self.name}"))
        ids = pa.table({"id": pa.array([self.random.choice((1, 5, 7, None))], pa.int64())})
        field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
        out = io.BytesIO()
        pq.write_table(ids.cast(pa.schema([field])), out, store_schema=False)
        path = self.engine.path(self.name) / "data" / f"{uuid.UUID(int=self.random.getrandbits(128))}-eq.parquet"
        path.write_bytes(out.getvalue())
        made: dict[str, Any] = {
            "spec-id": file["spec_id"],
            "content": "equality-deletes",
            "file-path": str(path),
            "file-format": "parquet",
            "partition": file["partition"],
            "file-size-in-bytes": len(out.getvalue()),
            "record-count": 1,
            "equality-ids": [1],
        }
        self.engine.call("delete_rows", table=f"ice.db.{self.name}", files=[made])
        self.statements.append("equality delete")
