"""The real Iceberg reads and goes on with a table whose snapshots lakemeta expired, and would have expired the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from interop.iceberg_engine import IcebergEngine
from support.iceberg_checker import TableState
from support.iceberg_expire import files

from lakemeta.iceberg import IcebergTable

pytestmark = pytest.mark.engine

LATER = "2100-01-01"
MERGE_ON_READ = ", ".join(f"'write.{kind}.mode'='merge-on-read'" for kind in ("delete", "update", "merge"))


def history(engine: IcebergEngine, name: str, version: int) -> None:
    """Appends, deletes, updates, a rewrite, statistics, a new column, a tag and a branch with commits of its own."""
    properties = f"TBLPROPERTIES ('format-version'='{version}', {MERGE_ON_READ})"
    engine.sql(f"CREATE TABLE ice.db.{name} (id bigint, p string) USING iceberg PARTITIONED BY (p) {properties}")
    for start in (0, 20, 40):
        append(engine, name, start)
    engine.sql(f"ALTER TABLE ice.db.{name} CREATE TAG early")
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id % 7 = 0")
    engine.sql(f"CALL ice.system.compute_table_stats('db.{name}')")
    engine.sql(f"ALTER TABLE ice.db.{name} CREATE BRANCH side")
    engine.sql(f"INSERT INTO ice.db.{name}.branch_side VALUES (100, 'side')")
    engine.sql(f"DELETE FROM ice.db.{name}.branch_side WHERE id = 3")
    engine.sql(f"UPDATE ice.db.{name} SET p = 'p9' WHERE id % 5 = 0")
    engine.sql(f"CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    engine.sql(f"ALTER TABLE ice.db.{name} ADD COLUMN v double")
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id IN (1, 2)")


def append(engine: IcebergEngine, name: str, start: int) -> None:
    columns = "id, concat('p', id % 2)" + (", 0.5D" if start >= 1000 else "")
    engine.sql(f"INSERT INTO ice.db.{name} SELECT {columns} FROM range({start}, {start + 20}, 1, 1)")


def rows(engine: IcebergEngine, name: str) -> dict[str, list[str]]:
    """The rows of each ref, as the engine reads them."""
    found = {}
    for ref in ("main", "side", "early"):
        read = engine.sql(f"SELECT * FROM ice.db.{name} VERSION AS OF '{ref}'")
        found[ref] = sorted(json.dumps(row, sort_keys=True) for row in read)
    return found


def expire(engine: IcebergEngine, name: str, **options: str) -> dict[str, Any]:
    table = IcebergTable.open(str(engine.path(name)))
    return dict(table.apply(table.plan("expire-snapshots", {"older_than": LATER, **options})).result)


@pytest.mark.parametrize("version", [2, 3])
def test_the_engine_goes_on_after_an_expire(engine, version):
    """Rows at every ref are as before, no file is left over; the engine writes, rewrites and expires on top.

    The engine's procedure reports the same of a second table with the same history.
    """
    name = f"ours_{version}"
    history(engine, name, version)
    before = rows(engine, name)
    result = expire(engine, name, clean_expired_metadata="true")
    assert result["deleted_data_files_count"] > 0
    assert rows(engine, name) == before
    assert len(engine.metadata(name)["snapshots"]) == 3
    if version == 2:
        history(engine, "theirs", version)
        at = f"older_than => TIMESTAMP '{LATER}', clean_expired_metadata => true"
        assert engine.sql(f"CALL ice.system.expire_snapshots(table => 'db.theirs', {at})") == [result]
    state = TableState(str(engine.metadata_file(name)))
    left = files(engine.path(name)) - {path.removeprefix("file:") for path in state.needed()}
    assert left == set()
    append(engine, name, 1000)
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id = 1001")
    now = rows(engine, name)
    assert {ref: now[ref] for ref in ("side", "early")} == {ref: before[ref] for ref in ("side", "early")}
    engine.sql(f"CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    engine.sql(f"CALL ice.system.expire_snapshots(table => 'db.{name}', older_than => TIMESTAMP '{LATER}')")
    assert rows(engine, name) == now
    assert sum(expire(engine, name).values()) == 0
