"""The table's lock, for tables with several writers (I/O).

Rules of this module:

1. A lock is taken where a lock provider is named or the concurrency mode has several writers. It is held while a plan
   is checked and requested, and while an action is completed; files are deleted without it, as in Hudi.
2. ``InProcessLockProvider``: one lock a table in this process. It keeps no other process out.
3. ``FileSystemBasedLockProvider``: the file ``lock`` in the lock path (``.hoodie`` by default), made exclusively. It is
   stale once it is older than the expiry in minutes; 0 is never.
4. ``StorageBasedLockProvider``: ``.hoodie/.locks/table_lock.json``, replaced only if no other writer has replaced it.
   It is free if it says ``expired``, or if ``validUntil`` is past by more than the clock drift. It is held for the
   validity, and renewed where the work under it goes on.
5. The ZooKeeper, Hive Metastore and DynamoDB locks cannot be taken. They are refused, unless the caller answers for
   there being no other writer.
6. A lock that is taken is asked for again, with a wait in between, as often as the options say.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from lakemeta.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptMetadataError,
    OptionError,
    PathExistsError,
    PathNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lakemeta.hudi.files.doors import lock_door
from lakemeta.hudi.files.layout import LOCK_FILE, STORAGE_LOCK_FILE
from lakemeta.json_text import parse_json
from lakemeta.moments import epoch_ms
from lakemeta.paths import same_store, split_scheme
from lakemeta.storage.contract import ConditionalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.storage import Storage

_PACKAGE: Final = "org.apache.hudi.client.transaction.lock."
IN_PROCESS: Final = f"{_PACKAGE}InProcessLockProvider"
FILE_SYSTEM: Final = f"{_PACKAGE}FileSystemBasedLockProvider"
STORAGE_BASED: Final = f"{_PACKAGE}StorageBasedLockProvider"
ZOOKEEPER: Final = f"{_PACKAGE}ZookeeperBasedLockProvider"  # the engine's default
SINGLE_WRITER: Final = "SINGLE_WRITER"
_MODES: Final = (SINGLE_WRITER, "OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL")
_DRIFT_MS: Final = 500  # StorageBasedLockProvider.CLOCK_DRIFT_BUFFER_MS
_tables: dict[str, threading.Lock] = {}
_tables_guard = threading.Lock()


class Provider(Protocol):
    """One way to keep other writers out."""

    @property
    def what(self) -> str:
        """The lock in words, for messages."""
        ...

    def try_acquire(self) -> bool:
        """Take the lock; False if a writer has it."""
        ...

    def renew(self) -> bool:
        """Make the lock last; False if another writer has it."""
        ...

    def release(self) -> None:
        """Give the lock back."""
        ...


@attrs.frozen
class TableLock:
    """The lock of a table; ``provider`` is None where there is a single writer."""

    provider: Provider | None = None
    retries: int = 0
    wait_ms: int = 0
    renew_s: float = 30
    sleep: Callable[[float], None] = time.sleep

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, and renew it meanwhile.

        Raises CommitConflictError if it cannot be had (rule 6), with nothing changed, and CommitStateUnknownError if
        another writer took it while the work under it went on.
        """
        if self.provider is None:
            yield
            return
        self._acquire(self.provider)
        renewing = _Renewing(self.provider, self.renew_s)
        try:
            yield
        finally:
            renewing.stop()
            self.provider.release()
        if renewing.lost:
            raise CommitStateUnknownError(
                f"{self.provider.what} was taken by another writer while lakemeta held it; look at the timeline before "
                "anything else is written"
            )

    def _acquire(self, provider: Provider) -> None:
        for attempt in range(self.retries + 1):
            if attempt:
                self.sleep(self.wait_ms / 1000)
            if provider.try_acquire():
                return
        raise CommitConflictError(
            f"{provider.what} is held by another writer and did not become free in {self.retries + 1} attempts; "
            "try again later"
        )


class _Renewing:
    """Renews a lock in a thread of its own until it is stopped; ``lost`` is true once that failed."""

    def __init__(self, provider: Provider, every_s: float) -> None:
        self.lost = False
        self._provider, self._every_s = provider, every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakemeta-lock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.lost and not self._stopped.wait(self._every_s):
            try:
                self.lost = not self._provider.renew()
            except StorageError:
                continue  # the validity outlasts several renewals


def table_lock(
    place: Place,
    options: CleanOptions,
    *,
    assume_single_writer: bool = False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    sleep: Callable[[float], None] = time.sleep,
) -> TableLock:
    """The lock that the options ask for.

    Raises OptionError for an unknown concurrency mode or a lock path elsewhere, UnsupportedFeatureError for a provider
    that lakemeta cannot ask, unless ``assume_single_writer``.
    """
    if options.concurrency_mode.upper() not in _MODES:
        raise OptionError(f"hoodie.write.concurrency.mode={options.concurrency_mode} is none of {', '.join(_MODES)}")
    if not 0 < options.lock_renew_s < options.lock_validity_s:
        raise OptionError(
            f"hoodie.write.lock.storage.renew.interval.secs={options.lock_renew_s} is no time within the validity of "
            f"the lock, {options.lock_validity_s} s; give a shorter one"
        )
    if options.lock_provider is None and options.concurrency_mode.upper() == SINGLE_WRITER:
        return TableLock()
    provider = _provider(place, options, clock, assume_single_writer=assume_single_writer)
    return TableLock(provider, options.lock_retries, options.lock_retry_wait_ms, options.lock_renew_s, sleep)


def _provider(
    place: Place, options: CleanOptions, clock: Callable[[], datetime], *, assume_single_writer: bool
) -> Provider | None:
    name = options.lock_provider or ZOOKEEPER
    if name == IN_PROCESS:
        return InProcessLock(place.url)
    if name == FILE_SYSTEM:
        return FileSystemLock(place.storage, _lock_path(place, options), options.lock_expire_minutes, clock)
    if name == STORAGE_BASED:
        path = f"{place.root}/{STORAGE_LOCK_FILE}"
        if isinstance(place.storage, ConditionalStorage):
            return StorageLock(place.storage, path, options.lock_validity_s, clock)
        if not assume_single_writer:
            raise UnsupportedFeatureError(
                f"{place.url} lies on a store without conditional writes, which {name} needs; use "
                f"{FILE_SYSTEM}, or stop the other writers and give --assume-single-writer"
            )
    if not assume_single_writer:
        raise UnsupportedFeatureError(
            f"lakemeta cannot take the lock of {name}; stop the other writers and give --assume-single-writer"
        )
    return None


def _lock_path(place: Place, options: CleanOptions) -> str:
    if not options.lock_path:
        return f"{place.root}/{LOCK_FILE}"
    scheme, path = split_scheme(options.lock_path.rstrip("/"))
    if not same_store(place.storage.scheme, scheme):
        raise OptionError(
            f"hoodie.write.lock.filesystem.path={options.lock_path} lies in another store than the table {place.url}"
        )
    return f"{path}/lock"


@attrs.frozen
class InProcessLock:
    """One lock a table in this process (rule 2)."""

    table: str

    @property
    def what(self) -> str:
        """The lock in words."""
        return f"the lock of {self.table} in this process"

    def try_acquire(self) -> bool:
        """Take the lock, unless another thread has it."""
        return self._lock.acquire(blocking=False)

    def renew(self) -> bool:
        """It lasts."""
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    @property
    def _lock(self) -> threading.Lock:
        with _tables_guard:
            return _tables.setdefault(self.table, threading.Lock())


@attrs.define
class FileSystemLock:
    """A lock file (rule 3); ``path`` is the file, ``expire_minutes`` its age at which it is stale (0: never)."""

    storage: Storage
    path: str
    expire_minutes: int
    clock: Callable[[], datetime]
    _content: bytes = b""

    @property
    def what(self) -> str:
        """The lock in words."""
        return f"the lock file {self.path}"

    def try_acquire(self) -> bool:
        """Make the lock file, after removing a stale one."""
        info = {
            "lockCreateTime": self.clock().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
            "lockThreadName": f"lakemeta {uuid.uuid4()}",
            "lockStacksInfo": [],
        }
        content = json.dumps(info).encode()
        if self._is_stale():
            lock_door(self.storage, self.path).delete_files([self.path])
        try:
            self.storage.create(self.path, content)
        except PathExistsError:
            return False
        self._content = content
        return True

    def renew(self) -> bool:
        """A lock file cannot be renewed: Hudi judges it by when it was made. False if it is gone or another's."""
        try:
            return self.storage.read(self.path) == self._content
        except PathNotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock file, if it is still ours: it may have become stale and another writer's."""
        try:
            ours = self.storage.read(self.path) == self._content
        except PathNotFoundError:
            return
        if ours:
            lock_door(self.storage, self.path).delete_files([self.path])

    def _is_stale(self) -> bool:
        if self.expire_minutes == 0:
            return False
        try:
            entries = self.storage.list_dir(self.path.rpartition("/")[0])
        except PathNotFoundError:
            return False
        now_ms = epoch_ms(self.clock())
        return any(e.path == self.path and now_ms - e.modified_ms > self.expire_minutes * 60_000 for e in entries)


@attrs.define
class StorageLock:
    """A lock object that is replaced conditionally (rule 4); ``validity_s`` is how long it holds without renewal."""

    storage: ConditionalStorage
    path: str
    validity_s: int
    clock: Callable[[], datetime]
    _owner: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    _version: str | None = None

    @property
    def what(self) -> str:
        """The lock in words."""
        return f"the lock {self.path}"

    def try_acquire(self) -> bool:
        """Put our claim in place of a free lock."""
        try:
            data, version = self.storage.read_versioned(self.path)
        except PathNotFoundError:
            self._version = self.storage.put_versioned(self.path, self._claim(expired=False), None)
            return self._version is not None
        if not self._is_free(data):
            return False
        self._version = self.storage.put_versioned(self.path, self._claim(expired=False), version)
        return self._version is not None

    def renew(self) -> bool:
        """Move the end of the validity."""
        if self._version is not None:
            self._version = self.storage.put_versioned(self.path, self._claim(expired=False), self._version)
        return self._version is not None

    def release(self) -> None:
        """Mark the lock as expired, unless another writer has taken it since it ran out."""
        if self._version is not None:
            self.storage.put_versioned(self.path, self._claim(expired=True), self._version)
            self._version = None

    def _claim(self, *, expired: bool) -> bytes:
        valid_until = epoch_ms(self.clock()) + self.validity_s * 1000
        return json.dumps({"expired": expired, "validUntil": valid_until, "owner": self._owner}).encode()

    def _is_free(self, data: bytes) -> bool:
        try:
            lock = parse_json(data)
            return bool(lock["expired"]) or epoch_ms(self.clock()) > int(lock["validUntil"]) + _DRIFT_MS
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptMetadataError(f"{self.path} is no lock that Hudi writes ({error}); delete it") from error
