"""The operations of a plan as an Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakemeta.plan_operations import operation_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.plan_operations import Operation

_TEXT, _NUMBER, _TEXTS = pa.string(), pa.int64(), pa.list_(pa.string())
_OF_FILES: Final = {"op": _TEXT, "partition": _TEXT, "path": _TEXT, "size": _NUMBER, "reason": _TEXT, "by": _TEXT}
_KINDS: Final[dict[type, pa.DataType]] = {str: _TEXT, int: _NUMBER, list: _TEXTS, tuple: _TEXTS}


def operations_table(operations: Iterable[Operation]) -> pa.Table:
    """A row for each operation; those of files always have the same columns, other kinds add theirs.

    The partition of a group is spelled ``a=1/b=x``.
    """
    rows = [_row(operation_to_json(op)) for op in operations]
    names = dict.fromkeys(name for row in rows for name in row)
    fields = {**_OF_FILES, **{name: _type(rows, name) for name in names if name not in _OF_FILES}}
    columns = [pa.array([row.get(name) for row in rows], kind) for name, kind in fields.items()]
    return pa.table(columns, names=list(fields))


def _row(fields: dict[str, Any]) -> dict[str, Any]:
    partition = fields.get("partition")
    if isinstance(partition, dict):
        return {**fields, "partition": "/".join(f"{name}={value}" for name, value in partition.items())}
    return fields


def _type(rows: list[dict[str, Any]], name: str) -> pa.DataType:
    return next((_KINDS[type(row[name])] for row in rows if row.get(name) is not None), _TEXT)
