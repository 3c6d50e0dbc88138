"""Surveys an Iceberg table for a page (I/O: all manifests of the current snapshot)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.rewrite.groups import partition_json
from lakemeta.iceberg.spec.locations import within
from lakemeta.page.survey import Counts, Moment, Survey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_ADDED: Final = ("added-data-files", "added-delete-files", "added-files-size")


def survey(place: Place, executor: Executor, wanted: Collection[str] = ()) -> Survey:
    """Count the data files of the current snapshot; the sizes of ``wanted`` ones are kept by path, as plans name it."""
    metadata = place.operations.refresh().metadata
    counts = Counts()
    names: dict[tuple[int, tuple[object, ...]], str] = {}
    for file in _data_files(place, metadata, executor):
        key = (file.spec_id, file.partition)
        if key not in names:
            fields = partition_json(file.partition, metadata, file.spec_id)
            names[key] = "/".join(f"{name}={value}" for name, value in fields.items())
        counts.add(names[key], file.file_size_in_bytes)
        if wanted and (path := within(metadata.location, file.file_path)) in wanted:
            counts.sizes[path] = file.file_size_in_bytes
    return Survey(counts, tuple(_moments(metadata)), "files that it added")


def _data_files(place: Place, metadata: TableMetadata, executor: Executor) -> Iterator[DataFile]:
    head = metadata.current_snapshot
    if head is None:
        return
    stored = StoredManifests(place.operations.storage, metadata.specs_by_id, executor)
    manifests = [manifest for manifest in stored.of(head) if not manifest.is_deletes]
    for entries in stored.stream(manifests, frozenset()):
        for entry in entries:
            if entry.is_live and entry.data_file.content == FileContent.DATA:
                yield entry.data_file


def _moments(metadata: TableMetadata) -> Iterator[Moment]:
    refs = defaultdict(list)
    for name, ref in sorted(metadata.refs.items()):
        refs[ref.snapshot_id].append(name)
    for snapshot in sorted(metadata.snapshots, key=lambda s: (s.timestamp_ms, s.snapshot_id)):
        data, deletes, size = (_number(snapshot.summary.get(name)) for name in _ADDED)
        what, names = snapshot.operation or "snapshot", tuple(refs[snapshot.snapshot_id])
        yield Moment(str(snapshot.snapshot_id), snapshot.timestamp_ms, what, data + deletes, size, names)


def _number(text: str | None) -> int:
    """What a summary counts, in which engines write what they like."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else 0
