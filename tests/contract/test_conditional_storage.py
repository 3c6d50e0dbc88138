"""Stores that replace a file only if nobody else has replaced it meanwhile, as locks need it."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lakemeta.errors import PathNotFoundError, UnsupportedFeatureError
from lakemeta.storage import open_storage
from lakemeta.storage.contract import ConditionalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from contract.s3_server import S3Server

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    from contract.s3_server import s3_server

    with s3_server("locks") as running:
        yield running


_STORES = [pytest.param(name, marks=pytest.mark.store) for name in ("abfss", "gs", "s3")]


@pytest.fixture(scope="module", params=["memory", *_STORES])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Opens a path in a store."""
    if request.param == "memory":
        yield lambda path: open_storage(f"memory://locks/{path}")
        return
    from contract.store_servers import SERVERS

    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running.open


@pytest.fixture
def place(home: Callable[[str], Any]) -> tuple[ConditionalStorage, str]:
    storage, path = home(f"{next(_NUMBERS)}/lock.json")
    assert isinstance(storage, ConditionalStorage)
    return storage, path


def test_a_missing_file_has_no_version(place: tuple[ConditionalStorage, str]) -> None:
    """Reading what is not there is an error, and it can only be put as new."""
    storage, path = place
    with pytest.raises(PathNotFoundError):
        storage.read_versioned(path)
    assert storage.put_versioned(path, b"a", "some-version") is None
    assert storage.put_versioned(path, b"a", None) is not None


def test_a_version_can_be_replaced_once(place: tuple[ConditionalStorage, str]) -> None:
    """Whoever comes with an older version changes nothing."""
    storage, path = place
    first = storage.put_versioned(path, b"a", None)
    assert first is not None
    assert storage.read_versioned(path) == (b"a", first)
    assert storage.put_versioned(path, b"x", None) is None
    second = storage.put_versioned(path, b"b", first)
    assert second not in (None, first)
    assert storage.put_versioned(path, b"c", first) is None
    assert storage.read_versioned(path) == (b"b", second)


def test_one_of_many_wins(place: tuple[ConditionalStorage, str]) -> None:
    """Of those who replace the same version at the same time exactly one does."""
    storage, path = place
    version = storage.put_versioned(path, b"start", None)
    results: list[str | None] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(storage.put_versioned(path, b"%d" % n, version)))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = (result for result in results if result is not None)
    assert storage.read_versioned(path)[1] == won


@pytest.mark.store
def test_a_put_whose_answer_was_lost_is_our_own(server: S3Server) -> None:
    """The connection repeats it, finds another version, and that is ours."""
    from contract.s3_server import is_put
    from werkzeug.wrappers import Request, Response

    storage, path = open_storage(f"s3://locks/{next(_NUMBERS)}/lock.json", server.options)
    assert isinstance(storage, ConditionalStorage)
    version = storage.put_versioned(path, b"a", None)
    lost: list[str] = []

    def lose_first_answer(request: Request) -> Response | None:
        if not is_put(request) or lost:
            return None
        lost.append(request.path)
        server.let_pass(request)
        return Response("", 500)

    server.faults.append(lose_first_answer)
    try:
        second = storage.put_versioned(path, b"b", version)
    finally:
        server.faults.clear()
    assert lost
    assert second is not None
    assert storage.read_versioned(path) == (b"b", second)


@pytest.mark.store
def test_a_service_that_ignores_versions_is_found_out(server: S3Server) -> None:
    """Two writers would both get the lock there, so nothing may rely on it."""
    from werkzeug.wrappers import Request

    storage, path = open_storage(f"s3://locks/{next(_NUMBERS)}/lock.json", server.options)
    assert isinstance(storage, ConditionalStorage)

    def forget_the_condition(request: Request) -> None:
        request.environ.pop("HTTP_IF_MATCH", None)

    server.faults.append(forget_the_condition)
    try:
        with pytest.raises(UnsupportedFeatureError, match="ignores If-Match"):
            storage.put_versioned(path, b"a", None)
    finally:
        server.faults.clear()
