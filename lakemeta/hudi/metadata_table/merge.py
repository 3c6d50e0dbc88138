"""Merging the layers of a slice into records, by the rules of each record type.

Base file first, then blocks in order. Types 1 and 2 (``files``) are united entry by entry: an entry that is
deleted takes away a live one, stays as a tombstone where there was none, and a size is the larger of old
and new. Of records of single files the newest counts. A DELETE block takes its keys away. Source:
HoodieMetadataPayload.preCombine and combineAndGetUpdateValue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.logs import BlockType
from lakemeta.hudi.metadata_table.hfile import HFile, open_hfile
from lakemeta.hudi.metadata_table.keys import FILE_SUFFIX_LENGTH
from lakemeta.hudi.metadata_table.records import RecordType, decode_deleted_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakemeta.hudi.files.logs import LogBlock

    Record = dict[str, Any]


@attrs.frozen(slots=True)
class Layer:
    """One step of a merge: entries to put on top, or keys to take away."""

    puts: HFile | None = None
    deleted_keys: tuple[str, ...] = ()


class RawRecord(NamedTuple):
    """A record that is not decoded yet: the file it is from and its bytes."""

    source: HFile
    value: bytes

    def decode(self) -> Record:
        """The record; raises CorruptMetadataError if it is damaged."""
        record: Record = avro.read_datum(self.source.schema, self.value, self.source.where)
        return record


def log_layers(blocks: Iterable[tuple[str, LogBlock]]) -> Iterator[Layer]:
    """The layers that log files put on a base file, from their counted blocks, each with the path of its file."""
    for path, block in blocks:
        where = f"{path}, block at byte {block.offset}"
        if block.type is BlockType.HFILE_DATA:
            yield Layer(open_hfile(block.content, where))
        elif block.type is BlockType.DELETE:
            yield Layer(None, tuple(decode_deleted_keys(block.content, where)))
        else:
            raise CorruptMetadataError(f"{where}: a {block.type.name} block does not belong into a metadata table")


def records_about_files(slice_layers: Iterable[Layer], suffixes: frozenset[str]) -> dict[str, RawRecord]:
    """Key -> newest record, undecoded, of the keys that end like one of ``suffixes`` (see keys.file_suffix).

    For types whose newest record counts. An index may have many millions of records: only the wanted are kept.
    """
    wanted = {suffix.encode() for suffix in suffixes}
    records: dict[bytes, RawRecord] = {}
    for layer in slice_layers:
        if layer.puts is not None:
            source = layer.puts
            for key, value in source.entries():
                if key[-FILE_SUFFIX_LENGTH:] in wanted:
                    records[key] = RawRecord(source, value)
        for key_text in layer.deleted_keys:
            records.pop(key_text.encode(), None)
    return {_text(key, record.source): record for key, record in records.items()}


def live_files(key: str, record: Record | None) -> dict[str, int]:
    """File name -> size in bytes, from the merged record of one partition in use.

    Raises CorruptMetadataError if there is none, or a live file has no size.
    """
    entries = entries_of(record, key, RecordType.FILES)
    live = {name: file["size"] for name, file in entries.items() if not file["isDeleted"]}
    if live and min(live.values()) <= 0:
        raise CorruptMetadataError(f"the metadata table has a file without size in partition {key!r}; rebuild it")
    return live


def entries_of(record: Record | None, key: str, kind: RecordType) -> dict[str, Any]:
    """Name -> entry of a record of the ``files`` partition, deleted ones too.

    Raises CorruptMetadataError if there is no such record, or it is of another type: what it lists would seem to be
    nothing.
    """
    if record is None or record["type"] != kind:
        found = "no record" if record is None else f"a record of type {record['type']}"
        raise CorruptMetadataError(f"the metadata table has {found} for {key!r} among those of files; rebuild it")
    return _entries(record)


def merge_two(older: Record, newer: Record, where: str) -> Record:
    """A record of the ``files`` partition with a newer one of the same key, which is from ``where``, on top."""
    if newer.get("type") != older.get("type"):
        raise CorruptMetadataError(
            f"{where} has a record of type {newer.get('type')} on top of one of type {older.get('type')}"
        )
    return {**newer, "filesystemMetadata": _unite_files(_entries(older), _entries(newer))}


def _entries(record: Record) -> dict[str, Any]:
    entries: dict[str, Any] = record.get("filesystemMetadata") or {}
    return entries


def _unite_files(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    united = dict(older)
    for name, entry in newer.items():
        before = united.get(name)
        if before is None:
            united[name] = entry
        elif not entry["isDeleted"]:
            united[name] = {"size": max(before["size"], entry["size"]), "isDeleted": False}
        elif before["isDeleted"]:
            united[name] = entry
        else:
            del united[name]
    return united


def _text(key: bytes, source: HFile) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise CorruptMetadataError(f"{source.where} has a key that is not UTF-8: {key!r}") from error
