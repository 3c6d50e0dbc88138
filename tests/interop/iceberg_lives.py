"""The life of one random table: grown by the engine, rewritten by lakemeta twice, then by the engine, and read by all.

Before each rewrite Iceberg's Java API says which rows the table holds; after it, every reader has to give these rows.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from generate.iceberg_grown import GrownTable
from interop.engine_process import EngineError
from interop.iceberg_canonical import difference
from interop.iceberg_readers import Readers

from lakemeta.iceberg import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa
    from interop.iceberg_engine import IcebergEngine

SPARK_LACKS_TIME = "Unsupported logical type: TIME_MICROS"
ORC_LACKS_DEFAULTS = "ORC cannot read default value"
ALL = {"rewrite-all": "true", "remove-dangling-deletes": "true"}


class Life:
    """One table with what its readers have to give; ``troubles`` are what they did not, in sentences.

    ``unread`` says why there is nothing to compare with, if the engine cannot read its own table.
    """

    def __init__(self, engine: IcebergEngine, seed: int, scratch: Path) -> None:
        self.engine, self.seed, self.scratch = engine, seed, scratch
        self.name = f"grown_{seed}"
        self.grown = GrownTable(engine, self.name, seed, scratch)
        self.random = self.grown.random
        self.troubles: list[str] = []
        self.rows: pa.Table | None = None
        self.unread: str | None = None
        self.spark_lacks_time = False  # it may stumble over columns and deletes of a type that it does not have

    def live(self) -> list[str]:
        """Grow the table and rewrite it again and again; the troubles."""
        self.grown.grow()
        try:
            self._expect("before", agreeing={"Spark"})
        except EngineError as error:
            if ORC_LACKS_DEFAULTS not in str(error):
                raise
            self.unread = f"Iceberg itself cannot read it: {ORC_LACKS_DEFAULTS}"
            return []
        steps: list[tuple[str, Callable[[], Any]]] = [
            ("after lakemeta with a large target", lambda: self._ours(ALL | self._job() | self._strategy())),
            ("after lakemeta with a small target", lambda: self._ours(self._small() | self._job() | self._strategy())),
        ]
        if self.grown.spark:
            steps.append(("after Spark's rewrite on top", self._theirs))
        for label, step in steps:
            if self.troubles:
                break
            self._step(label, step)
            self._check(label)
            if self.random.random() < 0.3 and not self.troubles:
                self.grown.append()
                self.grown.attempt(self.grown.delete if self.grown.spark else self.grown.append)
                self._expect(f"{label} and rows on top", agreeing={"Spark", "Spark, small splits"})
        return self.troubles

    def _step(self, label: str, step: Callable[[], Any]) -> None:
        try:
            self.grown.steps.append(f"{label}: {step()}"[:300])
        except Exception:
            self.troubles.append(f"{label}: {traceback.format_exc(limit=-4)}")

    def _expect(self, label: str, agreeing: set[str]) -> None:
        """Take the rows as they are now for the ones to be kept; the readers named have to agree already."""
        readers = Readers(self.engine, self.name, self.scratch)
        self.rows = readers.expected()
        for name, read in readers.of_tables().items():
            if name in agreeing:
                self._compare(label, name, read)

    def _check(self, label: str) -> None:
        if self.troubles:
            return
        readers = Readers(self.engine, self.name, self.scratch)
        if any("EQUALITY_DELETES" in file["deletes"] for file in readers.live):  # ones by position may name old files
            self.troubles.append(f"{label}: equality deletes apply still")
        for name, read in readers.all().items():
            self._compare(label, name, read)

    def _compare(self, label: str, name: str, read: Callable[[], pa.Table]) -> None:
        try:
            differs = difference(read(), self.rows)
        except EngineError as error:
            self.spark_lacks_time |= label == "before" and SPARK_LACKS_TIME in str(error)
            if self.spark_lacks_time and SPARK_LACKS_TIME in str(error):
                self.grown.steps.append(f"{label}, {name}: cannot read this table's times, nor could it before")
                return
            lines = str(error).splitlines()
            differs = "; ".join([*lines[:2], *(line for line in lines[2:] if line.startswith("Caused by"))])
        except Exception:
            differs = traceback.format_exc(limit=-3)[-1500:]
        if differs:
            self.troubles.append(f"{label}, {name}: {differs}")

    def _ours(self, options: dict[str, str]) -> str:
        location = str(self.engine.path(self.name))
        if self.random.random() < 0.15:
            return f"{options} on Spark: {self.engine.call('lakemeta_rewrite', location=location, options=options)}"
        table = IcebergTable.open(location)
        return f"{options}: {dict(table.apply(table.plan_rewrite_data_files(options)).result)}"

    def _theirs(self) -> str:
        options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        return str(
            self.engine.sql(f"CALL ice.system.rewrite_data_files(table => 'db.{self.name}', options => {options})")
        )

    def _small(self) -> dict[str, str]:
        total = sum(file["bytes"] for file in self.engine.call("live", table=f"ice.db.{self.name}"))
        return ALL | {"target-file-size-bytes": str(max(1, total // self.random.choice((2, 5, 9))))}

    def _job(self) -> dict[str, str]:
        """Options of the job, seldom."""
        possible = {
            "max-concurrent-file-group-rewrites": "1",
            "partial-progress.enabled": "true",
            "max-file-group-input-files": "2",
            "use-starting-sequence-number": "false",
            "rewrite-job-order": "bytes-desc",
            "output-spec-id": "0",
        }
        return {key: value for key, value in possible.items() if self.random.random() < 0.1}

    def _strategy(self) -> dict[str, str]:
        """Mostly none: files are packed as they are."""
        drawn = self.random.random()
        flat = [f["name"] for f in self.grown.schema["fields"] if f["type"] in ("long", "string", "date", "double")]
        if drawn < 0.6:
            return {}
        chosen = self.random.sample(flat, min(len(flat), 2))
        listed = f"zorder({', '.join(chosen)})" if drawn < 0.75 else ", ".join(f"{name} DESC" for name in chosen)
        return {"strategy": "sort", "sort_order": listed}
