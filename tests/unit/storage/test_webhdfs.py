"""What a NameNode or DataNode that misbehaves gets: a small server gives the answers that a test puts down."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from lakemeta.errors import PathNotFoundError, StorageError, UnsupportedFeatureError
from lakemeta.storage import open_storage
from lakemeta.storage.webhdfs import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.storage.hdfs import HdfsStorage

Answer = tuple[int, dict[str, str], bytes]


class Scripted(ThreadingHTTPServer):
    """Gives its answers in turn, the last one for ever; ``asked`` are the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, headers, body = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def storage(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> HdfsStorage:
    monkeypatch.setattr("lakemeta.storage.webhdfs.time.sleep", lambda _: None)
    return open_storage("hdfs://lake/t", {"hdfs.webhdfs-url": server.url})[0]


def told(value: Any) -> Answer:
    return 200, {}, json.dumps(value).encode()


def failed(kind: str, message: str = "no") -> Answer:
    return 403, {}, json.dumps({"RemoteException": {"exception": kind, "message": message}}).encode()


def listing(*kinds: str, remaining: int = 0) -> Answer:
    found = [
        {"pathSuffix": f"f{n}", "type": kind, "length": 1, "modificationTime": 1700000000000}
        for n, kind in enumerate(kinds)
    ]
    return told(
        {"DirectoryListing": {"partialListing": {"FileStatuses": {"FileStatus": found}}, "remainingEntries": remaining}}
    )


BUSY = [
    failed("StandbyException"),
    failed("RetriableException"),
    (503, {}, b""),
    (429, {}, b"busy"),
    (502, {}, b"<html>"),
]


def test_what_is_asked_again(storage: HdfsStorage, server: Scripted) -> None:
    """A server that is not active or busy is asked again, which ends after some attempts; another error is not."""
    server.answers = [*BUSY, listing("FILE")]
    assert [entry.name for entry in storage.list_dir("/t")] == ["f0"]
    assert len(server.asked) == len(BUSY) + 1
    for answer in BUSY:
        server.asked.clear()
        server.answers = [answer]
        with pytest.raises(StorageError, match="did not answer"):
            storage.list_dir("/t")
        assert len(server.asked) == ATTEMPTS
    server.asked.clear()
    server.answers = [(500, {}, b"<html>it broke</html>")]
    with pytest.raises(StorageError, match="HTTP status 500"):
        storage.list_dir("/t")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            (200, {}, b'{"DirectoryListing": {"partialListing": {"FileStatuses": {"FileStatus": [{"pathSuf'),
            "cannot list",
        ),
        (told({}), "cannot list"),
        (told({"DirectoryListing": None}), "cannot list"),
        (listing(remaining=3), "gives none of them"),
        (
            failed("AccessControlException", "Permission denied: user=bob"),
            "PermissionError: Permission denied: user=bob",
        ),
        (failed("IOException", "first\n\tat a.b.c"), "IOException: first$"),
        ((404, {}, b'{"RemoteException": []}'), "HTTP status 404"),
    ],
)
def test_a_listing_is_whole_or_an_error(storage: HdfsStorage, server: Scripted, answer: Answer, message: str) -> None:
    """What ends early, has another form, or is refused is no short listing."""
    server.answers = [answer]
    for way in (storage.list_dir, lambda path: list(storage.walk(path))):
        with pytest.raises(StorageError, match=message):
            way("/t")


def test_what_is_not_there(storage: HdfsStorage, server: Scripted) -> None:
    """A file that is missing, or below another file, in the words of newer and older releases."""
    answers = [
        failed("FileNotFoundException", "File does not exist: /t/a"),
        failed("ParentNotDirectoryException", "/t (is not a directory)"),
        failed("AccessControlException", "/t (is not a directory)"),
    ]
    for answer in answers:
        server.answers = [answer]
        assert not storage.exists("/t/a")
        assert storage.delete_many(["/t/a"])[0].status == "absent"
        with pytest.raises(PathNotFoundError):
            storage.stat("/t/a")


def test_links_are_refused(storage: HdfsStorage, server: Scripted) -> None:
    """No server has links switched on; one in a listing is not taken for a file or a directory."""
    server.answers = [listing("FILE", "SYMLINK")]
    with pytest.raises(UnsupportedFeatureError, match=r"/t/f1 is a symlink"):
        storage.list_dir("/t")


def test_content_that_ends_early(storage: HdfsStorage, server: Scripted) -> None:
    """A DataNode that gives less than it says is asked again, and never taken at its word."""
    data = f"{server.url}/data"
    redirect: Answer = (307, {"Location": data}, b"")
    server.answers = [redirect, (200, {"Content-Length": "10"}, b"01234"), redirect, (200, {}, b"0123456789")]
    assert storage.read("/t/a") == b"0123456789"
    server.answers = [redirect, (200, {"Content-Length": "10"}, b"01234")] * ATTEMPTS
    with pytest.raises(StorageError, match="no DataNode could be asked"):
        storage.read("/t/a")
    server.answers = [redirect, failed("IOException", "the block is lost")]
    with pytest.raises(StorageError):
        storage.read("/t/a")


def test_no_message_has_the_token(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is a part of URLs, which connections put into their errors."""
    monkeypatch.setattr("lakemeta.storage.webhdfs.time.sleep", lambda _: None)
    options = {"hdfs.webhdfs-url": server.url, "hdfs.delegation-token": "very-secret"}
    storage, _ = open_storage("hdfs://lake/t", options)
    nowhere, _ = open_storage("hdfs://lake/t", {**options, "hdfs.webhdfs-url": "http://127.0.0.1:1"})
    server.answers = [(307, {"Location": "http://127.0.0.1:1/x?delegation=very-secret&op=OPEN"}, b"")]
    for way in (lambda: storage.read("/t/a"), lambda: nowhere.list_dir("/t")):
        with pytest.raises(StorageError, match="delegation=") as caught:
            way()
        assert "very-secret" not in str(caught.value)
    assert "delegation=very-secret" in server.asked[0]
    server.answers = [(307, {"Location": "nonsense?delegation=very-secret"}, b"")]
    with pytest.raises(StorageError) as caught:
        storage.read("/t/a")
    assert "very-secret" not in str(caught.value)


def test_names_go_as_they_are(storage: HdfsStorage, server: Scripted) -> None:
    """Of a path nothing but slashes is left as it is in the URL."""
    server.answers = [listing()]
    storage.list_dir("/t/p=x%3Dy/a b#c?d&e+f;é")
    assert server.asked[0].partition("?")[0] == "/webhdfs/v1/t/p%3Dx%253Dy/a%20b%23c%3Fd%26e%2Bf%3B%C3%A9"
