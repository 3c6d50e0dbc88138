"""Heartbeats of instants: files that their owners touch while they are at work (I/O).

Rules of this module (``HoodieHeartbeatClient``):

1. The heartbeat of an instant is an empty file of its name, touched again and again and removed in the end. What counts
   is when it was last touched, by the store's clock.
2. Where several writers share a lock, Hudi 1.2 keeps a heartbeat for a rollback that it executes, made with the lock
   held (``acquireRollbackHeartbeatIfMultiWriter``): whoever finds that rollback pending leaves it alone while its heart
   beats. Cleans have none in any release.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lakemeta.errors import PathNotFoundError, StorageError
from lakemeta.hudi.files.doors import metadata_door
from lakemeta.hudi.files.layout import HEARTBEAT_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from lakemeta.storage import Storage


def read_heartbeats(storage: Storage, root: str) -> Mapping[str, int]:
    """When each heartbeat file of a table last changed, in ms since the epoch."""
    try:
        entries = storage.list_dir(f"{root}/{HEARTBEAT_FOLDER}")
    except PathNotFoundError:
        return {}
    return {entry.name: entry.modified_ms for entry in entries if not entry.is_dir}


class Heartbeat:
    """Touches the heartbeat file of one instant in a thread of its own until the end of a ``with`` block.

    The first touch is done once the object is made; ``interval_ms`` is the time between touches.
    """

    def __init__(self, storage: Storage, root: str, instant: str, interval_ms: int) -> None:
        self._door = metadata_door(storage, root)
        self._storage, self._path = storage, f"{root}/{HEARTBEAT_FOLDER}/{instant}"
        self._interval_s = interval_ms / 1000
        self._stopped = threading.Event()
        self._touch()
        self._thread = threading.Thread(target=self._run, name="lakemeta-heartbeat", daemon=True)
        self._thread.start()

    def _touch(self) -> None:
        self._storage.replace(self._path, b"")

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                self._touch()
            except StorageError:
                continue  # several touches may be missed before the heartbeat counts as stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._door.delete_files([self._path])
