"""Amazon S3 and what speaks its protocol, over s3fs, which contributes the connection and the credentials (I/O)."""

from __future__ import annotations

import secrets
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.moments import epoch_ms
from lakemeta.storage import s3_versions
from lakemeta.storage.contract import Entry
from lakemeta.storage.objects import ABSENT, WRITER, ConditionFailedError, Found, NotDeleted, ObjectStorage, Page
from lakemeta.storage.store_options import S3, arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.report import Outcome
    from lakemeta.storage.contract import Renewal
    from lakemeta.storage.objects import Verdict
    from lakemeta.storage.requests import Kind

_THROTTLED: Final = frozenset({"SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "503", "429"})
_THROTTLED_MORE: Final = frozenset({"TooManyRequests", "RequestLimitExceeded", "RequestThrottled"})
_AGAIN: Final = frozenset({"InternalError", "RequestTimeout", "500", "502", "504", "ConditionalRequestConflict"})
_CONDITION_FAILED: Final = frozenset({"PreconditionFailed", "412"})

_KINDS: Final[Mapping[str, Kind]] = {
    "get_bucket_versioning": "GET",
    "list_object_versions": "LIST",
    "delete_objects": "DELETE",
    "delete_object": "DELETE",
}


def s3_storage(options: Mapping[str, str], renewal: Renewal | None = None) -> S3Storage:
    """The S3 store of these options, named as s3fs or pyiceberg does; OptionError for an unknown one."""
    try:
        import s3fs  # noqa: F401 - fsspec imports it itself; here it is only asked whether it can
    except ImportError:
        raise OptionError("s3:// needs s3fs: pip install 'lakemeta[s3]'") from None

    def renewed() -> dict[str, Any] | None:
        found = renewal() if renewal else None
        return None if found is None else s3fs_arguments(found)

    return S3Storage("s3", s3fs_arguments(options), renewed if renewal else None)


def s3fs_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of s3fs for our options. Raises OptionError for an unknown, doubled or malformed one."""
    found = arguments(S3, options)
    region, path_style = found.pop("region_name", None), found.pop("path_style", None)
    if region is not None:
        found["client_kwargs"] = {"region_name": region, **found.get("client_kwargs", {})}
    if path_style is not None:
        addressing = {"s3": {"addressing_style": "path" if path_style else "virtual"}}
        found["config_kwargs"] = {**addressing, **found.get("config_kwargs", {})}
    return found


class S3Storage(ObjectStorage):
    """S3 with exclusive creates (``If-None-Match: *``) and bulk deletes.

    A delete cannot tell a file it removed from one that was not there: both are ``deleted``.
    """

    conditions = ("If-None-Match", "If-Match")
    _versioned: Mapping[str, bool] = MappingProxyType({})

    def _connect(self) -> Any:
        settings = {"retries": {"total_max_attempts": 1}, **self.options.get("config_kwargs", {})}
        fs = self._file_system({**self.options, "config_kwargs": settings})
        fs.retries = 1
        return fs

    def _call(self, method: str, **arguments: Any) -> Any:
        try:
            return self.fs.call_s3(method, **arguments)
        except (OSError, ValueError) as error:
            if _code(error) in _CONDITION_FAILED:
                raise ConditionFailedError from error
            raise

    def _page(self, bucket: str, prefix: str, start: Any, *, flat: bool, limit: int | None) -> Page:
        more = {"ContinuationToken": start, "Delimiter": None if flat else "/", "MaxKeys": limit}
        given = {name: value for name, value in more.items() if value is not None}
        page = self._call("list_objects_v2", Bucket=bucket, Prefix=prefix, **given)
        found = page.get("Contents", ())
        return Page(
            [
                Entry(f"{bucket}/{each['Key']}", each["Size"], epoch_ms(each["LastModified"]))
                for each in found
                if not each["Key"].endswith("/")
            ],
            [each["Prefix"] for each in page.get("CommonPrefixes", ())],
            [each["Key"] for each in found if each["Key"].endswith("/")],
            page["NextContinuationToken"] if page.get("IsTruncated") else None,
        )

    def _head(self, bucket: str, key: str) -> Found:
        found = self._call("head_object", Bucket=bucket, Key=key)
        writer = found.get("Metadata", {}).get(WRITER)
        return Found(int(found["ContentLength"]), epoch_ms(found["LastModified"]), writer)

    def _get(self, bucket: str, key: str, part: tuple[int, int] | None) -> tuple[bytes, str]:
        more = {} if part is None else {"Range": f"bytes={part[0]}-{sum(part) - 1}"}
        try:
            answer = self._call("get_object", Bucket=bucket, Key=key, **more)
        except OSError as error:
            if _code(error) in ("InvalidRange", "416"):
                return b"", ""
            raise
        return self.wait_for(_content, answer["Body"]), str(answer["ETag"])

    def _put(self, bucket: str, key: str, data: bytes, version: str | None, writer: str | None) -> str:
        more: dict[str, Any] = {} if writer is None else {"Metadata": {WRITER: writer}}
        if version is not None:
            more |= {"IfNoneMatch": "*"} if version == ABSENT else {"IfMatch": version}
        return str(self._call("put_object", Bucket=bucket, Key=key, Body=data, **more)["ETag"])

    def _check_conditions(self) -> None:
        """Refuse a botocore that does not know the condition: s3fs would leave it out of the request."""
        put = self.fs.s3.meta.service_model.operation_model("PutObject")
        if "IfNoneMatch" not in put.input_shape.members:
            raise UnsupportedFeatureError("this botocore has no conditional put; pip install -U s3fs")

    def _no_version(self) -> str:
        return f'"{secrets.token_hex(16)}"'

    def _delete_keys(self, bucket: str, keys: Sequence[str]) -> dict[str, NotDeleted]:
        objects = [{"Key": key} for key in keys]
        answer = self._call("delete_objects", Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        return {error["Key"]: _not_deleted(error) for error in answer.get("Errors", ())}

    def _start_upload(self, bucket: str, key: str) -> tuple[str, str]:
        token = secrets.token_hex(16)
        answer = self._call("create_multipart_upload", Bucket=bucket, Key=key, Metadata={WRITER: token})
        return answer["UploadId"], token

    def _upload_part(self, bucket: str, key: str, upload: Any, number: int, start: int, data: bytes) -> str:  # noqa: ARG002 - other stores need the start
        part = {"PartNumber": number + 1, "UploadId": upload[0]}
        return str(self._call("upload_part", Bucket=bucket, Key=key, Body=data, **part)["ETag"])

    def _finish_upload(self, bucket: str, key: str, upload: Any, parts: Sequence[Any], size: int) -> None:  # noqa: ARG002 - other stores need the size
        numbered = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(parts, 1)]
        whole = {"UploadId": upload[0], "MultipartUpload": {"Parts": numbered}}
        try:
            self._call("complete_multipart_upload", Bucket=bucket, Key=key, **whole)
        except OSError as error:
            if _code(error) != "NoSuchUpload" or self._head(bucket, key).writer != upload[1]:
                raise  # else an earlier attempt made the object, and its answer was lost

    def _abort_upload(self, bucket: str, key: str, upload: Any) -> None:
        self._call("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=upload[0])

    def _copy_object(self, bucket: str, old: str, new_bucket: str, new: str) -> None:
        self.fs.cp_file(self._s3fs_name(bucket, old), self._s3fs_name(new_bucket, new))

    def _s3fs_name(self, bucket: str, key: str) -> str:
        """The path, unless s3fs would read a part of its name as the version of an object."""
        if "?versionId=" in key:
            raise UnsupportedFeatureError(f"cannot copy {bucket}/{key}: s3fs takes ?versionId= in a name for a version")
        return f"{bucket}/{key}"

    def keeps_versions(self, path: str) -> bool:
        """True if the bucket's versioning is enabled; it is asked once."""
        bucket = self.split(path)[0]
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
        return s3_versions.Service(self._call_again, self.exists)

    def _call_again(self, method: str, **arguments: Any) -> Any:
        return self._ask(_KINDS[method], arguments["Bucket"], lambda: self._call(method, **arguments))

    def _verdict(self, error: Exception) -> Verdict:
        from s3fs.core import S3_RETRYABLE_ERRORS

        code = _code(error)
        if code is not None:
            return _verdict(code)
        causes = (error, error.__cause__)
        return "again" if any(isinstance(each, (*S3_RETRYABLE_ERRORS, ConnectionError)) for each in causes) else None


async def _content(body: Any) -> bytes:
    """All of a body; its connection is given back also when it ends before its time."""
    try:
        return bytes(await body.read())
    finally:
        body.close()


def _verdict(code: str) -> Verdict:
    if code in _THROTTLED or code in _THROTTLED_MORE:
        return "throttled"
    return "again" if code in _AGAIN else None


def _not_deleted(error: Mapping[str, str]) -> NotDeleted:
    code = error.get("Code", "")
    return NotDeleted(_verdict(code) or "refused", f"{code}: {error.get('Message', '')}")


def _code(error: BaseException | None) -> str | None:
    """The service's error code; s3fs keeps the answer in the cause of the error it raises."""
    response = getattr(error, "response", None) or getattr(getattr(error, "__cause__", None), "response", None) or {}
    return cast("str | None", response.get("Error", {}).get("Code"))
