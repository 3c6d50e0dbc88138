"""The manifests that one commit writes, over all its attempts.

Names are Iceberg's: ``<commit uuid>-m<N>.avro`` and ``snap-<snapshot id>-<attempt>-<commit uuid>.avro``.
What an earlier attempt wrote for the same entries is used again: a conflict seldom changes more than the
manifest list.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakemeta.iceberg.manifests.codec import write_manifest, write_moved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakemeta.iceberg.manifests.entries import EntryColumns, ManifestContent, ManifestEntry, ManifestFile
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

Key = tuple[object, ...]


class NewManifests:
    """Encodes manifests under names of their own.

    ``location`` turns a file name into what metadata calls it.
    """

    def __init__(self, location: Callable[[str], str], commit_uuid: str, snapshot_id: int) -> None:
        """One object serves all attempts of one commit."""
        self.snapshot_id = snapshot_id
        self._location = location
        self._commit_uuid = commit_uuid
        self._attempts = 0
        self._known: dict[Key, ManifestFile] = {}
        self._data: dict[str, bytes] = {}
        self._entries: dict[str, tuple[ManifestEntry, ...]] = {}

    def write(
        self,
        key: Key,
        metadata: TableMetadata,
        content: ManifestContent,
        spec_id: int,
        entries: Sequence[ManifestEntry],
    ) -> ManifestFile:
        """Encode a manifest, or give back what the same ``key`` gave before: equal keys need equal entries."""
        write = partial(write_manifest, metadata, spec_id, entries, content=content, snapshot_id=self.snapshot_id)
        manifest = self._made(key, metadata, write)
        self._entries[manifest.manifest_path] = tuple(entries)
        return manifest

    def write_moved(
        self, key: Key, metadata: TableMetadata, content: ManifestContent, spec_id: int, entries: EntryColumns
    ) -> ManifestFile:
        """As ``write``, of entries whose files are only copied; they are not remembered."""
        write = partial(write_moved, metadata, spec_id, entries, content=content, snapshot_id=self.snapshot_id)
        return self._made(key, metadata, write)

    def _made(
        self, key: Key, metadata: TableMetadata, write: Callable[..., tuple[bytes, ManifestFile]]
    ) -> ManifestFile:
        full = (*key, metadata.format_version, metadata.current_schema_id)
        if full not in self._known:
            path = self._location(f"{self._commit_uuid}-m{len(self._known)}.avro")
            self._data[path], self._known[full] = write(path=path)
        return self._known[full]

    def list_location(self) -> str:
        """The location of the next attempt's manifest list."""
        self._attempts += 1
        return self._location(f"snap-{self.snapshot_id}-{self._attempts}-{self._commit_uuid}.avro")

    def entries(self, manifest: ManifestFile) -> tuple[ManifestEntry, ...] | None:
        """The entries of a manifest written here, None for any other."""
        return self._entries.get(manifest.manifest_path)

    def data(self, manifests: Sequence[ManifestFile]) -> dict[str, bytes]:
        """The bytes of those of ``manifests`` that were written here, by location."""
        return {m.manifest_path: self._data[m.manifest_path] for m in manifests if m.manifest_path in self._data}
