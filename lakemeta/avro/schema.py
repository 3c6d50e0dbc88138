"""Whether an Avro schema from a file may be decoded with: its shape is checked before any value is read.

The decoder is C code that trusts its schema: a type that contains itself overflows the stack, an array whose items
take no bytes holds as many as its count says, and one definition that names others twice, which name others twice,
unfolds without end. None of that is in the schemas of Hudi and Iceberg. Sizes are bytes of Avro's binary form.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

MAX_DEPTH: Final = 64  # types within types
MAX_PARTS: Final = 200_000  # types of one value, with every name replaced by what it stands for
_PRIMITIVES: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}


class SchemaShapeError(ValueError):
    """A schema that is none, or that no value may be decoded with; the message goes on from "its Avro schema"."""


@attrs.frozen(slots=True)
class Shape:
    """What values of a type are made of: ``least`` bytes, ``parts`` types, ``free`` of which take no bytes."""

    least: int
    parts: int
    free: int


def check_schema(schema: Any) -> Shape:
    """The shape of a schema, as parsed from JSON; raises SchemaShapeError."""
    return _Reader().shape(schema, "", 0)


class _Reader:
    """Goes through a schema once; ``known`` holds the named types, None for one that is still being read."""

    def __init__(self) -> None:
        self.known: dict[str, Shape | None] = {}

    def shape(self, schema: Any, namespace: str, depth: int) -> Shape:
        if depth > MAX_DEPTH:
            raise SchemaShapeError(f"is nested more than {MAX_DEPTH} deep")
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace, depth)
        if not isinstance(schema, dict):
            raise SchemaShapeError(f"has {_short(schema)} where a type should stand")
        kind = schema.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(schema, namespace, depth)
        if kind == "array":
            return self._array(schema, namespace, depth)
        if kind == "map":
            values = self.shape(schema.get("values"), namespace, depth + 1)
            return _limited(Shape(1, values.parts + 1, values.free))
        return self.shape(kind, namespace, depth + 1)

    def _named(self, name: str, namespace: str) -> Shape:
        if name in _PRIMITIVES:
            least = _PRIMITIVES[name]
            return Shape(least, 1, 0 if least else 1)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.known:
            raise SchemaShapeError(f"names a type {_short(name)} that it does not define")
        found = self.known[full]
        if found is None:
            raise SchemaShapeError(f"has a type {_short(name)} that contains itself")
        return found

    def _union(self, branches: list[Any], namespace: str, depth: int) -> Shape:
        if not branches:
            raise SchemaShapeError("has a union of no types")
        shapes = [self.shape(branch, namespace, depth + 1) for branch in branches]
        parts = sum(shape.parts for shape in shapes)
        # The byte that says which branch it is pays for one part, as for the null of what may be null.
        free = max(0, max(shape.free for shape in shapes) - 1)
        return _limited(Shape(1 + min(shape.least for shape in shapes), parts + 1, free))

    def _array(self, schema: dict[str, Any], namespace: str, depth: int) -> Shape:
        items = self.shape(schema.get("items"), namespace, depth + 1)
        # A map's items take the bytes of their keys.
        if not items.least:
            raise SchemaShapeError("has an array of items that take no bytes")
        return _limited(Shape(1, items.parts + 1, items.free))

    def _defined(self, schema: dict[str, Any], namespace: str, depth: int) -> Shape:
        name, space = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(space, str):
            raise SchemaShapeError(f"has a {schema['type']} without a name")
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.known:
            raise SchemaShapeError(f"defines {_short(name)} twice")
        self.known[full] = None
        inner = full.rpartition(".")[0]
        self.known[full] = shape = self._content(schema, inner, depth)
        return shape

    def _content(self, schema: dict[str, Any], namespace: str, depth: int) -> Shape:
        if schema["type"] == "fixed":
            return _fixed(schema.get("size"))
        if schema["type"] == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not symbols:
                raise SchemaShapeError("has an enum without symbols")
            return Shape(1, 1, 0)
        return self._record(schema.get("fields"), namespace, depth)

    def _record(self, fields: Any, namespace: str, depth: int) -> Shape:
        if not isinstance(fields, list):
            raise SchemaShapeError("has a record without a list of fields")
        names = [field.get("name") if isinstance(field, dict) else None for field in fields]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise SchemaShapeError("has a record with fields of no name or of one name")
        shapes = [self.shape(field.get("type"), namespace, depth + 1) for field in fields]
        least, parts, free = (sum(getattr(s, name) for s in shapes) for name in ("least", "parts", "free"))
        return _limited(Shape(least, parts + 1, free if least else free + 1))


def _fixed(size: Any) -> Shape:
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise SchemaShapeError(f"has a fixed of size {_short(size)}")
    return Shape(size, 1, 0 if size else 1)


def _limited(shape: Shape) -> Shape:
    if shape.parts > MAX_PARTS:
        raise SchemaShapeError(f"unfolds into more than {MAX_PARTS} types")
    if shape.free > 16 + 4 * shape.least:
        raise SchemaShapeError(f"has {shape.free} parts that take no bytes in values of {shape.least} bytes")
    return shape


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
