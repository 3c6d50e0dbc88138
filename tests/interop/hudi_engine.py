"""Real Apache Hudi as a subprocess: one Engine holds one Hudi version in one JVM.

An Engine starts ``hudi_worker.py`` under PySpark and talks JSON lines with it; a HudiEngineTable is one table
that the engine writes. The worker runs in UTC unless it is told another zone, so instants are UTC.
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from interop.engine_process import EngineProcess, EngineUnavailableError, resolve_jar

VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}  # Hudi release: the table version it writes by default
BUNDLE = ("org.apache.hudi", "hudi-spark3.5-bundle_2.12")
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # Java options for small tables: less CPU, no warm-up


def bundle_jar(version: str) -> str:
    """The path of a Hudi bundle, downloaded if need be; raises EngineUnavailableError."""
    return resolve_jar(*BUNDLE, version)


class Engine(EngineProcess):
    """One Hudi version in its own process.

    ``memory`` is the driver's heap and ``java_options`` its options, both in Java's spelling; ``zone`` is the JVM's
    time zone, in which a table's instants are by default.
    """

    def __init__(
        self,
        version: str,
        scratch: Path,
        *,
        memory: str = "1g",
        java_options: str = QUICK_START,
        zone: str = "UTC",
    ) -> None:
        self.version = version
        self.zone = zone
        self.table_version = VERSIONS[version]
        arguments = [bundle_jar(version), str(scratch), memory, f"{java_options} -Duser.timezone={zone}"]
        super().__init__(f"Hudi {version}", "hudi_worker.py", scratch, arguments)

    def call(self, op: str, **arguments: Any) -> Any:
        """Ask the worker for one operation; raises EngineError with the engine's own message."""
        return self.ask({"op": op, **arguments})


class HudiEngines:
    """One release of the real Hudi at a time."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._engine: Engine | None = None

    def of(self, version: str) -> Engine:
        """The engine of a release; skips the test that asks where it cannot be had."""
        if self._engine is None or self._engine.version != version or not self._engine.runs:
            self.close()
            try:
                bundle_jar(version)
                self._engine = Engine(version, self._folders.mktemp("hudi"))
            except EngineUnavailableError as reason:
                pytest.skip(str(reason))
        return self._engine

    def close(self) -> None:
        """End the JVM."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


class HudiEngineTable:
    """A table of rows (id, p, val, ts) that the engine writes at ``base``, an absolute local directory or a URL.

    The engine cleans, archives and compacts only when asked. ``ts`` grows with every write.
    """

    def __init__(
        self,
        engine: Engine,
        base: Path | str,
        *,
        mor: bool = False,
        partitioned: bool = True,
        metadata: bool = False,
        **options: str,
    ) -> None:
        self.engine = engine
        self.base = base
        self.clock = 0
        self.history: list[dict[str, Any]] = []
        generator = "SimpleKeyGenerator" if partitioned else "NonpartitionedKeyGenerator"
        self.options = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if mor else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "p" if partitioned else "",
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
            "hoodie.metadata.enable": str(metadata).lower(),
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.compact.inline": "false",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.rollback.using.markers": "false",
            "hoodie.embed.timeline.server": "false",
            **{f"hoodie.{kind}.shuffle.parallelism": "1" for kind in ("insert", "upsert", "bulkinsert", "delete")},
            **options,
        }

    def twin(self, base: Path) -> HudiEngineTable:
        """A copy of the table at another directory, which is made."""
        shutil.copytree(self.base, base)
        return self.at(base)

    def at(self, base: Path) -> HudiEngineTable:
        """The same table as a copy of it at another directory."""
        other = HudiEngineTable(self.engine, base)
        other.options = dict(self.options)
        other.clock, other.history = self.clock, list(self.history)
        return other

    def write(self, operation: str, rows: list[tuple[str, str]], **options: str) -> None:
        """Run one write operation for the (id, p) pairs in ``rows``; their values are new each time."""
        self.clock += 1
        values = [[key, p, f"{key}@{self.clock}", self.clock] for key, p in rows]
        options = {**self.options, "hoodie.datasource.write.operation": operation, **options}
        self.engine.call("write", base=str(self.base), rows=values, options=options)
        self.history.append({"op": operation, "rows": [list(row) for row in rows]})

    def crash_write(self, rows: list[tuple[str, str]]) -> None:
        """An upsert that died just before its commit: its files are there, its instant is still inflight."""
        self.write("upsert", rows)
        self.history[-1]["crashed"] = True
        instant = self.commits()[-1]
        for path in (self.base / ".hoodie").rglob(f"{instant}*"):
            if path.suffix in {".commit", ".deltacommit"}:
                path.unlink()

    def delete_partition(self, *partitions: str) -> None:
        """Drop partitions; their file groups are replaced by nothing."""
        names = ",".join(partitions)
        self.write(
            "delete_partition",
            [("x", partitions[0])],
            **{"hoodie.datasource.write.partitions.to.delete": names},
        )

    def rows(self) -> list[list[Any]]:
        """The table's rows as the engine reads them, sorted: a multiset."""
        return self.engine.call("rows", base=str(self.base), options=self._read_options())

    def rows_as_of(self, instant: str) -> list[list[Any]]:
        """The table's rows as they were after an instant, sorted."""
        options = {**self._read_options(), "as.of.instant": instant}
        return self.engine.call("rows", base=str(self.base), options=options)

    def clean(self, options: dict[str, str]) -> dict[str, Any] | None:
        """Run the engine's own ``clean()``: its HoodieCleanMetadata, or None for nothing to do."""
        return self.engine.call("clean", base=str(self.base), options={**self.options, **options})

    def schedule_clean(self, options: dict[str, str]) -> str | None:
        """Let the engine write a clean's plan only; its instant, or None where there is nothing to do."""
        return self.engine.call("schedule_clean", base=str(self.base), options={**self.options, **options})

    def cleans(self) -> list[dict[str, Any]]:
        """The completed cleans as the engine decodes them, oldest first."""
        return self.engine.call("cleans", base=str(self.base))

    def commits(self) -> list[str]:
        """The requested times of the completed commits, deltacommits and replacecommits, oldest first."""
        return self.engine.call("commits", base=str(self.base))

    def procedure(self, name: str, arguments: str = "") -> list[list[Any]]:
        """``CALL name(path => base, arguments)`` in Spark SQL, with this table's options in the session."""
        call = f"CALL {name}(path => '{self.base}'{', ' + arguments if arguments else ''})"
        return self.sql(call)

    def procedure_by_name(self, name: str, arguments: str = "") -> list[list[Any]]:
        """The same for a procedure that takes no path: the table is named in the session's catalog first."""
        table = f"t{zlib.crc32(str(self.base).encode())}"
        self.sql(f"CREATE TABLE IF NOT EXISTS {table} USING hudi LOCATION '{self.base}'")
        return self.sql(f"CALL {name}(table => '{table}'{', ' + arguments if arguments else ''})")

    def sql(self, statement: str) -> list[list[Any]]:
        """One Spark SQL statement with this table's options in the session."""
        return self.engine.call("sql", statement=statement, options=self._read_options())

    def _read_options(self) -> dict[str, str]:
        return {
            "hoodie.metadata.enable": self.options["hoodie.metadata.enable"],
            "hoodie.compact.inline.max.delta.commits": "1",
        }

    def compact(self, op: str) -> None:
        """``op``: schedule or run."""
        self.procedure("run_compaction", f"op => '{op}'")
        self.history.append({"op": f"compaction {op}"})

    def cluster(self, op: str) -> None:
        """``op``: schedule, execute (what is scheduled) or scheduleAndExecute."""
        self.procedure("run_clustering", f"op => '{op}'")
        self.history.append({"op": f"clustering {op}"})

    def savepoint(self, instant: str) -> None:
        """Savepoint a completed commit."""
        self.procedure("create_savepoint", f"commit_time => '{instant}'")
        self.history.append({"op": "savepoint", "of": instant})

    def delete_savepoint(self, instant: str) -> None:
        """Delete a savepoint; its files are free to be cleaned."""
        self.procedure("delete_savepoint", f"instant_time => '{instant}'")
        self.history.append({"op": "delete_savepoint", "of": instant})
