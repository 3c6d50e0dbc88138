"""The life of one random table under all services: grown by the engine, with tags, then maintained by lakemeta.

After every service the real readers have to give the rows that the table held before, on main and at every tag.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from interop.engine_process import EngineError
from interop.iceberg_lives import ORC_LACKS_DEFAULTS, Life
from interop.iceberg_readers import Readers

from lakemeta.iceberg import IcebergTable
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path

    from interop.iceberg_engine import IcebergEngine

AGREEING = {"Spark", "Spark, vectorised"}
GENERICS = "IcebergGenerics"  # gives all rows of an ORC file one id
UNREADABLE = (ORC_LACKS_DEFAULTS, "Cannot find required field for ID")  # the latter: the key of a delete was dropped
IN_AN_HOUR = timedelta(hours=1)


class ServedLife(Life):
    """One table that services change while its rows stay."""

    def __init__(self, engine: IcebergEngine, seed: int, scratch: Path) -> None:
        super().__init__(engine, seed, scratch)
        self.tags: dict[str, Any] = {}

    def live(self) -> list[str]:
        """Grow, serve in random order, rewrite, serve again, and let the engine go on; the troubles."""
        self.grown.grow()
        self._tag("first")
        self.grown.attempt(self.grown.append)
        self.grown.attempt(self.random.choice(self.grown._changes()))
        self._tag("last")
        try:
            self._expect("before", agreeing=AGREEING)
        except EngineError as error:
            self.unread = next(
                (f"Iceberg itself cannot read it: {text}" for text in UNREADABLE if text in str(error)), None
            )
            if self.unread is None:
                raise
            return []
        for round_ in ("first", "second"):
            for service, options in self._services():
                if not self.troubles:
                    label = f"after {service} {options}"
                    self._step(label, lambda service=service, options=options: self._serve(service, options))
                    self._compare_all(label)
            if round_ == "first" and not self.troubles:
                self._step("after a rewrite", lambda: self._ours({"rewrite-all": "true"}))
                self._compare_all("after a rewrite")
        if self.grown.spark and not self.troubles:
            self._step("after Spark's rewrite on top", self._theirs)
            self._compare_all("after Spark's rewrite on top")
        return self.troubles

    def _services(self) -> list[tuple[str, dict[str, str]]]:
        """All services that the table can have, in random order, orphans last."""
        now = datetime.now(UTC)
        found: list[tuple[str, dict[str, str]]] = [
            ("rewrite-manifests", {}),
            ("remove-dangling-deletes", {}),
            ("expire-snapshots", {"older_than": (now + IN_AN_HOUR).isoformat(), "retain_last": "1"}),
        ]
        if self.grown.version > 1:
            found += [("rewrite-position-deletes", {"rewrite-all": "true"}), ("convert-equality-deletes", {})]
        if any(spec["fields"] for spec in self.engine.metadata(self.name)["partition-specs"]):
            found.append(("compute-partition-stats", {}))
        self.random.shuffle(found)
        young = {"older_than": (now + IN_AN_HOUR).isoformat(), "lakemeta.allow-young": "true"}
        return [*found, ("remove-orphan-files", young)]

    def _serve(self, service: str, options: dict[str, str]) -> str:
        table = IcebergTable.open(str(self.engine.path(self.name)))
        plan = table.plan(service, options)
        report = table.apply(Plan.loads(plan.dumps()))
        if report.failed or report.partial:
            raise AssertionError(f"{service} was done in part: {report.to_json()}")
        if service == "convert-equality-deletes" and self._equality_deletes():
            raise AssertionError(f"equality deletes apply still: {report.to_json()}")
        return str(dict(report.result))

    def _equality_deletes(self) -> bool:
        readers = Readers(self.engine, self.name, self.scratch)
        return any("EQUALITY_DELETES" in file["deletes"] for file in readers.live)

    def _tag(self, name: str) -> None:
        """A tag on the present; tables that Spark cannot load have none."""
        try:
            self.engine.sql(f"ALTER TABLE ice.db.{self.name} CREATE TAG {name}")
            self.tags[name] = self._at(name)
            self.grown.steps.append(f"tag {name}: {self.tags[name]}")
        except EngineError as error:
            self.grown.steps.append(f"no tag {name}: {str(error).splitlines()[0][:160]}")

    def _at(self, name: str) -> Any:
        statement = (
            f"SELECT count(1) AS n, sum(rid) AS s, sum(rid * rid) AS q FROM ice.db.{self.name} VERSION AS OF '{name}'"
        )
        return self.engine.sql(statement)

    def _compare_all(self, label: str) -> None:
        if self.troubles:
            return
        readers = Readers(self.engine, self.name, self.scratch)
        asked = AGREEING if any(file["format"] == "ORC" for file in readers.live) else AGREEING | {GENERICS}
        for name, read in readers.of_tables().items():
            if name in asked:
                self._compare(label, name, read)
        for name, rows in self.tags.items():
            if (found := self._at(name)) != rows:
                self.troubles.append(f"{label}: tag {name} has {found}, and had {rows}")
