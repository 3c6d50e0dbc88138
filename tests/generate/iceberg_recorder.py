"""One recorded Iceberg table: its metadata, and what the engine's planner answered."""

from __future__ import annotations

import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import fastavro
from interop.iceberg_engine import RUNTIME
from support.iceberg_cases import metadata_files

if TYPE_CHECKING:
    from pathlib import Path

    from interop.iceberg_engine import IcebergEngine


class Recorder:
    """Writes case directories under ``out`` for tables of one engine."""

    def __init__(self, engine: IcebergEngine, out: Path) -> None:
        self.engine, self.out = engine, out
        self.recorded = 0

    def record(self, table: str, asked: list[dict[str, Any]]) -> None:
        """Record what the engine plans for each pair of options and filter; the table is only read."""
        folder = self.out / table
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.engine.path(table), folder / "before", ignore=shutil.ignore_patterns("*.crc"))
        full = f"ice.db.{table}"
        visited = [file["path"] for file in self.engine.call("files", table=full)]
        arrange_manifests(folder / "before", str(self.engine.path(table)), visited)
        answers = self.engine.call("plans", table=full, asked=asked)
        # Filters that Spark can't hand to Iceberg say nothing about plans, and Spark refuses them in its own words.
        plans = [self._relative(plan, table) for plan in answers if plan["where"] is None or "error" not in plan]
        _write(folder / "plans.json", plans)
        _write(
            folder / "case.json", {"name": table, "doc": "planning only: a random table", "runtime": ":".join(RUNTIME)}
        )
        self.recorded += 1

    def _relative(self, plan: dict[str, Any], table: str) -> dict[str, Any]:
        root = f"{self.engine.path(table)}/"
        for file in (file for group in plan.get("groups", ()) for file in group["files"]):
            file["path"] = file["path"].removeprefix(root)
            deletes = [
                path.removeprefix(root) + (f"@{at}" if at is not None else "") for path, at in file.get("deletes", ())
            ]
            if deletes:
                file["deletes"] = deletes
        return plan


def arrange_manifests(table: Path, location: str, visited: list[str]) -> None:
    """Put the current snapshot's manifests in the order in which the engine met their files.

    It keeps manifests in a hash set of their paths, so the order is another one wherever the table lies.
    """
    metadata = json.loads(metadata_files(table)[-1].read_bytes())
    current = [s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"]]
    if not current:
        return
    path = table / current[0]["manifest-list"].removeprefix(f"{location}/")
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    user = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    schema, codec, manifests = reader.writer_schema, reader.metadata.get("avro.codec", "null"), list(reader)
    place = {file: at for at, file in enumerate(visited)}
    first = {}
    for manifest in manifests:
        data = (table / manifest["manifest_path"].removeprefix(f"{location}/")).read_bytes()
        paths = [entry["data_file"]["file_path"] for entry in fastavro.reader(io.BytesIO(data))]
        first[manifest["manifest_path"]] = min((place[p] for p in paths if p in place), default=len(place))
    manifests.sort(key=lambda m: (m.get("content", 0), first[m["manifest_path"]]))
    out = io.BytesIO()
    fastavro.writer(out, schema, manifests, codec=codec, metadata=user)
    path.write_bytes(out.getvalue())


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n")
