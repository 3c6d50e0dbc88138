"""Which metadata files go with a commit: those that left the metadata log, if the table asks for it (CatalogUtil).

Iceberg deletes whatever the log names. Here a log that names anything else than earlier metadata files of its own table
is a contradiction, which is found before the commit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.spec.properties import bool_property
from lakemeta.paths import inside

if TYPE_CHECKING:
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_ENABLED: Final = "write.metadata.delete-after-commit.enabled"
# Versions of a table that the file system keeps, and of one that a catalog keeps or kept.
_VERSION: Final = re.compile(
    r"(?:v([0-9]{1,10})|[0-9]{1,10}-[0-9a-fA-F-]{36})(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)"
)


def files_to_delete(base: TableMetadata, new: TableMetadata, folder: str, version: int) -> list[str]:
    """The store paths of files that are in the log of ``base``, which is ``version``, and not in that of ``new``.

    None if the table does not ask for it. ``folder`` is the URL or store path of the directory of its metadata files.
    Raises CorruptMetadataError if a log names what lies elsewhere, has no name of a metadata file, or is the version
    that the log is of or a later one.
    """
    if not bool_property(new.properties, _ENABLED, False):
        return []
    kept = {_own(entry.metadata_file, folder, version + 1) for entry in new.metadata_log}
    logged = {_own(entry.metadata_file, folder, version) for entry in base.metadata_log}
    return sorted(logged - kept)


def _own(location: str, folder: str, version: int) -> str:
    """The store path of a metadata file from before ``version``."""
    name = location.rpartition("/")[2]
    found = _VERSION.fullmatch(name)
    try:
        path = inside(folder, location)
        right = found is not None and path == inside(folder, f"{folder.rstrip('/')}/{name}")
    except CorruptMetadataError:
        right = False
    if not right or (found and found[1] and int(found[1]) >= version):
        raise CorruptMetadataError(
            f"the metadata log of the table names {location}, which is no earlier metadata file of it in {folder}, and "
            f"{_ENABLED} would have it deleted; nothing was committed, set that property to false to go on"
        )
    return path
