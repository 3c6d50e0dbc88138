"""Which columns of a row group have a dictionary, and how the others are encoded: as parquet-java's writers decide.

The first page of a column chunk decides: its dictionary must not outgrow its limit, and with the encoded page take less
than the plain values (parquet-java's FallbackValuesWriter and DictionaryValuesWriter). Otherwise values are plain, or
of the DELTA encodings with pages of version 2 (DefaultV2ValuesWriterFactory). Sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.parquet.footer import Leaf, WriteOptions

_BOOLEAN, _INT32, _INT64, _BYTES, _FIXED = 0, 1, 2, 6, 7  # Type of parquet.thrift
_WIDTHS: Final = {_INT32: 4, _INT64: 8, 4: 4, 5: 8}
_DELTA: Final = {
    _INT32: "DELTA_BINARY_PACKED",
    _INT64: "DELTA_BINARY_PACKED",
    _BYTES: "DELTA_BYTE_ARRAY",
    _FIXED: "DELTA_BYTE_ARRAY",
}
_PAGE_BYTES: Final = 1024 * 1024
_PAGE_ROWS: Final = 20_000
_LEAST_ROWS: Final = 100  # rows before parquet-java first looks at a page's size
_DICTIONARY_BYTES: Final = 1024 * 1024
_LENGTH: Final = 4  # bytes before the bytes of a plain value of any length
_RUN: Final = 8  # equal values that are worth a run of their own


@attrs.frozen
class Encodings:
    """The choice for each row group of a file with these leaf columns."""

    leaves: Sequence[Leaf]
    options: WriteOptions

    def of(self, table: pa.Table) -> dict[str, Any]:
        """Pyarrow's settings ``use_dictionary`` and ``column_encoding`` for some of the file's top-level columns."""
        dictionaries, others = [], {}
        for name in table.column_names:
            leaves = [leaf for leaf in self.leaves if leaf.path[0] == name]
            for leaf, pays in zip(leaves, self._pay(table.column(name), leaves), strict=True):
                path = ".".join(leaf.path)
                if pays:
                    dictionaries.append(path)
                elif self._is_v2 and leaf.kind in _DELTA:
                    others[path] = _DELTA[leaf.kind]
        return {"use_dictionary": dictionaries, "column_encoding": others or None}

    @property
    def _is_v2(self) -> bool:
        return self.options.page_version != "1.0"

    def _pay(self, column: pa.ChunkedArray, leaves: Sequence[Leaf]) -> Iterator[bool]:
        """Of each leaf column, whether it has a dictionary."""
        page = self._first_rows(column)
        for leaf, values in zip(leaves, _leaf_values(page), strict=True):
            allowed = leaf.kind != _BOOLEAN and ".".join(leaf.path) not in self.options.plain_columns
            if allowed and not len(values):  # later pages decide, if there are any
                yield len(page) < len(column)
            else:
                yield allowed and self._pays(leaf, values)

    def _first_rows(self, column: pa.ChunkedArray) -> pa.Array:
        """At least the rows of the first page, and not many more."""
        row = max(1, column.nbytes // max(1, len(column)))
        rows = min(self.options.page_rows or _PAGE_ROWS, max(_LEAST_ROWS, 4 * self._page_bytes // row))
        return pa.chunked_array(column.slice(0, rows).chunks, column.type).combine_chunks()

    @property
    def _page_bytes(self) -> int:
        return self.options.page_bytes or _PAGE_BYTES

    def _pays(self, leaf: Leaf, values: pa.Array) -> bool:
        values = values.slice(0, self._fitting(leaf, values))
        encoded = values.dictionary_encode()
        limit = self.options.dictionary_bytes or _DICTIONARY_BYTES
        dictionary = _plain_bytes(leaf, encoded.dictionary)
        # In pages of version 2, parquet-java counts a length to values of a fixed length too.
        raw = _plain_bytes(leaf, values) + (_LENGTH * len(values) if self._is_v2 and leaf.kind == _FIXED else 0)
        return dictionary <= limit and dictionary + _encoded_bytes(encoded) < raw

    def _fitting(self, leaf: Leaf, values: pa.Array) -> int:
        """How many values fill a page, or all."""
        if leaf.kind != _BYTES:
            return max(_LEAST_ROWS, self._page_bytes // _width(leaf))
        ends = pc.cumulative_sum(pc.add(pc.binary_length(values).cast(pa.int64()), _LENGTH))
        fitting: int = pc.sum(pc.less(ends, self._page_bytes)).as_py() or 0
        return max(_LEAST_ROWS, fitting + 1)


def _leaf_values(array: pa.Array) -> Iterator[pa.Array]:
    """The values that are not null of each leaf of a column, depth first as in the schema."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    kind = array.type
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _leaf_values(pc.struct_field(array, [i]))
    elif pa.types.is_map(kind):
        start, end = (array.offsets[i].as_py() for i in (0, -1))
        for entries in (array.keys, array.items):
            yield from _leaf_values(entries.slice(start, end - start))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaf_values(array.flatten())
    else:
        yield array.drop_null()


def _width(leaf: Leaf) -> int:
    return _WIDTHS.get(leaf.kind) or leaf.length


def _plain_bytes(leaf: Leaf, values: pa.Array) -> int:
    if leaf.kind != _BYTES:
        return len(values) * _width(leaf)
    total: int = pc.sum(pc.binary_length(values)).as_py() or 0
    return total + _LENGTH * len(values)


def _encoded_bytes(encoded: pa.DictionaryArray) -> int:
    """What the indices take: their bit width in one byte, long runs as a number each, the rest packed."""
    bits = (len(encoded.dictionary) - 1).bit_length()
    ends = pc.run_end_encode(encoded.indices).run_ends
    lengths = pc.pairwise_diff(ends)
    first: int = ends[0].as_py()
    runs = pc.greater_equal(lengths, _RUN)
    count = (pc.sum(runs).as_py() or 0) + (first >= _RUN)
    inside = (pc.sum(pc.filter(lengths, runs)).as_py() or 0) + (first if first >= _RUN else 0)
    packed = len(encoded) - inside
    return 1 + (packed * bits + 7) // 8 + packed // 504 + count * (2 + (bits + 7) // 8)
