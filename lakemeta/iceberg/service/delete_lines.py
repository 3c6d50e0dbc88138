"""Delete files as lines of plans, and found again by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.iceberg.manifests.delete_entries import content_size, delete_name
from lakemeta.plan_operations import Remove

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry
    from lakemeta.iceberg.spec.table_metadata import TableMetadata


def removal(file: DataFile, reason: str, metadata: TableMetadata) -> Remove:
    """The line by which a delete file leaves the table's metadata."""
    spec = metadata.specs_by_id[file.spec_id]
    partition = spec.path(metadata.schema, file.partition) if spec.fields else ""
    return Remove(partition, delete_name(metadata.location, file), content_size(file), reason)


@attrs.frozen(eq=False)
class LiveDeletes:
    """The live delete files of a snapshot by what plans call them."""

    by_name: Mapping[str, ManifestEntry]

    @classmethod
    def of(cls, entries: Iterable[ManifestEntry], metadata: TableMetadata) -> LiveDeletes:
        """Raises CorruptMetadataError if one is listed twice: one of the entries would stay."""
        found: dict[str, ManifestEntry] = {}
        for entry in entries:
            name = delete_name(metadata.location, entry.data_file)
            if name in found:
                raise CorruptMetadataError(
                    f"{entry.data_file.file_path} is listed twice among the live delete files; nothing was done"
                )
            found[name] = entry
        return cls(found)

    def named(self, names: Collection[str]) -> list[ManifestEntry]:
        """The entries that a plan names; raises StalePlanError if one is gone, or named twice."""
        missing = [name for name in names if name not in self.by_name]
        if missing:
            raise StalePlanError(
                f"{len(missing)} of the {len(names)} planned delete files are no longer in the table, the first of "
                f"them {missing[0]}; make the plan again"
            )
        if len(set(names)) < len(names):
            raise StalePlanError("the plan names a delete file twice; make the plan again")
        return [self.by_name[name] for name in names]
