"""Refuses to delete files that lie in another table, whatever names them: a manifest may be made by hand (I/O).

Rules of this module:

1. Looked at is each directory from a location of the table down to a file that goes, for metadata of another table in
   it (``service.neighbours``). The table's own metadata directories are left out.
2. The directories that object storage's hashes make up (``0101``) are not looked at, nor what is below: there are as
   many as files.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.service.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.storage.contract import Storage

_HASHED: Final = re.compile("/[01]{4}(?=/)")


def refuse_nested(
    storage: Storage,
    loaded: LoadedTable,
    places: Iterable[tuple[Door, str]],
    dropped: Collection[str],
    executor: Executor,
) -> None:
    """Raise UnsupportedFeatureError if one of some files, each with its door, lies in another table.

    ``dropped`` are uuids of tables that are no more.
    """
    below: defaultdict[str, set[str]] = defaultdict(set)
    for door, path in places:
        hashed = _HASHED.search(path, len(door.base))
        below[door.base].add(f"{path[: hashed.start()] if hashed else path.rpartition('/')[0]}/")
    harm = f"files of expired snapshots of the table at {loaded.metadata.location} would be deleted"
    neighbours = Neighbours.of(storage, loaded, dropped, harm)
    for base in sorted(below):
        neighbours.refuse_near(base, below[base], executor, own=False)
