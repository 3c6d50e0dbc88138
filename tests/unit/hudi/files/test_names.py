from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.hudi.files.names import is_partition_metadata, parse_base_file, parse_log_file


@pytest.mark.parametrize(
    ("name", "file_id", "instant"),
    [
        ("abc-0_0-1-1_20260101000000000.parquet", "abc-0", "20260101000000000"),
        ("abc-0_0-1-1_20260101000000000.parquet.gz", "abc-0", "20260101000000000"),
        ("a_b_c_d.parquet", "a", "c"),
        ("part_1_x.snappy.parquet", "part", "x"),
    ],
)
def test_base_files(name: str, file_id: str, instant: str) -> None:
    """The group is what stands before the first underscore, the instant the third field up to the first dot."""
    base = parse_base_file(name, 5)
    assert base is not None
    assert (base.name, base.file_id, base.instant, base.size) == (name, file_id, instant, 5)


@pytest.mark.parametrize(
    "name", ["part-0000.parquet", "a_b.parquet", "a_b_c.orc", ".hoodie_partition_metadata.parquet"]
)
def test_no_base_files(name: str) -> None:
    """Too few fields, another format, and the partition metadata file in Parquet form."""
    assert parse_base_file(name, 0) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (".f-0_20260101000000000.log.1_0-1-1", ("f-0", "20260101000000000", 1, "0-1-1", False)),
        (".f-0_20260101000000000.log.12", ("f-0", "20260101000000000", 12, "", False)),
        (".f-0_20260101000000000.log.1_", ("f-0", "20260101000000000", 1, "", False)),
        (".f-0_20260101000000000.log.1_0-1-1.cdc", ("f-0", "20260101000000000", 1, "0-1-1", True)),
        (".f_g_20260101000000000.log.1_0-1-1", ("f_g", "20260101000000000", 1, "0-1-1", False)),
    ],
)
def test_log_files(name: str, expected: tuple[str, str, int, str, bool]) -> None:
    """Group, instant, version, write token and CDC; the group may hold underscores."""
    log = parse_log_file(name, 3)
    assert log is not None
    assert (log.file_id, log.instant, log.version, log.token, log.is_cdc) == expected


@pytest.mark.parametrize(
    "name",
    [
        "f-0_2026.log.1_0-1-1",
        ".f-0_2026.archive.1_0-1-1",
        ".f-0_2026.log.x",
        ".f-0_2026.log.1_0-1",
        ".f.log.1",
        ".hoodie_partition_metadata",
    ],
)
def test_no_log_files(name: str) -> None:
    """No dot before, an archive, no number, half a token, no instant."""
    assert parse_log_file(name, 0) is None


def test_order_of_log_files() -> None:
    """By instant, then version as a number, then token."""
    names = [".f_1.log.2_0-1-1", ".f_1.log.10_0-1-1", ".f_1.log.10_0-2-1", ".f_1.log.10_0-2-1.cdc", ".f_2.log.1_0-1-1"]
    logs = [parse_log_file(name, 0) for name in reversed(names)]
    assert [log.name for log in sorted(logs, key=lambda log: log.order)] == names


def test_partition_metadata() -> None:
    """It has the same name in every format."""
    assert is_partition_metadata(".hoodie_partition_metadata")
    assert is_partition_metadata(".hoodie_partition_metadata.parquet")
    assert not is_partition_metadata("x.hoodie_partition_metadata")


@given(st.text(max_size=40))
def test_any_name_is_at_most_one_kind(name: str) -> None:
    """No name makes us fail, and none is base and log file at once."""
    kinds = [parse_base_file(name, 0), parse_log_file(name, 0), is_partition_metadata(name) or None]
    assert sum(kind is not None for kind in kinds) <= 1
