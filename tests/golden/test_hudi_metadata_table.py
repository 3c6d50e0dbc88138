"""The metadata table against recorded tables: what we read is what real Hudi reads, before and after a clean."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import attrs
import pytest
from support.faults import Crash, FaultyStorage
from support.hudi_mdt_cases import CASES, MdtCase, content, unpack_case, without_hudis_slips

from lakemeta.errors import CorruptMetadataError, LakemetaError, UnsupportedFeatureError
from lakemeta.hudi.files.logs import BlockType, HeaderKey, encode_block, read_blocks
from lakemeta.storage import LocalStorage

ONE_OF_EACH_LAYOUT = ["0.15.0__mdt_cow__delpart_commits1", "1.2.0__mdt_mor__commits2"]


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> MdtCase:
    return unpack_case(request.param, tmp_path)


all_cases = pytest.mark.parametrize("case", CASES, indirect=True)
both_layouts = pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)


@all_cases
def test_we_read_what_hudi_reads(case: MdtCase) -> None:
    """Every record that real Hudi reads, in every partition, and no other."""
    assert content(case.open()) == case.facts["mdt_before"]
    case.add_what_hudi_added()
    assert content(case.open()) == case.facts["mdt_after"]


@all_cases
def test_the_listing_is_the_directory_walk(case: MdtCase) -> None:
    """A metadata table lists exactly the files that are there."""
    assert case.listing() == case.facts["listing_before"]


@all_cases
def test_a_clean_leaves_what_hudi_leaves(case: MdtCase) -> None:
    """After our commit the content is that which real Hudi's own commit gave, its known slips aside."""
    case.request()
    case.clean()
    case.complete()
    assert content(case.open()) == without_hudis_slips(case, case.facts["mdt_after"], cleaned=True)
    assert case.listing() == case.facts["listing_after"]


@all_cases
def test_a_clean_writes_into_the_groups_hudi_writes_into(case: MdtCase) -> None:
    """The new files are named for the same groups, instants and numbers as real Hudi's, but for the write token."""
    case.request()
    prepared = case.open().prepare_clean(case.instant, case.cleaned(), 0)
    added = (p for p in (case.directory / "added").rglob("*") if ".log." in p.name)
    theirs = {f"{p.parent.name}/{p.name.rpartition('_')[0]}" for p in added}
    assert {file.path.rpartition("_")[0] for file in prepared.files} == theirs


@both_layouts
def test_a_clean_shows_only_once_the_data_table_completes_it(case: MdtCase) -> None:
    """Readers count a delta commit only when its instant is completed on the data timeline."""
    case.request()
    case.clean()
    assert case.listing() == case.facts["listing_before"]
    assert case.listing(assume_completed=case.instant) == case.facts["listing_after"]


@both_layouts
def test_preparing_writes_nothing_and_is_repeatable(case: MdtCase) -> None:
    """The same table and arguments give the same bytes, and nothing is written before the commit."""
    case.request()
    before = snapshot(case)
    first = case.open().prepare_clean(case.instant, case.cleaned(), 5)
    second = case.open().prepare_clean(case.instant, reversed(case.cleaned()), 5)
    assert [(f.path, f.content) for f in first.files] == [(f.path, f.content) for f in second.files]
    assert snapshot(case) == before


@pytest.mark.slow
@both_layouts
def test_a_crash_anywhere_leaves_a_table_that_a_second_run_completes(case: MdtCase) -> None:
    """Until the data table completes nothing has changed for readers, whenever the crash was; a rerun finishes."""
    case.request()
    whole = case.directory / "whole"
    shutil.copytree(case.root, whole)
    for at in count(1):
        shutil.rmtree(case.root)
        shutil.copytree(whole, case.root)
        storage = FaultyStorage(LocalStorage(), at, "half")
        try:
            case.clean(storage)
        except Crash:
            assert case.listing() == case.facts["listing_before"]
            case.clean()
        case.complete()
        assert content(case.open()) == without_hudis_slips(case, case.facts["mdt_after"], cleaned=True)
        if not storage.crashed:
            break
    assert at > 5


@both_layouts
def test_a_delta_commit_that_is_there_is_only_checked(case: MdtCase) -> None:
    """A clean that died after its delta commit finds it done and changes nothing."""
    case.request()
    case.clean()
    before = snapshot(case)
    case.clean()
    assert snapshot(case) == before


@both_layouts
def test_another_writers_pending_delta_commit_is_refused(case: MdtCase) -> None:
    """A pending delta commit at any other instant is another writer's: nothing may be written next to it."""
    timeline = Path(case.open().path) / case.open().config.timeline_folder
    (timeline / "20991231235959000.deltacommit.requested").write_bytes(b"")
    with pytest.raises(UnsupportedFeatureError, match="pending 20991231235959000 deltacommit"):
        case.open().prepare_clean(case.instant, case.cleaned(), 0)


@both_layouts
def test_a_pending_compaction_is_refused(case: MdtCase) -> None:
    """With a compaction pending the newest slice is in the making, so even reading is refused."""
    table = case.open()
    timeline = Path(table.path) / table.config.timeline_folder
    (timeline / "20991231235959000.compaction.requested").write_bytes(b"")
    with pytest.raises(UnsupportedFeatureError, match="pending action"):
        case.open()


@both_layouts
def test_a_foreign_file_group_is_refused(case: MdtCase) -> None:
    """A misplaced file group would change the number of groups by which keys are found."""
    directory = Path(case.open().path) / "files"
    (directory / ".expr-index-x-0000-0_20991231235959000.log.1_0-0-0").write_bytes(b"")
    with pytest.raises(UnsupportedFeatureError, match="expr-index-x-0000-0"):
        case.listing()


@both_layouts
def test_an_index_being_built_is_refused(case: MdtCase) -> None:
    """A writer must write every index in the making too, which we do not."""
    edit_properties(case, "hoodie.table.metadata.partitions.inflight=", "column_stats")
    with pytest.raises(UnsupportedFeatureError, match="building the index column_stats"):
        case.open().prepare_clean(case.instant, case.cleaned(), 0)


@both_layouts
def test_an_unknown_index_is_refused(case: MdtCase) -> None:
    """A partition of a kind we do not know may need records we cannot make."""
    edit_properties(case, "hoodie.table.metadata.partitions=", "vector_index,files")
    with pytest.raises(UnsupportedFeatureError, match="vector_index"):
        case.open()


def test_a_rollback_block_takes_back_what_came_before_it(tmp_path: Path) -> None:
    """Version 6: a rollback command drops the earlier blocks of its target, and only the earlier ones."""
    case = unpack_case("0.15.0__mdt_cow__commits2", tmp_path)
    directory = Path(case.open().path) / "files"
    last = max(directory.glob(".files-0000-0_*"), key=lambda p: int(p.name.split(".log.")[1].split("_")[0]))
    block = next(iter(read_blocks(last.read_bytes(), last.name)))
    command = {
        HeaderKey.INSTANT_TIME: block.instant_time,
        HeaderKey.TARGET_INSTANT_TIME: block.instant_time,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    rollback = encode_block(BlockType.COMMAND, command, b"")
    newer = last.with_name(".files-0000-0_00000000000000010.log.8_0-0-0")
    newer.write_bytes(rollback)
    added = {name for p in case.facts["listing_before"].values() for name in p if block.instant_time in name}
    left = {name for p in case.listing().values() for name in p}
    assert added
    assert not added & left
    newer.write_bytes(rollback + last.read_bytes())
    assert case.listing() == case.facts["listing_before"]


@both_layouts
def test_a_metadata_table_that_is_not_there_is_noticed(case: MdtCase) -> None:
    """The data table's properties name it, so somebody deleted it."""
    shutil.rmtree(case.open().path)
    with pytest.raises(CorruptMetadataError, match="is missing"):
        case.open()


@both_layouts
def test_a_partition_that_is_not_there_is_noticed(case: MdtCase) -> None:
    """The same for one index."""
    shutil.rmtree(Path(case.open().path) / "column_stats")
    with pytest.raises(CorruptMetadataError, match=r"no file group in .*column_stats"):
        case.open().prepare_clean(case.instant, case.cleaned(), 0)


@both_layouts
def test_without_a_delta_commit_to_go_by_nothing_is_written(case: MdtCase) -> None:
    """Schemas are taken from an earlier delta commit of the same table."""
    for path in Path(case.open().timeline_path).glob("*.deltacommit*"):
        path.unlink()
    with pytest.raises(UnsupportedFeatureError, match="no completed delta commit"):
        case.open().prepare_clean(case.instant, case.cleaned(), 0)


def test_a_shared_log_file_is_not_removed(tmp_path: Path) -> None:
    """Version 6: an unfinished delta commit may have appended to a file with blocks of others; that is Hudi's."""
    case = unpack_case("0.15.0__mdt_cow__commits2", tmp_path)
    case.request()
    table = case.open()
    last = Path(table.path, "files", table.slices("files")[0].log_files[-1].name)
    last.write_bytes(last.read_bytes() + encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: case.instant}, b""))
    Path(table.timeline_path, f"{case.instant}.deltacommit.requested").write_bytes(b"")
    with pytest.raises(UnsupportedFeatureError, match="and of others"):
        case.clean()


@both_layouts
def test_a_metadata_table_of_another_version_is_refused(case: MdtCase) -> None:
    """Data table and metadata table are upgraded together."""
    path = Path(case.open().path) / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text().replace("hoodie.table.version=", "hoodie.table.version=1"))
    with pytest.raises(UnsupportedFeatureError, match="let a Hudi writer upgrade both"):
        case.open()


@both_layouts
def test_a_damaged_file_is_named(case: MdtCase) -> None:
    """Whatever is cut or flipped in a file of the slice is an error that names the file."""
    update = case.open().prepare_clean(case.instant, case.cleaned(), 0).files[0]
    newest = Path(case.open().path, "files", update.slice.log_files[-1].name)
    whole = newest.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole[1:], b"junk"):
        newest.write_bytes(damaged)
        with pytest.raises(CorruptMetadataError, match=newest.name):
            case.listing()


@both_layouts
def test_a_result_that_is_not_what_was_meant_stops_the_clean(case: MdtCase) -> None:
    """The listing is read back after the commit: if it is another, the clean must not be completed.

    The next run finds a delta commit that says something else, and writes it again.
    """
    case.request()
    table = case.open()
    prepared = table.prepare_clean(case.instant, case.cleaned(), 0)
    other = table.prepare_clean(case.instant, case.cleaned()[:1], 0)
    with pytest.raises(LakemetaError, match=r"stays pending; .*: lakemeta clean .* --drop-metadata-table"):
        table.commit_clean(attrs.evolve(other, left=prepared.left), case.facts["completion"])
    case.open().commit_clean(prepared, case.facts["completion"])
    assert case.listing(case.instant) == case.facts["listing_after"]


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT[1:], indirect=True)
def test_a_metadata_table_without_a_timeline_is_damaged(case: MdtCase) -> None:
    """As a table without one is, and not a path that was not found."""
    shutil.rmtree(Path(case.open().timeline_path))
    with pytest.raises(
        CorruptMetadataError, match=r"metadata/\.hoodie/timeline is missing, so the table has no timeline"
    ):
        case.open()


def snapshot(case: MdtCase) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path(case.root).rglob("*") if p.is_file()}


def edit_properties(case: MdtCase, key: str, value: str) -> None:
    path = Path(case.root) / ".hoodie" / "hoodie.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(key)]
    path.write_text("\n".join([*lines, f"{key}{value}"]) + "\n")
