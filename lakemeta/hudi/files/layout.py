"""Where everything lies under a Hudi table's ``.hoodie``, relative to the table (``HoodieTableMetaClient``).

The same paths below ``METADATA_TABLE`` are those of the metadata table, which is a Hudi table of its own.
"""

from __future__ import annotations

from typing import Final

METADATA_FOLDER: Final = ".hoodie"
PROPERTIES: Final = f"{METADATA_FOLDER}/hoodie.properties"
TIMELINE_NAME: Final = "timeline"  # the default of hoodie.timeline.path, from table version 8 on
TIMELINE_FOLDER: Final = f"{METADATA_FOLDER}/{TIMELINE_NAME}"
HISTORY_NAME: Final = "history"  # the default of hoodie.timeline.history.path, in the timeline folder
METADATA_TABLE: Final = f"{METADATA_FOLDER}/metadata"
MARKER_FOLDER: Final = f"{METADATA_FOLDER}/.temp"  # a directory for each write
HEARTBEAT_FOLDER: Final = f"{METADATA_FOLDER}/.heartbeat"  # a file for each write
OURS: Final = f"{METADATA_FOLDER}/.lakemeta"  # of no meaning to Hudi, as it looks at no directory that it does not know
LEDGERS: Final = f"{OURS}/ledgers"
QUARANTINE: Final = f"{OURS}/quarantine"
LOCK_NAME: Final = "lock"
LOCK_FILE: Final = f"{METADATA_FOLDER}/{LOCK_NAME}"  # FileSystemBasedLockProvider, unless its options say where
STORAGE_LOCK_FILE: Final = f"{METADATA_FOLDER}/.locks/table_lock.json"  # StorageBasedLockProvider
