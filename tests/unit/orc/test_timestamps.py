"""Timestamps of any year in ORC files, which Arrow reads as nanoseconds or not at all."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from support.examples import examples

from lakemeta.errors import CorruptMetadataError, LakemetaError, UnsupportedFeatureError
from lakemeta.iceberg.rows.data_files import WHOLE, open_data_file
from lakemeta.orc import file as orc_file
from lakemeta.orc.file import OrcFile
from lakemeta.orc.integers import unsigned_integers

EPOCH = datetime(1970, 1, 1)
FAR = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1582, 10, 15, 0, 0, 0, 1)]
NEAR = [datetime(2017, 11, 16, 22, 31, 8, 1), datetime(1969, 12, 31, 23, 59, 57, 500_000), datetime(2015, 1, 1)]
# Before 1970, a part of a second above a millisecond takes its second down, in whoever reads or writes the file: the
# second just before 1970 is lost by writers.
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).filter(lambda t: abs(t - EPOCH) > timedelta(seconds=2))


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out, **options)
    return out.getvalue()


def read(data: bytes, columns: list[str]) -> pa.Table:
    opened = open_data_file("ORC", data, "f.orc")
    return pa.Table.from_batches(list(opened.read(columns, WHOLE)))


def micros(values: Any, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp("us", tz=zone))


@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "zstd", "snappy"])
def test_times_of_any_year_in_any_nest(codec: str, version: str) -> None:
    """Every codec and both encodings of integers; in structs, lists, maps; nulls anywhere; columns in any order."""
    times = [*FAR, None, *NEAR, None] * 50
    flat = micros(times)
    mask = pa.array([n % 7 == 3 for n in range(400)])
    struct = pa.StructArray.from_arrays([micros(times[::-1]), pa.array(range(400))], ["t", "n"], mask=mask)
    lists = pa.array([None if n % 5 == 0 else times[n : n + n % 4] for n in range(400)], pa.list_(pa.timestamp("us")))
    kind = pa.map_(pa.string(), pa.timestamp("us"))
    maps = pa.array([None if n % 3 == 0 else [("a", times[n]), ("b", None)][: n % 3] for n in range(400)], kind)
    table = pa.table(
        {"id": range(400), "z": micros(times, "UTC"), "t": flat, "s": struct, "l": lists, "m": maps, "x": ["x"] * 400}
    )
    data = written(table, compression=codec, file_version=version)
    for columns in (["id", "z", "t", "s", "l", "m", "x"], ["m", "t"], ["s"], ["l", "id"], ["x"]):
        found = read(data, columns)
        assert found.num_rows == 400
        for name in columns:
            assert found.column(name).to_pylist() == table.column(name).to_pylist(), name


@settings(max_examples=examples(60))
@given(st.lists(st.none() | TIMES | st.sampled_from(FAR), max_size=700), st.sampled_from(["0.11", "0.12"]))
def test_any_times_are_read_as_they_were_written(times: list[datetime | None], version: str) -> None:
    """One that Arrow cannot hold makes all of them come another way."""
    times.append(FAR[0])
    data = written(pa.table({"t": micros(times)}), file_version=version)
    assert read(data, ["t"]).column("t").to_pylist() == times


def test_what_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec that is not known here and a writer in another time zone are named with what to do; damage is damage."""
    data = written(pa.table({"t": micros(FAR)}))
    with pytest.raises(UnsupportedFeatureError, match=r"f\.orc .* time zone EST"):
        read(data.replace(b"GMT", b"EST"), ["t"])
    for wrong in (data[:-1] + b"\xff", data[:-3] + b"\0" * 3, data[:40]):
        with pytest.raises(CorruptMetadataError, match=r"f\.orc"):
            OrcFile.open(io.BytesIO(wrong), "f.orc")
    monkeypatch.setattr(orc_file, "_CODECS", ("none", "lz4"))
    with pytest.raises(UnsupportedFeatureError, match=r"f\.orc .* in lz4; rewrite"):
        read(written(pa.table({"t": micros(FAR * 200)}), compression="zlib"), ["t"])


@pytest.mark.parametrize(
    ("data", "version", "values"),
    [
        ("610007", 1, [7] * 100),
        ("61ff64", 1, list(range(100, 0, -1))),
        ("fb020304070b", 1, [2, 3, 4, 7, 11]),
        ("0a2710", 2, [10_000] * 5),
        ("5e035ca1ab1edeadbeef", 2, [23713, 43806, 57005, 48879]),
        ("c609020222424246", 2, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
        (
            "8e132b2107d01e001470283 23c46505a646e78828c96a0aab4befce8".replace(" ", ""),
            2,
            [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)],
        ),
    ],
)
def test_integers_as_the_specification_has_them(data: str, version: int, values: list[int]) -> None:
    """The examples of ORC's specification, whole and as the start of something; too few bytes are damage."""
    raw = bytes.fromhex(data)
    assert unsigned_integers(raw, len(values), version, "f") == values
    assert unsigned_integers(raw + raw, 2 * len(values), version, "f") == 2 * values
    with pytest.raises(CorruptMetadataError, match="a column ends"):
        unsigned_integers(raw[:-1], len(values), version, "f")


@settings(max_examples=examples(40))
@given(st.data())
def test_damage_is_an_error_of_ours(data: Any) -> None:
    """Whatever byte is another: the times, other times, or a sentence."""
    raw = bytearray(written(pa.table({"t": micros([*FAR, None] * 3), "l": [[FAR[0]]] * 12}), compression="zlib"))
    raw[data.draw(st.integers(3, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(LakemetaError):
        file = OrcFile.open(io.BytesIO(raw), "f.orc")
        for place, column in enumerate(file.kinds):
            if column == 9:
                unsigned_integers(file.stripe(0).stream(5, place), 12, 2, "f.orc")
