"""Records of the metadata table: HoodieMetadataRecord values and the content of DELETE blocks.

The record schema differs between releases, so none is built in: every block and HFile carries the one it
was written with, and new records are written with the newest of the table itself. In a value the field
``key`` is empty; the key is that of the HFile. Sources: HoodieMetadata.avsc, HoodieMetadataPayload,
HoodieDeleteBlock.
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Record = Mapping[str, Any]

_DELETE_BLOCK_VERSION: Final = 3
_INTS: Final = struct.Struct(">ii")
_NAMESPACE: Final = "org.apache.hudi.avro.model"
_WRAPPED: Final = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": "string",
    "DateWrapper": "int",
    "DecimalWrapper": "bytes",
    "TimeMicrosWrapper": "long",
    "TimestampMicrosWrapper": "long",
}
_STRING: Final = ["null", "string"]
_STRING_BRANCH: Final = 1
_INT_WRAPPER_BRANCH: Final = 1 + list(_WRAPPED).index("IntWrapper")  # null comes first


class RecordType(IntEnum):
    """The ``type`` field of a record (MetadataPartitionType.getRecordType)."""

    ALL_PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTERS = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": k, "type": v} for k, v in fields.items()]}


def _delete_list_schema() -> str:
    wrappers = [_record(name, value=kind) for name, kind in _WRAPPED.items()]
    deletion = _record("HoodieDeleteRecord", recordKey=_STRING, partitionPath=_STRING, orderingVal=["null", *wrappers])
    listed = _record("HoodieDeleteRecordList", deleteRecordList={"type": "array", "items": deletion})
    return avro.schema_text({**listed, "namespace": _NAMESPACE})


_DELETE_LIST: Final = _delete_list_schema()


def decode_deleted_keys(content: bytes, where: str) -> list[str]:
    """The record keys of a DELETE block's content."""
    if len(content) < _INTS.size:
        raise CorruptMetadataError(f"{where}: the content of a DELETE block is cut off")
    version, length = _INTS.unpack_from(content)
    if version != _DELETE_BLOCK_VERSION:
        raise UnsupportedFeatureError(f"{where} has a DELETE block of version {version}; lakemeta reads version 3")
    if length != len(content) - _INTS.size:
        raise CorruptMetadataError(f"{where}: a DELETE block says {length} bytes and has {len(content) - _INTS.size}")
    deletions = avro.read_datum(_DELETE_LIST, content[_INTS.size :], where)["deleteRecordList"]
    keys = [deletion["recordKey"] for deletion in deletions]
    if None in keys:
        raise CorruptMetadataError(f"{where}: a DELETE block deletes a record without key")
    return keys


def encode_deleted_keys(partition: str, keys: Iterable[str]) -> bytes:
    """The content of a DELETE block of a metadata partition, as HoodieBackedTableMetadataWriter's come out.

    Written by hand, for a clean may delete millions of keys: fastavro takes ten times as long.
    """
    rest = _branch(_STRING_BRANCH, _string(partition)) + _branch(_INT_WRAPPER_BRANCH, avro.encode_long(0))
    deletions = [_branch(_STRING_BRANCH, _string(key)) + rest for key in keys]
    listed = [avro.encode_long(len(deletions)), *deletions] if deletions else []
    body = b"".join([*listed, b"\0"])
    return _INTS.pack(_DELETE_BLOCK_VERSION, len(body)) + body


def _branch(number: int, value: bytes) -> bytes:
    return avro.encode_long(number) + value


def _string(text: str) -> bytes:
    raw = text.encode()
    return avro.encode_long(len(raw)) + raw


@attrs.frozen
class RecordSchema:
    """The Avro schema (JSON) that new records are written with."""

    text: str

    @property
    def deletes_by_key(self) -> bool:
        """True if this is the schema of Hudi 1.x, whose writers delete index records with DELETE blocks.

        Older ones write the record again with ``isDeleted`` set. The field ``isTightBound`` came with 1.0.
        """
        return '"isTightBound"' in self.text

    def encode(self, records: Sequence[Record]) -> list[bytes]:
        """The values of whole records, whose unset fields are null; ``key`` is left empty."""
        return avro.write_data(self.text, [{**record, "key": ""} for record in records])

    def encode_files(self, record_type: RecordType, files: Iterable[tuple[str, int, bool]]) -> bytes:
        """The value of a ``files`` record with the given (name, size in bytes, deleted) entries.

        Raises UnsupportedFeatureError if the schema has a field that this lakemeta cannot leave empty.
        """
        parts = [self._empty_field(field, record_type, files) for field in json.loads(self.text)["fields"]]
        return b"".join(parts)

    def _empty_field(
        self, field: Mapping[str, Any], record_type: RecordType, files: Iterable[tuple[str, int, bool]]
    ) -> bytes:
        name, kind = field["name"], field["type"]
        if name == "key":
            return b"\0"
        if name == "type":
            return avro.write_datum('"int"', int(record_type))
        if not isinstance(kind, list) or "null" not in kind:
            raise UnsupportedFeatureError(
                f"the metadata table's records have a field {name} that may not be null; use a newer lakemeta"
            )
        if name == "filesystemMetadata":
            branch = next(i for i, b in enumerate(kind) if isinstance(b, dict) and b.get("type") == "map")
            return avro.encode_long(branch) + _file_map(files)
        return avro.encode_long(kind.index("null"))


def check_lists_files(schema: str, where: str) -> None:
    """Raise CorruptMetadataError unless records of this Avro schema (JSON) can say which files a partition has."""
    try:
        fields = {field["name"]: field["type"] for field in parse_json(schema)["fields"]}
        (entries,) = (branch["values"] for branch in fields["filesystemMetadata"] if branch != "null")
        kinds = {field["name"]: field["type"] for field in entries["fields"]}
        lists_files = (fields["type"], kinds["size"], kinds["isDeleted"]) == ("int", "long", "boolean")
    except (ValueError, KeyError, TypeError):
        lists_files = False
    if not lists_files:
        raise CorruptMetadataError(f"{where} is damaged: the schema of its records is none that lists files")


def _file_map(files: Iterable[tuple[str, int, bool]]) -> bytes:
    # map<{size: long, isDeleted: boolean}>, by hand: fastavro checks a map of a union entry by entry first.
    long = avro.encode_long
    entries: list[bytes] = []
    for name, size, deleted in files:
        raw = name.encode()
        entries += [long(len(raw)), raw, long(size), b"\1" if deleted else b"\0"]
    if not entries:
        return b"\0"
    return b"".join([long(len(entries) // 4), *entries, b"\0"])
