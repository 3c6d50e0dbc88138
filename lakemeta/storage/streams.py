"""Files of object stores as streams: read by ranges, written in parts (I/O)."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakemeta.errors import StorageError
from lakemeta.storage.failure import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READ_AHEAD: Final = 8 * 2**20
PART: Final = 8 * 2**20  # bytes; parts of equal length up to the 1000th, then twice as long, ...
_PARTS_A_LENGTH: Final = 1000


class RangeStore(Protocol):
    """What a stream that reads needs of a store."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``."""
        ...


class PartStore(Protocol):
    """What a stream that writes needs of an object store; errors are StorageError or the store's own."""

    def replace(self, path: str, data: bytes) -> None:
        """Put an object."""
        ...

    def start_upload(self, path: str) -> Any:
        """Begin to write an object in parts."""
        ...

    def upload_part(self, path: str, upload: Any, number: int, start: int, data: bytes) -> Any:
        """Send the part with a number, from 0."""
        ...

    def finish_upload(self, path: str, upload: Any, parts: Sequence[Any], size: int) -> None:
        """Make the object of its parts."""
        ...

    def abort_upload(self, path: str, upload: Any) -> None:
        """Forget the parts."""
        ...


class RangeReader(io.RawIOBase):
    """A seekable reader of an object of known size. ``failure`` is what the store raised, if it did."""

    def __init__(self, storage: RangeStore, path: str, size: int) -> None:
        super().__init__()
        self.failure: StorageError | None = None
        self._storage, self._path, self._size, self._at = storage, path, size, 0

    def readable(self) -> bool:
        """True: it can be read."""
        return True

    def seekable(self) -> bool:
        """True: it can be moved."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset: the new position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(f"cannot read {self._path}: {base + offset} lies before its begin")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer: how many bytes, 0 at the end."""
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Read all that is left, by one request where the store gives as much."""
        found = bytearray()
        while self._at < self._size:
            found += self._next(self._size - self._at)
        return bytes(found)

    def _next(self, length: int) -> bytes:
        length = min(length, self._size - self._at)
        if length <= 0:
            return b""
        try:
            data = self._storage.read_range(self._path, self._at, length)
        except StorageError as error:
            self.failure = error
            raise OSError(str(error)) from error
        if not data:
            raise OSError(f"cannot read {self._path}: it has become shorter than {self._size} bytes")
        self._at += len(data)
        return data


class PartWriter(io.BufferedIOBase):
    """A writer of an object, which appears once the writer is closed: by one put if it is short, else in parts."""

    def __init__(self, storage: PartStore, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path
        self._buffer, self._sent = bytearray(), 0
        self._upload: Any = None
        self._parts: list[Any] = []
        self._failed = False

    def writable(self) -> bool:
        """True: it can be written to."""
        return True

    def tell(self) -> int:
        """How many bytes were written."""
        return self._sent + len(self._buffer)

    def write(self, data: Any) -> int:
        """Take bytes; full parts are sent."""
        view = memoryview(data).cast("B")
        with self._or_nothing():
            self._buffer += view
            while len(self._buffer) > self._part_length:
                self._send(self._part_length)
        return len(view)

    @property
    def _part_length(self) -> int:
        return PART * (1 + len(self._parts) // _PARTS_A_LENGTH)

    def _send(self, length: int) -> None:
        if self._upload is None:
            self._upload = self._storage.start_upload(self._path)
        part = bytes(self._buffer[:length])
        self._parts.append(self._storage.upload_part(self._path, self._upload, len(self._parts), self._sent, part))
        del self._buffer[:length]
        self._sent += length

    def _finish(self) -> None:
        if self._upload is None:
            self._storage.replace(self._path, bytes(self._buffer))
        else:
            self._send(len(self._buffer))
            self._storage.finish_upload(self._path, self._upload, self._parts, self._sent)

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """What fails ends the upload: its parts are forgotten, and no object appears."""
        if self._failed:
            raise OSError(f"cannot write {self._path}: a part of it could not be written")
        try:
            with storage_errors("write", self._path):
                yield
        except StorageError as error:
            self._failed = True
            if self._upload is not None:
                self._storage.abort_upload(self._path, self._upload)
            raise OSError(str(error)) from error

    def close(self) -> None:
        """Make the object of what was written; raises OSError if that failed."""
        if self.closed:
            return
        try:
            with self._or_nothing():
                self._finish()
        finally:
            self._buffer.clear()
            super().close()
