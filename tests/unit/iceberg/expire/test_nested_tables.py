"""Files of another table that a manifest of this one names, by mistake or by hand: no expire deletes them."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from support.iceberg_expire import apply, files, plan
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.storage import LocalStorage
from lakemeta.storage.local import LocalStorage as Store

OTHER = "00000000-0000-0000-0000-00000000abcd"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """A table; its first snapshot goes with the next expire."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    table.append([(1, "a", 0.5)])
    return table


def names_and_forgets(small: SmallTable, path: str) -> Path:
    """Have a snapshot name a file at a path below the table, and the next one not any more."""
    file = small.write([(2, "b", 0.5)])
    there = Path(small.root, path)
    there.parent.mkdir(parents=True, exist_ok=True)
    Path(file.file_path).rename(there)
    named = attrs.evolve(file, file_path=str(there))
    small.update(SnapshotUpdate("append", (named,)))
    small.remove(named)
    return there


def becomes_a_table(small: SmallTable, folder: str) -> None:
    there = Path(small.root, folder, "metadata")
    there.mkdir(parents=True)
    (there / "v1.metadata.json").write_bytes(dump_metadata(attrs.evolve(small.metadata, table_uuid=OTHER)))


@pytest.mark.parametrize("folder", ["nested", "data/nested", "a/b/nested"])
def test_a_file_in_a_nested_table_refuses(small, folder):
    """When it is planned, and when a plan is applied that is older than that table; unless it was dropped."""
    there = names_and_forgets(small, f"{folder}/data/p=1/x.parquet")
    before = plan(small.root)
    assert f"{folder}/data/p=1/x.parquet" in [op.path for op in before.deletes()]
    becomes_a_table(small, folder)
    kept = files(Path(small.root))
    for attempt in (lambda: plan(small.root), lambda: apply(small.root, before)):
        with pytest.raises(UnsupportedFeatureError, match=f"files of expired snapshots .* would be deleted; .*{OTHER}"):
            attempt()
    assert files(Path(small.root)) == kept
    dropped = plan(small.root, **{"foreign-uuid": f"{'0' * 8}-0000-0000-0000-{'0' * 12},{OTHER}"})
    apply(small.root, dropped)
    assert not there.exists()


@pytest.mark.parametrize("name", [".hoodie", "_delta_log"])
def test_a_file_in_a_table_of_another_format_refuses(small, name):
    """Its files may be Hudi's or Delta Lake's own."""
    names_and_forgets(small, "nested/x.parquet")
    Path(small.root, "nested", name).mkdir()
    with pytest.raises(UnsupportedFeatureError, match=r"nested/.* is of a .* table"):
        plan(small.root)


def test_tables_without_files_that_go_do_not_matter(small):
    """A nested table of which nothing is named, and old metadata of a dropped table in the table's own directory."""
    names_and_forgets(small, "data/x.parquet")
    becomes_a_table(small, "nested")
    uuid = "00000-00000000-0000-0000-0000-000000000009"
    other = dump_metadata(attrs.evolve(small.metadata, table_uuid=OTHER))
    Path(small.root, "metadata", f"{uuid}.metadata.json").write_bytes(other)
    made = plan(small.root)
    assert "data/x.parquet" in [op.path for op in made.deletes()]
    assert apply(small.root, made).deleted_files


def test_hashed_directories_are_not_looked_at(small, monkeypatch):
    """Object storage makes a directory for nearly every file; they cost no request."""
    names_and_forgets(small, "data/0101/1100/0011/11110000/p=1/x.parquet")
    names_and_forgets(small, "data/0101/1100/0011/p=1/y.parquet")
    looked: list[str] = []
    exists = Store.exists
    monkeypatch.setattr(Store, "exists", lambda self, path: looked.append(path) or exists(self, path))
    made = plan(small.root)
    assert len([op for op in made.deletes() if "data/0101" in op.path]) == 2
    assert not [path for path in looked if "/0101" in path]
    assert f"{small.root}/data/.hoodie" in looked
