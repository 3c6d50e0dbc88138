"""Whole cleans of recorded tables with a metadata table: planned, executed, and read back from both sides."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from support.faults import Crash, FaultyStorage, HookedStorage, Stubborn
from support.hudi_cases import data_files
from support.hudi_mdt_cases import CASES, NOW_MS, MdtCase, content, lay_out, without_hudis_slips

from lakemeta.errors import CorruptMetadataError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.metadata_table.update import CleanedPartition
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakemeta.storage import Storage

OPTIONS = {
    "commits1": {"hoodie.clean.commits.retained": "1"},
    "commits2": {"hoodie.clean.commits.retained": "2"},
    "versions1": {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"},
}
ONE_OF_EACH_LAYOUT = ["1.2.0__mdt_cow__commits2", "0.15.0__mdt_cow__delpart_commits1"]


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> MdtCase:
    return lay_out(request.param, tmp_path)


class Meanwhile(HookedStorage):
    """Lets somebody ``act`` right before the first data files are deleted; keeps what was read before and after it."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(LocalStorage(), self._look)
        self.act, self.acted = act, False
        self.reads: dict[bool, list[str]] = {False: [], True: []}

    def _look(self, name: str, path: str) -> None:
        if name == "read":
            self.reads[self.acted].append(path)
        elif name == "delete_many" and not self.acted:
            self.acted = True
            self.act()


def options(case: MdtCase) -> dict[str, str]:
    kind = case.directory.name.rpartition("_")[2]
    return OPTIONS.get(kind, OPTIONS["commits2"])


def clean(case: MdtCase, storage: Storage | None = None) -> None:
    table = HudiTable.open(case.root)
    if storage is not None:
        table = attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))
    executor = LocalExecutor(threads=1)
    table.apply(table.plan_clean(options(case), executor=executor), executor=executor)


def assert_cleaned(case: MdtCase) -> None:
    listed = {f"{p}/{n}" if p else n for p, names in case.facts["listing_after"].items() for n in names}
    assert {name for name in data_files(case.root) if "_partition_metadata" not in name} == listed
    assert case.listing() == case.facts["listing_after"]
    assert content(case.open()) == without_hudis_slips(case, case.facts["mdt_after"], cleaned=True)


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_a_metadata_table_that_cannot_be_read_is_refused_before_anything_is_written(case: MdtCase) -> None:
    """A pending clean that nobody can execute would block the table; without its metadata table it is cleaned."""
    for base in Path(case.root).glob(".hoodie/metadata/files/*.hfile"):
        whole = base.read_bytes()
        base.write_bytes(whole[:60] + bytes([whole[60] ^ 8]) + whole[61:])
    before = {path: path.read_bytes() for path in Path(case.root).rglob("*") if path.is_file()}
    with pytest.raises(CorruptMetadataError, match=r"damaged at byte 0: .*: lakemeta clean .* --drop-metadata-table"):
        clean(case)
    assert {path: path.read_bytes() for path in Path(case.root).rglob("*") if path.is_file()} == before
    table = HudiTable.open(case.root)
    assert table.apply(table.plan_clean(options(case)), drop_metadata_table=True).deleted_files > 0


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_a_clean_keeps_both_tables_in_step(case: MdtCase) -> None:
    """The files left are the files listed, and every record of the metadata table is what the engine left."""
    clean(case)
    assert_cleaned(case)


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_what_could_not_be_deleted_goes_with_the_next_clean(case: MdtCase) -> None:
    """The metadata table does not list it any more, and the doctor does not take that for damage."""
    table, executor = HudiTable.open(case.root), LocalExecutor(threads=1)
    kept = next(f"{p.path}/{name}" for p in case.cleaned() for name in p.files if not p.dropped)
    failing = attrs.evolve(table, place=attrs.evolve(table.place, storage=Stubborn(kept)))
    assert not failing.apply(table.plan_clean(options(case), executor=executor), executor=executor).complete
    kinds = {finding.kind for finding in table.doctor(options(case), executor=executor)}
    assert "failed_deletions" in kinds
    assert not kinds & {"metadata_table_lacks", "metadata_table_lists_missing", "metadata_table_unusable"}
    plan = table.plan_clean(options(case), executor=executor)
    assert [(op.path, op.reason) for op in plan.deletes()] == [(kept, "failed_before")]
    assert table.apply(plan, executor=executor).deleted_files == 1
    assert not Path(case.root, kept).exists()
    assert case.listing() == case.facts["listing_after"]


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_the_completion_comes_after_the_metadata_tables(case: MdtCase) -> None:
    """From table version 8 on the clean completes later than its delta commit; both are at the same instant."""
    clean(case)
    table = case.open()
    done, told = table.data.cleans.completed.last, table.timeline.completed.of_actions("deltacommit").last
    assert done is not None
    assert told is not None
    assert done.requested == told.requested
    assert case.version < 8 or str(done.completion) > str(told.completion)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH_LAYOUT)
@pytest.mark.parametrize("when", ["before", "after", "half"])
def test_a_second_run_completes_a_crashed_clean(name: str, when: str, tmp_path: Path) -> None:
    """Whichever write a clean dies at, the next one finishes it and both tables say the same."""
    for at in count(1):
        case = lay_out(name, tmp_path / str(at))
        storage = FaultyStorage(LocalStorage(), at, when)
        try:
            clean(case, storage)
        except Crash:
            clean(case)
        assert_cleaned(case)
        if not storage.crashed:
            break
    assert at > 8


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_an_index_is_read_once(case: MdtCase) -> None:
    """What was read of the indexes before the deletes is not read again after them, if nobody wrote meanwhile."""
    storage = Meanwhile(lambda: None)
    clean(case, storage)
    assert_cleaned(case)
    index = f"{case.root}/.hoodie/metadata/column_stats/"
    assert any(path.startswith(index) for path in storage.reads[False])
    assert not any(path.startswith(index) for path in storage.reads[True])


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_what_another_writer_told_meanwhile_is_read(case: MdtCase) -> None:
    """A writer that tells the metadata table something while files are deleted loses nothing, nor does the clean."""
    partition, names = next((p, sorted(n)) for p, n in case.facts["listing_after"].items() if n)

    def another() -> None:
        table = case.open()
        pending = str(table.data.cleans.pending.last).partition(" ")[0]
        later = str(int(max(pending, table.newest_time)) + 1)
        table = attrs.evolve(table, data=table.data.completed)
        prepared = table.prepare_clean(later, [CleanedPartition(partition, names[:1])], NOW_MS)
        table.commit_clean(prepared, str(int(later) + 1) if case.version >= 8 else None)

    clean(case, Meanwhile(another))
    left = {p: set(n) for p, n in case.facts["listing_after"].items()}
    left[partition] -= set(names[:1])
    assert {p: set(n) for p, n in case.listing().items()} == left


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_an_index_that_is_dropped_meanwhile_stays_dropped(case: MdtCase) -> None:
    """A writer without an index's option drops the index at any moment; the clean writes nothing into it then."""
    properties = Path(case.root) / ".hoodie/hoodie.properties"
    index = Path(case.root) / ".hoodie/metadata/column_stats"

    def drop() -> None:
        kept = [
            "hoodie.table.metadata.partitions=files" if line.startswith("hoodie.table.metadata.partitions=") else line
            for line in properties.read_text().splitlines()
        ]
        properties.write_text("\n".join(kept) + "\n")
        shutil.rmtree(index)

    clean(case, Meanwhile(drop))
    assert not index.exists()
    assert case.listing() == case.facts["listing_after"]


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_a_partition_that_is_a_link_is_left_out(case: MdtCase, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The metadata table lists it as ever; nothing behind the link goes, and the plan says so."""
    table = HudiTable.open(case.root)
    partition = next(iter(table.plan_clean(options(case), listing="metadata").deletes())).partition
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "p"
    Path(case.root, partition).rename(elsewhere)
    Path(case.root, partition).symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    plan = table.plan_clean(options(case), listing="metadata")
    assert partition not in {op.partition for op in plan.operations}
    assert any(note.startswith(f"{partition} is a symbolic link") for note in plan.header.facts["notes"])
    clean(case)
    assert sorted(elsewhere.iterdir()) == before
