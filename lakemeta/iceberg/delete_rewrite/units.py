"""Deletes of rows to write anew, as work for one process: which delete files become others, for which data files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from lakemeta.iceberg.manifests.delete_entries import content_size
from lakemeta.iceberg.manifests.entries import FileContent, FileKey, file_key

if TYPE_CHECKING:
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

Granularity = Literal["file", "partition"]


@attrs.frozen(hash=False)
class DeleteJob:
    """What all units of a run have in common; picklable. Snapshots and logs of ``metadata`` are not needed.

    ``uuid`` names the run's files. ``memory`` is about the bytes of rows held at a time.
    """

    storage: Storage
    metadata: TableMetadata
    uuid: str
    granularity: Granularity
    memory: int = 512 * 1024 * 1024
    spill_directory: str | None = None

    @property
    def writes_vectors(self) -> bool:
        """True if the table takes deletion vectors, and no other new position deletes."""
        return self.metadata.format_version >= 3


@attrs.frozen(slots=True, hash=False)
class DeleteUnit:
    """Delete files of one partition that are replaced, and the data files that they apply to.

    ``deletes`` leave the table. ``tasks`` are all data files that a reader applies one of them to, each with everything
    that applies to it. ``sequence_number`` is the data sequence number of the new files, None for the new snapshot's.
    """

    number: int
    deletes: tuple[DataFile, ...] = attrs.field(repr=lambda files: f"<{len(files)} files>")
    tasks: tuple[FileScanTask, ...] = attrs.field(repr=lambda tasks: f"<{len(tasks)} files>")
    sequence_number: int | None
    max_output_size: int

    @property
    def keys(self) -> frozenset[FileKey]:
        """What the delete files are known by."""
        return frozenset(map(file_key, self.deletes))

    @property
    def bytes(self) -> int:
        """The bytes of its delete files."""
        return sum(map(content_size, self.deletes))

    def __str__(self) -> str:
        return f"the deletes {self.deletes[0].file_path} and {len(self.deletes) - 1} more"


@attrs.frozen(slots=True, hash=False)
class WrittenDeletes:
    """What became of a unit: new delete files, those that leave the table, and the data files that got new deletes."""

    number: int
    files: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    touched: frozenset[str]


def names_rows(file: DataFile) -> bool:
    """True for position deletes and deletion vectors."""
    return file.content == FileContent.POSITION_DELETES
