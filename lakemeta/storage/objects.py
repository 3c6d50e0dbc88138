"""What all object stores have in common (I/O): the contract's operations, made of a few requests that each store knows.

1. Keys are handed to the service as they are. A directory is what keys have before a slash.
2. Each request is tried up to ``ATTEMPTS`` times, at the pace that :mod:`lakemeta.storage.backoff` has for its prefix;
   the connection below repeats nothing by itself.
3. A create is a put on the condition that there is no object. It carries a token of the call: after an answer that got
   lost the put is repeated, and then meets the object that it has made itself.
4. Whether a service minds conditions at all is found out by the first create and the first conditional put.
5. Deletions go in requests of as many keys as the store takes. Only what failed, and may be asked for again, is.
"""

from __future__ import annotations

import io
import secrets
from abc import abstractmethod
from collections import defaultdict
from contextlib import suppress
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeVar, cast

import attrs

from lakemeta.errors import PathExistsError, PathNotFoundError, StorageError, UnsupportedFeatureError
from lakemeta.report import Outcome
from lakemeta.storage.backoff import BACKOFF
from lakemeta.storage.contract import Entry, is_checksum_file
from lakemeta.storage.failure import reason, storage_errors
from lakemeta.storage.remote import FsspecStorage
from lakemeta.storage.streams import READ_AHEAD, PartWriter, RangeReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.storage.requests import Kind

ATTEMPTS: Final = 8
ABSENT: Final = ""  # the version of an object that is not there
WRITER: Final = "lakemetawriter"  # metadata of an object: the token of the call that made it; no store minds the name

Verdict = Literal["throttled", "again"] | None
_T = TypeVar("_T")


class ConditionFailedError(Exception):
    """The object is there, or has another version."""


@attrs.frozen(slots=True)
class Page:
    """A part of a listing: objects as files, the prefixes up to the next slash, and where the next page begins.

    ``markers`` are the keys of objects that are no files but mark directories.
    """

    files: list[Entry]
    prefixes: list[str]
    markers: list[str]
    next: Any = None


@attrs.frozen(slots=True)
class Found:
    """What a store says of one object; ``writer`` is the token of the call that made it, if one did."""

    size: int
    modified_ms: int
    writer: str | None = None
    is_dir: bool = False


@attrs.frozen(slots=True)
class NotDeleted:
    """Why a key was not deleted: absent, refused for good, or worth another request."""

    why: Literal["absent", "refused", "again", "throttled"]
    error: str = ""


class ObjectStorage(FsspecStorage):
    """An object store with conditional puts and deletions of many keys a request."""

    conditions = ("a condition", "a condition")  # what the service may ignore, in its own words: of creates, of puts
    keys_a_request = 1000
    _minds_condition = False
    _minds_versions = False

    # What each store knows. All but the last two are one request; a missing object or bucket is a FileNotFoundError.

    @abstractmethod
    def _page(self, bucket: str, prefix: str, start: Any, *, flat: bool, limit: int | None) -> Page: ...

    @abstractmethod
    def _head(self, bucket: str, key: str) -> Found: ...

    @abstractmethod
    def _get(self, bucket: str, key: str, part: tuple[int, int] | None) -> tuple[bytes, str]:
        """Content and version: all of it, or so many bytes from a start, none where the object ends before."""

    @abstractmethod
    def _put(self, bucket: str, key: str, data: bytes, version: str | None, writer: str | None) -> str:
        """Put an object in place of a version (None: whatever is there): the new version, or ConditionFailedError."""

    @abstractmethod
    def _delete_keys(self, bucket: str, keys: Sequence[str]) -> dict[str, NotDeleted]: ...

    @abstractmethod
    def _start_upload(self, bucket: str, key: str) -> Any: ...

    @abstractmethod
    def _upload_part(self, bucket: str, key: str, upload: Any, number: int, start: int, data: bytes) -> Any: ...

    @abstractmethod
    def _finish_upload(self, bucket: str, key: str, upload: Any, parts: Sequence[Any], size: int) -> None: ...

    def _abort_upload(self, bucket: str, key: str, upload: Any) -> None:
        """Forget what was sent; nothing to do where the store forgets it by itself."""

    @abstractmethod
    def _copy_object(self, bucket: str, old: str, new_bucket: str, new: str) -> None:
        """Copy an object inside of the store; it may take several requests."""

    @abstractmethod
    def _verdict(self, error: Exception) -> Verdict: ...

    @abstractmethod
    def _no_version(self) -> str:
        """A version that no object has."""

    def split(self, path: str) -> tuple[str, str]:
        """The bucket and the key of a path; UnsupportedFeatureError for a key that the store takes for another."""
        bucket, _, key = path.partition("/")
        return bucket, key

    def _ask(self, kind: Kind, path: str, request: Callable[[], _T], keys: int = 1) -> _T:
        """Do a request below a path, again while the service says that it may succeed later."""
        prefix = f"{self.scheme}://{path}"
        for attempt in range(ATTEMPTS):
            asked = BACKOFF.turn(prefix, keys)
            self.requests.count(kind)
            try:
                answer = request()
            except Exception as error:
                verdict = self._verdict(error)
                if verdict == "throttled":
                    BACKOFF.throttled(prefix, asked)
                if verdict is None or attempt == ATTEMPTS - 1:
                    raise
            else:
                BACKOFF.succeeded(prefix)
                return answer
            BACKOFF.pause(attempt)
        raise AssertionError

    def _pages(self, path: str, *, flat: bool) -> Iterator[Page]:
        bucket, key = self.split(path)
        prefix, start = f"{key}/" if key else "", None
        while True:
            begin = start
            page = self._ask("LIST", path, lambda: self._page(bucket, prefix, begin, flat=flat, limit=None))  # noqa: B023 - called at once
            yield page
            start = page.next
            if start is None:
                return

    def list_dir(self, path: str) -> list[Entry]:
        """The direct children of a directory, sorted by path. There are no empty directories but marked ones."""
        entries: dict[str, Entry] = {}
        bucket = self.split(path)[0]
        with storage_errors("list", self.url(path)):
            for page in self._pages(path, flat=False):
                for prefix in page.prefixes:
                    entries[f"{bucket}/{prefix[:-1]}"] = Entry(f"{bucket}/{prefix[:-1]}", 0, 0, is_dir=True)
                entries |= {entry.path: entry for entry in _files(page)}
                if not entries and page.markers:
                    return []  # only its marker object: an empty directory that was made on purpose
        if not entries:
            raise PathNotFoundError(f"cannot list {path}: there is nothing in it")
        return sorted(entries.values(), key=lambda entry: entry.path)

    def walk(self, path: str) -> Iterator[Entry]:
        """Every file below a directory."""
        empty, pages = True, self._pages(path, flat=True)
        while True:
            with storage_errors("list", self.url(path)):
                page = next(pages, None)
            if page is None:
                break
            empty = empty and not page.files and not page.markers
            yield from _files(page)
        if empty:
            raise PathNotFoundError(f"cannot list {path}: there is nothing in it")

    def exists(self, path: str) -> bool:
        """True if a file or directory is there."""
        bucket, key = self.split(path)
        with storage_errors("look up", self.url(path)):
            try:
                if key:
                    self._look_up(path)
                    return True
            except FileNotFoundError:
                pass
            prefix = f"{key}/" if key else ""
            try:
                page = self._ask("LIST", path, lambda: self._page(bucket, prefix, None, flat=True, limit=1))
            except FileNotFoundError:
                return False
            return bool(page.files or page.markers or page.prefixes)

    def _look_up(self, path: str) -> Found:
        return self._ask("HEAD", _folder(path), lambda: self._head(*self.split(path)))

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self.stat(path).size

    def stat(self, path: str) -> Entry:
        """Size and last change of one file."""
        with storage_errors("look up", self.url(path)):
            found = self._look_up(path)
        if found.is_dir:
            raise StorageError(f"cannot look up {path}: it is a directory")
        return Entry(path, found.size, found.modified_ms)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        return self.read_versioned(path)[0]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``."""
        if not length:
            return b""
        with storage_errors("read", self.url(path)):
            return self._ask("GET", _folder(path), lambda: self._get(*self.split(path), (start, length)))[0]

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """The whole content of a file, and its version."""
        with storage_errors("read", self.url(path)):
            return self._ask("GET", _folder(path), lambda: self._get(*self.split(path), None))

    def open_input(self, path: str) -> BinaryIO:
        """A seekable binary reader that reads ahead by 8 MiB."""
        return cast("BinaryIO", io.BufferedReader(RangeReader(self, path, self.stat(path).size), READ_AHEAD))

    def open_output(self, path: str) -> BinaryIO:
        """A binary writer; the object appears once it is closed."""
        return cast("BinaryIO", PartWriter(self, path))

    def start_upload(self, path: str) -> Any:
        """Begin to write an object in parts: what the other two need to know of it."""
        return self._ask("PUT", _folder(path), lambda: self._start_upload(*self.split(path)))

    def upload_part(self, path: str, upload: Any, number: int, start: int, data: bytes) -> Any:
        """Send the part with a number, from 0, which begins at a byte of the object: what the end needs to know."""
        bucket, key = self.split(path)
        return self._ask("PUT", _folder(path), lambda: self._upload_part(bucket, key, upload, number, start, data))

    def finish_upload(self, path: str, upload: Any, parts: Sequence[Any], size: int) -> None:
        """Make the object of its parts."""
        self._ask("PUT", _folder(path), lambda: self._finish_upload(*self.split(path), upload, parts, size))

    def abort_upload(self, path: str, upload: Any) -> None:
        """Forget the parts that were sent, as far as the store answers: they are no object."""
        with suppress(Exception):
            self._ask("DELETE", _folder(path), lambda: self._abort_upload(*self.split(path), upload))

    def replace(self, path: str, data: bytes) -> None:
        """Put new content at a path."""
        with storage_errors("write", self.url(path)):
            self._put_on(path, data, None)

    def _put_on(self, path: str, data: bytes, version: str | None, writer: str | None = None) -> str:
        return self._ask("PUT", _folder(path), lambda: self._put(*self.split(path), data, version, writer))

    def _copy(self, old: str, new: str) -> None:
        with storage_errors("copy", self.url(old)):
            self._ask("PUT", _folder(new), lambda: self._copy_object(*self.split(old), *self.split(new)))

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist, by a conditional put."""
        with storage_errors("create", self.url(path)):
            self._check_conditions()
            if not self._minds_condition and self.exists(path):
                raise PathExistsError(f"cannot create {path}: it exists")
            token = secrets.token_hex(16)
            try:
                self._put_on(path, data, ABSENT, token)
            except ConditionFailedError:
                self._need_our_own(path, token)
            if not self._minds_condition:
                self._need_refusal(path, data, token)

    def _check_conditions(self) -> None:
        """Refuse a library that would leave conditions out of its requests."""

    def _need_our_own(self, path: str, token: str) -> None:
        """Raise PathExistsError unless the object was made by the call with this token."""
        try:
            writer = self._look_up(path).writer
        except FileNotFoundError:
            writer = None
        if writer != token:
            raise PathExistsError(f"cannot create {path}: it exists")

    def _need_refusal(self, path: str, data: bytes, token: str) -> None:
        """Refuse a service that puts a second object over the one that we have just made there."""
        try:
            self._put_on(path, data, ABSENT, token)
        except ConditionFailedError:
            self._minds_condition = True
            return
        except Exception:  # noqa: BLE001 - the file is there, whatever this is; the next create asks again
            return
        self.delete_many([path])
        raise UnsupportedFeatureError(
            f"cannot create {self.url(path)}: the service ignores {self.conditions[0]}, so files cannot be created "
            f"there exclusively and tables there can only be planned; update the service or keep the table elsewhere"
        )

    def put_versioned(self, path: str, data: bytes, version: str | None) -> str | None:
        """Put new content in place of a version, or of nothing, by a conditional put.

        A put whose answer got lost is repeated and then meets itself: the content says so.
        """
        with storage_errors("write", self.url(path)):
            self._check_conditions()
            put = self._put_if(path, data, ABSENT if version is None else version)
            if put is not None and not self._minds_versions:
                if self._put_if(path, data, self._no_version()) is not None:
                    raise UnsupportedFeatureError(
                        f"cannot write {self.url(path)}: the service ignores {self.conditions[1]}, so it cannot keep "
                        f"two writers apart; update the service or use another lock"
                    )
                self._minds_versions = True
        if put is not None:
            return put
        try:
            found, now = self.read_versioned(path)
        except PathNotFoundError:
            return None
        return now if found == data else None

    def _put_if(self, path: str, data: bytes, version: str) -> str | None:
        try:
            return self._put_on(path, data, version)
        except (ConditionFailedError, FileNotFoundError):
            return None

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files, in requests of many keys, trying again for those that the service had no time for."""
        buckets: dict[str, list[str]] = defaultdict(list)
        for path in dict.fromkeys(paths):
            bucket, key = self.split(path)
            buckets[bucket].append(key)
        left: dict[str, Outcome] = {}
        for bucket, keys in buckets.items():
            for start in range(0, len(keys), self.keys_a_request):
                for key, answer in self._delete_batch(bucket, keys[start : start + self.keys_a_request]).items():
                    path = f"{bucket}/{key}"
                    absent = answer.why == "absent"
                    left[path] = Outcome(path, "absent") if absent else Outcome(path, "failed", answer.error)
        return [left.get(path) or Outcome(path, "deleted") for path in paths]

    def _delete_batch(self, bucket: str, keys: list[str]) -> dict[str, NotDeleted]:
        """What became of each key that was not deleted, after some attempts."""
        answers: dict[str, NotDeleted] = {}
        for attempt in range(ATTEMPTS):
            folder = _folder(f"{bucket}/{commonprefix([min(keys), max(keys)])}")  # noqa: RUF071 - up to a slash
            asked = BACKOFF.clock()
            try:
                found = self._ask("DELETE", folder, lambda: self._delete_keys(bucket, keys), len(keys))  # noqa: B023 - called at once
            except Exception as error:  # noqa: BLE001 - libraries raise many kinds; the outcomes tell it
                return answers | dict.fromkeys(keys, NotDeleted("refused", reason(error)))
            for key in keys:
                answers.pop(key, None)
            answers |= found
            keys = [key for key, answer in found.items() if answer.why in ("again", "throttled")]
            if not keys:
                break
            if any(answer.why == "throttled" for answer in found.values()):
                BACKOFF.throttled(f"{self.scheme}://{folder}", asked)
            if attempt < ATTEMPTS - 1:
                BACKOFF.pause(attempt)
        return answers

    def delete_tree(self, path: str) -> None:
        """Remove everything below a directory, its marker objects too, the deepest last; never a whole bucket."""
        bucket, key = self.split(path)
        if not key:
            raise StorageError(f"cannot remove {path}: it is a whole bucket")
        markers: list[str] = []
        with storage_errors("remove", self.url(path)):
            try:
                for page in self._pages(path, flat=True):
                    self._delete_all([entry.path for entry in page.files])
                    markers += (f"{bucket}/{marker}" for marker in page.markers)
            except FileNotFoundError:
                return  # no such bucket
            by_depth: dict[int, list[str]] = defaultdict(list)
            for marker in markers:
                by_depth[marker.rstrip("/").count("/")].append(marker)
            for depth in sorted(by_depth, reverse=True):
                self._delete_all(by_depth[depth])

    def _delete_all(self, paths: Sequence[str]) -> None:
        for outcome in self.delete_many(paths):
            if not outcome.done:
                raise StorageError(f"cannot remove {outcome.path}: {outcome.error}")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _files(page: Page) -> Iterator[Entry]:
    return (entry for entry in page.files if not is_checksum_file(entry.name))
