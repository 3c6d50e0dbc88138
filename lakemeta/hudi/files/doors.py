"""What may be deleted of a Hudi table, and what rollbacks may append, as doors for :mod:`lakemeta.deletion` (I/O).

Rules of this module:

1. Data: any file or directory of the table that is neither its ``.hoodie`` nor has one on the way there, whose case
   does not matter. What of it is to go is for plans to say; a door only bounds them.
2. Metadata, by shape and nothing else: pending instants of the data table, never completed ones; heartbeats; the lock
   file; the backup of the properties; the marker directory of an instant; the metadata table as a whole, its log files
   and its delta commits.
3. A completed clean, by a door of its own: it goes if it is empty, and is executed again.
4. Rollback blocks are new log files of slices, in partitions as in rule 1.
5. A lock file may lie outside the table, where the options say.
"""

from __future__ import annotations

from re import escape
from typing import TYPE_CHECKING, Final

from lakemeta.deletion import Door, Quarantine
from lakemeta.hudi.files.layout import (
    HEARTBEAT_FOLDER,
    LOCK_NAME,
    MARKER_FOLDER,
    METADATA_TABLE,
    PROPERTIES,
    QUARANTINE,
)
from lakemeta.hudi.files.names import BLOCK_TOKEN

if TYPE_CHECKING:
    from lakemeta.storage import Storage

_DATA: Final = r"(?i:(?!\.hoodie(?:/|$))[^/]+)(?:/(?i:(?!\.hoodie(?:/|$))[^/]+))*"
_INSTANT: Final = r"[0-9]{14,20}"
_PARTS: Final = r"(?:[^/]+/)*"
_METADATA_FILES: Final = "|".join(
    (
        rf"\.hoodie/{_PARTS}{_INSTANT}(?:\.[a-z]+)?\.(?:inflight|requested)",
        rf"{escape(HEARTBEAT_FOLDER)}/{_INSTANT}",
        rf"{escape(PROPERTIES)}\.backup",
        rf"{escape(METADATA_TABLE)}/\.hoodie/{_PARTS}{_INSTANT}(?:_[0-9]+)?\.deltacommit",
        rf"{escape(METADATA_TABLE)}/[^/]+/\.[^/]+\.log\.[0-9]+(?:_[^/]*)?",
    )
)
_METADATA_DIRECTORIES: Final = rf"{escape(METADATA_TABLE)}|{escape(MARKER_FOLDER)}/{_INSTANT}"


def data_door(storage: Storage, root: str) -> Door:
    """The door for data files and for the directories of partitions."""
    return Door(storage, root, _DATA, _DATA, Quarantine(root, f"{root}/{QUARANTINE}"))


def metadata_door(storage: Storage, root: str) -> Door:
    """The door for what lies in ``.hoodie``; ``root`` is the data table's, also for its metadata table's files."""
    return Door(storage, root, _METADATA_FILES, _METADATA_DIRECTORIES)


def emptied_door(storage: Storage, root: str) -> Door:
    """The door for completed cleans, of which those go that a crash left empty."""
    return Door(storage, root, rf"\.hoodie/{_PARTS}{_INSTANT}(?:_[0-9]+)?\.clean")


def block_door(storage: Storage, root: str) -> Door:
    """The door for new log files that hold a rollback block."""
    return Door(storage, root, rf"(?:{_DATA}/)?\.[^/]+_{_INSTANT}\.log\.[0-9]+_{escape(BLOCK_TOKEN)}")


def lock_door(storage: Storage, path: str) -> Door:
    """The door for one lock file alone."""
    return Door(storage, path.rpartition("/")[0], LOCK_NAME)
