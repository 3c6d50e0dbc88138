"""The doctor of Iceberg tables, and inspect: rows that parquet-java never reads are found, and mended as they say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table
from support.parquet_damage import reordered

from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from lakemeta.finding import Finding
    from lakemeta.iceberg.manifests.entries import DataFile

ROWS = 400


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """One file of rows whose texts are long and all different, as lakemeta writes it."""
    picks = random.Random(1)
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    for half in range(2):
        small.append([(half * ROWS + n, picks.randbytes(40).hex(), 0.5) for n in range(ROWS // 2)])
    rewrite(small)
    return small


def rewrite(small: SmallTable, **options: str) -> None:
    table = IcebergTable.open(small.root)
    table.apply(table.plan_rewrite_data_files({"rewrite-all": "true", **options}))


def damage(small: SmallTable, file: DataFile) -> None:
    """Make a file what the early builds would have made of it: its first column comes last."""
    path = Path(file.file_path)
    path.write_bytes(reordered(path.read_bytes(), lambda number, _: -number))


def wrong(small: SmallTable) -> list[Finding]:
    return [finding for finding in IcebergTable.open(small.root).doctor() if finding.severity == "wrong"]


def test_a_sound_table_has_nothing_wrong(small: SmallTable) -> None:
    """The doctor says how many files it looked into; so does inspect."""
    (finding,) = IcebergTable.open(small.root).doctor()
    assert (finding.kind, finding.severity) == ("footers_read", "note")
    assert "1 Parquet file " in finding.sentence
    facts = IcebergTable.open(small.root).inspect()
    assert (facts.footers_read, facts.files_with_lost_rows, facts.lost_rows) == (1, 0, 0)


def test_lost_rows_are_found_and_mended_by_the_advice(small: SmallTable) -> None:
    """The file is named with its rows, and the rewrite that is advised, of a lone file too, brings them all back."""
    rows = TableState.local(small.root).rows()
    (file,) = small.data_files()
    damage(small, file)
    (finding,) = wrong(small)
    assert finding.kind == "lost_rows"
    assert f"misses 400 rows, without an error: {file.file_path} (400 of 400 rows);" in finding.sentence
    assert finding.sentence.endswith(f"run  lakemeta rewrite-data-files {small.root} --set rewrite-all=true")
    assert finding.bytes == file.file_size_in_bytes
    facts = IcebergTable.open(small.root).inspect()
    assert (facts.footers_read, facts.files_with_lost_rows, facts.lost_rows) == (1, 1, 400)
    rewrite(small)
    assert wrong(small) == []
    assert TableState.local(small.root).rows() == rows
    assert IcebergTable.open(small.root).inspect().lost_rows == 0


@pytest.mark.parametrize("target", [1 << 29, 4096])
def test_a_rewrite_in_parts_reads_damaged_files_whole(small: SmallTable, target: int) -> None:
    """Several row groups, whose parts go to several tasks: none is left out, and none read twice."""
    metadata = small.metadata
    settings = {"write.parquet.row-group-size-bytes": "4096", "write.parquet.row-group-check-min-record-count": "10"}
    small.operations.commit(small.operations.refresh(), attrs.evolve(metadata, properties=settings))
    rewrite(small)
    rows = TableState.local(small.root).rows()
    (file,) = small.data_files()
    assert len(file.split_offsets or ()) > 3
    damage(small, file)
    rewrite(small, **{"target-file-size-bytes": str(target)})
    assert TableState.local(small.root).rows() == rows
    assert wrong(small) == []


def test_lost_deletes_are_found(small: SmallTable) -> None:
    """A delete file that parquet-java reads as empty brings rows back to life there; lakemeta applies it."""
    (file,) = small.data_files()
    small.delete_positions(file, range(1, ROWS))
    rows = TableState.local(small.root).rows()
    damage(small, next(f for f in small.files() if f.content == 1))
    (finding,) = wrong(small)
    assert finding.kind == "lost_deletes"
    assert "1 delete file with" in finding.sentence
    rewrite(small)
    assert TableState.local(small.root).rows() == rows


def test_files_of_other_branches_are_looked_into(small: SmallTable) -> None:
    """The advice names the branch."""
    metadata = small.metadata
    main = metadata.refs["main"]
    refs = {**metadata.refs, "audit": attrs.evolve(main)}
    small.operations.commit(small.operations.refresh(), attrs.evolve(metadata, refs=refs))
    damage(small, small.data_files()[0])
    small.update(SnapshotUpdate("delete", removed=(small.data_files()[0],), starting_snapshot_id=main.snapshot_id))
    (finding,) = wrong(small)
    assert finding.sentence.endswith("--set rewrite-all=true --set branch=audit")


def test_files_that_cannot_be_read_are_told(small: SmallTable) -> None:
    """A file that is cut off, and one that is gone."""
    small.append([(1, "a", 0.5)])
    first, second = (Path(file.file_path) for file in small.data_files())
    first.unlink()
    second.write_bytes(second.read_bytes()[:-3])
    (finding,) = wrong(small)
    assert finding.kind == "unreadable_files"
    assert "the footers of 2 live files cannot be read: " in finding.sentence
    assert IcebergTable.open(small.root).inspect().footers_read == 0
