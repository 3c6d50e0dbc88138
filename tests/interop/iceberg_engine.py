"""Real Apache Iceberg as a subprocess: Spark with the Iceberg runtime and a Hadoop catalog, spoken to in SQL."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from interop.engine_process import EngineProcess, resolve_jar

RUNTIME = ("org.apache.iceberg", "iceberg-spark-runtime-3.5_2.12", "1.12.0")


class IcebergEngine(EngineProcess):
    """One session in its own process. Table ``t`` lies in ``warehouse/db/t``.

    ``url`` is the warehouse in another store: what asks for files of this machine does not work there.
    """

    def __init__(self, scratch: Path, url: str | None = None) -> None:
        self.warehouse = scratch / "warehouse"
        arguments = [resolve_jar(*RUNTIME), url or str(self.warehouse), str(scratch)]
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

    def metadata_file(self, table: str) -> Path:
        """The newest metadata file of a table."""
        versions = (self.path(table) / "metadata").glob("v*.json")
        return max(versions, key=lambda p: int(p.name[1:].split(".")[0]))

    def metadata(self, table: str) -> Any:
        """The newest metadata of a table."""
        data = self.metadata_file(table).read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)

    def schema(self, table: str) -> Any:
        """The current schema of a table as a struct."""
        metadata = self.metadata(table)
        found = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
        return {"type": "struct", "fields": found["fields"]}

    def rows(self, table: str, columns: str = "*") -> list[str]:
        """The rows of a table, each as JSON with sorted keys, sorted."""
        found = self.sql(f"SELECT {columns} FROM ice.db.{table}")
        return sorted(json.dumps(row, sort_keys=True) for row in found)
