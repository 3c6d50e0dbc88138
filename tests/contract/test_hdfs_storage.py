"""HDFS over WebHDFS, on a real NameNode and DataNode."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

import pytest
from contract.hdfs_server import NAMES_AT_ONCE, HdfsServer
from contract.storage_contract import StorageContract, put

from lakemeta.errors import PathExistsError, StorageError, UnsupportedFeatureError
from lakemeta.storage import open_storage
from lakemeta.storage.contract import TEMPORARY_SUFFIX, ConditionalStorage

if TYPE_CHECKING:
    from lakemeta.storage.hdfs import HdfsStorage

pytestmark = pytest.mark.store

_NUMBERS = itertools.count()


@pytest.fixture
def storage(hdfs: HdfsServer) -> HdfsStorage:
    return open_storage(hdfs.url("/t"), hdfs.options)[0]


@pytest.fixture
def root() -> str:
    return f"/lake/{next(_NUMBERS)}/t"


def all_names(storage: HdfsStorage, path: str) -> set[str]:
    """Also those that are never listed."""
    return {status["pathSuffix"] for status in storage._children(path)}


class TestHdfsStorage(StorageContract):
    refused_names: ClassVar = frozenset({"a:b"})  # no part of a path in HDFS has a colon


def test_listings_of_many_pages(storage: HdfsStorage, root: str) -> None:
    """A listing goes on where the server's page ends, whatever the names."""
    names = sorted([*(f"{n:02}" for n in range(4 * NAMES_AT_ONCE)), "é", "a b", "a+b&c", "~"])
    put(storage, *(f"{root}/{name}" for name in names))
    assert [entry.name for entry in storage.list_dir(root)] == names
    assert sorted(entry.name for entry in storage.walk(root)) == names


def test_a_listing_that_fails_part_way_raises(storage: HdfsStorage, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that does not come fails the listing, and so does one that brings nothing new."""
    put(storage, *(f"{root}/{n}" for n in range(3 * NAMES_AT_ONCE)))
    ask = type(storage.web).ask

    def broken(web: object, method: str, operation: str, path: str, **parameters: str) -> object:
        if "startAfter" in parameters:
            raise PermissionError("no way in")
        return ask(web, method, operation, path, **parameters)

    monkeypatch.setattr(type(storage.web), "ask", broken)
    for listing in (storage.walk, storage.list_dir):
        with pytest.raises(StorageError, match="no way in"):
            list(listing(root))
    monkeypatch.setattr(type(storage.web), "ask", lambda web, *arguments, **_: ask(web, *arguments))
    with pytest.raises(StorageError, match="gives none of them"):
        storage.list_dir(root)


def test_nothing_is_moved_into_a_directory(storage: HdfsStorage, root: str) -> None:
    """A directory at the path of a new file stays as it is, and nothing is left behind, neither in it nor beside it."""
    put(storage, f"{root}/d/a")
    with pytest.raises(PathExistsError):
        storage.create(f"{root}/d", b"x")
    with pytest.raises(StorageError, match="must both be directories"):
        storage.replace(f"{root}/d", b"x")
    for option in ("NONE", "OVERWRITE"):  # as if it had come between the look and the rename
        with pytest.raises(StorageError):
            storage._write(f"{root}/d", b"x", 1, option)
    assert all_names(storage, root) == {"d"}
    assert all_names(storage, f"{root}/d") == {"a"}


def test_a_file_is_there_as_a_whole_or_not_at_all(storage: HdfsStorage, root: str) -> None:
    """While files are created and replaced, readers see nothing, the old content or the new one, never a part."""
    put(storage, f"{root}/replaced", data=b"0" * 300_000)
    stop, seen = threading.Event(), set()

    def look() -> None:
        while not stop.is_set():
            for name in ("replaced", "created"):
                if name in {entry.name for entry in storage.list_dir(root)}:
                    size = storage.size(f"{root}/{name}")
                    seen.add((name, size))

    with ThreadPoolExecutor(2) as threads:
        looking = [threads.submit(look) for _ in range(2)]
        try:
            for n in range(1, 6):
                storage.replace(f"{root}/replaced", b"%d" % n * 300_000)
            storage.create(f"{root}/created", b"x" * 5_000_000)
        finally:
            stop.set()
        for looked in looking:
            looked.result()
    assert {size for name, size in seen if name == "replaced"} == {300_000}
    assert {size for name, size in seen if name == "created"} <= {5_000_000}
    assert all_names(storage, root) == {"replaced", "created"}


def test_an_upload_that_breaks_off_is_seen_nowhere(
    storage: HdfsStorage, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server keeps what has arrived of it, under a name that is listed to nobody; what is short is not renamed."""
    put(storage, f"{root}/a", data=b"old")
    send = type(storage.web).put

    def shorter(web: object, path: str, data: bytes) -> None:
        send(web, path, data[:-1])

    monkeypatch.setattr(type(storage.web), "put", shorter)
    for write in (storage.replace, storage.create):
        with (
            pytest.raises(StorageError, match="2 of 3 bytes")
            if write == storage.replace
            else pytest.raises(StorageError)
        ):
            write(f"{root}/a" if write == storage.replace else f"{root}/b", b"new")
    assert storage.read(f"{root}/a") == b"old"
    assert all_names(storage, root) == {"a"}
    monkeypatch.undo()
    storage.web.put(f"{root}/.0123{TEMPORARY_SUFFIX}", b"half")
    assert [entry.name for entry in storage.list_dir(root)] == ["a"]
    assert [entry.name for entry in storage.walk(root)] == ["a"]


def test_a_rename_whose_answer_was_lost_is_our_own(
    storage: HdfsStorage, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server did it, and is asked again: the file that is there is the one that was written."""
    ask = type(storage.web).ask

    def twice(web: object, method: str, operation: str, path: str, **parameters: str) -> object:
        if operation == "RENAME" and not parameters["destination"].endswith(".none"):
            ask(web, method, operation, path, **parameters)
        return ask(web, method, operation, path, **parameters)

    monkeypatch.setattr(type(storage.web), "ask", twice)
    storage.create(f"{root}/a", b"1")
    storage.replace(f"{root}/a", b"2")
    monkeypatch.undo()
    assert storage.read(f"{root}/a") == b"2"
    with pytest.raises(PathExistsError):
        storage.create(f"{root}/a", b"3")
    assert all_names(storage, root) == {"a"}


def test_a_server_without_rename_options_is_refused(
    storage: HdfsStorage, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that leaves them out would move files into directories: found out before anything is renamed."""
    ask = type(storage.web).ask

    def gateway(web: object, method: str, operation: str, path: str, **parameters: str) -> object:
        parameters.pop("renameoptions", None)
        return ask(web, method, operation, path, **parameters)

    monkeypatch.setattr(type(storage.web), "ask", gateway)
    for write in (storage.create, storage.replace):
        with pytest.raises(UnsupportedFeatureError, match="options of RENAME"):
            write(f"{root}/a", b"1")
    assert not storage.exists(root)


def test_deleting_spares_directories(storage: HdfsStorage, root: str) -> None:
    """The server itself would remove an empty directory that is named as a file; delete_tree removes no file."""
    storage.web.ask("PUT", "MKDIRS", f"{root}/empty")
    put(storage, f"{root}/a")
    outcomes = storage.delete_many([f"{root}/empty", f"{root}/a", f"{root}/a/x"])
    assert [outcome.status for outcome in outcomes] == ["failed", "deleted", "absent"]
    assert storage.list_dir(f"{root}/empty") == []
    put(storage, f"{root}/a")
    with pytest.raises(StorageError, match="no directory"):
        storage.delete_tree(f"{root}/a")
    with pytest.raises(StorageError, match="whole cluster"):
        storage.delete_tree("/")


def test_what_another_user_may_not(storage: HdfsStorage, hdfs: HdfsServer, root: str) -> None:
    """Who has no access is told so, by name; a deletion has it as its outcome."""
    put(storage, f"{root}/a")
    storage.web.ask("PUT", "SETPERMISSION", f"{root}/a", permission="600")
    other, _ = open_storage(hdfs.url("/t"), {**hdfs.options, "hdfs.user": "bob"})
    assert [entry.name for entry in other.list_dir(root)] == ["a"]
    for way in (
        other.read,
        other.delete_tree,
        lambda path: other.create(f"{root}/b", b""),
        lambda path: other.replace(f"{root}/a", b""),
    ):
        with pytest.raises(StorageError, match=r"Permission denied: user=bob|no directory"):
            way(f"{root}/a")
    (outcome,) = other.delete_many([f"{root}/a"])
    assert outcome.status == "failed"
    assert "user=bob" in (outcome.error or "")
    assert all_names(storage, root) == {"a"}


def test_a_reader_that_meets_a_shorter_file_fails(storage: HdfsStorage, root: str) -> None:
    """What was opened and then replaced by less does not end early in silence."""
    put(storage, f"{root}/a", data=b"0123456789")
    with storage.open_input(f"{root}/a") as file:
        storage.replace(f"{root}/a", b"01234")
        file.seek(6)
        with pytest.raises(OSError, match="has become shorter than 10 bytes"):
            file.read(2)


def test_a_writer_that_is_not_closed_writes_nothing(storage: HdfsStorage, root: str) -> None:
    """Nor does one whose process ends; a large one is kept on the disk until it is closed."""
    writer = storage.open_output(f"{root}/a")
    writer.write(b"x")
    del writer
    assert not storage.exists(root)
    with storage.open_output(f"{root}/b") as file:
        for _ in range(20):
            file.write(b"0123456789abcdef" * 65536)
        assert file.tell() == 20 * 2**20
    assert storage.size(f"{root}/b") == 20 * 2**20
    with storage.open_input(f"{root}/b") as file:
        assert file.read() == b"0123456789abcdef" * 65536 * 20
        file.seek(-3, 2)
        assert file.read() == b"def"


def test_versions_are_not_compared(storage: HdfsStorage) -> None:
    """The protocol has no replace on condition, so the store does not claim one."""
    assert not isinstance(storage, ConditionalStorage)


def test_every_spelling_is_one_store(hdfs: HdfsServer) -> None:
    """By cluster, without one, and over HTTP: the paths are the same, and so is the name that is written down."""
    for url, options in (
        (hdfs.url("/t/"), hdfs.options),
        ("hdfs:///t", hdfs.options),
        ("hdfs:/t", hdfs.options),
        (f"webhdfs://{hdfs.web}/t", {}),
    ):
        storage, path = open_storage(url, options)
        assert (path, storage.url(path)) == ("/t", hdfs.url("/t"))
        assert storage.scheme == f"hdfs://{hdfs.authority},webhdfs@{hdfs.web}"


def test_another_namenode_is_asked(hdfs: HdfsServer, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several NameNodes the one that answers is used."""
    monkeypatch.setattr("lakemeta.storage.webhdfs.time.sleep", lambda _: None)
    storage, _ = open_storage("hdfs:///t", {"hdfs.webhdfs-url": f"http://127.0.0.1:1,http://{hdfs.web}"})
    storage.create(f"{root}/a", b"1")
    assert storage.read(f"{root}/a") == b"1"
    nowhere, _ = open_storage("hdfs://127.0.0.1:2/t", {"hdfs.webhdfs-url": "http://127.0.0.1:1"})
    with pytest.raises(StorageError, match=r"http://127\.0\.0\.1:1 did not answer"):
        nowhere.list_dir("/")


def test_datanodes_under_other_names(hdfs: HdfsServer, storage: HdfsStorage, root: str) -> None:
    """Where the names that the NameNode gives cannot be reached, an option says what stands for them."""
    location = storage.web.ask("PUT", "CREATE", "/").headers["Location"].split("/")[2]
    put(storage, f"{root}/a")
    proxied = {**hdfs.options, "hdfs.data-proxy": f'{{"{location}": "127.0.0.1:1"}}'}
    other, _ = open_storage("hdfs:///t", proxied)
    other.web._proxied("http://elsewhere:1/x")
    assert other.web._proxied(f"http://{location}/x?y") == "http://127.0.0.1:1/x?y"
    assert storage.web._proxied(f"http://{location}/x?y") == f"http://{location}/x?y"
