"""Rewriting one group: what comes out, where it lies, and what is left behind when it fails."""

from __future__ import annotations

import io
import os
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.iceberg_tables import SmallTable, create_table, encoded
from support.sampling import one_in

from lakemeta.errors import CorruptMetadataError, StorageError, UnsupportedFeatureError
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions, plan_groups
from lakemeta.iceberg.rewrite.group_rewriter import RewriteJob, RewrittenGroup, rewrite_group
from lakemeta.iceberg.rewrite.groups import RewriteGroup
from lakemeta.iceberg.rewrite.row_order import parse_row_order
from lakemeta.iceberg.rows.arrow import arrow_schema
from lakemeta.iceberg.scan.file_tasks import FileScanTask
from lakemeta.iceberg.scan.stored_scan import scan
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import TableMetadata
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import NestedField as Field
from lakemeta.storage import LocalStorage

UUID = "0b0b0b0b-0000-4000-8000-000000000000"


def groups(table: SmallTable, metadata: TableMetadata | None = None, **options: str) -> list[RewriteGroup]:
    """The whole table, in groups by partition."""
    metadata = metadata or table.metadata
    tasks = scan(table.storage, metadata, table.head)
    chosen = {"rewrite-all": "true", **{k.replace("_", "-"): v for k, v in options.items()}}
    return plan_groups(metadata, tasks, RewriteOptions.parse(chosen, metadata))


def job(table: SmallTable, metadata: TableMetadata | None = None, **more: Any) -> RewriteJob:
    return RewriteJob(table.storage, metadata or table.metadata, UUID, **more)


def rows(result: RewrittenGroup) -> list[list[tuple[Any, ...]]]:
    """The rows of each new file."""
    tables = [pq.ParquetFile(file.file_path).read() for file in result.files]
    return [list(zip(*(column.to_pylist() for column in found.columns), strict=True)) for found in tables]


def account(result: RewrittenGroup) -> tuple[int, int]:
    """The rows read and deleted."""
    return sum(rows.read for rows in result.inputs), sum(rows.deleted for rows in result.inputs)


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    return create_table(LocalStorage(), str(tmp_path / "t"))


def many(start: int, count: int, p: str = "a") -> list[tuple[int, str, float]]:
    return [(n, p, n / 2) for n in range(start, start + count)]


def test_files_become_one_without_deleted_rows(table: SmallTable) -> None:
    """Position and equality deletes are applied; the result says how many rows went."""
    table.append(many(0, 10), many(10, 10))
    first = table.data_files()[0]
    table.delete_positions(first, [0, 9])
    table.delete_ids(15, 3, 400)
    table.append(many(3, 1))
    (group,) = groups(table)
    result = rewrite_group(job(table), group)
    assert (*account(result), len(result.files)) == (21, 4, 1)
    assert sorted(rows(result)[0]) == sorted([r for r in many(0, 20) if r[0] not in (0, 9, 15, 3)] + many(3, 1))
    file = result.files[0]
    assert (file.record_count, file.content, file.spec_id, file.sort_order_id) == (17, FileContent.DATA, 0, 0)
    assert file.file_size_in_bytes == Path(file.file_path).stat().st_size
    assert Path(file.file_path).name == f"00000-0-{UUID}-00001.parquet"


def test_the_unit_of_work_can_be_shipped(table: SmallTable) -> None:
    """Job and group survive pickling, and attempts write files of different names."""
    table.append(many(0, 3))
    work = pickle.loads(pickle.dumps((job(table), groups(table)[0])))
    results = [rewrite_group(*work, attempt) for attempt in (0, 1)]
    names = {Path(f.file_path).name for r in results for f in r.files}
    assert names == {f"00000-{attempt}-{UUID}-00001.parquet" for attempt in (0, 1)}
    assert pickle.loads(pickle.dumps(results[0])).files[0].file_path == results[0].files[0].file_path


def test_a_group_becomes_files_of_its_split_size(table: SmallTable) -> None:
    """Parts of files are packed into tasks, and each writes a file of its own: cut at row groups, or put together."""
    table.append(many(0, 1000))
    table.append(many(1000, 600))
    table.append(many(1600, 10))
    metadata = attrs.evolve(table.metadata, properties={"write.parquet.row-group-size-bytes": "4000"})
    (group,) = groups(table)
    (file,) = rewrite_group(job(table, metadata), group).files
    assert len(file.split_offsets or ()) > 4
    again = attrs.evolve(group, tasks=(FileScanTask(file, 1),), split_size=file.file_size_in_bytes * 2 // 3)
    found = rows(rewrite_group(job(table), again, 1))
    assert len(found) > 1
    assert sorted(row for part in found for row in part) == many(0, 1610)
    sizes = [task.length for task in group.tasks]
    apart = attrs.evolve(group, split_size=max(sizes) + min(sizes))
    assert sorted(len(part) for part in rows(rewrite_group(job(table), apart, 2))) == [610, 1000]


@pytest.mark.parametrize("kind", ["orc", "avro", "parquet"])
def test_a_file_without_split_offsets_is_cut_by_its_size(tmp_path: Path, kind: str) -> None:
    """Every row is in exactly one part, whatever the format says of its blocks; deleted ones stay deleted."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    (file,) = (table.write(many(0, 5000)),)
    path = Path(file.file_path)
    if kind != "parquet":
        path.write_bytes(encoded(kind, pq.read_table(path)))
    file = attrs.evolve(file, file_format=kind, split_offsets=None, file_size_in_bytes=path.stat().st_size)
    table.update(SnapshotUpdate("append", (file,)))
    table.delete_positions(file, [0, 1700, 4999])
    (group,) = groups(table)
    found = rows(rewrite_group(job(table), attrs.evolve(group, split_size=-(-group.bytes // 3))))
    assert len(found) == (1 if kind == "parquet" else 3)
    assert [row[0] for part in found for row in part] == [n for n in range(5000) if n not in (0, 1700, 4999)]


def test_a_sorted_group_becomes_as_many_files_as_expected(table: SmallTable) -> None:
    """Ranges of the sort order are files; rows of one key are in one, so there may be fewer."""
    table.append(many(1000, 501, "b"), many(0, 1000, "a"))
    group = attrs.evolve(groups(table)[0], expected_outputs=4)
    order = parse_row_order("id", table.metadata.schema)
    found = rows(rewrite_group(job(table, order=order, sorts=True), group))
    assert len(found) == 4
    assert [row[0] for part in found for row in part] == list(range(1501))
    order = parse_row_order("p", table.metadata.schema)
    found = rows(rewrite_group(job(table, order=order, sorts=True), group, 1))
    assert [{row[1] for row in part} for part in found] == [{"a"}, {"b"}]
    per_file = rows(rewrite_group(job(table, order=order, sorts=True, ranges_per_file=2), group, 2))
    assert [{row[1] for row in part} for part in per_file] == [{"a", "b"}]


def test_a_file_never_grows_far_past_the_greatest_size(table: SmallTable) -> None:
    """Even if one output was expected: the writer goes on in a new file."""
    table.append(many(0, 20_000))
    group = attrs.evolve(groups(table)[0], max_output_size=20_000)
    result = rewrite_group(job(table), group)
    assert len(result.files) > 3
    assert max(f.file_size_in_bytes for f in result.files) < 40_000
    assert [row for part in rows(result) for row in part] == many(0, 20_000)


def test_threads_and_memory_change_no_row(table: SmallTable) -> None:
    """One thread or several, one row group or many."""
    table.append(many(0, 5000), many(5000, 5000))
    group = groups(table)[0]
    plain = rewrite_group(job(table), group)
    single = rewrite_group(job(table, threads=1), group, 1)
    small = rewrite_group(job(table, memory=100_000), group, 2)
    assert rows(plain) == rows(single) == rows(small)
    data = [Path(r.files[0].file_path).read_bytes() for r in (plain, single)]
    assert data[0] == data[1]
    assert len(small.files[0].split_offsets or ()) > 1


@pytest.mark.skipif(os.name != "posix", reason="limits of file sizes are POSIX")
def test_a_full_disk_is_named_with_the_file(table: SmallTable) -> None:
    """What cannot be written is a storage error that names the new file, and nothing of it stays."""
    import resource
    import signal

    table.append(many(0, 20_000))
    group = groups(table)[0]
    before = sorted(Path(table.root).rglob("*"))
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=f"cannot write {table.root}/data/.*{UUID}.*parquet: OSError: File too"):
            rewrite_group(job(table), group)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert sorted(Path(table.root).rglob("*")) == before


def test_partitions_keep_to_themselves(tmp_path: Path) -> None:
    """A group of one partition writes into that partition's directory, with its value."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    table.append(many(0, 3, "a"), many(3, 3, "a"), many(6, 3, "b/c"))
    results = [rewrite_group(job(table), group) for group in groups(table)]
    assert [(f.partition, Path(f.file_path).parent.name) for r in results for f in r.files] == [
        (("a",), "p=a"),
        (("b/c",), "p=b%2Fc"),
    ]


def test_files_of_an_old_spec_are_spread_over_the_new_partitions(table: SmallTable) -> None:
    """Rows are clustered: every partition, null too, has its files and no other rows."""
    table.append(many(0, 40, "a") + many(40, 5, "b"), [*many(45, 5, "a"), (50, None, 0.0)])
    fields = (
        PartitionField(2, 1000, "p", Transform.parse("identity")),
        PartitionField(1, 1001, "id_t", Transform.parse("truncate[20]")),
    )
    metadata = attrs.evolve(
        table.metadata, partition_specs=(PartitionSpec(0), PartitionSpec(1, fields)), default_spec_id=1
    )
    (group,) = groups(table, metadata)
    result = rewrite_group(job(table, metadata), group)
    assert all(f.spec_id == 1 for f in result.files)
    by_partition = dict(zip((f.partition for f in result.files), rows(result), strict=True))
    assert set(by_partition) == {(None, 40), ("a", 0), ("a", 20), ("a", 40), ("b", 40)}
    for (p, bucket), found in by_partition.items():
        assert {(row[1], row[0] // 20 * 20) for row in found} == {(p, bucket)}
    assert sum(map(len, by_partition.values())) == 51
    assert [Path(f.file_path).parent.name for f in result.files if f.partition == (None, 40)] == ["id_t=40"]
    back = attrs.evolve(group, spec_id=0)
    assert len(rewrite_group(job(table, metadata), back, 1).files) == 1


@pytest.mark.parametrize("memory", one_in(2, [512 * 1024 * 1024, 20_000]))
def test_rows_are_sorted_if_asked(table: SmallTable, memory: int, tmp_path: Path) -> None:
    """In memory or through temporary files, which are gone afterwards."""
    table.append(many(0, 3000, "b"), many(3000, 3000, "a"))
    order = parse_row_order("p, id DESC", table.metadata.schema)
    spill = tmp_path / "spill"
    spill.mkdir()
    result = rewrite_group(
        job(table, order=order, sort_order_id=7, memory=memory, spill_directory=str(spill)), groups(table)[0]
    )
    assert rows(result)[0] == many(3000, 3000, "a")[::-1] + many(0, 3000, "b")[::-1]
    assert result.files[0].sort_order_id == 7
    assert not list(spill.iterdir())


def test_sorting_by_z_order_keeps_every_row(table: SmallTable) -> None:
    """Rows near each other in both columns come near each other."""
    table.append([(n % 16, str(n), float(n // 16)) for n in range(256)])
    order = parse_row_order("zorder(id, v)", table.metadata.schema)
    found = rows(rewrite_group(job(table, order=order), groups(table)[0]))[0]
    assert sorted(int(row[1]) for row in found) == list(range(256))
    # The bits of doubles from 0 to 15 are not those of the ints, but halves stay apart: ids below 8 with v below 2.
    assert max(row[0] for row in found[:2]) < 8


def test_a_lost_file_leaves_nothing_behind(table: SmallTable) -> None:
    """The files of a failed attempt are deleted before the error is raised."""
    table.append(many(0, 2000), many(2000, 2000))
    group = attrs.evolve(groups(table)[0], expected_outputs=8)
    Path(group.tasks[1].data_file.file_path).unlink()
    before = set(Path(table.root).rglob("*"))
    with pytest.raises(StorageError, match=Path(group.tasks[1].data_file.file_path).name):
        rewrite_group(job(table), group)
    assert set(Path(table.root).rglob("*")) == before


def test_a_file_with_other_rows_than_the_manifest_says_is_refused(table: SmallTable) -> None:
    """Positions would mean other rows, so nothing may be concluded from them."""
    table.append(many(0, 5))
    (group,) = groups(table)
    task = group.tasks[0]
    wrong = attrs.evolve(task, data_file=attrs.evolve(task.data_file, record_count=6))
    with pytest.raises(CorruptMetadataError, match="has 5 rows and its manifest entry says 6"):
        rewrite_group(job(table), attrs.evolve(group, tasks=(wrong,)))


def test_a_group_whose_rows_are_all_deleted_becomes_no_file(table: SmallTable) -> None:
    """There is nothing to write."""
    table.append(many(0, 3))
    table.delete_ids(0, 1, 2)
    result = rewrite_group(job(table), groups(table)[0])
    assert (result.files, *account(result)) == ((), 3, 3)


def test_equality_deletes_may_be_about_a_dropped_column(table: SmallTable) -> None:
    """The column is read for the deletes and not written; a new column of its name is another one."""
    table.append(many(0, 5))
    table.delete_ids(2)
    old = table.metadata.schema
    fields = (*(f for f in old.fields if f.field_id != 1), Field(9, "id", t.STRING))
    metadata = attrs.evolve(
        table.metadata, schemas=(old, attrs.evolve(old, fields=fields, schema_id=1)), current_schema_id=1
    )
    found = rows(rewrite_group(job(table, metadata), groups(table, metadata)[0]))[0]
    assert found == [("a", n / 2, None) for n in (0, 1, 3, 4)]


def test_equality_deletes_have_a_budget(table: SmallTable) -> None:
    """More keys than memory are refused by name, and nothing is written."""
    table.append(many(0, 5))
    table.delete_ids(*range(10_000))
    before = set(Path(table.root).rglob("*"))
    with pytest.raises(UnsupportedFeatureError, match="give the rewrite more memory"):
        rewrite_group(job(table, memory=20_000), groups(table)[0])
    assert set(Path(table.root).rglob("*")) == before


def test_rows_of_version_3_keep_their_ids(tmp_path: Path) -> None:
    """Row ids and the sequence number of the last update become columns, also on a second rewrite."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), version=3)
    table.append(many(0, 3))
    table.append(many(3, 2))
    found = sorted(rows(rewrite_group(job(table), groups(table)[0]))[0])
    assert [row[3:] for row in found] == [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2)]


def typed_table(
    root: Path, schema: Schema, spec: PartitionSpec, data: list[dict[str, Any]]
) -> tuple[TableMetadata, RewriteGroup]:
    """One data file of any types, unpartitioned, and a group that rewrites it to ``spec``."""
    metadata = attrs.evolve(
        create_table(LocalStorage(), str(root)).metadata,
        schemas=(schema,),
        partition_specs=(PartitionSpec(0), spec),
        default_spec_id=spec.spec_id,
    )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(data, schema=arrow_schema(schema.fields)), out)
    path = f"{root}/data/in.parquet"
    LocalStorage().create(path, out.getvalue())
    file = DataFile(FileContent.DATA, path, "PARQUET", 0, (), len(data), len(out.getvalue()))
    nulls = (None,) * len(spec.fields)
    size = file.file_size_in_bytes
    return metadata, RewriteGroup(0, nulls, spec.spec_id, (FileScanTask(file, 1),), size, size, 1, 1 << 40)


KINDS: list[tuple[Any, str, list[Any]]] = [
    (t.DecimalType(9, 2), "identity", [Decimal("1.25"), Decimal("-3.00"), None]),
    (t.DecimalType(38, 2), "truncate[100]", [Decimal("1.25"), Decimal("-3.00"), None]),
    (t.UUID, "identity", [bytes(16), bytes(range(16)), None]),
    (t.BINARY, "truncate[1]", [b"ab", b"b", None]),
    (t.FixedType(2), "bucket[4]", [b"ab", b"bb", None]),
    (t.DATE, "month", [0, -40, None]),
    (t.TIMESTAMPTZ, "hour", [0, -1, None]),
    (t.BOOLEAN, "identity", [True, False, None]),
    (t.DOUBLE, "identity", [1.5, float("nan"), None]),
    (t.STRING, "void", ["a", "b", None]),
]


@pytest.mark.parametrize(("kind", "transform", "values"), KINDS, ids=[f"{k}-{n}" for k, n, _ in KINDS])
def test_rows_of_any_type_find_their_partition(tmp_path: Path, kind: Any, transform: str, values: list[Any]) -> None:
    """Every type that can be partitioned by, null included: a file's partition is the transform of its rows."""
    schema = Schema((Field(1, "n", t.LONG), Field(2, "c", kind)))
    spec = PartitionSpec(1, (PartitionField(2, 1000, "c_part", Transform.parse(transform)),))
    count = 150_000 if kind == t.DOUBLE else 12  # more than a batch: NaN is one partition, not many
    data = [{"n": n, "c": values[n % 3]} for n in range(count)]
    metadata, group = typed_table(tmp_path / "t", schema, spec, data)
    result = rewrite_group(RewriteJob(LocalStorage(), metadata, UUID), group)
    expected = {repr((spec.fields[0].transform.apply(kind, value),)) for value in values}
    assert {repr(f.partition) for f in result.files} == expected
    assert sorted(row[0] for part in rows(result) for row in part) == list(range(count))
    assert len(result.files) == len(expected)


def test_every_type_can_be_written(tmp_path: Path) -> None:
    """All types of version 2, nested ones and required ones, come back with field ids."""
    inner = t.StructType((Field(21, "x", t.INT, required=True), Field(22, "y", t.STRING)))
    kinds = [t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.STRING, t.UUID]
    kinds += [t.BINARY, t.FixedType(3), t.DecimalType(5, 2), t.DecimalType(15, 2), t.DecimalType(38, 2), inner]
    kinds += [t.ListType(23, inner_of(30)), t.MapType(24, t.STRING, 25, inner_of(40), value_required=True)]
    fields = [Field(i + 1, f"c{i}", kind, required=kind == t.LONG) for i, kind in enumerate(kinds)]
    full = [True, 1, 2, 0.5, 1.5, 0, 0, 0, 0, "s", bytes(16), b"b", b"fix", Decimal("1.00"), Decimal("1.00")]
    full += [Decimal("1.00"), {"x": 1, "y": None}, [{"x": 1, "y": "y"}, None], [("k", {"x": 1, "y": None})]]
    row = dict(zip((f.name for f in fields), full, strict=True))
    empty = {f.name: 2 if f.required else None for f in fields}
    metadata, group = typed_table(tmp_path / "t", Schema(tuple(fields)), PartitionSpec(0), [row, empty])
    (file,) = rewrite_group(RewriteJob(LocalStorage(), metadata, UUID), group).files
    written = pq.ParquetFile(file.file_path)
    assert written.schema.to_arrow_schema().field("c2").nullable is False
    assert written.read().to_pylist()[1] == empty
    before = pq.ParquetFile(group.tasks[0].data_file.file_path).read().to_pylist()
    after = written.read().to_pylist()
    assert {**after[0], "c10": None} == {**before[0], "c10": None}
    physical = {
        written.schema.column(i).path: written.schema.column(i).physical_type for i in range(len(written.schema))
    }
    assert (physical["c13"], physical["c14"], physical["c15"]) == ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY")


def inner_of(first: int) -> t.StructType:
    return t.StructType((Field(first, "x", t.INT, required=True), Field(first + 1, "y", t.STRING)))
