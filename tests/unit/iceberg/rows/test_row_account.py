"""No row is lost: every row read is written or deleted, or nothing is committed, whatever the metadata says.

Manifest entries are damaged in one number each; then a rewrite leaves the rows as they were, or refuses and leaves
every file. LAKEMETA_FUZZ_EXAMPLES damages more entries.
"""

from __future__ import annotations

import io
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.executors import Cluster
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table, encoded

from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.rewrite import group_runs
from lakemeta.iceberg.rows.data_files import OpenFile
from lakemeta.iceberg.rows.row_account import (
    InputRows,
    check_entry,
    check_group,
    check_replaced,
    inputs_by_path,
)
from lakemeta.iceberg.scan.file_tasks import FileScanTask
from lakemeta.storage import LocalStorage

ALL = {"rewrite-all": "true"}
PLANNERS = (
    ALL,
    {**ALL, "target-file-size-bytes": "4000"},
    {**ALL, "strategy": "sort", "sort_order": "id"},
    {"planner": "split-combine", "target-file-size-bytes": "4000"},
)
EXAMPLES = int(os.environ.get("LAKEMETA_FUZZ_EXAMPLES", "25"))


def data_file(path: str, rows: int, **more: Any) -> DataFile:
    return DataFile(FileContent.DATA, path, "PARQUET", 0, (), rows, 100, **more)


def test_every_row_is_written_or_deleted() -> None:
    """The counts of a group must add up; what does not names the file."""
    tasks = [FileScanTask(data_file("a", 10), 1), FileScanTask(data_file("b", 5), 1)]
    right = [InputRows("a", 10, by_position=2, by_equality=1, positions=2), InputRows("b", 5)]
    check_group(tasks, right, [data_file("new", 12)])
    check_group(tasks[:1], [InputRows("a", 10, by_position=10, positions=10)], [])
    wrong: list[tuple[str, list[InputRows], list[DataFile]]] = [
        ("rows of a do not.*9 rows were read", [InputRows("a", 9), right[1]], [data_file("new", 14)]),
        ("rows of b do not.*no row was read", right[:1], [data_file("new", 7)]),
        ("counted twice", [*right, right[1]], [data_file("new", 17)]),
        ("counted twice", [*right, InputRows("c", 0)], [data_file("new", 12)]),
        ("name 3 rows, 2 were", [attrs.evolve(right[0], positions=3), right[1]], [data_file("new", 12)]),
        ("name 2 rows, 2 were", [attrs.evolve(right[0], by_equality=9), right[1]], [data_file("new", 4)]),
        ("rows of new do not.*took 3, and 11", right, [data_file("new", 11)]),
        ("rows of a do not.*took 3, and 0", right, []),
    ]
    for sentence, inputs, files in wrong:
        with pytest.raises(CorruptMetadataError, match=f"{sentence}.*nothing was committed"):
            check_group(tasks, inputs, files)


def test_manifests_say_what_was_replaced() -> None:
    """Rows added and rows taken out, file by file, are those of the update."""
    added, removed = [data_file("new", 7)], [data_file("a", 4), data_file("b", 5)]
    check_replaced(added, removed, 7, {"a": 4, "b": 5})
    for rows, gone in ((6, {"a": 4, "b": 5}), (7, {"a": 4}), (7, {"a": 4, "b": 10}), (7, {"a": 4, "b": 5, "c": 1})):
        with pytest.raises(CorruptMetadataError, match="nothing was committed"):
            check_replaced(added, removed, rows, gone)


@pytest.mark.parametrize("change", [{"file_size_in_bytes": 0}, {"file_size_in_bytes": -1}, {"record_count": -1}])
def test_sizes_and_counts_that_no_file_has(change: dict[str, int]) -> None:
    """Nothing is planned on them."""
    with pytest.raises(CorruptMetadataError, match="manifest entry of a says"):
        check_entry(attrs.evolve(data_file("a", 10), **change))


def test_a_file_that_is_live_twice_is_refused() -> None:
    """Iceberg reads its rows twice, and removes both entries at once; and no number is newer than its snapshot."""
    task = FileScanTask(data_file("a", 10), 3)
    assert inputs_by_path([task], 3) == {"a": task}
    delete = attrs.evolve(task, data_file=attrs.evolve(task.data_file, content=FileContent.POSITION_DELETES))
    newer = attrs.evolve(task, sequence_number=4)
    for tasks, sentence in (([task, task], "listed twice"), ([newer], "number 4"), ([delete], "is a delete file")):
        with pytest.raises(CorruptMetadataError, match=sentence):
            inputs_by_path(tasks, 3)


def stored(root: Path, name: str, start: int, rows: int, group: int) -> DataFile:
    """A data file with row groups of ``group`` rows."""
    numbers = range(start, start + rows)
    fields = [("id", pa.int64(), "1"), ("p", pa.string(), "2"), ("v", pa.float64(), "3")]
    schema = pa.schema([pa.field(n, kind, metadata={"PARQUET:field_id": i}) for n, kind, i in fields])
    values: list[list[Any]] = [list(numbers), ["a"] * rows, [n / 2 for n in numbers]]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(list(map(pa.array, values)), schema=schema), out, row_group_size=group)
    path = root / name
    path.write_bytes(out.getvalue())
    footer = pq.read_metadata(path)
    chunks = [footer.row_group(i).column(0) for i in range(footer.num_row_groups)]
    offsets = tuple(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
    return attrs.evolve(
        data_file(str(path), rows), file_size_in_bytes=path.stat().st_size, split_offsets=offsets, sort_order_id=0
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[DataFile]:
    root = tmp_path_factory.mktemp("data")
    return [stored(root, f"{i}.parquet", 300 * i, 300, 100) for i in range(3)]


def table_of(root: Path, files: list[DataFile], sequence: int | None = None, version: int = 2) -> SmallTable:
    """One append a file, the last with a data sequence number of its own; equality deletes in between."""
    table = create_table(LocalStorage(), str(root), version=version)
    for file in files[:-1]:
        table.update(SnapshotUpdate("append", (file,)))
    if version > 1:
        table.delete_ids(5, 450, 610)
        table.delete_positions(files[0], [7, 250])
    table.update(SnapshotUpdate("append", files[-1:], data_sequence_number=sequence))
    return table


def contents(table: SmallTable) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(table.root).rglob("*") if path.is_file()}


def rewritten_or_refused(table: SmallTable, options: dict[str, str]) -> str | None:
    """Rewrite a table: its rows are as before, or the sentence of a refusal, with every file as it was."""
    before, rows = contents(table), TableState.local(table.root).rows()
    opened = IcebergTable.open(table.root)
    try:
        opened.apply(opened.plan_rewrite_data_files(options))
    except LakemetaError as error:
        assert contents(table) == before
        return str(error)
    assert TableState.local(table.root).rows() == rows
    return None


@pytest.mark.slow
def test_an_undamaged_table_is_rewritten(tmp_path: Path, files: list[DataFile]) -> None:
    """By every planner, in every format version that it can have."""
    for number, options in enumerate(PLANNERS):
        for version in (1, 2):
            table = table_of(tmp_path / f"{number}-{version}", files, version=version)
            assert rewritten_or_refused(table, options) is None


@pytest.mark.parametrize("options", PLANNERS)
def test_what_lies_before_the_first_split_offset_is_read(
    tmp_path: Path, files: list[DataFile], options: dict[str, str]
) -> None:
    """A first offset that is missing hides a row group from Iceberg, and from no rewrite."""
    files = [attrs.evolve(file, split_offsets=(file.split_offsets or ())[1:]) for file in files]
    assert rewritten_or_refused(table_of(tmp_path / "t", files), options) is None


@pytest.mark.parametrize("change", [{"file_size_in_bytes": n} for n in (-1, 0, 1400, 10**6)])
def test_other_sizes_than_the_files_are_refused(tmp_path: Path, files: list[DataFile], change: dict[str, int]) -> None:
    """Row groups behind the size would be in no part of the file."""
    damaged = [*files[:-1], attrs.evolve(files[-1], **change)]
    assert "bytes" in (rewritten_or_refused(table_of(tmp_path / "t", damaged), PLANNERS[1]) or "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["orc", "avro"])
@pytest.mark.parametrize("rows", [1, 299, 301, 600])
def test_formats_that_are_cut_by_rows_are_read_to_the_end(
    tmp_path: Path, files: list[DataFile], kind: str, rows: int
) -> None:
    """Parts of a file that says nothing of its blocks are shares of its rows; what the entry leaves out is noticed."""
    data, path = pq.read_table(files[0].file_path), tmp_path / kind
    path.write_bytes(encoded(kind, data))
    size = path.stat().st_size
    file = attrs.evolve(data_file(str(path), 300), file_format=kind, file_size_in_bytes=size)
    options = {**ALL, "target-file-size-bytes": str(size // 3), "min-file-size-bytes": "1"}
    assert rewritten_or_refused(table_of(tmp_path / "right", [file]), options) is None
    wrong = table_of(tmp_path / "wrong", [attrs.evolve(file, record_count=rows)])
    assert "300 rows" in (rewritten_or_refused(wrong, options) or "")


@given(
    st.lists(st.tuples(st.integers(-50, 150), st.integers(1, 9)), max_size=6),
    st.lists(st.integers(1, 99), max_size=4, unique=True).map(sorted),
)
def test_a_row_group_is_in_exactly_one_part(blocks: list[tuple[int, int]], cuts: list[int]) -> None:
    """Wherever a footer says that row groups lie, the parts of a file hold each once, in order and at its place."""
    opened = OpenFile(pa.schema([]), lambda *_: iter(()), None, lambda: blocks)
    rows = sum(count for _, count in blocks)
    parts = [opened.part(start, end, 100, rows) for start, end in pairwise([0, *cuts, 100])]
    assert [i for part in parts for i in part.row_groups] == list(range(len(blocks)))
    for part in parts:
        if part.row_groups:
            assert part.first_row == sum(count for _, count in blocks[: part.row_groups[0]])
            assert part.rows == sum(blocks[i][1] for i in part.row_groups)


SIZES = st.sampled_from([-1, 0, 1, 1000, 2**31, 2**62]) | st.integers(1, 6000)
DAMAGE = st.one_of(
    SIZES.map(lambda n: {"file_size_in_bytes": n}),
    SIZES.map(lambda n: {"record_count": n}),
    st.integers(-3, 3).map(lambda n: {"record_count": 300 + n}),
    st.lists(st.integers(-10, 7000), max_size=4).map(lambda found: {"split_offsets": tuple(found)}),
    st.lists(st.integers(0, 2), max_size=4).map(lambda places: {"places": places}),
    st.integers(-2, 9).map(lambda n: {"sequence": n}),
)


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(DAMAGE, st.sampled_from(PLANNERS))
def test_one_damaged_number_loses_no_row(
    tmp_path_factory: pytest.TempPathFactory, files: list[DataFile], damage: dict[str, Any], options: dict[str, str]
) -> None:
    """Size, number of rows, split offsets or sequence number of one entry: the same rows after, or nothing is done."""
    change, last = dict(damage), files[-1]
    sequence = change.pop("sequence", None)
    if "places" in change:  # right offsets, not all of them or not in order
        change = {"split_offsets": tuple((last.split_offsets or ())[i] for i in change["places"])}
    damaged = [*files[:-1], attrs.evolve(last, **change)]
    table = table_of(tmp_path_factory.mktemp("t") / "t", damaged, sequence)
    refused = rewritten_or_refused(table, options)
    takes_all = "rewrite-all" in options  # the older planner may leave the file as it is
    for name in ("file_size_in_bytes", "record_count"):
        if takes_all and change.get(name, getattr(last, name)) != getattr(last, name):
            assert refused
    if "split_offsets" in change:
        assert refused is None


@pytest.mark.parametrize("options", PLANNERS)
def test_one_file_in_two_manifests_is_refused(tmp_path: Path, files: list[DataFile], options: dict[str, str]) -> None:
    """Iceberg would read its rows twice; what is to become of them is not for a rewrite to say."""
    table = table_of(tmp_path / "t", [*files, files[1]])
    assert "twice" in (rewritten_or_refused(table, options) or "")


@pytest.mark.parametrize("other", ["/./", "//", "/x/../"])
@pytest.mark.parametrize("options", [ALL, {**ALL, "max-files-to-rewrite": "3"}])
def test_one_file_by_two_names_is_refused(
    tmp_path: Path, files: list[DataFile], other: str, options: dict[str, str]
) -> None:
    """Also where only one of them is to be rewritten."""
    folder, _, name = files[1].file_path.rpartition("/")
    (Path(folder) / "x").mkdir(exist_ok=True)
    again = attrs.evolve(files[1], file_path=f"{folder}{other}{name}")
    table = table_of(tmp_path / "t", [*files, again])
    assert "one file, which is listed twice" in (rewritten_or_refused(table, options) or "")


@pytest.mark.parametrize("spelling", ["{0}//{1}", "file:{0}/{1}", "file://{0}//{1}", "{0}/./{1}", "{0}/x:/../file:{1}"])
def test_a_file_is_found_by_the_name_that_it_has(tmp_path: Path, files: list[DataFile], spelling: str) -> None:
    """Whatever that looks like: plans give it back letter by letter."""
    root = tmp_path / "t"
    (root / "x:").mkdir(parents=True)
    copied = []
    for number, file in enumerate(files):
        name = f"{number}.parquet"
        (root / (f"file:{name}" if "file:{1}" in spelling else name)).write_bytes(Path(file.file_path).read_bytes())
        copied.append(attrs.evolve(file, file_path=spelling.format(root, name)))
    assert rewritten_or_refused(table_of(root, copied), ALL) is None


class Lossy(WrappedStorage):
    """A store that keeps something else than what was written to data files."""

    def __init__(self, inner: Any, spoil: Any) -> None:
        super().__init__(inner)
        self.spoil = spoil

    def operation(self, name: str, paths: Any, effect: Any, half: Any = None) -> Any:
        done = effect()
        if name == "open_output":
            Path(paths[0]).write_bytes(self.spoil(Path(paths[0]).read_bytes()))
        return done


def footer_bytes(data: bytes) -> int:
    return int.from_bytes(data[-8:-4], "little")


SPOILED = {
    "cut off": lambda data: data[:-100],
    "longer": lambda data: data + b"PAR1",
    "empty": lambda _: b"",
    "without footer": lambda data: data[: -8 - footer_bytes(data)] + bytes(footer_bytes(data)) + data[-8:],
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=list(SPOILED))
def test_written_files_are_read_back_before_the_commit(tmp_path: Path, files: list[DataFile], spoil: Any) -> None:
    """A new file that the store has not as it was written is not committed, and none is left."""
    table = table_of(tmp_path / "t", files)
    before = contents(table)
    opened = IcebergTable(Place(table.root, HadoopTableOperations(Lossy(LocalStorage(), spoil), table.root)))
    with pytest.raises(CorruptMetadataError, match=r"parquet"):
        opened.apply(opened.plan_rewrite_data_files(ALL))
    assert contents(table) == before


@pytest.mark.parametrize("executor", [None, Cluster()], ids=["here", "elsewhere"])
@pytest.mark.parametrize("partial_progress", ["false", "true"])
def test_the_driver_counts_too(
    tmp_path: Path, files: list[DataFile], monkeypatch: pytest.MonkeyPatch, executor: Any, partial_progress: str
) -> None:
    """A worker's account that does not add up fails its group, whose files go."""
    table = table_of(tmp_path / "t", files)
    before = contents(table)
    monkeypatch.setattr("lakemeta.iceberg.rewrite.group_rewriter.check_group", lambda *_: None)
    for name in ("rewrite_here", "rewrite_elsewhere"):
        monkeypatch.setattr(group_runs, name, losing_a_row(getattr(group_runs, name)))
    opened = IcebergTable.open(table.root)
    plan = opened.plan_rewrite_data_files({**ALL, "partial-progress.enabled": partial_progress})
    if partial_progress == "false":
        with pytest.raises(CorruptMetadataError, match="do not add up"):
            opened.apply(plan, executor=executor)
    else:
        report = opened.apply(plan, executor=executor)
        assert (report.committed, report.result["failed_data_files_count"]) == (None, 3)
        assert "do not add up" in report.notes[0]
    assert contents(table) == before


def losing_a_row(rewrite: Any) -> Any:
    def worker(*arguments: Any) -> Any:
        for result in rewrite(*arguments):
            first = attrs.evolve(result.inputs[0], read=result.inputs[0].read - 1)
            changed = attrs.evolve(result, inputs=(first, *result.inputs[1:]))
            if len(arguments) > 2:
                arguments[1][changed.group] = changed
            yield changed

    return worker
