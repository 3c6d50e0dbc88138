"""A table of version 9 that Hudi 1.2 took back to version 6: which log files of its metadata table count.

Version 8 and 9 name log files by their delta commit, version 6 by their slice. ``generate/hudi_leftovers.py`` records
it.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from support.hudi_mdt_records import listing

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.metadata_table.table import MetadataTable
from lakemeta.hudi.timeline.loading import load_config, load_timeline
from lakemeta.storage import LocalStorage

DATA = Path(__file__).parent / "data" / "hudi_downgraded" / "1.2.0"
OPTIONS = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
ALWAYS = {**OPTIONS, "hoodie.clean.trigger.max.commits": "0", "lakemeta.timeline.timezone": "UTC"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The table, laid out with data files of the right sizes."""
    with tarfile.open(DATA / "before.tar.xz") as archive:
        archive.extractall(tmp_path / "t", filter="data")
    for path, size in sizes().items():
        (tmp_path / "t" / path).parent.mkdir(parents=True, exist_ok=True)
        with (tmp_path / "t" / path).open("wb") as file:
            file.truncate(size)
    return tmp_path / "t"


def sizes() -> dict[str, int]:
    """The data files: path -> bytes."""
    found: dict[str, int] = json.loads((DATA / "case.json").read_text())["before"]
    return found


def metadata(root: Path) -> MetadataTable:
    storage, config = LocalStorage(), load_config(LocalStorage(), str(root))
    return MetadataTable.open(storage, str(root), config, load_timeline(storage, str(root), config))


def newest(root: Path) -> tuple[Path, str, str]:
    """The newest log file of the partition ``files``, the instant of its slice and that of an older one."""
    logs = sorted((root / ".hoodie/metadata/files").glob(".files*.log.*"), key=lambda p: (p.name.split("_")[1], p.name))
    slices = sorted({log.name.split("_")[1].partition(".")[0] for log in logs})
    return logs[-1], slices[-1], slices[-2]


def clean(root: Path, *, drop: bool = False) -> int:
    table, executor = HudiTable.open(str(root)), LocalExecutor(1)
    plan = table.plan_clean(ALWAYS, executor=executor)
    return table.apply(plan, executor=executor, drop_metadata_table=drop).deleted_files


def test_what_the_names_say_counts(root: Path) -> None:
    """As in the engine: log files from before the downgrade are merged into a base file, and older than it."""
    files = {path: size for path, size in sizes().items() if "_partition_metadata" not in path}
    assert {f"{p}/{n}": s for p, names in listing(metadata(root)).items() for n, s in names.items()} == files
    assert clean(root) > 0


def test_a_later_block_in_an_older_slice(root: Path) -> None:
    """By its name it is merged already, by its block it cannot be: refused, and cleaned without the metadata table."""
    log, at, older = newest(root)
    log.rename(log.with_name(log.name.replace(at, older).replace(".log.", ".log.9")))
    with pytest.raises(UnsupportedFeatureError, match=r"of an older slice, as a downgrade .* --drop-metadata-table"):
        clean(root)
    assert clean(root, drop=True) > 0
    assert not (root / ".hoodie/metadata").exists()


def test_a_slice_that_is_ahead_of_every_base_file(root: Path) -> None:
    """Named by its own delta commit, as in version 9: the slice that it would be has no base file."""
    log, at, _ = newest(root)
    (told,) = metadata(root).timeline.completed.of_actions("deltacommit").instants[-1:]
    log.rename(log.with_name(log.name.replace(at, told.requested)))
    with pytest.raises(UnsupportedFeatureError, match=r"without a base file, as a downgrade .* --drop-metadata-table"):
        clean(root)
    assert clean(root, drop=True) > 0
