"""Which manifests a new snapshot has, and what it says of itself."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from support.faults import RecordingStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CommitConflictError, CorruptMetadataError, OptionError
from lakemeta.iceberg.commit.snapshot_commit import commit_update
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.table_metadata import SnapshotRef
from lakemeta.storage import LocalStorage


def made(tmp_path, **how) -> SmallTable:
    return create_table(LocalStorage(), str(tmp_path / "t"), **how)


def rows(start: int, number: int = 3, p: str = "a") -> list:
    return [(start + i, p, 0.5) for i in range(number)]


def state(table: SmallTable) -> TableState:
    return TableState.local(table.root)


def compact(table: SmallTable, *files, **changes):
    total = sum(f.record_count for f in files)
    return table.update(
        SnapshotUpdate(
            added=(table.write(rows(0, total, files[0].partition[0] if files[0].partition else "a")),),
            removed=files,
            starting_snapshot_id=table.head.snapshot_id,
            data_sequence_number=table.head.sequence_number,
            **changes,
        )
    )


def test_the_new_manifest_comes_first_and_touched_ones_keep_their_place(tmp_path):
    """A manifest that lost a file is written anew where it was, the others are kept."""
    table = made(tmp_path)
    for start in (0, 10, 20):
        table.append(rows(start), rows(start + 5))
    before = [m["manifest_path"] for m in state(table).manifests]
    snapshot = compact(table, table.data_files()[2])
    after = state(table).manifests
    assert [m["manifest_path"] in before for m in after] == [False, True, False, True]
    statuses = [e["status"] for e in state(table).of(after[2])]
    assert sorted(statuses) == [0, 2]
    assert snapshot.summary["manifests-created"] == "2"
    assert snapshot.summary["manifests-kept"] == "2"
    assert snapshot.summary["manifests-replaced"] == "1"


def test_existing_entries_keep_what_they_were(tmp_path):
    """Snapshot id and sequence numbers of files that stay are written out, as they can't be inherited any more."""
    table = made(tmp_path)
    first = table.append(rows(0), rows(5))
    compact(table, table.data_files()[0])
    kept = [e for e in state(table).entries if e["status"] == 0]
    assert [(e["snapshot_id"], e["own_sequence_number"], e["own_file_sequence_number"]) for e in kept] == [
        (first.snapshot_id, 1, 1)
    ]


def test_new_files_have_the_starting_sequence_number_and_inherit_the_other(tmp_path):
    """The data sequence number is the plan's; the file sequence number is the new snapshot's."""
    table = made(tmp_path)
    table.append(rows(0))
    snapshot = compact(table, table.data_files()[0])
    (added,) = [e for e in state(table).entries if e["status"] == 1]
    assert (added["own_sequence_number"], added["own_file_sequence_number"]) == (1, None)
    assert (added["snapshot_id"], added["file_sequence_number"]) == (snapshot.snapshot_id, 2)


def test_a_manifest_of_deleted_entries_stays_for_one_snapshot(tmp_path):
    """What a snapshot removed is told in its own manifests and forgotten in the next one's."""
    table = made(tmp_path)
    table.append(rows(0))
    compact(table, table.data_files()[0])
    assert [m["deleted_files_count"] for m in state(table).manifests] == [0, 1]
    table.append(rows(9))
    assert [m["deleted_files_count"] for m in state(table).manifests] == [0, 0]


def test_small_manifests_are_merged_once_there_are_enough(tmp_path):
    """At min-count-to-merge one manifest holds them all, and only this snapshot's changes are changes in it."""
    table = made(tmp_path, properties={"commit.manifest.min-count-to-merge": "3"})
    table.append(rows(0))
    table.append(rows(10))
    assert len(state(table).manifests) == 2
    snapshot = table.append(rows(20))
    (merged,) = state(table).manifests
    assert sorted(e["status"] for e in state(table).of(merged)) == [0, 0, 1]
    assert snapshot.summary["manifests-replaced"] == "2"
    assert merged["min_sequence_number"] == 1
    assert len(state(table).rows()) == 9


def test_merged_manifests_that_were_never_listed_are_not_written(tmp_path):
    """Manifests that only stood between two steps of one commit leave no file behind."""
    table = made(tmp_path, properties={"commit.manifest.min-count-to-merge": "2"})
    table.append(rows(0), rows(5))
    compact(table, table.data_files()[0])
    listed = {m["manifest_path"] for s in state(table).metadata["snapshots"] for m in state(table).listed(s)}
    on_disk = {e.path for e in table.storage.list_dir(f"{table.root}/metadata") if "-m" in e.name}
    assert on_disk == listed


def test_only_hinted_manifests_are_opened(tmp_path):
    """A table of many manifests is not read to remove one file whose manifest is known."""
    table = made(tmp_path)
    for start in (0, 10, 20, 30):
        table.append(rows(start))
    target = table.data_files()[-1]
    hint = next(
        m["manifest_path"]
        for m in state(table).manifests
        if target.file_path in {e["data_file"]["file_path"] for e in state(table).of(m)}
    )
    recording = RecordingStorage(table.storage)
    watched = SmallTable(recording, table.root, seed=3)
    update = SnapshotUpdate(
        added=(table.write(rows(0)),),
        removed=(target,),
        starting_snapshot_id=table.head.snapshot_id,
        hints=frozenset({hint}),
    )
    watched.update(update)
    read = {path for name, path in recording.calls if name == "read" and "-m" in path}
    assert read == {hint}


def test_a_delete_file_that_names_a_lost_data_file_stays_until_it_is_old(tmp_path):
    """Position deletes go when they are older than all data, not when their file goes."""
    table = made(tmp_path)
    table.append(rows(0), rows(5))
    first, second = table.data_files()
    table.delete_positions(first, [0])
    compact(table, first)
    assert len(state(table).live(1)) == 1
    compact(table, *table.data_files())
    assert second.file_path not in state(table).paths(0)
    assert state(table).live(1) == []


def test_totals_and_counters(tmp_path):
    """The summary says what was added, removed and changed, and the totals after it."""
    table = made(tmp_path, partitioned=True)
    table.append(rows(0, 3, "a"), rows(5, 3, "b"))
    files = table.data_files()
    snapshot = compact(table, files[0], properties={"engine-name": "lakemeta"})
    expected = {
        "operation": "replace",
        "engine-name": "lakemeta",
        "added-data-files": "1",
        "deleted-data-files": "1",
        "added-records": "3",
        "deleted-records": "3",
        "changed-partition-count": "1",
        "total-records": "6",
        "total-data-files": "2",
        "total-delete-files": "0",
    }
    assert expected.items() <= snapshot.summary.items()


def test_rows_get_ids_in_version_3(tmp_path):
    """Every data manifest without a first row id takes room for its existing and added rows."""
    table = made(tmp_path, version=3)
    table.append(rows(0), rows(5))
    assert table.metadata.next_row_id == 6
    snapshot = compact(table, table.data_files()[0])
    assert (snapshot.first_row_id, snapshot.added_rows) == (6, 6)
    assert table.metadata.next_row_id == 12
    assert [m["first_row_id"] for m in state(table).manifests] == [6, 9]


def test_commits_to_a_branch_leave_main_alone(tmp_path):
    """The branch's ref moves; the current snapshot and the snapshot log don't."""
    table = made(tmp_path)
    table.append(rows(0))
    base = table.operations.refresh()
    refs = {**base.metadata.refs, "b": SnapshotRef(table.head.snapshot_id, "branch", max_ref_age_ms=5)}
    table.operations.commit(base, attrs.evolve(base.metadata, refs=refs))
    before = table.metadata
    snapshot = table.append(rows(9), branch="b")
    after = table.metadata
    assert after.refs["b"] == SnapshotRef(snapshot.snapshot_id, "branch", max_ref_age_ms=5)
    assert after.refs["main"] == before.refs["main"]
    assert after.current_snapshot_id == before.current_snapshot_id
    assert after.snapshot_log == before.snapshot_log
    assert snapshot.parent_snapshot_id == before.current_snapshot_id


def test_a_tag_takes_no_commits(tmp_path):
    """A tag is no branch."""
    table = made(tmp_path)
    table.append(rows(0))
    base = table.operations.refresh()
    refs = {**base.metadata.refs, "v1": SnapshotRef(table.head.snapshot_id, "tag")}
    table.operations.commit(base, attrs.evolve(base.metadata, refs=refs))
    with pytest.raises(OptionError, match="v1 is a tag"):
        table.append(rows(9), branch="v1")


def test_the_metadata_log_is_cut(tmp_path):
    """At most previous-versions-max earlier files are in the log, the newest ones."""
    table = made(tmp_path, properties={"write.metadata.previous-versions-max": "2"})
    for start in range(4):
        table.append(rows(start * 10))
    assert [e.metadata_file.rpartition("/")[2] for e in table.metadata.metadata_log] == [
        "v3.metadata.json",
        "v4.metadata.json",
    ]


def test_removing_from_an_empty_table_is_a_conflict(tmp_path):
    """A file of a table without a snapshot can't be there."""
    table = made(tmp_path)
    file = table.write(rows(0))
    with pytest.raises(CommitConflictError, match="Missing required files"):
        table.update(SnapshotUpdate("delete", removed=(file,)))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"last_sequence_number": 2**63 - 1}, "last-sequence-number is 9223372036854775807, after which there is none"),
        ({"next_row_id": 2**63 - 2}, "would have ids up to 9223372036854775808, beyond 64 bits"),
    ],
)
def test_numbers_after_which_there_is_none(tmp_path: Path, change: dict[str, int], sentence: str) -> None:
    """No Avro long holds a next one, so nothing is committed; the last one that there can be is."""
    table = made(tmp_path, version=3)
    table.append(rows(0))
    metadata = table.metadata
    for less, refused in ((0, True), (1, False)):
        numbers = {name: number - less for name, number in change.items()}
        changed = dump_metadata(attrs.evolve(metadata, **numbers))
        table.storage.replace(f"{table.root}/metadata/v2.metadata.json", changed)
        again = SmallTable(table.storage, table.root, seed=1 + less)
        if not refused:
            again.append(rows(10, 2))
            assert len(again.data_files()) == 2
            continue
        with pytest.raises(CorruptMetadataError, match=sentence):
            again.append(rows(10, 2))


def test_a_second_attempt_may_remove_more(tmp_path):
    """A manifest that an attempt wrote is taken again only if the next one removes the same files from it."""
    table = made(tmp_path)
    table.append(rows(0), rows(5))
    first, second = table.data_files()
    calls = []

    def update_of(metadata) -> SnapshotUpdate:
        calls.append(metadata)
        removed = (first, second) if len(calls) > 1 else (first,)
        if len(calls) == 1:
            SmallTable(table.storage, table.root, seed=9).append(rows(10))
        return SnapshotUpdate("delete", removed=removed, starting_snapshot_id=calls[0].current_snapshot_id)

    commit_update(table.operations, update_of, table.env, None)
    assert len(calls) == 2
    assert [entry["data_file"]["record_count"] for entry in state(table).live(0)] == [3]
    assert len(state(table).rows()) == 3
