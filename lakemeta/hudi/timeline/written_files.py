"""The data files that a completed commit says it has written, partition by partition.

A commit of a large table has write statistics of ten thousands of files. They are decoded one partition at a time, so
that whoever wants some of them stops early. Their map is in the order of a hash table: the first are any.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakemeta.avro.container import MAGIC, read_blocks, read_from, spelled_out
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.timeline.action_metadata import decode_commit
from lakemeta.unpack import reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import BytesIO

_FIELD: Final = "partitionToWriteStats"
_SPACE: Final = " \t\r\n"


class WrittenFile(NamedTuple):
    """A file of a commit: its partition, its name, and its size in bytes as recorded; None if it was not."""

    partition: str
    name: str
    size: int | None


def written_files(data: bytes, where: str) -> Iterator[WrittenFile]:
    """The files that a commit names in its write statistics; those of odd places, which no reader finds, are left out.

    Raises CorruptMetadataError for what cannot be decoded.
    """
    entries = _avro_entries(data, where) if data.startswith(MAGIC) else _json_entries(data)
    if entries is None:
        entries = decode_commit(data, where).write_stats.items()
    try:
        yield from (file for partition, stats in entries for file in _files(partition, stats))
    except (ValueError, RecursionError) as error:
        raise CorruptMetadataError(f"{where} is cut off or damaged: {error}; restore it or roll it back") from error


def _files(partition: object, stats: object) -> Iterator[WrittenFile]:
    if not isinstance(partition, str) or not isinstance(stats, list):
        return
    prefix = f"{partition}/" if partition else ""
    for stat in stats:
        path, size = (stat.get("path"), stat.get("fileSizeInBytes")) if isinstance(stat, dict) else (None, None)
        if isinstance(path, str) and path.startswith(prefix) and "/" not in (name := path[len(prefix) :]):
            yield WrittenFile(partition, name, size if isinstance(size, int) and size > 0 else None)


def _avro_entries(data: bytes, where: str) -> Iterable[tuple[Any, Any]] | None:
    """The entries of the map; None if it is not the record's first field, as a nullable map, in one block."""
    schema, blocks = read_blocks(data, where)
    first = spelled_out(schema)["fields"][:1]
    kind = first[0]["type"] if first and first[0]["name"] == _FIELD else None
    found = list(blocks)
    if not isinstance(kind, list) or len(found) != 1 or found[0][0] != 1:
        return None
    branch = next((n for n, one in enumerate(kind) if isinstance(one, dict) and one.get("type") == "map"), None)
    if branch is None:
        return None
    entry = {
        "type": "record",
        "name": "lakemeta_entry",
        "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": kind[branch]["values"]}],
    }
    return _map_entries(json.dumps(entry), reader(found[0][1], len(data)), branch, where)


def _map_entries(entry: str, stream: BytesIO, branch: int, where: str) -> Iterator[tuple[Any, Any]]:
    if read_from('"long"', stream, where) != branch:
        return
    while count := read_from('"long"', stream, where):
        if count < 0:  # the size of the block in bytes follows
            read_from('"long"', stream, where)
        for _ in range(abs(count)):
            found = read_from(entry, stream, where)
            yield found["key"], found["value"]


def _json_entries(data: bytes) -> Iterator[tuple[Any, Any]] | None:
    """The entries of the object; None if the text does not look as Hudi writes it."""
    text = data.decode("utf-8", "replace")
    at = text.find(f'"{_FIELD}"')
    if at < 0:
        return None
    at = _after(text, at + len(_FIELD) + 2)
    if text[at : at + 1] != ":" or text[(at := _after(text, at + 1)) : at + 1] != "{":
        return None
    return _object_entries(text, at + 1)


def _object_entries(text: str, at: int) -> Iterator[tuple[Any, Any]]:
    decode = json.JSONDecoder().raw_decode
    while (at := _after(text, at)) < len(text) and text[at] != "}":
        key, at = decode(text, at)
        at = _after(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"a colon is missing at character {at}")
        value, at = decode(text, _after(text, at + 1))
        yield key, value
        at = _after(text, at)
        at += text[at : at + 1] == ","


def _after(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at
