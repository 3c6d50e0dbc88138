"""Which columns have a dictionary and how the others are encoded: as parquet-java 1.17 chose for such data."""

from __future__ import annotations

import io
import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemeta.parquet.footer import WriteOptions
from lakemeta.parquet.writer import ParquetWriter

ROWS = 3000
PICKS = random.Random(5)
UUIDS = [str(uuid.UUID(int=PICKS.getrandbits(128))) for _ in range(ROWS)]
FIELDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), list(range(ROWS))),
    "i": (pa.int32(), list(range(ROWS))),
    "low": (pa.int64(), [n % 7 for n in range(ROWS)]),
    "text": (pa.string(), UUIDS),
    "lows": (pa.string(), [f"p{n % 5}" for n in range(ROWS)]),
    "d": (pa.float64(), [n * 0.37 for n in range(ROWS)]),
    "b": (pa.bool_(), [n % 3 == 0 for n in range(ROWS)]),
    "d9": (pa.decimal128(9, 2), [Decimal(n) / 100 for n in range(ROWS)]),
    "d38": (pa.decimal128(38, 2), [Decimal(n) for n in range(ROWS)]),
    "l": (pa.list_(pa.field("element", pa.int64())), [[n, n * 3] if n % 9 else None for n in range(ROWS)]),
    "s": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": n % 7, "y": UUIDS[n]} for n in range(ROWS)]),
    "m": (pa.map_(pa.string(), pa.int64()), [[(UUIDS[n], n % 7)] for n in range(ROWS)]),
    "none": (pa.int64(), [None] * ROWS),
    "runs": (pa.int64(), [1 if n < ROWS // 2 else n for n in range(ROWS)]),
    "half": (pa.int64(), [n // 2 for n in range(ROWS)]),
    "most": (pa.int64(), [n if n % 20 else 0 for n in range(ROWS)]),
}
TABLE = pa.table({name: pa.array(values, kind) for name, (kind, values) in FIELDS.items()})
WITH_DICTIONARY = {"low", "lows", "s.x", "m.key_value.value", "runs", "half"}


def encodings(table: pa.Table = TABLE, **options: Any) -> dict[str, set[str]]:
    """Of each column: the encodings of its pages, levels left out."""
    sink = io.BytesIO()
    writer = ParquetWriter(sink, table.schema, WriteOptions(**options))
    writer.write(table)
    writer.close()
    assert pq.read_table(io.BytesIO(sink.getvalue())).equals(table)
    metadata = pq.read_metadata(io.BytesIO(sink.getvalue())).row_group(0)
    columns = [metadata.column(i) for i in range(metadata.num_columns)]
    return {c.path_in_schema: set(c.encodings) | {c.has_dictionary_page} for c in columns}


def test_a_dictionary_is_there_where_it_pays() -> None:
    """Nested leaves too; half of the values again is enough, a twentieth is not."""
    found = encodings()
    assert {path for path, used in found.items() if "RLE_DICTIONARY" in used} == WITH_DICTIONARY
    assert {path for path, used in found.items() if True in used} == WITH_DICTIONARY


def test_pages_of_version_2_have_delta_encodings() -> None:
    """Integers as packed differences, byte arrays by common prefixes; numbers with fractions stay plain."""
    found = encodings(page_version="2.0")
    delta = dict.fromkeys(("id", "i", "d9", "l.list.element", "most", "none"), "DELTA_BINARY_PACKED")
    delta |= dict.fromkeys(("text", "s.y", "m.key_value.key"), "DELTA_BYTE_ARRAY")
    assert {path for path, used in found.items() if "RLE_DICTIONARY" in used} == WITH_DICTIONARY | {"d38"}
    for path, encoding in delta.items():
        assert encoding in found[path], path
    assert {"PLAIN"} <= found["d"]
    assert {"RLE"} <= found["b"]


def test_columns_that_want_no_dictionary_have_the_other_encoding() -> None:
    """``plain_columns`` by their full names."""
    off = frozenset({"low", "s.x", "lows", "d38"})
    found = encodings(page_version="2.0", plain_columns=off)
    assert "DELTA_BINARY_PACKED" in found["low"] & found["s.x"]
    assert "DELTA_BYTE_ARRAY" in found["lows"] & found["d38"]
    assert not any("RLE_DICTIONARY" in encodings(plain_columns=off)[path] for path in off)


def test_the_first_page_decides() -> None:
    """Repetitions that come later do not matter, nor differences; a first page of nulls leaves it to later ones."""
    same, different = [7] * 2000, list(range(2000))
    table = pa.table({"a": different + same, "b": same + different, "c": [None] * 2000 + same})
    found = encodings(table, page_rows=1000)
    assert {path for path, used in found.items() if "RLE_DICTIONARY" in used} == {"b", "c"}


@pytest.mark.parametrize(("limit", "expected"), [(3999, False), (4000, True)])
def test_a_dictionary_that_its_first_page_outgrows_is_not_begun(limit: int, expected: bool) -> None:
    """Five hundred values of eight bytes."""
    table = pa.table({"a": [n % 500 for n in range(3000)]})
    assert ("RLE_DICTIONARY" in encodings(table, dictionary_bytes=limit)["a"]) == expected


def test_slices_decide_by_their_own_values() -> None:
    """Row groups are slices of larger tables, maps and lists too."""
    table = TABLE.slice(ROWS // 2)
    assert {p for p, used in encodings(table).items() if "RLE_DICTIONARY" in used} == WITH_DICTIONARY - {"runs"}


def test_long_values_fill_the_first_page() -> None:
    """The same text three thousand times does not pay if the first page has but a hundred different ones."""
    texts = [f"{n:05}" * 4000 for n in range(100)] + ["x" * 20_000] * 3000
    assert True not in encodings(pa.table({"t": texts}))["t"]
