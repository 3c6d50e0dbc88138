"""The protocol of WebHDFS (I/O): requests to NameNodes, contents from and to DataNodes, over fsspec's session.

fsspec contributes the connection and who we are (user name, delegation token, Kerberos). Its own file operations are
not used: they upload into a file that everybody sees, take an error page for a file's content, and drop what kind of
error the server reports.

A NameNode answers with the address of a DataNode, which has the content. A request is repeated where no answer came,
or the server says that another one is active: the caller has to know that an operation may have been done before.
"""

from __future__ import annotations

import random
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import quote

import attrs

from lakemeta.errors import OptionError
from lakemeta.storage.remote import FsspecStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

ATTEMPTS = 6
_TIMEOUT_S: Final = (10, 300)  # to connect, and without a byte: a DataNode writes to all replicas before it answers
_POOL: Final = 64  # connections that are kept to one machine
_BUSY: Final = frozenset({429, 502, 503, 504})
_TRY_AGAIN: Final = frozenset({"StandbyException", "RetriableException"})
_KINDS: Final[Mapping[str, type[OSError]]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "ParentNotDirectoryException": NotADirectoryError,
    "AccessControlException": PermissionError,
    "AuthorizationException": PermissionError,
    "SecurityException": PermissionError,
}
_BINARY: Final = {"content-type": "application/octet-stream"}


class UnavailableError(OSError):
    """No NameNode or DataNode has answered, though asked several times."""


class Connection(FsspecStorage):
    """fsspec's connection to one NameNode, with as many requests at once as threads have any."""

    def _connect(self) -> Any:
        from requests.adapters import HTTPAdapter

        fs = super()._connect()
        for scheme in ("http://", "https://"):
            fs.session.mount(scheme, HTTPAdapter(pool_maxsize=_POOL))
        return fs


@attrs.define
class WebHdfs:
    """The NameNodes of a cluster, of which one is active, each as fsspec's connection to it.

    ``data_proxy`` gives what stands for ``host:port`` of DataNodes that cannot be reached under their own names.
    """

    servers: tuple[Connection, ...]
    data_proxy: Mapping[str, str] = attrs.field(factory=dict)
    _active: int = attrs.field(default=0, init=False, eq=False)

    def ask(self, method: str, operation: str, path: str, **parameters: str) -> Any:
        """The answer of the active NameNode, a redirection to a DataNode too.

        Raises FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError or another OSError.
        """
        import requests

        if not self.servers:
            raise OptionError(
                "nothing says which cluster it is: name one, as in hdfs://namenode:8020/path, say "
                "--storage-option hdfs.webhdfs-url=http://namenode:9870, or set HADOOP_CONF_DIR"
            )
        last: Exception | None = None
        for attempt in range(ATTEMPTS * len(self.servers)):
            if attempt:
                _back_off((attempt - 1) // len(self.servers))
            fs = self.servers[self._active % len(self.servers)].fs
            asked = {**fs.pars, **parameters, "op": operation}
            try:
                answer = fs.session.request(
                    method, _url(fs.url, path), params=asked, allow_redirects=False, timeout=_TIMEOUT_S
                )
                _raise_error(answer)
            except (requests.ConnectionError, requests.Timeout, UnavailableError) as error:
                self._active, last = self._active + 1, error
            except requests.RequestException as error:
                raise OSError(_said(error)) from None
            else:
                return answer
        raise UnavailableError(f"{self._named()} did not answer: {_said(last)}")

    def _named(self) -> str:
        return " and ".join(server.fs.url.removesuffix("/webhdfs/v1") for server in self.servers)

    def fetch(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The content of a file, or a part of it."""
        part = {"offset": str(start)} | ({} if length is None else {"length": str(length)})
        return cast("bytes", self._transfer("GET", path, None, "OPEN", part).content)

    def put(self, path: str, data: bytes | BinaryIO) -> None:
        """Write a file that no other writer uses, over what is there; directories that it needs are made."""
        self._transfer("PUT", path, data, "CREATE", {"overwrite": "true"})

    def _transfer(
        self, method: str, path: str, data: bytes | BinaryIO | None, operation: str, parameters: Mapping[str, str]
    ) -> Any:
        import requests

        last: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                _back_off(attempt - 1)
            answer = self.ask(method, operation, path, **parameters)
            location = answer.headers.get("Location")
            if location is None:
                if data is None:
                    return _whole(answer)  # a gateway, which has the content itself
                raise OSError("the server takes no content: it names no DataNode")
            if data is not None and not isinstance(data, bytes):
                data.seek(0)
            session = self.servers[self._active % len(self.servers)].fs.session
            try:
                answer = session.request(
                    method, self._proxied(location), data=data, headers=_BINARY, timeout=_TIMEOUT_S
                )
                _raise_error(answer)
                return _whole(answer)
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                last = error
            except UnavailableError as error:
                last = error
            except requests.RequestException as error:
                raise OSError(_said(error)) from None
        raise UnavailableError(f"no DataNode could be asked: {_said(last)}")

    def _proxied(self, location: str) -> str:
        scheme, _, rest = location.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}://{self.data_proxy.get(host, host)}{slash}{path}"


def _said(error: Exception | None) -> str:
    """What went wrong, without the token that a URL in it may have."""
    return re.sub(r"delegation=[^&\s'\")]*", "delegation=...", str(error))


def _url(base: str, path: str) -> str:
    return base + quote(path or "/", safe="/")


def _whole(answer: Any) -> Any:
    """The answer, unless its content is shorter than it says; not every urllib3 finds that out itself."""
    length = answer.headers.get("Content-Length")
    if length is not None and not answer.headers.get("Content-Encoding") and len(answer.content) < int(length):
        raise UnavailableError(f"the content ended after {len(answer.content)} of {length} bytes")
    return answer


def _raise_error(answer: Any) -> None:
    """Raise what the server reports: UnavailableError for what is worth asking again."""
    if answer.status_code < HTTPStatus.BAD_REQUEST:
        return
    try:
        reported = answer.json()["RemoteException"]
        kind, message = str(reported["exception"]), str(reported["message"]).partition("\n")[0]
    except (ValueError, TypeError, KeyError):
        kind, message = "", f"HTTP status {answer.status_code} {answer.reason}"
    if kind in _TRY_AGAIN or (not kind and answer.status_code in _BUSY):
        raise UnavailableError(f"{kind}: {message}" if kind else message)
    if message.endswith("(is not a directory)"):  # older releases call it a matter of access
        raise NotADirectoryError(message)
    if kind in _KINDS:
        raise _KINDS[kind](message)
    raise OSError(f"{kind}: {message}" if kind else message)


def _back_off(attempt: int) -> None:
    """Sleep up to 0.1 s, 0.2 s, 0.4 s, ...: a random part, so that many workers do not come back at once."""
    time.sleep(random.uniform(0, 0.1 * 2**attempt))
