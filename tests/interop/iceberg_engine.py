"""Real Apache Iceberg as a subprocess: Spark with the Iceberg runtime and a Hadoop catalog, spoken to in SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from interop.engine_process import EngineProcess, resolve_jar

RUNTIME = ("org.apache.iceberg", "iceberg-spark-runtime-3.5_2.12", "1.12.0")


class IcebergEngine(EngineProcess):
    """One session in its own process. Table ``t`` lies in ``warehouse/db/t``."""

    def __init__(self, scratch: Path) -> None:
        self.warehouse = scratch / "warehouse"
        arguments = [resolve_jar(*RUNTIME), str(self.warehouse), str(scratch)]
        super().__init__("Iceberg", "iceberg_worker.py", scratch, arguments)

    def sql(self, statement: str) -> list[Any]:
        """The rows of one statement as JSON objects; raises EngineError with the engine's own message."""
        rows: list[Any] = self.ask(statement)
        return rows

    def call(self, function: str, **arguments: Any) -> Any:
        """Call a function of ``iceberg_java``; raises EngineError with the engine's own message."""
        return self.ask({"call": function, **arguments})

    def path(self, table: str) -> Path:
        """The directory of a table."""
        return self.warehouse / "db" / table

    def rows(self, table: str, columns: str = "*") -> list[str]:
        """The rows of a table, each as JSON with sorted keys, sorted."""
        found = self.sql(f"SELECT {columns} FROM ice.db.{table}")
        return sorted(json.dumps(row, sort_keys=True) for row in found)
