"""Where files are looked up changes no plan: the metadata table and storage say the same, or the plan says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hudi_mdt_cases import unpack_case

from lakemeta.errors import CorruptMetadataError, LakemetaError, OptionError
from lakemeta.hudi import HudiTable

NAMES = sorted(p.name.removesuffix(".tar.xz") for p in (Path(__file__).parent / "data/hudi_mdt").glob("*.tar.xz"))
OPTIONS = {"hoodie.clean.commits.retained": "1", "hoodie.clean.incremental.enabled": "false"}


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
