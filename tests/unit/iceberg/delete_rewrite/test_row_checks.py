"""New deletes that would delete other rows are not committed, and work may be done elsewhere."""

from __future__ import annotations

import pickle

import attrs
import pyarrow as pa
import pytest
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.executor import batched
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.delete_rewrite import equality, unit_writer, writers
from lakemeta.iceberg.spec.partitioning import PartitionSpec
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage

SERVICES = {"rewrite-position-deletes": {"rewrite-all": "true"}, "convert-equality-deletes": {}}


def make(tmp_path, version: int) -> SmallTable:
    table = create_table(LocalStorage(), str(tmp_path / "t"), version=version)
    table.append([(i, "a", 0.5) for i in range(9)], [(10 + i, "a", 0.5) for i in range(9)])
    if version == 2:
        table.delete_positions(table.data_files()[0], [1, 3])
        table.delete_positions(table.data_files()[1], [0], scoped=False)
    table.delete_ids(5, 12, 13)
    return table


def opened(small: SmallTable) -> IcebergTable:
    return IcebergTable(Place(small.root, small.operations))


def new_files(small: SmallTable) -> list[str]:
    return [entry.path for entry in small.storage.walk(small.root) if "-deletes." in entry.path]


def lose_a_row(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def shift_a_row(rows: pa.Table) -> pa.Table:
    return rows.set_column(1, rows.schema.field(1), [pa.array([n + 1 for n in rows.column(1).to_pylist()])])


@pytest.mark.parametrize("damage", [lose_a_row, shift_a_row])
@pytest.mark.parametrize("service", SERVICES)
def test_a_writer_that_loses_rows_is_found_out(tmp_path, monkeypatch, service, damage) -> None:
    """A row less, or another row: the comparison by data file stops the commit, and no file stays."""
    small = make(tmp_path, 2)
    write = writers.PositionDeleteWriter.write
    monkeypatch.setattr(writers.PositionDeleteWriter, "write", lambda self, rows: write(self, damage(rows)))
    before = small.metadata
    with pytest.raises(CorruptMetadataError, match=r"rows of .* are deleted, and .* nothing was committed"):
        opened(small).apply(opened(small).plan(service, SERVICES[service]))
    assert small.metadata == before
    assert not new_files(small)


def test_a_vector_that_lacks_rows_is_found_out(tmp_path, monkeypatch) -> None:
    """The same for deletion vectors, also where the entry says how many rows the blob has."""
    small = make(tmp_path, 3)
    encode = writers.encode_vector
    monkeypatch.setattr(writers, "encode_vector", lambda rows: encode(rows.slice(1)))
    before = small.metadata
    with pytest.raises(CorruptMetadataError, match=r"names [01] rows"):
        opened(small).apply(opened(small).plan("convert-equality-deletes"))
    assert small.metadata == before
    assert not new_files(small)


def test_keys_that_do_not_fit_are_refused(tmp_path, monkeypatch) -> None:
    """Equality deletes larger than the memory for them: one sentence, and nothing is changed."""
    small = make(tmp_path, 2)
    cache = equality.EqualityDeleteCache
    monkeypatch.setattr(
        equality, "EqualityDeleteCache", lambda tasks, metadata, store, _: cache(tasks, metadata, store, 1)
    )
    with pytest.raises(UnsupportedFeatureError, match="more memory"):
        opened(small).apply(opened(small).plan("convert-equality-deletes"))
    assert not new_files(small)


class Shipping:
    """Ships every function, batch and result as a distant executor does."""

    def map_batches(self, fn, items, *, batch_size):
        shipped = pickle.dumps(fn)
        for batch in batched(items, batch_size):
            results = list(pickle.loads(shipped)(pickle.loads(pickle.dumps(batch))))
            yield from pickle.loads(pickle.dumps(results))


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("service", SERVICES)
def test_work_can_be_shipped(tmp_path, service, version) -> None:
    """Plans are the same bytes and rows the same where nothing is shared."""
    small = make(tmp_path, version)
    rows, table = TableState.local(small.root).rows(), opened(small)
    plan = table.plan(service, SERVICES[service], executor=Shipping())
    assert plan.dumps() == table.plan(service, SERVICES[service]).dumps()
    table.apply(plan, executor=Shipping())
    assert TableState.local(small.root).rows() == rows


@pytest.mark.parametrize("service", SERVICES)
def test_partitions_that_are_not_understood_are_left_alone(tmp_path, service) -> None:
    """No new deletes in a partition spec with an unknown transform; dropped columns are fine."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    small.append([(i, "a", 0.5) for i in range(5)])
    small.delete_positions(small.data_files()[0], [1])
    small.delete_ids(3, partition=("a",))
    base = small.operations.refresh()
    spec = base.metadata.partition_specs[0]
    weird = attrs.evolve(
        spec, fields=tuple(attrs.evolve(f, transform=Transform.parse("weird[3]")) for f in spec.fields)
    )
    plain = PartitionSpec(1)
    small.operations.commit(base, attrs.evolve(base.metadata, partition_specs=(weird, plain), default_spec_id=1))
    with pytest.raises(UnsupportedFeatureError, match="which is not known"):
        opened(small).apply(opened(small).plan(service, SERVICES[service]))
    base = small.operations.refresh()
    columns = attrs.evolve(base.metadata.schema, schema_id=1, fields=base.metadata.schema.fields[::2])
    changed = attrs.evolve(base.metadata, partition_specs=(spec, plain), schemas=(base.metadata.schema, columns))
    small.operations.commit(base, attrs.evolve(changed, current_schema_id=1))
    rows = TableState.local(small.root).rows()
    opened(small).apply(opened(small).plan(service, SERVICES[service]))
    assert TableState.local(small.root).rows() == rows


class Interrupting(WrappedStorage):
    """Ctrl-C just before, or just after, the version file with a commit is written."""

    def __init__(self, inner, after: bool) -> None:
        super().__init__(inner)
        self.after = after

    def create(self, path, data) -> None:
        interrupted = path.endswith(".metadata.json")
        if self.after or not interrupted:
            self.inner.create(path, data)
        if interrupted:
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("service", SERVICES)
def test_an_interrupted_commit_keeps_its_files(tmp_path, service, after) -> None:
    """It may have happened: no new file is removed, the table is whole, and the next run names what is left."""
    small = make(tmp_path, 2)
    rows, plan = TableState.local(small.root).rows(), opened(small).plan(service, SERVICES[service])
    storage = Interrupting(small.storage, after)
    with pytest.raises(KeyboardInterrupt):
        IcebergTable(Place(small.root, HadoopTableOperations(storage, small.root))).apply(plan)
    state = TableState.local(small.root)
    assert state.rows() == rows
    assert not state.lost
    assert new_files(small)
    report = opened(small).apply(opened(small).plan(service, SERVICES[service]))
    assert TableState.local(small.root).rows() == rows
    assert bool(report.notes) != after


def test_an_interrupted_unit_leaves_nothing(tmp_path, monkeypatch) -> None:
    """Ctrl-C while deletes are written: their files are removed."""
    small = make(tmp_path, 2)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(unit_writer, "check_same_rows", interrupt)
    with pytest.raises(KeyboardInterrupt):
        opened(small).apply(opened(small).plan("rewrite-position-deletes", {"rewrite-all": "true"}))
    assert not new_files(small)
