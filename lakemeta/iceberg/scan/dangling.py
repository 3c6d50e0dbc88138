"""Delete files that apply to no data file (Iceberg's RemoveDanglingDeleteFilesAction)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.iceberg.manifests.entries import file_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.iceberg.manifests.entries import ManifestEntry
    from lakemeta.iceberg.scan.file_tasks import FileScanTask


def dangling_deletes(tasks: Iterable[FileScanTask], deletes: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Those of ``deletes`` whose files no task of a scan of the whole snapshot applies."""
    applied = {file_key(delete) for task in tasks for delete in task.deletes}
    return [entry for entry in deletes if file_key(entry.data_file) not in applied]
