"""Batches are bounded by bytes as Arrow holds them, whatever a file takes for its rows on disk."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemeta.parquet import reader as parquet_reader
from lakemeta.parquet.reader import open_parquet, read_batches

LIMIT = 256 * 1024  # bytes of a batch
VALUE = 16 * 1024  # bytes of a text


def file_of(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, **options)
    return out.getvalue()


def batches_of(data: bytes, **more: Any) -> list[pa.RecordBatch]:
    return list(read_batches(open_parquet(data, "f"), batch_bytes=LIMIT, **more))


ALIKE = pa.array(["x" * VALUE] * 300)
DIFFERENT = pa.array([f"{n:08}" * (VALUE // 8) for n in range(300)])
LISTS = pa.ListArray.from_arrays(pa.array(range(301), pa.int32()), ALIKE)


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False], ids=["sizes-told", "sizes-not-told"])
@pytest.mark.parametrize("encoding", [True, False, "DELTA_BYTE_ARRAY"], ids=str)
@pytest.mark.parametrize("column", [ALIKE, DIFFERENT, LISTS], ids=["alike", "different", "in-lists"])
@pytest.mark.parametrize("group", [300, 70, 3])
def test_large_rows_come_in_small_batches(
    column: Any, group: int, encoding: Any, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 rows of 16 KiB, also where a dictionary or shared beginnings hide them: no batch is twice its limit."""
    if not told:
        monkeypatch.setattr(parquet_reader, "_text_bytes", lambda chunk: None)
    table = pa.table({"id": range(300), "v": column})
    how: dict[str, Any] = {"use_dictionary": encoding is True}
    if isinstance(encoding, str):
        how["column_encoding"] = {"v" if column is not LISTS else "v.list.element": encoding}
    batches = batches_of(file_of(table, row_group_size=group, compression="zstd", **how))
    assert max(batch.nbytes for batch in batches) < 2 * LIMIT
    assert pa.Table.from_batches(batches).column("id").to_pylist() == list(range(300))
    assert pa.Table.from_batches(batches).column("v").combine_chunks().equals(column)


def test_ordinary_rows_come_in_large_batches() -> None:
    """Small row groups are read together; of the columns only those that are wanted count."""
    table = pa.table({"id": range(10_000), "city": ["lima", "oslo"] * 5_000, "v": ["x" * 1000] * 10_000})
    data = file_of(table, row_group_size=100)
    assert [b.num_rows for b in batches_of(data, columns=["id", "city"])] == [10_000]
    assert [b.num_rows for b in batches_of(data, columns=["id", "city"], batch_rows=4_000)] == [4_000, 4_000, 2_000]
    assert sum(b.num_rows for b in batches_of(data, columns=["id"], row_groups=[3, 7, 99])) == 300
    assert batches_of(data, row_groups=[]) == []


def test_large_row_groups_are_not_fetched_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read page by page, and the rows are the same."""
    monkeypatch.setattr(parquet_reader, "_BUFFERED", 1000)
    monkeypatch.setattr(parquet_reader, "_BUFFER", 4096)
    table = pa.table({"id": range(300), "v": DIFFERENT})
    data = file_of(
        table, row_group_size=100, use_dictionary=False, data_page_size=VALUE, write_batch_size=1, compression="none"
    )

    class Counting(io.BytesIO):
        most = 0

        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(size)
            self.most = max(self.most, len(found))
            return found

    source = Counting(data)
    batches = list(read_batches(open_parquet(source, "f"), batch_bytes=LIMIT))
    assert pa.Table.from_batches(batches).equals(table)
    assert source.most < len(data) // 10
