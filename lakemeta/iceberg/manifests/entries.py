"""Manifest files and their entries as values; reading and writing them is in ``codec``.

Names are the specification's ("Manifests", "Manifest Lists"). Sizes are bytes.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import compress
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.iceberg.spec.types import Value

T = TypeVar("T")

FILE_PATH_ID: Final = 2147483546  # field id of the file_path column in position delete files
UNASSIGNED_SEQUENCE: Final = -1  # of a manifest not yet listed: the committing snapshot's takes its place


class EntryStatus(IntEnum):
    """What a manifest says about a file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileContent(IntEnum):
    """What a file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestContent(IntEnum):
    """What the files of a manifest hold."""

    DATA = 0
    DELETES = 1


@attrs.frozen(slots=True)
class PartitionFieldSummary:
    """Bounds (binary form) of one partition field over a manifest; None if unknown or all null."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@attrs.frozen(slots=True)
class ManifestFile:
    """One line of a manifest list. Counts may be None in version 1 lists, ``partitions`` in any."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[PartitionFieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def may_have_live_files(self) -> bool:
        """False if the counts say that every entry is a deleted one."""
        return self.added_files_count != 0 or self.existing_files_count != 0

    @property
    def is_deletes(self) -> bool:
        """True for a manifest of delete files."""
        return self.content == ManifestContent.DELETES


@attrs.frozen(slots=True, weakref_slot=False, hash=False)
class DataFile:
    """A data or delete file. Metrics are keyed by field id, bounds in binary form; None: not recorded."""

    content: FileContent
    file_path: str
    file_format: str
    spec_id: int
    partition: tuple[Value, ...]
    record_count: int
    file_size_in_bytes: int
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def is_deletion_vector(self) -> bool:
        """True for a deletion vector, a blob in a Puffin file."""
        return self.content == FileContent.POSITION_DELETES and self.file_format.upper() == "PUFFIN"


@attrs.frozen(slots=True, weakref_slot=False)
class StoredFile:
    """A file's record as it lies in a manifest, in Avro; ``layout`` is the canonical schema of the entry it is from."""

    data: bytes
    layout: str


@attrs.frozen(slots=True, weakref_slot=False, hash=False)
class ManifestEntry:
    """What a manifest says about a file. Sequence numbers that are None are inherited (see ``Inheritance``).

    If it is to be moved to another manifest, ``stored`` is what is written there, and ``data_file`` may lack metrics.
    """

    status: EntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile
    stored: StoredFile | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def is_live(self) -> bool:
        """True unless the entry says that the file was removed."""
        return self.status != EntryStatus.DELETED

    def changed(self, status: EntryStatus, snapshot_id: int | None, stored: StoredFile | None) -> ManifestEntry:
        """The entry with another status, snapshot id and record; faster than attrs.evolve, of which there are many."""
        numbers = (self.sequence_number, self.file_sequence_number)
        return ManifestEntry(status, snapshot_id, *numbers, self.data_file, stored)


Head = tuple[EntryStatus, int | None, int | None, int | None]  # status, snapshot id, data and file sequence number


@attrs.frozen(slots=True, eq=False)
class EntryColumns:
    """What a line of a manifest list says of entries, column by column, in file order.

    Entries of equal heads or partitions may share them. ``files`` are the files' records in Avro, where they are only
    copied.
    """

    heads: Sequence[Head]
    partitions: Sequence[tuple[Value, ...]]
    record_counts: Sequence[int]
    files: Sequence[bytes] = ()

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> EntryColumns:
        """The columns of some entries."""
        heads = [(e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in entries]
        files = [entry.data_file for entry in entries]
        return cls(heads, [file.partition for file in files], [file.record_count for file in files])

    @classmethod
    def joined(cls, parts: Iterable[EntryColumns]) -> EntryColumns:
        """The columns of all entries of several manifests."""
        heads: list[Head] = []
        partitions: list[tuple[Value, ...]] = []
        records: list[int] = []
        files: list[bytes] = []
        for part in parts:
            heads += part.heads
            partitions += part.partitions
            records += part.record_counts
            files += part.files
        return cls(heads, partitions, records, files)

    @property
    def live_partitions(self) -> Iterable[tuple[Value, ...]]:
        """The partition of each file that was not removed."""
        return compress(self.partitions, [head[0] != EntryStatus.DELETED for head in self.heads])

    def take(self, positions: Sequence[int]) -> EntryColumns:
        """The columns of some of the entries."""

        def of(column: Sequence[T]) -> Sequence[T]:
            return [column[at] for at in positions] if column else ()

        return EntryColumns(of(self.heads), of(self.partitions), of(self.record_counts), of(self.files))


class Inheritance:
    """What the entries of one manifest take from its line in the manifest list; ask for them in file order.

    Spec: "Sequence Number Inheritance" and "First Row ID Inheritance". Snapshot id wherever it is missing; both
    sequence numbers of added entries, and of all entries of version 1 manifests (sequence number 0); first row
    ids of live data files in order, or none if the manifest has none (tables before version 3).
    """

    def __init__(self, manifest: ManifestFile) -> None:
        """Start at the first entry of a manifest."""
        self._snapshot_id, self._sequence = manifest.added_snapshot_id, manifest.sequence_number
        self._next_row_id = manifest.first_row_id

    def of_entry(
        self, status: EntryStatus, snapshot_id: int | None, sequence: int | None, own: int | None
    ) -> tuple[int | None, int | None, int | None]:
        """Snapshot id, data and file sequence number of an entry, given what the manifest says of it."""
        snapshot_id = self._snapshot_id if snapshot_id is None else snapshot_id
        if status != EntryStatus.ADDED and self._sequence != 0:
            return snapshot_id, sequence, own
        inherited = self._sequence
        return snapshot_id, inherited if sequence is None else sequence, inherited if own is None else own

    def row_id(self, status: EntryStatus, first_row_id: int | None, records: int) -> int | None:
        """The first row id of the next entry's file."""
        if self._next_row_id is None:
            return None
        if status == EntryStatus.DELETED or first_row_id is not None:
            return first_row_id
        self._next_row_id += records
        return self._next_row_id - records


FileKey = tuple[str, int | None]


def file_key(file: DataFile) -> FileKey:
    """What a file is known by: its path, and for a deletion vector also where it lies in the Puffin file."""
    return (file.file_path, file.content_offset if file.is_deletion_vector else None)
