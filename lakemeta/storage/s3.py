"""Amazon S3 and what speaks its protocol, over s3fs.

Keys are handed to the service as they are; s3fs contributes the connection, the credentials and the retries
of requests that were throttled (its own for SlowDown, botocore's for 5xx answers and broken connections).
"""

from __future__ import annotations

import random
import secrets
import time
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakemeta.errors import (
    OptionError,
    PathExistsError,
    PathNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lakemeta.moments import epoch_ms
from lakemeta.report import Outcome
from lakemeta.storage import s3_versions
from lakemeta.storage.contract import Entry, is_checksum_file
from lakemeta.storage.failure import reason, storage_errors
from lakemeta.storage.remote import FsspecStorage
from lakemeta.storage.s3_options import s3fs_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakemeta.storage.contract import Renewal

KEYS_A_REQUEST = 1000
ATTEMPTS = 6
_TRY_AGAIN = frozenset({"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "503", "500"})
_READ_BLOCK = 8 * 2**20
_CONDITION_FAILED = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
_WRITER = "lakemeta-writer"


def s3_storage(options: Mapping[str, str], renewal: Renewal | None = None) -> S3Storage:
    """The S3 store of these options, named as s3fs or pyiceberg does; OptionError for an unknown one."""
    try:
        import s3fs  # noqa: F401 - fsspec imports it itself; here it is only asked whether it can
    except ImportError:
        raise OptionError("s3:// needs s3fs: pip install 'lakemeta[s3]'") from None

    def renewed() -> dict[str, Any] | None:
        found = renewal() if renewal else None
        return None if found is None else _arguments(found)

    return S3Storage("s3", _arguments(options), renewed if renewal else None)


def _arguments(options: Mapping[str, str]) -> dict[str, Any]:
    # One part at a time: s3fs otherwise asks for the size of every file before it reads it.
    return {"max_concurrency": 1, **s3fs_arguments(options)}


class S3Storage(FsspecStorage):
    """S3 with exclusive creates (``If-None-Match: *``) and bulk deletes.

    A delete cannot tell a file it removed from one that was not there: both are ``deleted``.
    """

    _minds_condition = False
    _minds_versions = False
    _versioned: Mapping[str, bool] = MappingProxyType({})

    def list_dir(self, path: str) -> list[Entry]:
        """The direct children of a directory, sorted by path. S3 has no empty directories."""
        entries = []
        bucket, prefix = _directory(path)
        with storage_errors("list", path):
            for page in self._pages(bucket, prefix, Delimiter="/"):
                entries += [_directory_entry(bucket, found) for found in page.get("CommonPrefixes", ())]
                entries += _files(bucket, page)
                if not entries and page.get("Contents"):
                    return []  # only its marker object: an empty directory that was made on purpose
        if not entries:
            raise PathNotFoundError(f"cannot list {path}: there is nothing in it")
        return sorted(entries, key=lambda entry: entry.path)

    def walk(self, path: str) -> Iterator[Entry]:
        """Every file below a directory."""
        bucket, prefix = _directory(path)
        empty = True
        for page in self._pages_of(path, bucket, prefix):
            empty = empty and not page.get("Contents")
            yield from _files(bucket, page)
        if empty:
            raise PathNotFoundError(f"cannot list {path}: there is nothing in it")

    def _pages_of(self, path: str, bucket: str, prefix: str) -> Iterator[Any]:
        with storage_errors("list", path):
            yield from self._pages(bucket, prefix)

    def _pages(self, bucket: str, prefix: str, **more: Any) -> Iterator[Any]:
        while True:
            page = self._call("list_objects_v2", Bucket=bucket, Prefix=prefix, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more["ContinuationToken"] = page["NextContinuationToken"]

    def _call(self, method: str, **arguments: Any) -> Any:
        return self.fs.call_s3(method, **arguments)

    def exists(self, path: str) -> bool:
        """True if a file or directory is there."""
        bucket, prefix = _directory(path)
        with storage_errors("look up", path):
            try:
                if prefix:
                    self._head(path)
                    return True
            except FileNotFoundError:
                pass
            try:
                page = self._call("list_objects_v2", Bucket=bucket, Prefix=prefix, MaxKeys=1)
            except FileNotFoundError:
                return False
            return bool(page.get("Contents"))

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        with storage_errors("look up", path):
            return int(self._head(path)["ContentLength"])

    def stat(self, path: str) -> Entry:
        """Size and last change of one file."""
        with storage_errors("look up", path):
            found = self._head(path)
            return Entry(path, int(found["ContentLength"]), epoch_ms(found["LastModified"]))

    def _head(self, path: str) -> Any:
        bucket, key = _bucket_key(path)
        return self._call("head_object", Bucket=bucket, Key=key)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        return super().read(_s3fs_name(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``; S3 itself refuses a range that holds none."""
        if not length:
            return b""
        try:
            return super().read_range(_s3fs_name(path), start, length)
        except StorageError as error:
            if _code(error.__cause__) == "InvalidRange":
                return b""
            raise

    def open_input(self, path: str) -> BinaryIO:
        """A seekable binary reader that reads ahead by 8 MiB."""
        with storage_errors("read", path):
            return cast("BinaryIO", self.fs.open(_s3fs_name(path), "rb", block_size=_READ_BLOCK))

    def open_output(self, path: str) -> BinaryIO:
        """A binary writer; the object appears once it is closed."""
        with storage_errors("write", path):
            return cast("BinaryIO", self.fs.open(_s3fs_name(path), "wb"))

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist, by a conditional put.

        The object carries a token of this call: after an answer that got lost the connection repeats the put,
        and then the service finds our own object in the way. The first create of a storage also finds out
        whether the service minds the condition at all, with a second put of the same content.
        """
        with storage_errors("create", path):
            self._need_conditional_put()
            if not self._minds_condition and self.exists(path):
                raise PathExistsError(f"cannot create {path}: it exists")
            token = secrets.token_hex(16)
            self._put_exclusively(path, data, token)
            if not self._minds_condition:
                self._need_refusal(path, data, token)

    def _put_exclusively(self, path: str, data: bytes, token: str) -> None:
        for attempt in range(ATTEMPTS):
            code = self._put_if_absent(path, data, token)
            if code is None:
                return
            if code == "PreconditionFailed":
                self._need_our_own(path, token)
                return
            _back_off(attempt)
        raise StorageError(f"cannot create {path}: {ATTEMPTS} times it met a conflicting request")

    def _need_refusal(self, path: str, data: bytes, token: str) -> None:
        """Refuse a service that puts a second object over the one that we have just made there."""
        try:
            code = self._put_if_absent(path, data, token)
        except OSError:
            return  # the file is there; the next create asks again
        self._minds_condition = code == "PreconditionFailed"
        if code is None:
            self.delete_many([path])
            raise UnsupportedFeatureError(
                f"cannot create {path}: the service ignores If-None-Match, so files cannot be created there "
                f"exclusively; update the service or keep the table elsewhere"
            )

    def _need_our_own(self, path: str, token: str) -> None:
        """Raise PathExistsError unless the object was made by the call with this token."""
        try:
            writer = self._head(path).get("Metadata", {}).get(_WRITER)
        except FileNotFoundError:
            writer = None
        if writer != token:
            raise PathExistsError(f"cannot create {path}: it exists")

    def _put_if_absent(self, path: str, data: bytes, token: str) -> str | None:
        bucket, key = _bucket_key(path)
        target = {"Bucket": bucket, "Key": key, "Metadata": {_WRITER: token}}
        try:
            self._call("put_object", Body=data, IfNoneMatch="*", **target)
        except OSError as error:
            code = _code(error)
            if code in {"PreconditionFailed", "412"}:
                return "PreconditionFailed"
            if code in {"ConditionalRequestConflict", "409"}:
                return "ConditionalRequestConflict"
            raise
        return None

    def _need_conditional_put(self) -> None:
        """Refuse a botocore that does not know the condition: s3fs would leave it out of the request."""
        put = self.fs.s3.meta.service_model.operation_model("PutObject")
        if "IfNoneMatch" not in put.input_shape.members:
            raise UnsupportedFeatureError("this botocore has no conditional put; pip install -U s3fs")

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """The whole content of an object, and its ETag."""
        from fsspec.asyn import sync

        bucket, key = _bucket_key(path)
        with storage_errors("read", path):
            answer = self._call("get_object", Bucket=bucket, Key=key)
            return sync(self.fs.loop, answer["Body"].read), str(answer["ETag"])

    def put_versioned(self, path: str, data: bytes, version: str | None) -> str | None:
        """Put new content in place of the object with this ETag, or of none, by a conditional put.

        A put whose answer got lost is repeated by the connection and then meets itself: the content tells. The first
        put of a storage is done a second time, to find out whether the service minds the condition at all.
        """
        with storage_errors("write", path):
            self._need_conditional_put()
            put = self._put_on_condition(path, data, version)
            if put is not None and not self._minds_versions:
                if self._put_on_condition(path, data, f'"{secrets.token_hex(16)}"') is not None:
                    raise UnsupportedFeatureError(
                        f"cannot write {path}: the service ignores If-Match, so it cannot keep two writers apart; "
                        f"update the service or use another lock"
                    )
                self._minds_versions = True
        if put is not None:
            return put
        try:
            found, now = self.read_versioned(path)
        except PathNotFoundError:
            return None
        return now if found == data else None

    def _put_on_condition(self, path: str, data: bytes, version: str | None) -> str | None:
        bucket, key = _bucket_key(path)
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            return str(self._call("put_object", Bucket=bucket, Key=key, Body=data, **condition)["ETag"])
        except FileNotFoundError:
            return None
        except OSError as error:
            if _code(error) in _CONDITION_FAILED:
                return None
            raise

    def replace(self, path: str, data: bytes) -> None:
        """Put new content at a path."""
        bucket, key = _bucket_key(path)
        with storage_errors("write", path):
            self._call("put_object", Bucket=bucket, Key=key, Body=data)

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files, 1000 a request, trying again for those that the service had no time for."""
        buckets: dict[str, list[str]] = defaultdict(list)
        for path in dict.fromkeys(paths):
            buckets[path.partition("/")[0]].append(path)
        failed: dict[str, str] = {}
        for bucket, mine in buckets.items():
            for start in range(0, len(mine), KEYS_A_REQUEST):
                failed |= self._delete_batch(bucket, mine[start : start + KEYS_A_REQUEST])
        return [Outcome(path, "failed", failed[path]) if path in failed else Outcome(path, "deleted") for path in paths]

    def _delete_batch(self, bucket: str, paths: list[str]) -> dict[str, str]:
        """The error of each path that is still there, after some attempts."""
        failed: dict[str, str] = {}
        for attempt in range(ATTEMPTS):
            if attempt:
                _back_off(attempt - 1)
            try:
                errors = self._delete_once(bucket, paths)
            except Exception as error:  # noqa: BLE001 - botocore raises many kinds; the outcomes tell it
                return failed | dict.fromkeys(paths, reason(error))
            failed |= {path: f"{code}: {message}" for path, (code, message) in errors.items()}
            for path in paths:
                if path not in errors:
                    failed.pop(path, None)
            paths = [path for path, (code, _) in errors.items() if code in _TRY_AGAIN]
            if not paths:
                break
        return failed

    def _delete_once(self, bucket: str, paths: list[str]) -> dict[str, tuple[str, str]]:
        """One DeleteObjects request: code and message of each path that it did not delete."""
        objects = [{"Key": _bucket_key(path)[1]} for path in paths]
        answer = self._call("delete_objects", Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        return {
            f"{bucket}/{error['Key']}": (error.get("Code", ""), error.get("Message", ""))
            for error in answer.get("Errors", ())
        }

    def keeps_versions(self, path: str) -> bool:
        """True if the bucket's versioning is enabled; it is asked once."""
        bucket = path.partition("/")[0]
        if bucket not in self._versioned:
            self._versioned = {**self._versioned, bucket: s3_versions.versioned(self._service, bucket)}
        return self._versioned[bucket]

    def hide_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Put a delete marker on each file, 1000 a request."""
        return s3_versions.hide_many(self._service, paths)

    def unhide_many(self, paths: Sequence[tuple[str, str | None]]) -> list[Outcome]:
        """Take markers off files."""
        return s3_versions.unhide_many(self._service, paths)

    def forget_many(self, paths: Sequence[tuple[str, str | None]]) -> list[Outcome]:
        """Delete for good what markers hide."""
        return s3_versions.forget_many(self._service, paths)

    @property
    def _service(self) -> s3_versions.Service:
        return s3_versions.Service(self._call, self.exists)

    def delete_tree(self, path: str) -> None:
        """Remove everything below a directory, its marker objects too; never a whole bucket."""
        bucket, prefix = _directory(path)
        if not prefix:
            raise StorageError(f"cannot remove {path}: it is a whole bucket")
        with storage_errors("remove", path):
            try:
                for page in self._pages(bucket, prefix):
                    self._delete_page(bucket, page)
            except FileNotFoundError:
                return  # no such bucket

    def _delete_page(self, bucket: str, page: Any) -> None:
        paths = [f"{bucket}/{found['Key']}" for found in page.get("Contents", ())]
        for outcome in self.delete_many(paths):
            if not outcome.done:
                raise StorageError(f"cannot remove {outcome.path}: {outcome.error}")


def _bucket_key(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


def _directory(path: str) -> tuple[str, str]:
    bucket, key = _bucket_key(path)
    return bucket, f"{key}/" if key else ""


def _s3fs_name(path: str) -> str:
    """The path, unless s3fs would read a part of its name as the version of an object."""
    if "?versionId=" in path:
        raise UnsupportedFeatureError(f"cannot open {path}: s3fs takes ?versionId= in a name for a version")
    return path


def _files(bucket: str, page: Any) -> list[Entry]:
    """The files of a page; an object whose key ends with a slash marks a directory."""
    entries = (
        Entry(f"{bucket}/{found['Key']}", found["Size"], epoch_ms(found["LastModified"]))
        for found in page.get("Contents", ())
    )
    return [entry for entry in entries if entry.name and not is_checksum_file(entry.name)]


def _directory_entry(bucket: str, found: Any) -> Entry:
    return Entry(f"{bucket}/{found['Prefix'][:-1]}", 0, 0, is_dir=True)


def _code(error: BaseException | None) -> str | None:
    """The service's error code; s3fs keeps the answer in the cause of the error it raises."""
    response = getattr(error, "response", None) or getattr(getattr(error, "__cause__", None), "response", None) or {}
    return cast("str | None", response.get("Error", {}).get("Code"))


def _back_off(attempt: int) -> None:
    """Sleep up to 0.1 s, 0.2 s, 0.4 s, ...: a random part, so that many workers do not come back at once."""
    time.sleep(random.uniform(0, 0.1 * 2**attempt))
