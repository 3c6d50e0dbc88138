"""Where files are looked up changes no plan: the metadata table and storage say the same, or the plan says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.executors import Cluster
from support.hudi_mdt_cases import unpack_case

from lakemeta.errors import CorruptMetadataError, LakemetaError, OptionError, StorageError, UnsupportedFeatureError
from lakemeta.executor import batched
from lakemeta.hudi import HudiTable
from lakemeta.hudi.metadata_table.files import FilesPartition, Piece, PieceReader
from lakemeta.hudi.metadata_table.merge import live_files

NAMES = sorted(p.name.removesuffix(".tar.xz") for p in (Path(__file__).parent / "data/hudi_mdt").glob("*.tar.xz"))
OPTIONS = {"hoodie.clean.commits.retained": "1", "hoodie.clean.incremental.enabled": "false"}


pieces = FilesPartition.pieces


def one_partition_a_piece(files: FilesPartition, partitions: Iterable[str]) -> Iterator[Piece]:
    """The pieces of a large table, of a small one."""
    return (piece._replace(keys=(key,)) for piece in pieces(files, partitions) for key in piece.keys)


def unpack(name: str, into: Path) -> HudiTable:
    """The recorded table with its data files as recorded: names and sizes, which is all that counts."""
    case = unpack_case(name, into)
    for partition, files in case.facts["listing_before"].items():
        folder = Path(case.root) / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").touch()
        for file, size in files.items():
            with (folder / file).open("wb") as data:
                data.truncate(size)
    return HudiTable.open(case.root)


@pytest.mark.parametrize("name", NAMES)
def test_both_listings_give_one_plan(name: str, tmp_path: Path) -> None:
    """Byte for byte the same plan, full or incremental."""
    table = unpack(name, tmp_path)
    for options in (OPTIONS, {**OPTIONS, "hoodie.clean.incremental.enabled": "true"}):
        plans = [
            table.plan_clean(options, explain=True, listing=way).dumps() for way in ("metadata", "storage", "auto")
        ]
        assert plans[0] == plans[1] == plans[2]


def test_a_damaged_metadata_table_falls_back_with_a_note(tmp_path: Path) -> None:
    """auto lists storage where the metadata table cannot be read, and says so; metadata refuses."""
    root = Path(unpack_case(NAMES[0], tmp_path).root)
    for file in root.glob(".hoodie/metadata/files/.files-*.log.*"):
        file.write_bytes(file.read_bytes()[:-40])
    for file in root.glob(".hoodie/metadata/files/*.hfile"):
        file.write_bytes(file.read_bytes()[:-4000])
    table = HudiTable.open(str(root))
    plan = table.plan_clean(OPTIONS)
    assert "storage was listed" in plan.header.facts["notes"][0]
    assert plan.operations == table.plan_clean(OPTIONS, listing="storage").operations
    with pytest.raises(LakemetaError):
        table.plan_clean(OPTIONS, listing="metadata")


@pytest.mark.parametrize("name", NAMES)
def test_a_record_that_cannot_be_read_falls_back_with_a_note(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it shows once other partitions have been planned: they are not in the plan twice."""
    table = unpack(name, tmp_path)
    storage = table.plan_clean(OPTIONS, explain=True, listing="storage")
    monkeypatch.setattr(FilesPartition, "pieces", one_partition_a_piece)
    assert table.plan_clean(OPTIONS, explain=True, listing="metadata").dumps() == storage.dumps()
    last = max(operation.partition for operation in storage.operations)

    def damaged(key: str, record: Any) -> dict[str, int]:
        if key == last:
            raise CorruptMetadataError("the last record is damaged")
        return live_files(key, record)

    monkeypatch.setattr("lakemeta.hudi.metadata_table.files.live_files", damaged)
    plan = table.plan_clean(OPTIONS, explain=True)
    assert plan.operations == storage.operations
    (note,) = plan.header.facts["notes"]
    assert note.endswith("because the metadata table cannot be used: the last record is damaged")
    with pytest.raises(CorruptMetadataError, match="the last record is damaged"):
        table.plan_clean(OPTIONS, listing="metadata")


def test_what_is_wrong_with_files_is_no_matter_of_the_metadata_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage would not be read otherwise, so there is nothing to fall back to."""
    table = unpack(NAMES[0], tmp_path)

    def refusing(*_: object) -> None:
        raise UnsupportedFeatureError("what lies there cannot be judged")

    monkeypatch.setattr("lakemeta.hudi.clean.metadata_listing.plan_files", refusing)
    with pytest.raises(UnsupportedFeatureError, match="cannot be judged"):
        table.plan_clean(OPTIONS)


class TryingTwice:
    """Stands for executors that do work again that storage has failed."""

    def map_batches(
        self, fn: Callable[[Sequence[Any]], Iterable[Any]], items: Iterable[Any], *, batch_size: int
    ) -> Iterator[Any]:
        for batch in batched(items, batch_size):
            try:
                yield from list(fn(batch))
            except StorageError:
                yield from list(fn(batch))


def test_storage_may_fail_once_where_executors_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing that cannot be read is worth another try; if that is of no use, storage is listed."""
    table = unpack(NAMES[0], tmp_path)
    expected = table.plan_clean(OPTIONS, listing="metadata")
    reads = 0

    def failing(times: int) -> Callable[[PieceReader, Piece], Any]:
        def read(reader: PieceReader, piece: Piece) -> Any:
            nonlocal reads
            reads += 1
            if reads <= times:
                raise StorageError("slow down")
            return whole(reader, piece)

        return read

    whole = PieceReader.read
    monkeypatch.setattr(PieceReader, "read", failing(1))
    assert table.plan_clean(OPTIONS, executor=TryingTwice()) == expected
    assert reads == 2
    monkeypatch.setattr(PieceReader, "read", failing(10))
    plan = table.plan_clean(OPTIONS, executor=TryingTwice())
    assert plan.operations == expected.operations
    assert plan.header.facts["notes"][0].endswith("cannot be used: slow down")
    with pytest.raises(StorageError, match="slow down"):
        table.plan_clean(OPTIONS, listing="metadata")


def test_a_listing_is_shipped_unless_it_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece is planned where the driver is; more go to the cluster, undecoded."""
    table = unpack(NAMES[0], tmp_path)
    cluster = Cluster()
    plan = table.plan_clean(OPTIONS, executor=cluster, listing="metadata")
    assert cluster.shipped == []
    monkeypatch.setattr(FilesPartition, "pieces", one_partition_a_piece)
    assert table.plan_clean(OPTIONS, executor=cluster, listing="metadata").dumps() == plan.dumps()
    assert cluster.shipped == [2]


def test_there_must_be_a_metadata_table_to_list_from(tmp_path: Path) -> None:
    """metadata on a table without one is an error, and an unknown way of listing too."""
    root = Path(unpack_case(NAMES[0], tmp_path).root)
    table = HudiTable.open(str(root))
    with pytest.raises(OptionError, match="give one of auto"):
        table.plan_clean(OPTIONS, listing="guess")
    properties = root / ".hoodie/hoodie.properties"
    kept = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.table.metadata")]
    properties.write_text("\n".join(kept) + "\n")
    with pytest.raises(CorruptMetadataError, match="no metadata table"):
        HudiTable.open(str(root)).plan_clean(OPTIONS, listing="metadata")
