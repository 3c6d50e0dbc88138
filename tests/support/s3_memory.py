"""An S3 service in memory, as a function of requests: small, fast, and with exactly the answers that S3 documents.

It knows objects with their metadata, conditional puts, ranges, pages of listings, bulk deletes and copies. It checks no
signature. ``tests/contract`` has real servers; this one is for runs by the thousand.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import attrs

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@attrs.frozen
class Request:
    """A request of HTTP; ``path`` as it was sent, names of headers in small letters."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = attrs.field(default=b"", repr=False)

    @property
    def args(self) -> dict[str, str]:
        return dict(parse_qsl(self.query, keep_blank_values=True))

    @property
    def is_bulk_delete(self) -> bool:
        return self.method == "POST" and "delete" in self.args

    @property
    def is_listing(self) -> bool:
        return self.method == "GET" and "list-type" in self.args

    @property
    def is_conditional_put(self) -> bool:
        return self.method == "PUT" and not {"if-none-match", "if-match"}.isdisjoint(self.headers)


@attrs.frozen
class Response:
    """An answer; that to a HEAD has headers of a body, and no body."""

    status: int
    body: bytes = attrs.field(default=b"", repr=False)
    headers: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Stored:
    """An object as it is kept."""

    data: bytes = attrs.field(repr=False)
    modified: datetime = LONG_AGO
    metadata: dict[str, str] = attrs.field(factory=dict)

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


def error(status: int, code: str, message: str = "as it goes") -> Response:
    """The service's answer with an error."""
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Response(status, text.encode(), {"content-type": "application/xml"})


def delete_body(keys: list[str]) -> bytes:
    """The body of a bulk delete."""
    return f"<Delete>{''.join(f'<Object><Key>{escape(k)}</Key></Object>' for k in keys)}</Delete>".encode()


def keys_to_delete(body: bytes) -> list[str]:
    """The keys that a bulk delete names."""
    return [found.text or "" for found in _all(ET.fromstring(body), "Key")]


def delete_answer(deleted: list[str], failed: dict[str, str]) -> Response:
    """The answer to a bulk delete: keys, and codes of errors by key."""
    done = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in deleted)
    errors = "".join(
        f"<Error><Key>{escape(key)}</Key><Code>{code}</Code><Message>as it goes</Message></Error>"
        for key, code in failed.items()
    )
    return _xml(f"<DeleteResult>{done}{errors}</DeleteResult>")


class MemoryS3:
    """``objects`` are those of all buckets, by ``bucket/key``; a bucket is there as soon as it is used."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self._lock = threading.Lock()

    def load(self, files: dict[str, bytes]) -> None:
        """Put these objects in place of all that there are."""
        self.objects = {name: Stored(data) for name, data in files.items()}

    def dump(self) -> dict[str, bytes]:
        """Every object."""
        return {name: stored.data for name, stored in self.objects.items()}

    def __call__(self, request: Request) -> Response:
        """Answer a request; one at a time, as conditional puts need it."""
        bucket, _, key = unquote(request.path).removeprefix("/").partition("/")
        with self._lock:
            if request.is_bulk_delete:
                return self._delete_many(bucket, request)
            if request.is_listing:
                return self._list(bucket, request.args)
            if not key:
                return Response(200)
            return getattr(self, f"_{request.method.lower()}")(f"{bucket}/{key}", request)

    def _put(self, name: str, request: Request) -> Response:
        found, headers = self.objects.get(name), request.headers
        if headers.get("if-none-match") == "*" and found is not None:
            return error(412, "PreconditionFailed")
        if "if-match" in headers and found is None:
            return error(404, "NoSuchKey")
        if found is not None and headers.get("if-match", found.etag) != found.etag:
            return error(412, "PreconditionFailed")
        metadata = {k: v for k, v in headers.items() if k.startswith("x-amz-meta-")}
        if "x-amz-copy-source" in headers:
            return self._copy(name, unquote(headers["x-amz-copy-source"]).removeprefix("/"))
        stored = self.objects[name] = Stored(request.body, datetime.now(UTC), metadata)
        return Response(200, b"", {"etag": stored.etag})

    def _copy(self, name: str, source: str) -> Response:
        if source not in self.objects:
            return error(404, "NoSuchKey")
        stored = self.objects[name] = attrs.evolve(self.objects[source], modified=datetime.now(UTC))
        return _xml(f"<CopyObjectResult><ETag>{escape(stored.etag)}</ETag></CopyObjectResult>")

    def _get(self, name: str, request: Request) -> Response:
        found = self.objects.get(name)
        if found is None:
            return error(404, "NoSuchKey")
        data, headers = found.data, self._headers(found)
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        if match is None:
            return Response(200, data, headers)
        start = int(match[1]) if match[1] else max(len(data) - int(match[2]), 0)
        end = min(int(match[2]) + 1 if match[1] and match[2] else len(data), len(data))
        if start >= len(data):
            return error(416, "InvalidRange")
        headers["content-range"] = f"bytes {start}-{end - 1}/{len(data)}"
        return Response(206, data[start:end], headers)

    def _head(self, name: str, _: Request) -> Response:
        found = self.objects.get(name)
        if found is None:
            return Response(404, b"", {"content-length": "0"})
        return Response(200, b"", {**self._headers(found), "content-length": str(len(found.data))})

    def _delete(self, name: str, _: Request) -> Response:
        self.objects.pop(name, None)
        return Response(204)

    def _headers(self, found: Stored) -> dict[str, str]:
        modified = format_datetime(found.modified, usegmt=True)
        return {"etag": found.etag, "last-modified": modified, "accept-ranges": "bytes", **found.metadata}

    def _delete_many(self, bucket: str, request: Request) -> Response:
        keys = keys_to_delete(request.body)
        if len(keys) > 1000:
            return error(400, "MalformedXML")
        for key in keys:
            self.objects.pop(f"{bucket}/{key}", None)
        quiet = any(found.text == "true" for found in _all(ET.fromstring(request.body), "Quiet"))
        return delete_answer([] if quiet else keys, {})

    def _list(self, bucket: str, args: dict[str, str]) -> Response:
        prefix, delimiter = f"{bucket}/{args.get('prefix', '')}", args.get("delimiter", "")
        after = base64.b64decode(args["continuation-token"]).decode() if "continuation-token" in args else ""
        names: dict[str, Any] = {}
        for name in sorted(name for name in self.objects if name.startswith(prefix)):
            rest = name[len(prefix) :]
            folder = prefix + rest.partition(delimiter)[0] + delimiter if delimiter and delimiter in rest else ""
            names.setdefault(folder or name, None if folder else self.objects[name])
        left = [name for name in names if name > after and not (after.endswith("/") and name.startswith(after))]
        count = int(args.get("max-keys") or 1000)
        page = left[:count]

        def said(name: str) -> str:
            key = name.removeprefix(f"{bucket}/")
            return quote(key) if args.get("encoding-type") == "url" else escape(key)

        parts = [f"<Name>{bucket}</Name><KeyCount>{len(page)}</KeyCount>"]
        for name in page:
            if (stored := names[name]) is None:
                parts.append(f"<CommonPrefixes><Prefix>{said(name)}</Prefix></CommonPrefixes>")
            else:
                parts.append(
                    f"<Contents><Key>{said(name)}</Key><Size>{len(stored.data)}</Size>"
                    f"<LastModified>{stored.modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
                    f"<ETag>{escape(stored.etag)}</ETag></Contents>"
                )
        more = len(left) > len(page)
        parts.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            token = base64.b64encode(page[-1].encode()).decode()
            parts.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
        if args.get("encoding-type") == "url":
            parts.append("<EncodingType>url</EncodingType>")
        return _xml(f"<ListBucketResult>{''.join(parts)}</ListBucketResult>")


def _xml(text: str) -> Response:
    return Response(200, f"<?xml version='1.0'?>{text}".encode(), {"content-type": "application/xml"})


def _all(root: Any, name: str) -> list[Any]:
    return [found for found in root.iter() if found.tag.rpartition("}")[2] == name]
