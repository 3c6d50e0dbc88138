"""Of what kind every field of a plan file is: a plan may have been edited by hand, and says what is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Json = Any
    Kind = tuple[str, Callable[[Json], bool]]

_LONG: Final = 2**63


def _is_text(value: Json) -> bool:
    return type(value) is str


def _is_number(value: Json) -> bool:
    return type(value) is int and 0 <= value < _LONG


def _is_texts(value: Json) -> bool:
    return type(value) is list and all(type(item) is str for item in value)


def _is_text_map(value: Json) -> bool:
    return type(value) is dict and all(type(item) is str for item in value.values())


def _is_blocks(value: Json) -> bool:
    return type(value) is list and all(type(row) is list and bool(row) and _is_texts(row) for row in value)


def _is_counts(value: Json) -> bool:
    names = {"clean": _is_text, "partition": _is_text, "files": _is_number, "bytes": _is_number}
    return type(value) is list and all(
        type(row) is dict and row.keys() == names.keys() and all(holds(row[name]) for name, holds in names.items())
        for row in value
    )


def _is_whole(value: Json) -> bool:
    return type(value) is int and -_LONG <= value < _LONG


_TEXT: Final[Kind] = ("a string", _is_text)
_NUMBER: Final[Kind] = ("a whole number", _is_number)
_WHOLE: Final[Kind] = ("a whole number", _is_whole)
_TEXTS: Final[Kind] = ("a list of strings", _is_texts)
_TEXT_MAP: Final[Kind] = ("an object of strings", _is_text_map)
_FLAG: Final[Kind] = ("true or false", lambda value: type(value) is bool)
_OBJECT: Final[Kind] = ("an object", lambda value: type(value) is dict)
_BLOCKS: Final[Kind] = ("a list of lists of strings", _is_blocks)
_COUNTS: Final[Kind] = ("a list of files and bytes by clean and partition", _is_counts)
_NULLABLE: Final = frozenset({"based_on", "earliest_to_retain", "earliest_action", "scope_reason", "table_uuid"})
_HEADER: Final[dict[str, Kind]] = {
    **dict.fromkeys(("plan", "table", "created_by", "based_on", "policy", "scope", "scope_reason"), _TEXT),
    **dict.fromkeys(("earliest_to_retain", "earliest_action", "last_completed_commit"), _TEXT),
    **dict.fromkeys(("timeline_digest", "table_uuid"), _TEXT),
    **dict.fromkeys(("savepoints", "failed_writes", "pending_cleans", "alive_writes", "notes"), _TEXTS),
    **dict.fromkeys(("options", "pending_rollbacks"), _TEXT_MAP),
    **dict.fromkeys(("table_format_version", "partitions", "now_ms", "table_bytes"), _NUMBER),
    **dict.fromkeys(("wholly_matching_files", "possibly_matching_files"), _NUMBER),
    "rollback_blocks": _BLOCKS,
    "pending_deletes": _COUNTS,
    "empty_clean": _FLAG,
}
_FILE: Final[dict[str, Kind]] = {**dict.fromkeys(("partition", "path", "reason", "by"), _TEXT), "size": _NUMBER}
_OPERATION: Final[dict[str, dict[str, Kind]]] = {
    "delete": _FILE,
    "keep": _FILE,
    "remove": _FILE,
    "delete_partition": _FILE,
    "rewrite": {
        **dict.fromkeys(("group", "spec_id", "bytes", "expected_outputs"), _NUMBER),
        **dict.fromkeys(("split_size", "max_output_size", "wholly_matching"), _NUMBER),
        **dict.fromkeys(("inputs", "deletes"), _TEXTS),
        "partition": _OBJECT,
    },
    "remove_ref": {**dict.fromkeys(("ref", "reason"), _TEXT), "snapshot_id": _WHOLE},
    "expire": {
        **dict.fromkeys(("snapshot_id", "timestamp_ms"), _WHOLE),
        **dict.fromkeys(("files", "bytes"), _NUMBER),
        **dict.fromkeys(("reason", "by"), _TEXT),
    },
    "remove_unused": {**dict.fromkeys(("kind", "reason"), _TEXT), "id": _WHOLE},
    "rewrite_manifests": {
        **dict.fromkeys(("spec_id", "bytes", "expected_outputs"), _NUMBER),
        "content": _TEXT,
        "inputs": _TEXTS,
    },
    "write_statistics": {"snapshot_id": _WHOLE, **dict.fromkeys(("kind", "reason"), _TEXT)},
}


def check_header(line: Mapping[str, Json]) -> None:
    """Raise CorruptMetadataError if a known key of the first line is of another kind than it should be."""
    for name, value in line.items():
        if name in _HEADER and not (value is None and name in _NULLABLE):
            _check("the plan's first line", name, value, _HEADER[name])


def check_operation(op: str, fields: Mapping[str, Json], number: int) -> None:
    """Raise CorruptMetadataError if a field of an operation line is of another kind than it should be."""
    kinds = _OPERATION[op]
    for name, value in fields.items():
        kind = kinds.get(name)
        if kind is not None and not kind[1](value):
            _check(f"line {number} of the plan", name, value, kind)


def _check(where: str, name: str, value: Json, kind: Kind) -> None:
    described, holds = kind
    if not holds(value):
        raise CorruptMetadataError(f"{where}: {name} is not {described}; make the plan again")
