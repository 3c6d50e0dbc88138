"""Lines of a manifest list that contradict themselves, their manifests, or the table's snapshots.

By one wrong number in a line files are left out, deletes do not apply any more, or go as too old. Every such table is
refused by a rewrite with every file as it was; a number that is not known is no contradiction.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import fastavro
import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table
from support.iceberg_values import added, data_file

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.manifests.codec import summarise
from lakemeta.iceberg.manifests.entries import EntryColumns, EntryStatus, ManifestContent, ManifestFile
from lakemeta.iceberg.manifests.lines import check_entries, check_line
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.spec.types import LONG, STRING
from lakemeta.storage import LocalStorage

Line = dict[str, Any]
ALL = {"rewrite-all": "true"}
DATA, DELETES = 0, 1


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    """Two data manifests, then one of position deletes and one of equality deletes, then rows that neither deletes."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    table.append([(n, "a", 0.5) for n in range(18)])
    table.append([(n, "a", 0.5) for n in range(18, 30)])
    table.delete_positions(table.data_files()[0], [0, 1])
    table.delete_ids(20, 21)
    table.append([(n, "a", 0.5) for n in range(20, 25)])
    return table


def relist(table: SmallTable, change: Callable[[Line], Any]) -> None:
    """Change the lines of the newest manifest list."""
    path = Path(str(table.head.manifest_list))
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    lines: list[Any] = list(reader)
    for line in lines:
        change(line)
    schema: Any = reader.writer_schema
    described = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    out = io.BytesIO()
    fastavro.writer(out, schema, lines, codec="deflate", metadata=described)
    path.write_bytes(out.getvalue())


def contents(table: SmallTable) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(table.root).rglob("*") if path.is_file()}


def rewrite(table: SmallTable) -> None:
    """A rewrite that leaves the rows as they were, or is refused with every file as it was."""
    before, rows = contents(table), TableState.local(table.root).rows()
    opened = IcebergTable.open(table.root)
    try:
        opened.apply(opened.plan_rewrite_data_files(ALL))
    except CorruptMetadataError:
        assert contents(table) == before
        raise
    assert TableState.local(table.root).rows() == rows


def setting(content: int, **changes: Any) -> Callable[[Line], Any]:
    return lambda line: line["content"] == content and line.update(changes)


def shifted(content: int, name: str, by: int) -> Callable[[Line], Any]:
    return lambda line: line["content"] == content and line.update({name: line[name] + by})


NONE = {"added_files_count": 0, "existing_files_count": 0}
NO_ROWS = {"added_rows_count": 0, "existing_rows_count": 0}
DAMAGE: dict[str, tuple[Callable[[Line], Any], str]] = {
    "data without files": (setting(DATA, **NONE), "0 added files with 5 rows"),
    "data without files and rows": (setting(DATA, **NONE, **NO_ROWS), "0 added files, and it has 1"),
    "data that went": (setting(DATA, **NONE, **NO_ROWS, deleted_files_count=1), "0 added files, and it has 1"),
    "deletes without files": (setting(DELETES, **NONE), "0 added files with 2 rows"),
    "deletes without files and rows": (setting(DELETES, **NONE, **NO_ROWS), "0 added files, and it has 1"),
    "more files": (shifted(DATA, "added_files_count", 1), "2 added files, and it has 1"),
    "files below zero": (setting(DATA, added_files_count=-1), "-1 added files, and it has 1"),
    "other rows": (shifted(DATA, "added_rows_count", 7), "12 added rows, and it has 5"),
    "existing files": (setting(DATA, existing_files_count=1), "1 existing files, and it has 0"),
    "deletes too old": (shifted(DELETES, "sequence_number", -2), "sequence number"),
    "deletes older than all": (setting(DELETES, sequence_number=0, min_sequence_number=0), "which added it, has"),
    "deletes too new": (shifted(DELETES, "sequence_number", 1), "which added it, has"),
    "deletes newer than the table": (
        lambda line: setting(DELETES, sequence_number=9, min_sequence_number=9, added_snapshot_id=5)(line),
        "its snapshot only 5",
    ),
    "data too old": (setting(DATA, sequence_number=0, min_sequence_number=0), "which added it, has"),
    "data of no deletes": (setting(DATA, min_sequence_number=6), "a least one in it of 6"),
}


@pytest.mark.parametrize(("change", "sentence"), DAMAGE.values(), ids=list(DAMAGE))
def test_a_line_that_is_contradicted_is_refused(table: SmallTable, change: Any, sentence: str) -> None:
    """In one sentence, which names the manifest; by the line alone files were left out, and deletes not applied."""
    relist(table, change)
    with pytest.raises(CorruptMetadataError, match=f"avro: .*{sentence}.*restore the manifest list") as refused:
        rewrite(table)
    assert "\n" not in str(refused.value)


def test_counts_that_are_not_known_contradict_nothing(table: SmallTable) -> None:
    """Lists of version 1 may have none; such manifests are read as they are."""
    names = [f"{status}_{what}_count" for status in ("added", "existing", "deleted") for what in ("files", "rows")]
    entries = StoredManifests(table.storage, table.metadata.specs_by_id)
    for line in entries.of(table.head):
        unknown = attrs.evolve(line, **dict.fromkeys(names))
        assert entries.entries([unknown])[0]
        check_line(unknown)


def test_manifests_of_removed_files_are_read_and_left_out(table: SmallTable) -> None:
    """What only tells of removed files is left out of the next snapshot, as Iceberg does."""
    table.remove(table.data_files()[0])
    rewrite(table)
    lines = StoredManifests(table.storage, {}).of(table.head)
    assert all(line.may_have_live_files or line.added_snapshot_id == table.head.snapshot_id for line in lines)


@pytest.mark.parametrize(
    "name", ["data without files and rows", "deletes without files and rows", "deletes too old", "data too old"]
)
def test_a_commit_judges_the_list_that_it_replaces(table: SmallTable, name: str) -> None:
    """By its lines, and by the entries of all manifests that would go; nothing else need be opened for an append."""
    change, sentence = DAMAGE[name]
    relist(table, change)
    with pytest.raises(CorruptMetadataError, match=sentence):
        table.append([(50, "a", 0.5)])


def test_entries_are_held_against_the_numbers_of_their_line() -> None:
    """Every status by files and rows; the oldest and the newest live file; removed files have any age."""
    gone = attrs.evolve(added(data_file("gone"), 9), status=EntryStatus.DELETED)
    old = attrs.evolve(added(data_file("old"), 2), status=EntryStatus.EXISTING)
    entries = [added(data_file("new"), 3), old, gone]
    rows = entries[0].data_file.record_count
    line = ManifestFile("m", 1, 0, ManifestContent.DATA, 3, 2, 7, 1, 1, 1, rows, rows, rows)
    check_entries(line, EntryColumns.of(entries))
    check_entries(attrs.evolve(line, min_sequence_number=0), EntryColumns.of(entries))
    check_entries(ManifestFile("m", 1, 0, sequence_number=3), EntryColumns.of(entries))
    for name in ("added", "existing", "deleted"):
        for what in ("files", "rows"):
            count = f"{name}_{what}_count"
            for changed in (getattr(line, count) - 1, getattr(line, count) + 1):
                with pytest.raises(CorruptMetadataError, match=f"m: {changed} {name} {what}, and it has"):
                    check_entries(attrs.evolve(line, **{count: changed}), EntryColumns.of(entries))
    with pytest.raises(CorruptMetadataError, match="3 as the least sequence number in it, and it has 2"):
        check_entries(attrs.evolve(line, min_sequence_number=3), EntryColumns.of(entries))
    with pytest.raises(CorruptMetadataError, match="sequence number 2, and it has files of 3"):
        check_entries(attrs.evolve(line, sequence_number=2), EntryColumns.of(entries))


@pytest.mark.parametrize("partition", [(None, 3), ("a", 3), ("\U0001f601", 3), ("b", 2), ("c", 500), ("", None)])
def test_entries_lie_within_the_partitions_of_their_line(partition: tuple[Any, ...]) -> None:
    """A delete file of another partition than it was committed to applies to nothing; summaries give that away."""
    types = (STRING, LONG)
    inside = [("b", 3), ("d\U0001f600", 299), ("\ue000", 3)]
    bounds = summarise(types, [("b", 3), ("\U0001f600", 300)])
    line = ManifestFile("m", 1, 0, sequence_number=1, partitions=bounds)
    check_entries(line, EntryColumns.of([added(data_file(partition=p), 1) for p in inside]))
    check_entries(attrs.evolve(line, partitions=None), EntryColumns.of([added(data_file(partition=partition), 1)]))
    with pytest.raises(CorruptMetadataError, match=r"m: (no partition in it|its partitions lie)"):
        check_entries(line, EntryColumns.of([added(data_file(partition=p), 1) for p in (*inside, partition)]))
    with pytest.raises(CorruptMetadataError, match="m: 2 partition fields, and its spec has 1"):
        check_entries(line, EntryColumns.of([added(data_file(partition=("b",)), 1)]))


def test_no_file_is_an_orphan_by_its_line(table: SmallTable) -> None:
    """A line that says of a manifest that nothing in it is live makes no orphans of its files."""
    relist(table, setting(DATA, **NONE, added_rows_count=0, existing_rows_count=0))
    with pytest.raises(CorruptMetadataError, match="0 added files, and it has 1"):
        IcebergTable.open(table.root).plan("remove-orphan-files")


def test_manifests_are_not_rewritten_by_what_lines_count(table: SmallTable) -> None:
    """A line that counts two billion files takes no memory for them."""
    relist(table, setting(DATA, added_files_count=2**31 - 1))
    with pytest.raises(CorruptMetadataError, match="2147483647 added files, and it has 1"):
        IcebergTable.open(table.root).plan("rewrite-manifests")
