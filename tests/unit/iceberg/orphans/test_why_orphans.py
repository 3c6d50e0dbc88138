"""One sentence on a file that remove-orphan-files would take or leave: the same as its plan says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import attrs
import pytest
from support.iceberg_expire import change
from support.iceberg_tables import SmallTable, create_table
from support.planted import NOW, age

from lakemeta.errors import OptionError
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import LocalStorage

OTHER = b'{"format-version": 2, "table-uuid": "00000000-0000-0000-0000-00000000abcd"}'


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """A table of old files with strange ones among them."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    table.append([(1, "a", 0.5)], [(2, "b", 0.5)])
    job = attrs.evolve(table.head, summary={**table.head.summary, "flink.job-id": "job7"})
    change(table, lambda metadata: attrs.evolve(metadata, snapshots=(job,)))
    for name in ("data/orphan", "data/_hidden/x", "data/.lakemeta-quarantine/x", "data/job7-1", "data/young"):
        path = Path(table.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"xx")
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "x").write_bytes(b"x")
    Path(table.root, "data", "link").symlink_to(tmp_path / "away")
    age(tmp_path)
    os.utime(Path(table.root, "data/young"), (NOW.timestamp(), NOW.timestamp()))
    return table


def why(small: SmallTable, path: str, **options: str) -> str:
    return IcebergTable.open(small.root).why(path, options, service="remove-orphan-files", now=NOW)


def test_as_the_plan_says(small):
    """Every file below the table: what the plan takes would be deleted, and each other has a reason to stay."""
    taken = {op.path for op in IcebergTable.open(small.root).plan("remove-orphan-files", now=NOW).deletes()}
    below = [str(path.relative_to(small.root)) for path in Path(small.root).rglob("*") if path.is_file()]
    for path in [*below, "data/link/x"]:
        sentence = why(small, path)
        assert ("would be deleted as an orphan: no metadata" in sentence) == (path in taken), sentence
        assert ("stays: " in sentence) == (path not in taken)
    assert taken == {"data/orphan", "metadata/v2.metadata.json"}  # of which the version after keeps no log


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("data/_hidden/x", "its name, or that of a directory on the way, is hidden"),
        ("data/.lakemeta-quarantine/x", "is hidden"),
        ("data/link/x", "it lies behind a symbolic link"),
        ("data/job7-1", "it may be of a running Flink job"),
        ("data/young", "it was changed .* and only files from before .* go"),
        ("metadata/version-hint.text", "metadata of the table names it"),
        ("metadata/v1.metadata.json", "metadata of the table names it"),
        ("/elsewhere/x", "it lies in no directory that is looked at"),
    ],
)
def test_why_it_stays(small, path, reason):
    """The reason is the rule that the search has for it."""
    assert re.search(rf"stays: .*{reason}", why(small, path))


def test_options_count(small):
    """A cutoff, and another table in the same directory that refuses, or was dropped."""
    assert "stays: it was changed" in why(small, "data/orphan", older_than="1971-01-01T00:00:00Z")
    Path(small.root, "data", "v1.metadata.json").write_bytes(OTHER)
    Path(small.root, "data", "metadata").mkdir()
    Path(small.root, "data", "metadata", "v1.metadata.json").write_bytes(OTHER)
    assert "stays: no orphan file goes at all: another table lies where" in why(small, "data/orphan")
    dropped = {"foreign-uuid": "00000000-0000-0000-0000-00000000abcd"}
    assert "would be deleted" in why(small, "data/orphan", **dropped)
    with pytest.raises(OptionError, match="there is no file"):
        why(small, "data/none")
