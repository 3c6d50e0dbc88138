"""Delete files as planning needs them: what they are about, and entries without metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.codec import read_manifest
from lakemeta.iceberg.manifests.entries import FILE_PATH_ID, DataFile, FileContent, ManifestEntry
from lakemeta.iceberg.manifests.entry_writer import MAPS
from lakemeta.iceberg.manifests.fast_reader import scan_manifest
from lakemeta.iceberg.spec.locations import within

if TYPE_CHECKING:
    from lakemeta.iceberg.manifests.entries import ManifestFile
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.types import Value

_NO_METRICS: Final[dict[str, Any]] = dict.fromkeys(MAPS)


def referenced_data_file(file: DataFile) -> str | None:
    """The one data file that a position delete file is about, or None if it may be about several.

    It is named by ``referenced_data_file``, or by equal bounds of the file_path column. Raises CorruptMetadataError
    if the two are different files: by one of them, rows would come back.
    """
    if file.content != FileContent.POSITION_DELETES:
        return None
    lower = (file.lower_bounds or {}).get(FILE_PATH_ID)
    upper = (file.upper_bounds or {}).get(FILE_PATH_ID)
    bound = lower if lower is not None and lower == upper else None
    named = file.referenced_data_file
    if bound is not None and named is not None and bound != named.encode():
        raise CorruptMetadataError(
            f"{file.file_path} has deletes of {bound!r:.200}, and says they are of {named!r:.200}"
        )
    try:
        return bound.decode() if named is None and bound is not None else named
    except UnicodeDecodeError as error:
        raise CorruptMetadataError(f"{file.file_path} has deletes of a file whose name is no text") from error


def delete_name(location: str, file: DataFile) -> str:
    """What plans call a delete file of the table at ``location``; several deletion vectors lie in one Puffin file."""
    path = within(location, file.file_path)
    return f"{path}#{file.content_offset}" if file.is_deletion_vector else path


def content_size(file: DataFile) -> int:
    """The bytes that are a file's own: of a deletion vector its blob's, not those of its Puffin file."""
    return file.content_size_in_bytes or 0 if file.is_deletion_vector else file.file_size_in_bytes


def partition_key(partition: tuple[Value, ...]) -> tuple[Value, ...]:
    """A partition as a dictionary key: NaN equals NaN, and 0.0 does not equal -0.0, as in the engine."""
    if float in map(type, partition):
        return tuple(repr(value) if isinstance(value, float) else value for value in partition)
    return partition


def scan_delete_manifest(data: bytes, manifest: ManifestFile, spec: PartitionSpec) -> list[ManifestEntry]:
    """The entries of a delete manifest with what planning needs: a table may have hundreds of thousands.

    Position deletes lose their metrics, and name the one data file they are about if their bounds did.
    """
    entries = scan_manifest(data, manifest, spec, frozenset())
    if all(entry.data_file.is_deletion_vector for entry in entries):
        return entries
    return [attrs.evolve(e, data_file=_without_metrics(e.data_file)) for e in read_manifest(data, manifest, spec)]


def _without_metrics(file: DataFile) -> DataFile:
    if file.content != FileContent.POSITION_DELETES:
        return file
    return attrs.evolve(file, **_NO_METRICS, referenced_data_file=referenced_data_file(file))
