"""Services that change metadata alone, crashing at every storage operation, leave a whole table.

A second run finishes the work. The checker knows nothing of lakemeta: it reads the table as any other engine would.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from support.faults import Crash, FaultyStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table, still_env

from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[2, 3])
def original(request, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("crash") / "t"
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "2",
    }
    table = create_table(LocalStorage(), str(root), version=request.param, partitioned=True, properties=properties)
    for start in (0, 10, 20):
        table.append([(start, "a", 0.5)], [(start + 5, "b", 1.5), (start + 6, "b", 1.5)])
    table.delete_ids(5, partition=("b",))
    table.delete_ids(0, partition=("a",))
    return root


def has_two_manifests(root: Path) -> bool:
    return len(TableState.local(root).manifests) == 2


def has_statistics(kind: str, root: Path) -> bool:
    state = TableState.local(root)
    (file,) = state.metadata[kind]
    written = Path(file["statistics-path"]).stat().st_size
    return (file["snapshot-id"], file["file-size-in-bytes"]) == (state.snapshot["snapshot-id"], written)


DONE = {
    "rewrite-manifests": has_two_manifests,
    "compute-partition-stats": partial(has_statistics, "partition-statistics"),
    "compute-table-stats": partial(has_statistics, "statistics"),
}


def run(service: str, root: Path, storage, seed: int):
    table = IcebergTable(Place(str(root), HadoopTableOperations(storage, str(root))))
    one = LocalExecutor(1)  # so that the n-th operation is the same one on every run
    return table.apply(table.plan(service, executor=one), executor=one, env=still_env(seed))


def entries(root: Path) -> Counter:
    keys = ("snapshot_id", "sequence_number", "file_sequence_number")
    found = TableState.local(root).live(0, 1, 2)
    return Counter((e["data_file"]["file_path"], e["data_file"].get("first_row_id"), *map(e.get, keys)) for e in found)


@pytest.mark.parametrize("service", DONE)
@pytest.mark.parametrize(
    ("when", "every"),
    [("half", 9), *(pytest.param(when, 1, marks=pytest.mark.slow) for when in ("before", "half", "after"))],
)
def test_a_crash_anywhere(original, tmp_path, when, every, service):
    """At every point each live entry is there with all its numbers, and no file is missing that a snapshot names."""
    rows, live = TableState.local(original).rows(), entries(original)
    for at in count(1, every):
        root = original  # the table's own place: its metadata names it
        saved = tmp_path / "saved"
        shutil.copytree(root, saved)
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            run(service, root, storage, seed=1)
        assert (entries(root), present(root)) == (live, True)
        assert TableState.local(root).rows() == rows
        if storage.crashed:
            run(service, root, LocalStorage(), seed=2)
            assert (entries(root), present(root)) == (live, True)
            assert DONE[service](root)
        shutil.rmtree(root)
        saved.rename(root)
        if not storage.crashed:
            break
    assert at > 5


def present(root: Path) -> bool:
    return TableState.local(root).referenced() <= {str(path) for path in root.rglob("*") if path.is_file()}
