"""Marks of running rewrites: what an interrupted one left is named, never deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.iceberg_tables import create_table, still_env

from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable
from lakemeta.report import Report
from lakemeta.storage import LocalStorage

UUID = "11111111-2222-4333-8444-555555555555"
COMMIT = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    for start in (0, 10):
        table.append([(start + i, "a", 0.5) for i in range(3)])
    return tmp_path / "t"


def mark(root: Path, content: object) -> Path:
    path = root / "metadata" / f".lakemeta-rewrite-{UUID}.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def rewrite(root: Path) -> Report:
    table = IcebergTable(Place(str(root), HadoopTableOperations(LocalStorage(), str(root))))
    return table.apply(table.plan_rewrite_data_files({"rewrite-all": "true"}), env=still_env(1))


def test_files_of_an_interrupted_rewrite_are_named_and_stay(root: Path) -> None:
    """Data files, manifests and lists of it that no snapshot names stand in the report; nobody deletes them."""
    left = [
        root / "data" / f"00000-0-{UUID}-00001.parquet",
        root / "metadata" / f"{COMMIT}-m0.avro",
        root / "metadata" / f"snap-5-1-{COMMIT}.avro",
    ]
    for path in left:
        path.write_bytes(b"x")
    (root / "data" / "00000-0-somebody-elses-00001.parquet").write_bytes(b"x")
    kept = mark(root, {"rewrite": UUID, "begun_ms": 0, "snapshot_id": 1, "commits": [COMMIT]})
    (note,) = rewrite(root).notes
    assert note.startswith(f"the rewrite {UUID} that began at 1970-01-01T00:00:00+00:00 did not end")
    assert all(str(path) in note for path in left)
    assert "somebody" not in note
    assert kept.exists()
    assert all(path.exists() for path in left)


def test_a_long_list_is_cut_in_words(root: Path) -> None:
    """Twenty files are named, and the number of the others."""
    for n in range(25):
        (root / "data" / f"00000-0-{UUID}-{n:05d}.parquet").write_bytes(b"x")
    mark(root, {"rewrite": UUID, "begun_ms": 0, "snapshot_id": 1, "commits": []})
    (note,) = rewrite(root).notes
    assert note.endswith("-00019.parquet and 5 more")


def test_a_mark_of_which_nothing_is_left_goes(root: Path) -> None:
    """A rewrite that died before its first file, or after its commit, leaves a mark that the next one removes."""
    path = mark(root, {"rewrite": UUID, "begun_ms": 0, "snapshot_id": 1, "commits": []})
    assert rewrite(root).notes == ()
    assert not path.exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"rewrite": "x", "begun_ms": "soon", "snapshot_id": 1, "commits": []}']
)
def test_a_damaged_mark_is_told(root: Path, content: str) -> None:
    """What cannot be read as a mark is named and left; the rewrite goes on."""
    path = mark(root, content)
    report = rewrite(root)
    assert "is no mark of a rewrite" in report.notes[0]
    assert report.result["rewritten_data_files_count"] == 2
    assert path.exists()


def test_no_mark_stays_after_a_whole_rewrite(root: Path) -> None:
    """A rewrite takes its own mark away."""
    rewrite(root)
    assert list(root.glob("metadata/.lakemeta*")) == []
