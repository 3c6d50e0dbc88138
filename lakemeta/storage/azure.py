"""Azure Blob Storage and Data Lake Storage by the Blob API, over adlfs, which contributes the client (I/O).

Paths are ``container/path``; the storage account is the storage's own, in its scheme (``abfs:account``), so that paths
of another account are those of another store. Accounts with a hierarchical namespace have directories of their own:
blobs with the metadata ``hdi_isfolder``, which are deleted after what lies in them.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.moments import epoch_ms
from lakemeta.paths import AZURE_DOMAIN, azure_account
from lakemeta.storage.contract import Entry
from lakemeta.storage.failure import storage_errors
from lakemeta.storage.objects import (
    ABSENT,
    WRITER,
    ConditionFailedError,
    Found,
    NotDeleted,
    ObjectStorage,
    Page,
)
from lakemeta.storage.store_options import AZURE, arguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from lakemeta.storage.contract import Renewal
    from lakemeta.storage.objects import Verdict

_FOLDER: Final = "hdi_isfolder"
_COPY_LOOK: Final = 0.5  # seconds between looks at a copy that the service has not done at once
_ONCE: Final[Mapping[str, int]] = {"retry_total": 0}  # what is to be repeated, ObjectStorage repeats


def azure_storage(account: str, options: Mapping[str, str], renewal: Renewal | None = None) -> AzureStorage:
    """The store of an account (empty: the one that options or environment name); options as of adlfs or pyiceberg.

    Raises OptionError for an unknown option, for no account and for two.
    """
    try:
        import adlfs  # noqa: F401 - fsspec imports it itself; here it is only asked whether it can
    except ImportError:
        raise OptionError("abfss:// needs adlfs: pip install 'lakemeta[azure]'") from None

    account, first = _with_account(account, arguments(AZURE, options))

    def renewed() -> dict[str, Any] | None:
        found = renewal() if renewal else None
        return None if found is None else _with_account(account, arguments(AZURE, found))[1]

    return AzureStorage(f"abfs:{account}", first, renewed if renewal else None)


def _with_account(account: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The account, and the options with its name, which must not lead to another one."""
    connection = given.get("connection_string") or os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    in_connection = re.search(r"(?:^|;)\s*AccountName=([^;]+)", connection, re.IGNORECASE)
    named = in_connection[1] if in_connection else given.get("account_name")
    named = named or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    label, _, domain = account.partition(".")
    if label and named and label != named.lower():
        raise OptionError(f"the URL names the storage account {label}, but the storage options lead to {named}")
    if not label and not named:
        raise OptionError(
            "the URL names no storage account: write abfss://container@account.dfs.core.windows.net/path or set "
            "adls.account-name"
        )
    label = label or str(named).lower()
    host = given.get("account_host", "")
    if not domain and host.startswith(f"{label}."):
        account = azure_account(host)
    elif domain and not host:
        given = {**given, "account_host": f"{label}.blob.{domain}"}
    return account or label, {**given, "account_name": label}


class AzureStorage(ObjectStorage):
    """Azure with exclusive creates (``If-None-Match: *``), ETags as versions, and batches of deletes."""

    conditions = ("If-None-Match", "If-Match")
    keys_a_request = 256

    def url(self, path: str) -> str:
        """The path as ``abfss://container@account.dfs.core.windows.net/path``."""
        label, _, domain = self.scheme.removeprefix("abfs:").partition(".")
        container, key = self.split(path)
        return f"abfss://{container}@{label}.dfs.{domain or AZURE_DOMAIN}" + (f"/{key}" if key else "")

    def split(self, path: str) -> tuple[str, str]:
        """The container and the name of a blob; UnsupportedFeatureError for one with a backslash."""
        if "\\" in path:
            raise UnsupportedFeatureError(f"{path!r} cannot be reached: Azure takes a backslash in a name for a slash")
        return super().split(path)

    def _run(self, request: Callable[[Any], Awaitable[Any]]) -> Any:
        """The answer to a request of the ``BlobServiceClient``, with the errors of :class:`ObjectStorage`."""
        from azure.core.exceptions import HttpResponseError

        try:
            return self.wait_for(request, self.fs.service_client)
        except HttpResponseError as error:
            if error.status_code == 404:
                raise FileNotFoundError(error.reason) from error
            if error.status_code == 412 or getattr(error, "error_code", "") == "BlobAlreadyExists":
                raise ConditionFailedError from error
            raise

    def _page(self, bucket: str, prefix: str, start: Any, *, flat: bool, limit: int | None) -> Page:
        async def request(client: Any) -> tuple[list[Any], Any]:
            container = client.get_container_client(bucket)
            how = {"name_starts_with": prefix, "include": ["metadata"], "results_per_page": limit, **_ONCE}
            found = container.list_blobs(**how) if flat else container.walk_blobs(delimiter="/", **how)
            pages = found.by_page(continuation_token=start)
            page = await anext(pages)
            return [each async for each in page], pages.continuation_token or None

        items, following = self._run(request)
        files, prefixes, markers = [], [], []
        for each in items:
            if not hasattr(each, "last_modified"):
                prefixes.append(each.name)
            elif each.name.endswith("/") or _FOLDER in (each.metadata or {}):
                markers.append(each.name)
            else:
                files.append(Entry(f"{bucket}/{each.name}", int(each.size), epoch_ms(each.last_modified)))
        if not flat:
            prefixes += (f"{name}/" for name in markers if not name.endswith("/"))
        return Page(files, prefixes, markers, following)

    def _head(self, bucket: str, key: str) -> Found:
        found = self._run(lambda client: client.get_blob_client(bucket, key).get_blob_properties(**_ONCE))
        facts = found.metadata or {}
        return Found(int(found.size), epoch_ms(found.last_modified), facts.get(WRITER), _FOLDER in facts)

    def _get(self, bucket: str, key: str, part: tuple[int, int] | None) -> tuple[bytes, str]:
        from azure.core.exceptions import HttpResponseError

        async def request(client: Any) -> tuple[bytes, str]:
            start, length = part or (None, None)
            found = await client.get_blob_client(bucket, key).download_blob(start, length, **_ONCE)
            return await found.readall(), str(found.properties.etag)

        try:
            data, etag = self._run(request)
        except HttpResponseError as error:
            if error.status_code == 416:
                return b"", ""
            raise
        return data, etag

    def _put(self, bucket: str, key: str, data: bytes, version: str | None, writer: str | None) -> str:
        from azure.core import MatchConditions

        more: dict[str, Any] = {} if writer is None else {"metadata": {WRITER: writer}}
        if version:
            more |= {"etag": version, "match_condition": MatchConditions.IfNotModified}
        answer = self._run(
            lambda client: client.get_blob_client(bucket, key).upload_blob(
                data, overwrite=version != ABSENT, **more, **_ONCE
            )
        )
        return str(answer["etag"])

    def _no_version(self) -> str:
        return f'"0x{secrets.token_hex(8).upper()}"'

    def _delete_keys(self, bucket: str, keys: Sequence[str]) -> dict[str, NotDeleted]:
        async def request(client: Any) -> list[Any]:
            container = client.get_container_client(bucket)
            answers = await container.delete_blobs(*keys, raise_on_any_failure=False, **_ONCE)
            return [answer async for answer in answers]

        answers = self._run(request)
        if len(answers) != len(keys):
            raise OSError(f"the service gave {len(answers)} answers for {len(keys)} deletions")
        found = {key: _not_deleted(answer) for key, answer in zip(keys, answers, strict=True)}
        return {key: answer for key, answer in found.items() if answer is not None}

    def delete_tree(self, path: str) -> None:
        """Remove everything below a directory, and the directory where the account has such."""
        super().delete_tree(path)
        with storage_errors("remove", self.url(path)):
            try:
                own = self._look_up(path)
            except FileNotFoundError:
                return
            if own.is_dir:
                self._delete_all([path])

    def _start_upload(self, bucket: str, key: str) -> str:  # noqa: ARG002 - blocks need only names of their own
        return secrets.token_hex(8)

    def _upload_part(self, bucket: str, key: str, upload: Any, number: int, start: int, data: bytes) -> str:  # noqa: ARG002 - other stores need the start
        name = f"{upload}-{number:06d}"
        self._run(lambda client: client.get_blob_client(bucket, key).stage_block(name, data, **_ONCE))
        return name

    def _finish_upload(self, bucket: str, key: str, upload: Any, parts: Sequence[Any], size: int) -> None:  # noqa: ARG002 - other stores need the size
        from azure.storage.blob import BlobBlock

        blocks = [BlobBlock(name) for name in parts]
        self._run(lambda client: client.get_blob_client(bucket, key).commit_block_list(blocks, **_ONCE))

    def _copy_object(self, bucket: str, old: str, new_bucket: str, new: str) -> None:
        async def request(client: Any) -> None:
            target = client.get_blob_client(new_bucket, new)
            await target.start_copy_from_url(client.get_blob_client(bucket, old).url, **_ONCE)
            while (found := await target.get_blob_properties(**_ONCE)).copy.status == "pending":
                await asyncio.sleep(_COPY_LOOK)
            if found.copy.status != "success":
                raise OSError(f"the copy ended as {found.copy.status}: {found.copy.status_description}")

        self._run(request)

    def _verdict(self, error: Exception) -> Verdict:
        from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError

        if isinstance(error, HttpResponseError):
            return _verdict(error.status_code or 0)
        return "again" if isinstance(error, (ServiceRequestError, ServiceResponseError, ConnectionError)) else None


def _verdict(status: int) -> Verdict:
    if status in (429, 503):
        return "throttled"
    return "again" if status in (408, 500, 502, 504) else None


def _not_deleted(answer: Any) -> NotDeleted | None:
    """What one answer of a batch means; None if the blob was deleted."""
    status = answer.status_code
    if 200 <= status < 300:
        return None
    code = answer.headers.get("x-ms-error-code", "")
    if status == 404 and code in ("BlobNotFound", ""):
        return NotDeleted("absent")
    return NotDeleted(_verdict(status) or "refused", f"{status}: {code or answer.reason}")
