"""Random Iceberg tables of thousands of rows in every type, written by Spark and by the Java API.

The same seed gives the same steps. A step that the engine refuses is left out and noted in ``steps``.
"""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from generate.iceberg_schemas import (
    FLAT,
    JAVA,
    KEY,
    SPARK_LACKS,
    VERSION_3,
    arrow_schema,
    for_spark,
    random_array,
    random_rows,
    random_schema,
    random_type,
)
from interop.engine_process import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interop.iceberg_engine import IcebergEngine

Json = Any
FORMATS = ("PARQUET",) * 8 + ("AVRO", "ORC")
WIDER = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(18, 2)", "decimal(30, 6)": "decimal(38, 6)"}
TRANSFORMS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "boolean": (("identity",),),
    "int": (("identity",), ("bucket", 3), ("truncate", 10)),
    "long": (("identity",), ("bucket", 3), ("truncate", 1000)),
    "date": (("identity",), ("year",), ("month",), ("day",), ("bucket", 2)),
    "timestamp": (("year",), ("month",), ("day",), ("hour",), ("bucket", 2), ("identity",)),
    "timestamptz": (("year",), ("month",), ("day",), ("hour",), ("bucket", 2), ("identity",)),
    "string": (("identity",), ("bucket", 4), ("truncate", 2)),
    "binary": (("bucket", 3), ("truncate", 1), ("identity",)),
    "decimal(9, 2)": (("identity",), ("bucket", 3), ("truncate", 50)),
    "decimal(20, 0)": (("identity",), ("bucket", 3)),
    "decimal(38, 10)": (("identity",),),
    "fixed[13]": (("identity",), ("bucket", 2)),
    "uuid": (("bucket", 3), ("identity",)),
}
DEFAULTS: dict[str, Any] = {"int": 7, "string": "a default", "boolean": True, "double": -0.5}  # of new columns
SORTABLE = (*TRANSFORMS, "float", "double")


class GrownTable:
    """One table of one engine; ``steps`` says what was done to it, in order."""

    def __init__(self, engine: IcebergEngine, name: str, seed: int, scratch: Path) -> None:
        self.engine, self.name, self.scratch = engine, name, scratch
        self.random = random.Random(seed)
        self.version = self.random.choice((1, 2, 2, 2, 3, 3, 3))
        self.spark = self.random.random() < 0.7  # has a part in writing
        self.readable = self.spark or self.random.random() < 0.5  # by Spark, whole: there are no types that it lacks
        self.keys = self.new = 0
        self.pools: dict[str, pa.Array] = {}
        self.last: pa.Table | None = None  # the rows of the last append
        self.steps: list[str] = []
        schema = random_schema(self.random, self._types(), self.random.choice((0, 1, 2, 4, 8, 15, 40)))
        spec, order = self._spec(schema), self._order(schema)
        properties = self._properties(schema)
        self.steps.append(f"schema {schema['fields']}, spec {spec}, order {order}, properties {properties}")
        self._call("create", schema=schema, spec=spec, order=order, properties=properties)

    @property
    def table(self) -> str:
        """The name in the catalog."""
        return f"ice.db.{self.name}"

    @property
    def schema(self) -> Json:
        """The schema as it is now."""
        return self.engine.schema(self.name)

    def _types(self) -> tuple[str, ...]:
        able = () if self.readable else SPARK_LACKS
        java = tuple(t for t in JAVA if t in able or t not in SPARK_LACKS)
        new = tuple(t for t in VERSION_3 if t in able or t not in SPARK_LACKS)
        new = () if self.spark or self.version < 3 else new
        return self.random.choice((FLAT, FLAT + java + new, ("string", "long"), FLAT + java + new))

    def _spec(self, schema: Json) -> list[list[Any]]:
        """Up to two partition fields; each source column has three values in all."""
        known = [f for f in schema["fields"] if str(f["type"]) in TRANSFORMS and f["name"] != KEY]
        found = []
        for field in self.random.sample(known, min(len(known), self.random.choice((0, 0, 1, 1, 2)))):
            found.append([field["name"], *self.random.choice(TRANSFORMS[field["type"]])])
            self._few(field)
        return found

    def _few(self, field: Json) -> None:
        values = random_array(self.random, field["type"], 3, not field["required"])
        if field["type"] == "string":  # they name directories
            values = pc.utf8_slice_codeunits(values, 0, 30)
        elif field["type"] == "binary":
            values = pc.binary_slice(values, 0, 30)
        self.pools[field["name"]] = values

    def _order(self, schema: Json) -> list[list[str]]:
        known = [f["name"] for f in schema["fields"] if str(f["type"]) in SORTABLE]
        chosen = self.random.sample(known, min(len(known), self.random.choice((0, 0, 1, 2))))
        nulls = ("NULLS_FIRST", "NULLS_LAST")
        return [[self.random.choice(("asc", "desc")), name, self.random.choice(nulls)] for name in chosen]

    def _properties(self, schema: Json) -> dict[str, str]:
        """Writers' properties of small row groups and pages, of every codec that all readers have."""
        draw = self.random.choice
        given = {"format-version": str(self.version)}
        if self.version > 1:
            modes = ("copy-on-write", "merge-on-read", "merge-on-read")
            given |= {f"write.{kind}.mode": draw(modes) for kind in ("delete", "update", "merge")}
            given["write.delete.granularity"] = draw(("file", "partition"))
        parquet = {
            "compression-codec": ("zstd", "gzip", "snappy", "uncompressed", "lz4_raw"),
            "row-group-size-bytes": ("10000", "40000", "150000", "150000", "1000000"),
            "row-group-check-min-record-count": ("10", "64", "100"),
            "row-group-check-max-record-count": ("100", "512", "10000"),
            "page-size-bytes": ("512", "4096", "100000"),
            "page-row-limit": ("37", "500", "20000"),
            "page-version": ("v1", "v2"),
            "dict-size-bytes": ("100", "2000", "2097152"),
        }
        for key, values in parquet.items():
            if self.random.random() < (0.9 if key.startswith("row-group") else 0.4):
                given[f"write.parquet.{key}"] = draw(values)
        for field in schema["fields"]:
            self._of_column(field, given)
        others = {
            "write.metadata.metrics.default": ("none", "counts", "truncate(3)", "full"),
            "write.distribution-mode": ("none", "hash", "range"),
            "write.object-storage.enabled": ("true",),
            "write.metadata.compression-codec": ("gzip",),
            "commit.manifest.min-count-to-merge": ("2",),
        }
        return given | {key: draw(values) for key, values in others.items() if self.random.random() < 0.25}

    def _of_column(self, field: Json, given: dict[str, str]) -> None:
        chances = self.random.random(), self.random.random(), self.random.random(), self.random.random()
        bloom = field["type"] in ("boolean", "int", "long", "string", "binary", "double", "date", "timestamptz")
        if bloom and chances[0] < 0.15:
            given[f"write.parquet.bloom-filter-enabled.column.{field['name']}"] = "true"
            given[f"write.parquet.bloom-filter-ndv.column.{field['name']}"] = "500"
        if isinstance(field["type"], str) and chances[1] < 0.1:
            given[f"write.parquet.dict-encoding-enabled.column.{field['name']}"] = "false"
        if isinstance(field["type"], str) and chances[2] < 0.1:
            given[f"write.parquet.stats-enabled.column.{field['name']}"] = "false"
        if chances[3] < 0.1:
            given[f"write.metadata.metrics.column.{field['name']}"] = self.random.choice(("full", "none", "counts"))

    def grow(self) -> None:
        """Appends by both writers with changes and deletes in between."""
        for _ in range(self.random.randint(2, 4)):
            self.append()
            for step in self.random.choices(self._changes(), k=2):
                if self.random.random() < 0.6:
                    self.attempt(step)

    def _changes(self) -> tuple[Callable[[], None], ...]:
        deletes = (self.delete, self.delete, self.update) if self.spark else ()
        if self.version == 1:
            return (*deletes, self.evolve, self.evolve, self.respec)
        return (*deletes, self.equality, self.positions, self.evolve, self.evolve, self.respec)

    def attempt(self, step: Callable[[], None]) -> None:
        """One step; what the engine refuses is noted."""
        try:
            step()
        except EngineError as error:
            self.steps.append(f"refused: {str(error).splitlines()[0][:160]}")

    def append(self) -> None:
        """Some hundred rows, by Spark or by the Java API."""
        schema = self.schema
        size = self.random.randint(100, 400 if len(schema["fields"]) > 20 else 1500)
        keys = range(self.keys, self.keys + size)
        self.keys += size
        rows = random_rows(self.random, schema, keys)
        spark = self.spark and self.random.random() < 0.6
        self.last = rows = self._partitioned(rows, alike=not spark)
        if spark:
            path = self._file(for_spark(rows, schema))
            self._call("spark_append", path=path, options={})
        else:
            self._call("java_append", path=self._file(rows), form=self._form())

    def _form(self) -> str:
        """The format of a file of the Java API: Parquet with types that Spark lacks, which reads others whole."""
        return self.random.choice(FORMATS) if self.readable else "PARQUET"

    def _partitioned(self, rows: pa.Table, *, alike: bool) -> pa.Table:
        """Give columns that partition the few values that they have; ``alike``: one value to all rows."""
        for at, field in enumerate(rows.schema):
            if field.name in self.pools:
                pool = self.pools[field.name].cast(field.type)
                one = self.random.randrange(3)
                picked = [one if alike else self.random.randrange(3) for _ in range(len(rows))]
                rows = rows.set_column(at, field, pool.take(pa.array(picked, pa.int64())))
        return rows

    def _file(self, rows: pa.Table) -> str:
        path = self.scratch / "rows.parquet"
        pq.write_table(rows, path, row_group_size=10**6)
        return str(path)

    def _call(self, function: str, **arguments: Any) -> Any:
        said = {key: value for key, value in arguments.items() if key not in ("schema", "path", "properties")}
        self.steps.append(f"{function} {said}"[:300])
        return self.engine.call(function, table=self.table, **arguments)

    def delete(self) -> None:
        """Spark deletes some rows: position deletes, vectors or rewritten files."""
        self._sql(f"DELETE FROM {self.table} WHERE pmod({KEY}, {self.random.choice((3, 7, 50))}) = 1")

    def update(self) -> None:
        """Spark updates some rows."""
        known = [f["name"] for f in self.schema["fields"] if not f["required"] and f["name"] != KEY]
        if known:
            name = self.random.choice(known)
            self._sql(f"UPDATE {self.table} SET `{name}` = NULL WHERE pmod({KEY}, {self.random.choice((5, 40))}) = 2")

    def _sql(self, statement: str) -> None:
        self.steps.append(statement)
        self.engine.sql(statement)

    def equality(self) -> None:
        """An equality delete by the Java API, of keys that rows of the last append have or of any ``rid``."""
        columns = [KEY]
        if self.random.random() < 0.5 and self.last is not None:
            columns = self._keys()
            rows = self.last.select([name.split(".")[0] for name in columns]).take(
                self.random.sample(range(len(self.last)), 20)
            )
        else:
            keys = self.random.sample(range(self.keys), self.random.choice((1, 30, 100)))
            rows = pa.table([pa.array(keys, pa.int64())], schema=self.last_schema(columns))
        file = self.random.choice(self.engine.call("live", table=self.table))
        self._call("equality_deletes", path=self._file(rows), columns=columns, data_file=file["path"])

    def last_schema(self, columns: list[str]) -> pa.Schema:
        """The Arrow schema of some columns as they are now."""
        fields = self.schema["fields"]
        return arrow_schema({"type": "struct", "fields": [f for f in fields if f["name"] in columns]})

    def _keys(self) -> list[str]:
        """Columns that the last append and the table as it is now share, whose types may be keys."""
        assert self.last is not None
        same = [f.name for f in self.last_schema(self.last.column_names) if f.equals(self.last.schema.field(f.name))]
        kinds = {f["name"]: str(f["type"]) for f in self.schema["fields"]}
        able = [name for name in same if kinds[name] in TRANSFORMS]
        for name in same:  # the fields of structs, which may be null themselves
            kind = self.last.schema.field(name).type
            inner = _by_name(self.schema, name)
            if pa.types.is_struct(kind):
                able += [f"{name}.{f['name']}" for f in inner["fields"] if str(f["type"]) in TRANSFORMS]
        chosen = self.random.sample(able, min(len(able), self.random.choice((1, 2)))) or [KEY]
        return chosen if len({name.split(".")[0] for name in chosen}) == len(chosen) else chosen[:1]

    def positions(self) -> None:
        """Position deletes by the Java API; in version 3 a vector, if the file has no deletes yet."""
        files = self.engine.call("live", table=self.table)
        files = [f for f in files if f["rows"] and not (self.version == 3 and f["deletes"])]
        if files:
            file = self.random.choice(files)
            positions = sorted(self.random.sample(range(file["rows"]), min(file["rows"], self.random.choice((1, 40)))))
            self._call("position_deletes", data_file=file["path"], positions=positions)

    def evolve(self) -> None:
        """One change of the schema, at the top or in a struct; ``rid`` and columns that partition stay."""
        fields = [f for f in self.schema["fields"] if f["name"] != KEY and f["name"] not in self.pools]
        self.new += 1
        name = f"n{self.new}"
        kind = {"type": random_type(self.random, self._types(), 1, count(100))}
        changes: list[tuple[str, list[Any]]] = [("addColumn", [name, kind])]
        if self.version == 3:
            filled = self.random.choice(sorted(DEFAULTS))
            changes += [("addColumn", [name, {"type": filled}, {"default": DEFAULTS[filled]}])] * 2
        for field in self.random.sample(fields, min(3, len(fields))):
            changes += [("deleteColumn", [field["name"]]), ("renameColumn", [field["name"], name])]
            changes += [("moveFirst", [field["name"]]), ("moveAfter", [field["name"], KEY])]
            changes += [("makeColumnOptional", [field["name"]])] * field["required"]
            if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
                changes += [("addColumn", [field["name"], name, kind])] * 3
                inner = self.random.choice(field["type"]["fields"])["name"]
                changes += [("renameColumn", [f"{field['name']}.{inner}", name])] * 2
                changes += [("deleteColumn", [f"{field['name']}.{inner}"])] * (len(field["type"]["fields"]) > 1)
        wider = [f for f in self.schema["fields"] if isinstance(f["type"], str) and f["type"] in WIDER]
        changes += [("updateColumn", [f["name"], {"type": WIDER[f["type"]]}]) for f in wider] * 2
        method, arguments = self.random.choice(changes)
        self._call("evolve", method=method, arguments=arguments)

    def respec(self) -> None:
        """Another partition field on a column of few values."""
        if not self.pools:
            return
        name = self.random.choice(sorted(self.pools))
        kind = _by_name(self.schema, name)
        transform, *width = self.random.choice(TRANSFORMS[kind])
        if transform != "identity":
            self._call("evolve_spec", transform=transform, arguments=[name, *width])


def _by_name(schema: Json, name: str) -> Json:
    return next(f["type"] for f in schema["fields"] if f["name"] == name)
