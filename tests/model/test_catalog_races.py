"""Services and a writer at once on a table of a REST catalog whose answers get lost: no row, file or ref is lost.

Set LAKEMETA_CATALOG_RACES to run more than two tables.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from support.rest_catalog import RestCatalogServer, answered, cut_off, lost, repeated, rest_catalog
from support.served_tables import OPTIONS, rows_at_refs

from lakemeta.environment import Environment
from lakemeta.errors import CommitConflictError, CommitStateUnknownError, StalePlanError
from lakemeta.iceberg import IcebergTable

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": ["a", "b", "c"] * 2})
FAULTS = [answered(500, after=True), answered(502, after=False), answered(429, after=False), lost(after=True)]
FAULTS += [lost(after=False), cut_off, repeated]
LOST_RACES = (CommitConflictError, CommitStateUnknownError, StalePlanError)
SERVED = (
    "rewrite-data-files",
    "expire-snapshots",
    "rewrite-manifests",
    "compute-partition-stats",
    "remove-orphan-files",
)


def serve(server: RestCatalogServer, name: str, seed: int) -> int:
    """Services at random, half of them with a fault in a commit; how many were done."""
    dice, done = random.Random(seed), 0
    for _ in range(4):
        table = IcebergTable.open(f"catalog://rest/{name}", {"type": "rest", "uri": server.uri})
        service = dice.choice(SERVED)
        server.faults += [dice.choice(FAULTS)] * (dice.random() < 0.5)
        try:
            table.apply(table.plan(service, OPTIONS[service]), env=Environment(sleep=lambda _: None))
        except LOST_RACES:
            continue
        done += 1
    return done


def write(catalog: SqlCatalog, name: str) -> int:
    """Three appends; how many were taken."""
    taken = 0
    for _ in range(3):
        try:
            catalog.load_table(name).append(ROWS)
        except CommitFailedException:
            continue
        taken += 1
    return taken


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKEMETA_CATALOG_RACES", "2"))))
def test_services_and_a_writer_at_once(tmp_path, seed):
    """Whatever is lost or repeated: rows are those that were appended, and every file of every snapshot is there."""
    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=60"
    catalog = SqlCatalog("kept", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.update_spec().add_identity("p").commit()
    for _ in range(3):
        table.append(ROWS)
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "kept").commit()
    with rest_catalog(catalog) as server, ThreadPoolExecutor(3) as pool:
        services = [pool.submit(serve, server, "db.t", 2 * seed + worker) for worker in (1, 2)]
        taken = pool.submit(write, catalog, "db.t").result()
        assert sum(service.result() for service in services) > 0
    rows = rows_at_refs(table.refresh().metadata_location)
    assert {ref: len(found) for ref, found in rows.items()} == {"main": 6 * (3 + taken), "kept": 6}
