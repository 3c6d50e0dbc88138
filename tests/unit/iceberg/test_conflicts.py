"""Commits between planning a rewrite and committing it: each case as real Iceberg decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CommitConflictError
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.spec.metadata_update import add_snapshot
from lakemeta.iceberg.spec.table_metadata import SnapshotRef
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable


class Planned:
    """A rewrite of all files of a table, planned and not yet committed."""

    def __init__(self, table: SmallTable) -> None:
        self.table, self.start = table, table.head
        self.files = tuple(table.data_files())
        self.rows = TableState.local(table.root).rows()

    def update(self, *, own_sequence: bool = False, validate: bool = True) -> SnapshotUpdate:
        """``own_sequence``: without use-starting-sequence-number."""
        rows = [(int(i), "a", float(i)) for i in range(sum(f.record_count for f in self.files))]
        return SnapshotUpdate(
            added=(self.table.write(rows),),
            removed=self.files,
            starting_snapshot_id=self.start.snapshot_id if validate else None,
            data_sequence_number=None if own_sequence else self.start.sequence_number,
        )

    def commit(self, **how: bool) -> None:
        self.table.update(self.update(**how))


@pytest.fixture
def planned(tmp_path) -> Planned:
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    for start in (0, 3, 6):
        table.append([(i, "a", float(i)) for i in range(start, start + 3)])
    return Planned(table)


def rows(planned: Planned) -> list[str]:
    return TableState.local(planned.table.root).rows()


HARMLESS: dict[str, Callable[[Planned], object]] = {
    "nothing": lambda p: None,
    "append": lambda p: p.table.append([(99, "a", 1.0)]),
    "append and remove what was appended": lambda p: p.table.remove(p.table.append([(99, "a", 1.0)]) and newest(p)),
    "equality delete": lambda p: p.table.delete_ids(4),
    "position delete of another file": lambda p: (
        p.table.append([(99, "a", 1.0)]) and p.table.delete_positions(newest(p), [0])
    ),
    "delete on another branch": lambda p: branch_delete(p),
}

FATAL: dict[str, tuple[Callable[[Planned], object], str]] = {
    "copy-on-write delete": (lambda p: p.table.overwrite(p.files[0], [(0, "a", 0.0)]), "Missing required files"),
    "whole file deleted": (lambda p: p.table.remove(p.files[1]), "Missing required files to delete: .*parquet"),
    "another compaction won": (lambda p: p.commit(), "Missing required files"),
    "position delete": (lambda p: p.table.delete_positions(p.files[0], [1]), "found new position delete for replaced"),
    "position delete of a partition": (
        lambda p: p.table.delete_positions(p.files[0], [1], scoped=False),
        "found new position delete for replaced",
    ),
    "rollback": (lambda p: rollback(p), "Cannot determine history between starting snapshot"),
}


def newest(planned: Planned):
    old = {file.file_path for file in planned.files}
    return next(f for f in planned.table.data_files() if f.file_path not in old)


def branch_delete(planned: Planned) -> None:
    base = planned.table.operations.refresh()
    refs = {**base.metadata.refs, "b": SnapshotRef(planned.start.snapshot_id, "branch")}
    planned.table.operations.commit(base, attrs.evolve(base.metadata, refs=refs))
    planned.table.remove(planned.files[0], branch="b")


def rollback(planned: Planned) -> None:
    base = planned.table.operations.refresh()
    metadata = base.metadata
    first = metadata.snapshots[0]
    again = attrs.evolve(first, snapshot_id=7, parent_snapshot_id=first.snapshot_id, sequence_number=9)
    planned.table.operations.commit(base, add_snapshot(metadata, base.location, again, "main"))


@pytest.mark.parametrize("case", HARMLESS)
def test_harmless_commits_let_the_rewrite_pass(planned, case):
    """What does not touch the replaced files is no conflict, and all rows stay."""
    HARMLESS[case](planned)
    before = rows(planned)
    planned.commit()
    assert rows(planned) == before


@pytest.mark.parametrize("case", FATAL)
def test_commits_that_touch_replaced_files_are_conflicts(planned, case):
    """A replaced file that is gone or has a new delete, and a rollback, fail the commit; nothing is left behind."""
    FATAL[case][0](planned)
    before, listed = rows(planned), metadata_names(planned)
    update = planned.update()
    with pytest.raises(CommitConflictError, match=FATAL[case][1]):
        planned.table.update(update)
    assert rows(planned) == before
    assert metadata_names(planned) == listed


def metadata_names(planned: Planned) -> list[str]:
    return [entry.name for entry in planned.table.storage.list_dir(f"{planned.table.root}/metadata")]


@pytest.mark.parametrize("case", ["equality delete", "position delete"])
def test_without_the_starting_sequence_every_new_delete_is_a_conflict(planned, case):
    """New files with a new sequence number would escape deletes that came before them."""
    (HARMLESS.get(case) or FATAL[case][0])(planned)
    with pytest.raises(CommitConflictError, match="found new delete for replaced data file"):
        planned.commit(own_sequence=True)


def test_without_a_starting_snapshot_any_earlier_delete_is_a_conflict(planned):
    """Without a starting snapshot the whole history is looked through (validateFromSnapshot not called)."""
    planned.table.delete_positions(planned.files[0], [1])
    again = Planned(planned.table)
    with pytest.raises(CommitConflictError, match="found new delete"):
        again.commit(own_sequence=True, validate=False)


def test_an_expired_starting_snapshot_is_no_conflict(planned):
    """History up to the child of the expired starting snapshot is enough."""
    planned.table.append([(99, "a", 1.0)])
    base = planned.table.operations.refresh()
    kept = base.metadata.snapshots[-1:]
    planned.table.operations.commit(base, attrs.evolve(base.metadata, snapshots=kept, snapshot_log=()))
    before = rows(planned)
    planned.commit()
    assert rows(planned) == before


def test_rewritten_manifests_are_no_conflict(planned):
    """Files are looked for in all manifests, not only where they were seen."""
    update = attrs.evolve(planned.update(), hints=frozenset({"gone.avro"}))
    before = rows(planned)
    planned.table.update(update)
    assert rows(planned) == before


def test_a_schema_change_is_no_conflict(planned):
    """The new snapshot has the schema that is current when it is committed."""
    base = planned.table.operations.refresh()
    schema = attrs.evolve(base.metadata.schema, schema_id=1)
    schemas = (*base.metadata.schemas, schema)
    planned.table.operations.commit(base, attrs.evolve(base.metadata, schemas=schemas, current_schema_id=1))
    planned.commit()
    assert planned.table.head.schema_id == 1


def test_an_equality_delete_outlives_later_appends(planned):
    """A delete that came after the plan applies to the new files, so later appends do not make it age away."""
    planned.table.delete_ids(4)
    planned.table.append([(99, "a", 1.0)])
    before = rows(planned)
    planned.commit()
    assert rows(planned) == before
    assert [f.content for f in planned.table.files()].count(FileContent.EQUALITY_DELETES) == 1


def test_equality_deletes_older_than_all_data_go(planned):
    """Delete files that can match no row any more are dropped by the same commit."""
    planned.table.delete_ids(4)
    planned.table.append([(99, "a", 1.0)])
    again = Planned(planned.table)
    again.commit()
    assert [f.content for f in planned.table.files()] == [FileContent.DATA]


def test_a_replace_that_adds_rows_is_refused(planned):
    """A rewrite can lose deleted rows but never gain any."""
    update = attrs.evolve(planned.update(), removed=planned.files[:1])
    with pytest.raises(Exception, match="Invalid REPLACE operation: 9 added records > 3 replaced"):
        planned.table.update(update)


class Vectors:
    """A version 3 table whose deletion vectors are described, not written: a commit looks at metadata only."""

    def __init__(self, table: SmallTable) -> None:
        self.table = table

    def add(self, file, offset: int = 4) -> None:
        self.table.update(SnapshotUpdate("delete", added_deletes=((self.vector(file, offset), None),)))

    def vector(self, file, offset: int = 4) -> DataFile:
        return DataFile(
            FileContent.POSITION_DELETES,
            f"{self.table.root}/data/vectors.puffin",
            "PUFFIN",
            0,
            (),
            1,
            100,
            referenced_data_file=file.file_path,
            content_offset=offset,
            content_size_in_bytes=44,
        )


@pytest.fixture
def planned_3(tmp_path) -> Planned:
    table = create_table(LocalStorage(), str(tmp_path / "t"), version=3)
    for start in (0, 3, 6):
        table.append([(i, "a", float(i)) for i in range(start, start + 3)])
    return Planned(table)


@pytest.mark.parametrize("own_sequence", [False, True])
def test_a_new_deletion_vector_is_a_conflict(planned_3, own_sequence):
    """A vector for a replaced file that came after the plan would lose its rows' deletion."""
    Vectors(planned_3.table).add(planned_3.files[0])
    kind = "delete" if own_sequence else "position delete"
    with pytest.raises(CommitConflictError, match=f"found new {kind} for replaced data file: .*parquet"):
        planned_3.commit(own_sequence=own_sequence)


def test_vectors_of_other_files_are_no_conflict(planned_3):
    """Even two of them for one file, one after the other, which no index of deletes would take."""
    planned_3.table.append([(99, "a", 1.0)])
    other, vectors = newest(planned_3), Vectors(planned_3.table)
    vectors.add(other, 4)
    vectors.table.update(
        SnapshotUpdate(
            "delete", added_deletes=((vectors.vector(other, 60), None),), removed_deletes=(vectors.vector(other, 4),)
        )
    )
    planned_3.commit()
    assert planned_3.table.head.operation == "replace"


def test_vectors_go_with_their_data_files(planned_3):
    """A vector of a replaced file is removed by the same commit, named or not; the others of its Puffin file stay."""
    vectors = Vectors(planned_3.table)
    vectors.add(planned_3.files[0], 4)
    vectors.add(planned_3.files[1], 60)
    again = Planned.__new__(Planned)
    again.table, again.start, again.files = planned_3.table, planned_3.table.head, planned_3.files[:1]
    again.commit()
    left = [f for f in planned_3.table.files() if f.is_deletion_vector]
    assert [f.content_offset for f in left] == [60]
    assert planned_3.table.head.summary["removed-dvs"] == "1"
    assert planned_3.table.head.summary["removed-files-size"] == str(planned_3.files[0].file_size_in_bytes + 44)
