"""Services on delete files of random tables of the real engine: its readers find the same rows, and it goes on.

``LAKEMETA_INTEROP_TABLES`` tables from seed ``LAKEMETA_INTEROP_SEED`` on; a table that fails names its seed, which
alone makes it again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from interop.engine_process import EngineError
from interop.iceberg_canonical import difference
from interop.iceberg_lives import ORC_LACKS_DEFAULTS, Life
from interop.iceberg_readers import Readers

from lakemeta.iceberg import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

TABLES = int(os.environ.get("LAKEMETA_INTEROP_TABLES", "2"))
SEED = int(os.environ.get("LAKEMETA_INTEROP_SEED", "1"))
ALL = {"rewrite-all": "true"}


class DeleteLife(Life):
    """One table with many deletes; services of ours on them, then Spark's own on top."""

    def live(self) -> list[str]:
        """Grow the table, and work on its deletes; the troubles."""
        self.grown.grow()
        if self.grown.version > 1:
            for step in (self.grown.positions, self.grown.equality, self.grown.positions, self.grown.equality):
                self.grown.attempt(step)
            if self.grown.version == 2 and self.random.random() < 0.3:
                self.grown._sql(f"ALTER TABLE {self.grown.table} SET TBLPROPERTIES ('format-version' = '3')")
                self.grown.attempt(self.grown.append)  # gives rows their ids
        try:
            self._take("before")
        except EngineError as error:
            if ORC_LACKS_DEFAULTS not in str(error):
                raise
            self.unread = f"Iceberg itself cannot read it: {ORC_LACKS_DEFAULTS}"
            return []
        steps: list[tuple[str, Callable[[], Any]]] = [
            ("rewrite-position-deletes", lambda: self._service("rewrite-position-deletes", ALL | self._group())),
            ("convert-equality-deletes", lambda: self._service("convert-equality-deletes", {})),
            ("remove-dangling-deletes", lambda: self._service("remove-dangling-deletes", {})),
        ]
        self.random.shuffle(steps)
        steps.append(("rewrite-position-deletes again", lambda: self._service("rewrite-position-deletes", ALL)))
        if self.grown.spark:
            steps += [
                ("Spark's position deletes on top", self._their_deletes),
                ("Spark's rewrite on top", self._theirs),
            ]
        for label, step in steps:
            if self.troubles:
                break
            self._step(label, step)
            self._check_tables(label)
            if self.random.random() < 0.3 and not self.troubles:
                self.grown.attempt(self.grown.append)
                for more in (self.grown.positions, self.grown.equality, *[self.grown.delete] * self.grown.spark):
                    self.grown.attempt(more)
                self._take(f"{label} and changes on top")
        return self.troubles

    def _take(self, label: str) -> None:
        """Take the rows as they are now for the ones to be kept, and see which readers find them.

        Some find others before anything was done: of ORC files rows without ids of their own, and vectorised rows that
        equality deletes of fields of structs delete.
        """
        self._expect(label, agreeing={"Spark"})
        readers = Readers(self.engine, self.name, self.scratch)
        self.agreeing = [name for name, read in readers.of_tables().items() if not self._differs(read)]
        assert "Spark" in self.agreeing

    def _differs(self, read: Callable[[], pa.Table]) -> bool:
        try:
            return bool(difference(read(), self.rows))
        except EngineError:
            return True

    def _check_tables(self, label: str) -> None:
        """Every reader that applies deletes finds the rows that were there before."""
        if self.troubles:
            return
        readers = Readers(self.engine, self.name, self.scratch)
        if label.startswith("convert") and any("EQUALITY_DELETES" in file["deletes"] for file in readers.live):
            self.troubles.append(f"{label}: equality deletes apply still")
        for name in self.agreeing:
            self._compare(label, name, readers.of_tables()[name])

    def _service(self, name: str, options: dict[str, str]) -> str:
        table = IcebergTable.open(str(self.engine.path(self.name)))
        return f"{options}: {dict(table.apply(table.plan(name, options)).result)}"

    def _group(self) -> dict[str, str]:
        possible = {"max-file-group-input-files": "2", "partial-progress.enabled": "true"}
        return {key: value for key, value in possible.items() if self.random.random() < 0.3}

    def _their_deletes(self) -> str:
        call = f"rewrite_position_delete_files(table => 'db.{self.name}', options => map('rewrite-all', 'true'))"
        return str(self.engine.sql(f"CALL ice.system.{call}"))


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_every_reader_finds_every_row(engine, seed, tmp_path):
    """Rows and lineage are the same after each of our services, with more changes by the engine in between."""
    life = DeleteLife(engine, seed, tmp_path)
    troubles = life.live()
    if life.unread:
        pytest.skip(life.unread)
    done = "\n".join(life.grown.steps)
    assert not troubles, "\n".join([*troubles, f"LAKEMETA_INTEROP_SEED={seed} LAKEMETA_INTEROP_TABLES=1", done])
