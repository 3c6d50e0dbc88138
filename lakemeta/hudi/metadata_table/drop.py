"""Takes a table off its metadata table, as a Hudi writer with ``hoodie.metadata.enable=false`` does (I/O)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakemeta.hudi.files.doors import metadata_door
from lakemeta.hudi.files.layout import METADATA_TABLE, PROPERTIES
from lakemeta.hudi.files.properties import TableConfig, format_properties
from lakemeta.hudi.timeline.loading import load_config

if TYPE_CHECKING:
    from lakemeta.executor import Executor
    from lakemeta.storage import Storage

_PARTITIONS = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")


def drop_metadata_table(storage: Storage, root: str, config: TableConfig, executor: Executor) -> TableConfig:
    """Clear the metadata table's partitions in ``hoodie.properties``, then remove its directory.

    The order matters: readers stop trusting the metadata table before it goes. A crash in between leaves an unused
    directory. The next Hudi writer that wants a metadata table builds it anew from a listing.
    """
    properties = {**config.properties, **dict.fromkeys(_PARTITIONS, "")}
    path = f"{root}/{PROPERTIES}"
    content = format_properties(properties, f"Updated at {datetime.now(UTC).isoformat()}")
    door = metadata_door(storage, root)
    door.check_directory(f"{root}/{METADATA_TABLE}")
    storage.replace(f"{path}.backup", storage.read(path))
    storage.replace(path, content)
    door.delete_files([f"{path}.backup"])
    door.dispose_directory(f"{root}/{METADATA_TABLE}", executor)
    return load_config(storage, root)
