"""Whether the Avro schema of a manifest or manifest list holds what its readers will take from it.

A file carries its own schema, so one changed letter in its header gives a field another name or type: the file is
whole then, and its deletes are read as data, or its numbers as text. Each schema is looked at once.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.avro_schemas import avro_record, manifest_entry_type, manifest_list_type
from lakemeta.iceberg.spec.types import StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAME: Final = {"int": "number", "long": "number", "float": "real", "double": "real"}
# Names by the format version from which every writer has them, as all engines have written them.
_LIST: Final = {
    1: ("manifest_path", "manifest_length", "partition_spec_id"),
    2: ("content", "sequence_number", "min_sequence_number"),
    3: ("first_row_id",),
}
_ENTRY: Final = {1: ("status", "snapshot_id", "data_file"), 2: ("sequence_number",)}
_FILE: Final = {1: ("file_path", "file_format", "partition", "record_count", "file_size_in_bytes"), 2: ("content",)}
_DELETES: Final = {2: ("equality_ids",), 3: ("referenced_data_file", "content_offset", "content_size_in_bytes")}
_NOT_NULL: Final = frozenset((*_LIST[1], "status", "data_file", *_FILE[1]))


def check_list_schema(schema: avro.Schema, names: dict[str, str], version: int, path: str) -> None:
    """Raise CorruptMetadataError if a manifest list lacks a field, or has one of another type.

    ``names`` are Iceberg's by those of the file: fields of lists are known by id.
    """
    renamed = {**schema, "fields": [{**f, "name": names.get(f["name"], "")} for f in schema["fields"]]}
    _raise_if(_wrong_list(json.dumps(renamed), version), path)


def check_entry_schema(schema: str, version: int, path: str, *, deletes: bool) -> None:
    """Raise CorruptMetadataError if a manifest lacks a field, or has one of another type; ``schema`` is JSON text."""
    _raise_if(_wrong_entry(schema, version, deletes), path)


def _raise_if(problem: str | None, path: str) -> None:
    if problem is not None:
        raise CorruptMetadataError(f"the Avro schema of {path} {problem}; restore that file")


@lru_cache(maxsize=256)
def _wrong_list(text: str, version: int) -> str | None:
    schema = avro.spelled_out(json.loads(text))
    found = _missing(schema, _since(_LIST, version))
    return found or next(_misfits(schema, avro_record("manifest_file", manifest_list_type(3)), ""), None)


@lru_cache(maxsize=256)
def _wrong_entry(text: str, version: int, deletes: bool) -> str | None:
    schema = avro.spelled_out(json.loads(text))
    entry = avro_record("manifest_entry", manifest_entry_type(3, StructType(())))
    found = _missing(schema, _since(_ENTRY, version)) or next(_misfits(schema, entry, ""), None)
    if found is not None:
        return found
    file = next(f["type"] for f in schema["fields"] if f["name"] == "data_file")
    return _missing(file, [*_since(_FILE, version), *(_since(_DELETES, version) if deletes else ())])


def _since(names: dict[int, tuple[str, ...]], version: int) -> list[str]:
    return [name for first, group in names.items() if first <= version for name in group]


def _missing(schema: avro.Schema, needed: list[str]) -> str | None:
    there = {field["name"] for field in schema["fields"]}
    missing = [name for name in needed if name not in there]
    return f"has no {missing[0]}" if missing else None


def _misfits(schema: Any, wanted: Any, name: str) -> Iterator[str]:
    """In words, where values of a schema, spelled out, are not of the types of another one."""
    branches = schema if isinstance(schema, list) else [schema]
    kinds = {_kind(branch): branch for branch in (wanted if isinstance(wanted, list) else [wanted])}
    for branch in branches:
        kind = _kind(branch)
        if kind == "null":
            if name in _NOT_NULL:
                yield f"lets {name} be null"
        elif kind not in kinds:
            yield f"says that {name or 'a record'} is of type {kind}"
        elif kind == "array":
            yield from _misfits(_part(branch, "items"), _part(kinds[kind], "items"), name)
        elif kind == "record":
            types = {field["name"]: field["type"] for field in kinds[kind]["fields"]}
            for field in branch["fields"]:
                if field["name"] in types:
                    yield from _misfits(field["type"], types[field["name"]], field["name"])


def _kind(schema: Any) -> str:
    while isinstance(schema, dict) and isinstance(schema["type"], dict):
        schema = schema["type"]
    kind = schema["type"] if isinstance(schema, dict) else schema
    return _SAME.get(kind, kind) if isinstance(kind, str) else "union"


def _part(schema: Any, key: str) -> Any:
    while key not in schema:
        schema = schema["type"]
    return schema[key]
