"""Google Cloud Storage by its JSON API, over gcsfs, which contributes the connection and the credentials (I/O).

Listings are strongly consistent. The version of an object is its generation, of an absent one 0.
"""

from __future__ import annotations

import email.parser
import email.policy
import io
import json
import re
import secrets
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.json_text import parse_json
from lakemeta.moments import epoch_ms
from lakemeta.storage.contract import Entry
from lakemeta.storage.objects import ABSENT, WRITER, ConditionFailedError, Found, NotDeleted, ObjectStorage, Page
from lakemeta.storage.store_options import GCS, arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.storage.contract import Renewal
    from lakemeta.storage.objects import Verdict

_OBJECT: Final = "b/{}/o/{}"
_LISTED: Final = "nextPageToken,prefixes,items(name,size,updated)"
_STATUS: Final = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})")
_PERSISTED: Final = re.compile(r"bytes=0-([0-9]+)")


def gcs_storage(options: Mapping[str, str], renewal: Renewal | None = None) -> GcsStorage:
    """The store of these options, named as gcsfs or pyiceberg does; OptionError for an unknown one."""
    try:
        import gcsfs  # noqa: F401 - fsspec imports it itself; here it is only asked whether it can
    except ImportError:
        raise OptionError("gs:// needs gcsfs: pip install 'lakemeta[gcs]'") from None

    def renewed() -> dict[str, Any] | None:
        found = renewal() if renewal else None
        return None if found is None else arguments(GCS, found)

    return GcsStorage("gs", arguments(GCS, options), renewed if renewal else None)


class _RefusedError(OSError):
    """The service's answer to a request that it did not carry out."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {_message(body)}")
        self.status = status


class GcsStorage(ObjectStorage):
    """Google Cloud Storage with exclusive creates (``ifGenerationMatch=0``) and batches of deletes."""

    conditions = ("ifGenerationMatch=0", "ifGenerationMatch")
    keys_a_request = 100

    def _connect(self) -> Any:
        options = dict(self.options)
        token = options.pop("oauth2_token", None)
        if token is not None:
            from google.oauth2.credentials import Credentials

            options["token"] = Credentials(token)  # type: ignore[no-untyped-call]
        return self._file_system(options)

    def _call(self, method: str, path: str, *names: str, **arguments: Any) -> tuple[Mapping[str, str], bytes]:
        """One request: ``names`` go into ``path``, which begins with ``http`` or is one of the JSON API."""
        return cast("tuple[Mapping[str, str], bytes]", self.wait_for(self._send, method, path, names, **arguments))

    async def _send(
        self,
        method: str,
        path: str,
        names: Sequence[str],
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        **params: str | None,
    ) -> tuple[Mapping[str, str], bytes]:
        """Gcsfs's own request would repeat itself for a minute before it says that the service is busy."""
        fs = self.fs
        await fs._set_session()  # noqa: SLF001 - it has no public name
        url = (path if path.startswith("http") else fs.base + path).format(*(quote(name, safe="") for name in names))
        async with fs.session.request(
            method,
            url,
            params=fs._get_params(params),  # noqa: SLF001 - adds who pays
            headers=fs._get_headers(headers),  # noqa: SLF001 - adds credentials
            data=None if data is None else io.BytesIO(data),
        ) as answer:
            body = await answer.read()
            if answer.status == 404:
                raise FileNotFoundError(_message(body))
            if answer.status == 412:
                raise ConditionFailedError
            if answer.status >= 400:
                raise _RefusedError(answer.status, body)
            return answer.headers, body

    def _page(self, bucket: str, prefix: str, start: Any, *, flat: bool, limit: int | None) -> Page:
        page = json.loads(
            self._call(
                "GET",
                "b/{}/o",
                bucket,
                prefix=prefix or None,
                pageToken=start,
                delimiter=None if flat else "/",
                maxResults=None if limit is None else str(limit),
                fields=_LISTED,
            )[1]
        )
        found = page.get("items", ())
        return Page(
            [
                Entry(f"{bucket}/{each['name']}", int(each["size"]), _modified(each))
                for each in found
                if not each["name"].endswith("/")
            ],
            list(page.get("prefixes", ())),
            [each["name"] for each in found if each["name"].endswith("/")],
            page.get("nextPageToken") or None,
        )

    def _head(self, bucket: str, key: str) -> Found:
        found = json.loads(self._call("GET", _OBJECT, bucket, key)[1])
        return Found(int(found["size"]), _modified(found), found.get("metadata", {}).get(WRITER))

    def _get(self, bucket: str, key: str, part: tuple[int, int] | None) -> tuple[bytes, str]:
        headers = {} if part is None else {"Range": f"bytes={part[0]}-{sum(part) - 1}"}
        try:
            answer, body = self._call("GET", _OBJECT, bucket, key, headers=headers, alt="media")
        except _RefusedError as error:
            if error.status == 416:
                return b"", ""
            raise
        return body, answer.get("X-Goog-Generation", "")

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """The whole content of a file, and its generation."""
        data, version = super().read_versioned(path)
        if not version:
            raise UnsupportedFeatureError(f"cannot read {self.url(path)}: the service does not name its generation")
        return data, version

    def _put(self, bucket: str, key: str, data: bytes, version: str | None, writer: str | None) -> str:
        if version and not version.isdecimal():
            raise ConditionFailedError
        boundary = secrets.token_hex(16)
        facts = {"name": key, "metadata": {} if writer is None else {WRITER: writer}}
        head = "Content-Type: {}\r\n\r\n"
        body = b"".join(
            (
                f"--{boundary}\r\n{head.format('application/json; charset=UTF-8')}{json.dumps(facts)}\r\n".encode(),
                f"--{boundary}\r\n{head.format('application/octet-stream')}".encode(),
                data,
                f"\r\n--{boundary}--".encode(),
            )
        )
        answer = self._call(
            "POST",
            self._upload_url,
            bucket,
            uploadType="multipart",
            ifGenerationMatch="0" if version == ABSENT else version,
            headers={"Content-Type": f'multipart/related; boundary="{boundary}"'},
            data=body,
        )[1]
        return str(json.loads(answer)["generation"])

    @property
    def _upload_url(self) -> str:
        return f"{self.fs.base.removesuffix('/storage/v1/')}/upload/storage/v1/b/{{}}/o"

    def _no_version(self) -> str:
        return "1"  # generations are times in microseconds

    def _delete_keys(self, bucket: str, keys: Sequence[str]) -> dict[str, NotDeleted]:
        boundary = secrets.token_hex(16)
        parts = (
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
            f"DELETE /storage/v1/b/{quote(bucket, safe='')}/o/{quote(key, safe='')}{self._payer} HTTP/1.1\r\n\r\n\r\n"
            for number, key in enumerate(keys)
        )
        headers, body = self._call(
            "POST",
            self.fs.batch_url_base.replace("{", "{{").replace("}", "}}"),
            headers={"Content-Type": f'multipart/mixed; boundary="{boundary}"'},
            data=f"{''.join(parts)}--{boundary}--".encode(),
        )
        statuses = _statuses(headers["Content-Type"], body)
        found = {key: _not_deleted(*statuses.get(number, (0, ""))) for number, key in enumerate(keys)}
        return {key: answer for key, answer in found.items() if answer is not None}

    @property
    def _payer(self) -> str:
        payer = self.fs._get_params({}).get("userProject")  # noqa: SLF001 - it has no public name
        return f"?userProject={quote(payer, safe='')}" if payer else ""

    def _start_upload(self, bucket: str, key: str) -> str:
        headers, _ = self._call("POST", self._upload_url, bucket, uploadType="resumable", name=key)
        return headers["Location"].replace("{", "{{").replace("}", "}}")

    def _upload_part(self, bucket: str, key: str, upload: Any, number: int, start: int, data: bytes) -> None:  # noqa: ARG002 - other stores need the number
        end = start + len(data)
        while start < end:
            range_ = f"bytes {start}-{end - 1}/*"
            headers, _ = self._call("PUT", upload, headers={"Content-Range": range_}, data=data[start - end :])
            persisted = _PERSISTED.match(headers.get("Range", ""))
            if persisted is None or int(persisted[1]) < start:
                raise OSError(f"{key}: the service kept nothing from byte {start} on")
            start = int(persisted[1]) + 1

    def _finish_upload(self, bucket: str, key: str, upload: Any, parts: Sequence[Any], size: int) -> None:  # noqa: ARG002 - other stores need the parts
        self._call("PUT", upload, headers={"Content-Range": f"bytes */{size}"}, data=b"")

    def _abort_upload(self, bucket: str, key: str, upload: Any) -> None:  # noqa: ARG002 - the session says it all
        self._call("DELETE", upload)

    def _copy_object(self, bucket: str, old: str, new_bucket: str, new: str) -> None:
        more: str | None = None
        while True:
            path = f"{_OBJECT}/rewriteTo/{_OBJECT}"
            answer = json.loads(self._call("POST", path, bucket, old, new_bucket, new, rewriteToken=more)[1])
            more = answer.get("rewriteToken")
            if answer.get("done", True) or more is None:
                return

    def _verdict(self, error: Exception) -> Verdict:
        import aiohttp
        from google.auth.exceptions import RefreshError, TransportError

        if isinstance(error, _RefusedError):
            return _verdict(error.status)
        lost = (aiohttp.ClientError, TimeoutError, ConnectionError, RefreshError, TransportError)
        return "again" if isinstance(error, lost) else None


def _verdict(status: int) -> Verdict:
    if status in (429, 503):
        return "throttled"
    return "again" if status in (0, 408, 500, 502, 504) else None


def _not_deleted(status: int, answer: str) -> NotDeleted | None:
    """What one answer of a batch means; None if the object was deleted. No answer is status 0."""
    if 200 <= status < 300:
        return None
    if status == 404:
        return NotDeleted("absent")
    message = _message(answer.rpartition("\r\n\r\n")[2].encode()) if status else "the service gave no answer"
    return NotDeleted(_verdict(status) or "refused", f"{status}: {message}")


def _statuses(content_type: str, body: bytes) -> dict[int, tuple[int, str]]:
    """The HTTP status and the text of each answer of a batch, by the number of its request; {} if it is none."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    found = {}
    try:
        answers = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body).iter_parts()
        parts = [(str(part.get("Content-ID", "")), str(part.get_payload())) for part in answers]
    except (RecursionError, ValueError, LookupError, TypeError):  # parts in parts, codings that are none
        return {}
    for name, text in parts:
        number = re.search(r"\b([0-9]{1,9})>?$", name)
        status = _STATUS.search(text)
        if number and status:
            found[int(number[1])] = int(status[1]), text
    return found


def _message(body: bytes) -> str:
    """The service's sentence in the body of an answer."""
    text = body.decode("utf-8", "replace").strip()
    try:
        error = parse_json(text)["error"]
        return str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _modified(found: Mapping[str, str]) -> int:
    return epoch_ms(datetime.fromisoformat(found["updated"]))
