"""Which types of columns in files can be read as which types of a table (spec: "Schema Evolution", "Appendix A").

Arrow casts far more, such as numbers to text. But no column of a table can have been changed like that: then its id
was given to another column, and the values are not the column's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.spec.types import DecimalType, FixedType, ListType, MapType, StructType, Type

if TYPE_CHECKING:
    import pyarrow as pa

_INTS: Final = ("int8", "int16", "int32", "uint8", "uint16")  # imported files may have smaller ones than Java's
_BYTES: Final = ("binary", "large_binary", "binary_view")
# Arrow's names, without unit, zone and length. Files of other writers have times in milliseconds, or no mark of a zone;
# texts that are not marked as such; ORC has no type for times of the day, and byte strings of any length only.
_HELD: Final = {
    "boolean": ("bool",),
    "int": _INTS,
    "long": (*_INTS, "int64", "uint32"),
    "float": ("float",),
    "double": ("float", "double"),
    "date": ("date32",),
    "time": ("time32", "time64", "int64"),
    "timestamp": ("timestamp", "date32"),
    "timestamp_ns": ("timestamp", "date32"),
    "timestamptz": ("timestamp",),
    "timestamptz_ns": ("timestamp",),
    "string": ("string", "large_string", "string_view", *_BYTES),
    "binary": _BYTES,
    "unknown": (),
}
_UUID_BYTES: Final = 16


def may_become(held: pa.DataType, kind: Type) -> bool:
    """True if values that a file holds as ``held`` can be a table's of type ``kind``; of nested types, at the top."""
    text = str(held)
    if text.startswith("dictionary<"):
        return may_become(held.value_type, kind)
    if text.startswith("extension<"):  # uuid, json
        return may_become(held.storage_type, kind)
    name = text.partition("[")[0].partition("<")[0].partition("(")[0]
    if name == "null":
        return True
    if isinstance(kind, StructType):
        return name == "struct"
    if isinstance(kind, ListType):
        return name in ("list", "large_list")
    if isinstance(kind, MapType):
        return name == "map"
    if isinstance(kind, DecimalType):
        return name.startswith("decimal") and held.scale == kind.scale
    length = kind.length if isinstance(kind, FixedType) else _UUID_BYTES
    if isinstance(kind, FixedType) or kind.name == "uuid":
        return text == f"fixed_size_binary[{length}]" or name in _BYTES
    return kind.name not in _HELD or name in _HELD[kind.name]
