"""Expires of tables to which links lead."""

from __future__ import annotations

from lakemeta.iceberg.expire.unreferenced import Retained
from lakemeta.storage import LocalStorage


def test_one_file_by_two_ways(tmp_path):
    """What stays names a file by one way, what goes by another: it is one file, whichever of them has the link."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    one, other = f"{tmp_path}/disk/t/f", f"file:{tmp_path}/lake/t/f"
    for named, asked in ((one, other), (other, one)):
        retained = Retained(LocalStorage(), None)
        retained._add([named])
        assert retained.names(asked)
        assert not retained.names(asked + "x")
