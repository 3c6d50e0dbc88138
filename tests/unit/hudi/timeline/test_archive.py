"""The archived timeline in both forms."""

from __future__ import annotations

import io
import struct
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.logs import BlockType, HeaderKey, encode_block
from lakemeta.hudi.timeline.archive import (
    ArchivedInstant,
    LsmFile,
    manifest_files,
    newest_manifest,
    read_archived_lsm,
    read_archived_v6,
)

ENTRY = avro.schema_text(
    {
        "type": "record",
        "name": "HoodieArchivedMetaEntry",
        "fields": [
            {"name": "hoodieCommitMetadata", "type": ["null", {"type": "map", "values": "string"}]},
            *({"name": n, "type": ["null", "string"]} for n in ("commitTime", "actionType", "actionState")),
            {"name": "stateTransitionTime", "type": ["null", "string"]},
        ],
    }
)
NAME = ".commits_.archive.1_1-0-1"


def entry(time: str, state: str = "COMPLETED", **more: object) -> dict:
    return {
        "hoodieCommitMetadata": {"k": "v"},
        "commitTime": time,
        "actionType": "commit",
        "actionState": state,
        "stateTransitionTime": f"{time}9",
        **more,
    }


def block(*entries: dict) -> bytes:
    values = avro.write_data(ENTRY, entries)
    content = struct.pack(">ii", 3, len(values)) + b"".join(struct.pack(">i", len(v)) + v for v in values)
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: ENTRY}, content)


def parquet(*rows: tuple[str | None, str, str]) -> bytes:
    columns = zip(*rows, strict=True)
    names = ("instantTime", "completionTime", "action")
    table = pa.table({name: list(values) for name, values in zip(names, columns, strict=True)})
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def test_archive_files_of_version_6() -> None:
    """One entry a state, of several blocks and files, in order of time; other files are passed over."""
    first = block(entry("2", "REQUESTED"), entry("2")) + block(entry("1"))
    timeline = read_archived_v6([(NAME.replace(".1_", ".2_"), block(entry("3"))), (NAME, first), ("junk", b"junk")])
    assert [(i.requested, i.state) for i in timeline.instants] == [
        ("1", "COMPLETED"),
        ("2", "REQUESTED"),
        ("2", "COMPLETED"),
        ("3", "COMPLETED"),
    ]
    assert timeline.completion_times() == {"1": "19", "2": "29", "3": "39"}


def test_a_torn_block_is_skipped_and_told() -> None:
    """As Hudi reads it: what was archived whole counts."""
    timeline = read_archived_v6([(NAME, block(entry("1")) + block(entry("2"))[:-9])])
    assert [i.requested for i in timeline.instants] == ["1"]
    assert "torn block" in timeline.torn[0]


def test_an_entry_without_state_is_damage() -> None:
    """Entries say time, action and state."""
    with pytest.raises(CorruptMetadataError, match="no commitTime"):
        read_archived_v6([(NAME, block(entry("1", actionState=None)))])


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_damage_gives_no_other_error(at: int, flip: int) -> None:
    """One damaged byte in an archive file."""
    data = bytearray(block(entry("1"), entry("2")))
    data[at % len(data)] ^= flip
    with suppress(CorruptMetadataError):
        read_archived_v6([(NAME, bytes(data))])


def test_the_manifest_that_counts() -> None:
    """The one that _version_ names; the highest if there is no such file; none if nothing was archived."""
    names = ["manifest_9", "manifest_10", "x.parquet"]
    assert newest_manifest(b"9\n", names, "h") == "manifest_9"
    assert newest_manifest(None, names, "h") == "manifest_10"
    assert newest_manifest(None, ["x.parquet"], "h") is None
    for bad in (b"11", b"x", b""):
        with pytest.raises(CorruptMetadataError, match="h/_version_"):
            newest_manifest(bad, names, "h")


@pytest.mark.parametrize(
    "bad", [b"", b"[]", b'{"files":[{}]}', b'{"files":[{"fileName":"../x.parquet","fileLen":1}]}', b"\xff"]
)
def test_a_bad_manifest_is_refused(bad: bytes) -> None:
    """A manifest lists names of Parquet files in its own directory."""
    with pytest.raises(CorruptMetadataError, match="manifest_1"):
        manifest_files(bad, "manifest_1")


def test_parquet_files_of_version_8() -> None:
    """Every row is a completed instant."""
    data = parquet(("2", "3", "clean"), ("1", "2", "commit"))
    timeline = read_archived_lsm([(LsmFile("a.parquet", len(data)), data)])
    assert timeline.instants == (
        ArchivedInstant("1", "commit", "COMPLETED", "2"),
        ArchivedInstant("2", "clean", "COMPLETED", "3"),
    )
    assert timeline.completion_times() == {"1": "2", "2": "3"}


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:40] + bytes(40) + d[80:], lambda d: b"x" * len(d)])
def test_damaged_parquet_files_are_refused(damage: object) -> None:
    """Cut, overwritten, or no Parquet at all: never a shorter result."""
    data = parquet(*((str(i), str(i), "commit") for i in range(200)))
    assert callable(damage)
    with pytest.raises(CorruptMetadataError, match=r"a\.parquet"):
        read_archived_lsm([(LsmFile("a.parquet", len(data)), damage(data))])


def test_rows_without_times_are_refused() -> None:
    """An instant has a time, an action and a completion."""
    data = parquet((None, "1", "commit"))
    with pytest.raises(CorruptMetadataError, match="without instant"):
        read_archived_lsm([(LsmFile("a.parquet", len(data)), data)])
