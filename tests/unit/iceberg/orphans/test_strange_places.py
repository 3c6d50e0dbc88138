"""Removal of orphan files where a location leads elsewhere, and where nobody knows which version counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.iceberg_tables import SmallTable, create_table
from support.planted import NOW, age

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.iceberg import IcebergTable
from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """A table of old files."""
    table = create_table(LocalStorage(), str(tmp_path / "disk" / "t"), partitioned=True)
    table.append([(1, "a", 0.5)], [(2, "b", 0.5)])
    age(tmp_path)
    return table


def planned(url: str | Path, **options: str) -> Plan:
    return IcebergTable.open(str(url)).plan("remove-orphan-files", options, now=NOW)


@pytest.mark.parametrize("to", ["data", "../other"])
def test_a_location_behind_a_link_is_refused(small, to):
    """Whether it leads into the table, whose files have other names there, or to files of others."""
    Path(small.root, "link").symlink_to(to)
    with pytest.raises(OptionError, match="behind a symbolic link"):
        planned(small.root, location=f"{small.root}/link")


def test_a_version_behind_a_gap_refuses(small):
    """Readers of the hint stop at the gap, others take the newest: what only that names is no orphan."""
    folder = Path(small.root, "metadata")
    newest = max(int(path.name[1:].partition(".")[0]) for path in folder.glob("v*.metadata.json"))
    (folder / f"v{newest}.metadata.json").rename(folder / f"v{newest + 1}.metadata.json")
    (folder / "version-hint.text").write_text(str(newest - 1))
    with pytest.raises(UnsupportedFeatureError, match="versions missing between"):
        planned(small.root)
