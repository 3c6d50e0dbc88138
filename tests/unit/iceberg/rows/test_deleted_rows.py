"""The deletes of a group: vectors in Puffin files, and keys that are fields of structs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.deletion_vectors import blob_of, run_containers, vector
from support.iceberg_tables import PATH_ID, SmallTable, create_table

from lakemeta.errors import CorruptMetadataError, LakemetaError, UnsupportedFeatureError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.rewrite.group_rewriter import RewriteJob, rewrite_group
from lakemeta.iceberg.rewrite.groups import RewriteGroup
from lakemeta.iceberg.scan.file_tasks import FileScanTask
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import TableMetadata
from lakemeta.iceberg.spec.types import INT, LONG, STRING, ListType, StructType
from lakemeta.iceberg.spec.types import NestedField as Field
from lakemeta.storage import LocalStorage

ALL = {"rewrite-all": "true"}
ROWS = [(n, "a", n / 2) for n in range(100)]


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = create_table(LocalStorage(), str(tmp_path / "t"), version=3)
    table.append(ROWS, ROWS)
    return table


def add_vectors(table: SmallTable, *blobs: tuple[DataFile, bytes, int], **changes: Any) -> None:
    """Commit one Puffin file with a vector a data file, of so many rows each; ``changes`` to the entries."""
    start = b"PFA1"
    path = f"{table.root}/data/vectors.puffin"
    body, deletes = start, []
    for file, blob, rows in blobs:
        entry = DataFile(
            FileContent.POSITION_DELETES,
            path,
            "PUFFIN",
            0,
            (),
            rows,
            len(start) + sum(len(blob) for _, blob, _ in blobs),
            referenced_data_file=file.file_path,
            content_offset=len(body),
            content_size_in_bytes=len(blob),
        )
        deletes.append((attrs.evolve(entry, **changes), None))
        body += blob
    table.storage.create(path, body)
    table.update(SnapshotUpdate("delete", added_deletes=tuple(deletes)))


def rewritten(table: SmallTable) -> list[int]:
    """The ids after a rewrite, or the refusal with every file as it was."""
    before = {path: path.read_bytes() for path in Path(table.root).rglob("*") if path.is_file()}
    opened = IcebergTable.open(table.root)
    try:
        opened.apply(opened.plan_rewrite_data_files(ALL))
    except LakemetaError:
        assert {path: path.read_bytes() for path in Path(table.root).rglob("*") if path.is_file()} == before
        raise
    files = [pq.read_table(file.file_path) for file in table.data_files()]
    return sorted(i for found in files for i in found.column("id").to_pylist())


def test_one_puffin_file_holds_vectors_of_several_files(table: SmallTable) -> None:
    """Each is read from its own place, also one that names rows behind the end of its file; all go with their files."""
    first, second = table.data_files()
    long = [1, 2, 100, 70_000, (1 << 32) + 5]
    add_vectors(table, (first, vector([0, 50, 99], runs=False), 3), (second, vector(long, runs=True), 5))
    assert rewritten(table) == sorted([*(set(range(100)) - {0, 50, 99}), *(set(range(100)) - {1, 2})])
    assert len(table.files()) == 1


WRONG: dict[str, tuple[bytes, int, dict[str, Any]]] = {
    "names 3 rows, and its manifest entry says 4": (vector([0, 1, 2], runs=True), 4, {}),
    "names 3 rows or more, and its manifest entry says 2": (vector([0, 1, 2], runs=False), 2, {}),
    "names 65536 rows or more, and its manifest entry says 1": (
        blob_of(b"\1" + bytes(11) + run_containers(*((key, [(0, 65535)]) for key in range(65535)))),
        1,
        {},
    ),
    "names 0 rows or more, and its manifest entry says -1": (blob_of(bytes(8)), -1, {}),
    "cannot have 0 bytes": (vector([1], runs=True), 1, {"content_size_in_bytes": 0}),
    "cannot have 2147483648 bytes": (vector([1], runs=True), 1, {"content_size_in_bytes": 2**31}),
    "bytes at -1": (vector([1], runs=True), 1, {"content_offset": -1}),
    "does not start as one": (vector([1], runs=True), 1, {"content_offset": 3}),
    "is not whole": (vector([1], runs=True), 1, {"content_offset": None}),
}


@pytest.mark.parametrize(("sentence", "wrong"), WRONG.items(), ids=list(WRONG))
def test_a_vector_that_contradicts_its_entry_is_refused(table: SmallTable, sentence: str, wrong: Any) -> None:
    """Iceberg refuses to read such a table, so nothing is made of it; a vector that grows without end stops at once."""
    blob, rows, changes = wrong
    add_vectors(table, (table.data_files()[0], blob, rows), **changes)
    with pytest.raises(CorruptMetadataError, match=sentence):
        rewritten(table)


CONTRADICTED: dict[str, tuple[FileContent, dict[str, Any]]] = {
    "has 3 rows or more and its manifest entry says 2": (FileContent.POSITION_DELETES, {"record_count": 2}),
    "has 3 rows and its manifest entry says 4": (FileContent.POSITION_DELETES, {"record_count": 4}),
    "bytes and its manifest entry says 200": (FileContent.POSITION_DELETES, {"file_size_in_bytes": 200}),
    "has 2 rows or more and its manifest entry says 1": (FileContent.EQUALITY_DELETES, {"record_count": 1}),
    "has 2 rows and its manifest entry says 3": (FileContent.EQUALITY_DELETES, {"record_count": 3}),
    "bytes and its manifest entry says 9999": (FileContent.EQUALITY_DELETES, {"file_size_in_bytes": 9999}),
}


@pytest.fixture
def deleted(tmp_path: Path) -> SmallTable:
    """A table with a position delete file for the first of two data files, and an equality delete file."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    table.append(ROWS, ROWS)
    table.delete_positions(table.data_files()[0], [0, 5, 9])
    table.delete_ids(20, 30)
    return table


def replace_delete(table: SmallTable, content: FileContent, **changes: Any) -> None:
    """Commit another entry for the delete file of a kind."""
    (old,) = [file for file in table.files() if file.content == content]
    new = attrs.evolve(old, **changes)
    table.update(SnapshotUpdate("delete", removed_deletes=(old,)))
    table.update(SnapshotUpdate("delete", added_deletes=((new, None),)))


@pytest.mark.parametrize(("sentence", "wrong"), CONTRADICTED.items(), ids=list(CONTRADICTED))
def test_a_delete_file_that_contradicts_its_entry_is_refused(deleted: SmallTable, sentence: str, wrong: Any) -> None:
    """By bytes or rows it is not the file that was committed, so nobody knows which rows are deleted."""
    content, changes = wrong
    replace_delete(deleted, content, **changes)
    with pytest.raises(CorruptMetadataError, match=f"{sentence}; nothing was rewritten"):
        rewritten(deleted)


@pytest.mark.parametrize("by", ["bounds", "name", "right"])
def test_position_deletes_of_other_files_than_their_entry_says(deleted: SmallTable, by: str) -> None:
    """The entry says which data file they are read for, so deletes of another one would be lost."""
    first, second = deleted.data_files()
    path = (first if by == "right" else second).file_path
    bounds = {PATH_ID: path.encode()} if by != "name" else None
    named = path if by == "name" else None
    replace_delete(
        deleted, FileContent.POSITION_DELETES, lower_bounds=bounds, upper_bounds=bounds, referenced_data_file=named
    )
    if by == "right":
        assert len(rewritten(deleted)) == 200 - 3 - 4
        return
    with pytest.raises(CorruptMetadataError, match=f"names rows of {first.file_path}, .* all are of {path}"):
        rewritten(deleted)


@pytest.mark.parametrize("rows", [10**9, 2**62, 2**66])
def test_a_hostile_number_of_rows_takes_no_memory(table: SmallTable, rows: int) -> None:
    """The file is asked how many rows it has before there is room for a bit each."""
    (file, _) = table.data_files()
    claimed = attrs.evolve(file, record_count=rows)
    task = FileScanTask(claimed, 1, (DataFile(FileContent.POSITION_DELETES, "d", "PARQUET", 0, (), 1, 1),))
    group = RewriteGroup(0, (), 0, (task,), task.length, task.length, 1, 1 << 30)
    with pytest.raises(CorruptMetadataError, match=f"has 100 rows and its manifest entry says that it has {rows} rows"):
        rewrite_group(RewriteJob(table.storage, table.metadata, "u"), group)


INNER = StructType((Field(6, "x", INT, required=True),))
STRUCT = StructType((Field(3, "p", LONG), Field(4, "q", STRING), Field(5, "r", INNER)))
NESTED = Schema((Field(1, "id", LONG), Field(2, "st", STRUCT), Field(7, "l", ListType(8, LONG))))


def arrow(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


P, X = arrow("p", pa.int64(), 3), arrow("x", pa.int32(), 6)
FULL = [P, arrow("q", pa.string(), 4), arrow("r", pa.struct([X]), 5)]
DATA = pa.schema([arrow("id", pa.int64(), 1), arrow("st", pa.struct(FULL), 2)])
VALUES = [None, {"p": None}, {"p": 1}, {"p": 1, "r": {"x": 1}}, {"p": 2, "r": {"x": 2}}]


def nested_group(
    root: Path, keys: list[Any], schema: pa.Schema, ids: tuple[int, ...]
) -> tuple[TableMetadata, RewriteGroup]:
    """A file with the structs VALUES, numbered, an older one without struct, and an equality delete file for both."""
    metadata = attrs.evolve(create_table(LocalStorage(), str(root)).metadata, schemas=(NESTED,), last_column_id=8)
    data = [{"id": n, "st": value} for n, value in enumerate(VALUES)]
    delete = stored(root / "d.parquet", keys, schema, FileContent.EQUALITY_DELETES, equality_ids=ids)
    files = [
        stored(root / "a.parquet", data, DATA),
        stored(root / "b.parquet", [{"id": 9}], pa.schema([DATA.field(0)])),
    ]
    tasks = tuple(FileScanTask(file, 1, (delete,)) for file in files)
    return metadata, RewriteGroup(0, (), 0, tasks, 10**6, 10**6, 1, 10**6)


def stored(
    path: Path, rows: list[Any], schema: pa.Schema, content: FileContent = FileContent.DATA, **more: Any
) -> DataFile:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out, store_schema=False)
    path.write_bytes(out.getvalue())
    return DataFile(content, str(path), "PARQUET", 0, (), len(rows), len(out.getvalue()), **more)


KEYS: list[tuple[tuple[int, ...], list[Any], pa.Schema, list[int]]] = [
    ((3,), [{"st": None}], pa.schema([arrow("st", pa.struct([P]), 2)]), [1, 2, 3, 4]),
    ((3,), [{"st": {"p": None}}], pa.schema([arrow("st", pa.struct([P]), 2)]), [0, 2, 3, 4, 9]),
    ((3,), [{"st": {"p": 1}}], pa.schema([arrow("st", pa.struct(FULL), 2)]), [0, 1, 4, 9]),
    (
        (6,),
        [{"st": {"r": None}}, {"st": {"r": {"x": 2}}}],
        pa.schema([arrow("st", pa.struct([arrow("r", pa.struct([X]), 5)]), 2)]),
        [0, 3, 9],
    ),
    ((1, 3), [{"id": 0, "st": None}, {"id": 9, "st": {"p": None}}, {"id": 3, "st": {"p": 1}}], DATA, [1, 2, 4, 9]),
]


@pytest.mark.parametrize(("ids", "keys", "schema", "left"), KEYS, ids=["null", "null p", "p", "r.x", "id and p"])
def test_keys_in_structs(tmp_path: Path, ids: Any, keys: Any, schema: pa.Schema, left: list[int]) -> None:
    """A null struct is not a struct of nulls, as in Iceberg's StructLikeSet; older files have a null struct."""
    metadata, group = nested_group(tmp_path, keys, schema, ids)
    (file,) = rewrite_group(RewriteJob(LocalStorage(), metadata, "u"), group).files
    assert pq.read_table(file.file_path).column("id").to_pylist() == left


@pytest.mark.parametrize(
    ("ids", "schema", "sentence", "kind"),
    [
        ((3,), pa.schema([P]), "lacks the column st", CorruptMetadataError),
        ((3,), pa.schema([arrow("st", pa.struct([FULL[1]]), 2)]), r"lacks the column st\.p", CorruptMetadataError),
        ((1,), pa.schema([P]), "lacks the column id", CorruptMetadataError),
        ((8,), DATA, "is no single value", UnsupportedFeatureError),
        ((2,), DATA, "is no single value", UnsupportedFeatureError),
        ((77,), DATA, "which no schema of the table has", CorruptMetadataError),
    ],
)
def test_keys_that_are_not_there(tmp_path: Path, ids: Any, schema: pa.Schema, sentence: str, kind: Any) -> None:
    """A delete file without its columns would delete rows with nulls, and no others."""
    metadata, group = nested_group(tmp_path, [{}], schema, ids)
    with pytest.raises(kind, match=sentence):
        rewrite_group(RewriteJob(LocalStorage(), metadata, "u"), group)


def test_a_key_that_its_struct_has_lost_is_refused(tmp_path: Path) -> None:
    """Iceberg looks for it among the columns, and finds nulls."""
    metadata, group = nested_group(tmp_path, [{"st": {"p": 1}}], DATA, (3,))
    kept = attrs.evolve(NESTED.fields[1], type=StructType(STRUCT.fields[1:]))
    newer = attrs.evolve(NESTED, fields=(NESTED.fields[0], kept), schema_id=1)
    metadata = attrs.evolve(metadata, schemas=(NESTED, newer), current_schema_id=1)
    with pytest.raises(UnsupportedFeatureError, match=r"deletes by st\.p, a field of a struct that was dropped"):
        rewrite_group(RewriteJob(LocalStorage(), metadata, "u"), group)
