"""Which delete files apply to which data file (spec: "Scan Planning"; engine: DeleteFileIndex)."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.delete_entries import partition_key, referenced_data_file
from lakemeta.iceberg.manifests.entries import DataFile, FileContent, ManifestEntry
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import NestedField, Value, is_primitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_GLOBAL: Final = (-1, ())
_Key = tuple[int, tuple[Value, ...]]


@attrs.frozen(slots=True)
class _Applied:
    """A delete file, and the greatest data sequence number it applies to."""

    sequence: int
    file: DataFile


class DeleteFileIndex:
    """The live delete files of a snapshot, found by what they apply to.

    A position delete applies to data files of its partition (or to the one it names) whose data sequence number
    is not greater than its own; a deletion vector replaces all of those; an equality delete applies to strictly
    older data files of its partition, or of the whole table if its spec is unpartitioned.
    """

    def __init__(self, metadata: TableMetadata, entries: Iterable[ManifestEntry]) -> None:
        """Raises CorruptMetadataError if two deletion vectors name one data file, or a delete has no sequence."""
        self._fields = {i: f for schema in metadata.schemas for i, f in schema.by_id.items()}
        self._fields |= metadata.schema.by_id
        self._specs = metadata.specs_by_id
        self._types = cache(metadata.partition_types)
        self._partitions: set[_Key] = set()
        self._equality: dict[_Key, list[_Applied]] = {}
        self._by_partition: dict[_Key, list[_Applied]] = {}
        self._by_path: dict[str, list[_Applied]] = {}
        self._vectors: dict[str, _Applied] = {}
        for entry in entries:
            self._add(entry)
        for group in (self._equality, self._by_partition, self._by_path):
            for deletes in group.values():
                deletes.sort(key=attrgetter("sequence"))
        self.is_empty = not (self._equality or self._by_partition or self._by_path or self._vectors)

    @property
    def equality_ids(self) -> frozenset[int]:
        """The columns that equality deletes compare: their metrics say which deletes cannot touch a file."""
        files = (applied.file for deletes in self._equality.values() for applied in deletes)
        return frozenset(i for file in files for i in file.equality_ids or ())

    def for_file(self, sequence: int, file: DataFile) -> tuple[DataFile, ...]:
        """The delete files to apply to a data file with this data sequence number; equality deletes first."""
        if self.is_empty:
            return ()
        found: list[DataFile] = []
        key = (file.spec_id, partition_key(file.partition)) if self._equality or self._by_partition else _GLOBAL
        if self._equality:
            found += self._equality_deletes(_GLOBAL, sequence, file)
            found += self._equality_deletes(key, sequence, file)
        vector = self._vectors.get(file.file_path)
        if vector is not None:
            if vector.sequence < sequence:
                raise CorruptMetadataError(f"the deletion vector of {file.file_path} is older than the file")
            found.append(_same_partition(vector.file, file))
            return tuple(found)
        found += _from(self._by_partition.get(key), sequence)
        found += (_same_partition(f, file) for f in _from(self._by_path.get(file.file_path), sequence))
        return tuple(found)

    def _add(self, entry: ManifestEntry) -> None:
        file, sequence = entry.data_file, entry.sequence_number
        if sequence is None or file.content == FileContent.DATA:
            raise CorruptMetadataError(f"{file.file_path} is listed as a delete file, and is none")
        key = self._key(file)
        if file.content == FileContent.EQUALITY_DELETES:
            key = _GLOBAL if self._specs[file.spec_id].is_unpartitioned else key
            self._equality.setdefault(key, []).append(_Applied(sequence - 1, file))
        elif file.is_deletion_vector:
            self._add_vector(_Applied(sequence, file))
        elif (path := referenced_data_file(file)) is not None:
            self._by_path.setdefault(path, []).append(_Applied(sequence, file))
        else:
            self._by_partition.setdefault(key, []).append(_Applied(sequence, file))

    def _key(self, file: DataFile) -> _Key:
        """The partition of a delete file; CorruptMetadataError if it has values that are none of the table's types."""
        key = (file.spec_id, partition_key(file.partition))
        if key not in self._partitions:
            fields = zip(self._specs[file.spec_id].fields, self._types(file.spec_id), file.partition, strict=True)
            for field, kind, value in fields:
                if field.transform.is_known and not values.is_of(kind, value):
                    found = f"{field.name}={value!r:.100}, which is no {kind}"
                    raise CorruptMetadataError(
                        f"the delete file {file.file_path} is of partition {found}, so it would apply to no file; "
                        f"restore its manifest, or the table's metadata"
                    )
            self._partitions.add(key)
        return key

    def _add_vector(self, vector: _Applied) -> None:
        path = vector.file.referenced_data_file
        if path is None or path in self._vectors:
            raise CorruptMetadataError(f"{path or vector.file.file_path} has not exactly one deletion vector")
        self._vectors[path] = vector

    def _equality_deletes(self, key: _Key, sequence: int, file: DataFile) -> Iterator[DataFile]:
        for delete in _from(self._equality.get(key), sequence):
            fields = [self._field(i, delete) for i in delete.equality_ids or ()]
            if all(_may_touch(field, file, delete) for field in fields if is_primitive(field.type)):
                yield delete

    def _field(self, field_id: int, delete: DataFile) -> NestedField:
        field = self._fields.get(field_id)
        if field is None:
            raise CorruptMetadataError(f"{delete.file_path} compares field {field_id}, which no schema has")
        return field


def _from(deletes: list[_Applied] | None, sequence: int) -> Iterator[DataFile]:
    if deletes:
        start = bisect_left(deletes, sequence, key=attrgetter("sequence"))
        yield from (applied.file for applied in deletes[start:])


def _same_partition(delete: DataFile, file: DataFile) -> DataFile:
    mine, theirs = ((f.spec_id, partition_key(f.partition)) for f in (delete, file))
    if mine != theirs:
        raise CorruptMetadataError(f"{delete.file_path} and its data file {file.file_path} differ in partition")
    return delete


def _may_touch(field: NestedField, file: DataFile, delete: DataFile) -> bool:
    """False if the metrics of one column show that the equality delete matches no row of the file."""
    data, deleted = _Nulls.of(file, field), _Nulls.of(delete, field)
    if data.some and deleted.some:
        return True
    if (data.all and deleted.none) or (deleted.all and data.none):
        return False
    return _overlap(field, file, delete)


@attrs.frozen(slots=True)
class _Nulls:
    some: bool  # or nothing is known
    all: bool
    none: bool

    @classmethod
    def of(cls, file: DataFile, field: NestedField) -> _Nulls:
        nulls = (file.null_value_counts or {}).get(field.field_id)
        count = (file.value_counts or {}).get(field.field_id)
        if field.required:
            return cls(some=False, all=False, none=True)
        return cls(some=nulls != 0, all=nulls is not None and nulls == count, none=nulls == 0)


def _overlap(field: NestedField, file: DataFile, delete: DataFile) -> bool:
    found = [
        (bounds or {}).get(field.field_id)
        for bounds in (file.lower_bounds, file.upper_bounds, delete.lower_bounds, delete.upper_bounds)
    ]
    if None in found:
        return True
    low, high, deleted_low, deleted_high = (values.from_bytes(field.type, b) for b in found if b is not None)
    return not (low > deleted_high or deleted_low > high)
