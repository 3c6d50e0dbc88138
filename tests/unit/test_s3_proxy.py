"""The proxy does what the weather says: requests arrive or do not, answers are whole, cut off or errors of S3."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from support.s3_memory import MemoryS3, Response, delete_body, error
from support.s3_proxy import FaultProxy, fault_proxy
from support.s3_weather import Kind, Storm, Weather

from lakemeta.errors import PathExistsError
from lakemeta.storage import open_storage


@pytest.fixture
def service() -> MemoryS3:
    found = MemoryS3()
    found.load({f"lake/t/{n}": b"x" * n for n in range(5)})
    return found


@pytest.fixture
def proxy(service: MemoryS3) -> Iterator[FaultProxy]:
    with fault_proxy(service) as found:
        yield found


def ask(
    proxy: FaultProxy, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Response(answer.status, answer.read())
    finally:
        connection.close()


def weather(proxy: FaultProxy, **rates: float) -> None:
    proxy.weather = Weather("x")
    proxy.weather.rates = {kind.replace("_", " "): rate for kind, rate in rates.items()}
    proxy.weather.storms, proxy.weather.page_size = (), None


@pytest.mark.parametrize(("kind", "arrives"), [("reset before", False), ("reset after", True)])
def test_a_lost_answer(service: MemoryS3, proxy: FaultProxy, kind: Kind, arrives: bool) -> None:
    """The connection breaks, before the request has an effect or after."""
    weather(proxy, **{kind: 1})
    with pytest.raises(ConnectionError):
        ask(proxy, "PUT", "/lake/t/new", b"y")
    assert ("lake/t/new" in service.objects) == arrives


def test_a_request_that_is_late(service: MemoryS3, proxy: FaultProxy) -> None:
    """It has its effect after requests that came later, or when the weather settles."""
    weather(proxy, late=1)
    with pytest.raises(ConnectionError):
        ask(proxy, "PUT", "/lake/t/new", b"y")
    assert "lake/t/new" not in service.objects
    proxy.settle()
    assert service.dump()["lake/t/new"] == b"y"


def test_a_body_that_is_cut_off(proxy: FaultProxy) -> None:
    """The answer ends before its length."""
    weather(proxy, **{"cut body": 1})
    with pytest.raises(http.client.IncompleteRead):
        ask(proxy, "GET", "/lake?list-type=2")


def test_some_keys_are_not_deleted(service: MemoryS3, proxy: FaultProxy) -> None:
    """A bulk delete has errors for the keys that are there, and for a few that are gone."""
    weather(proxy, **{"some keys": 1})
    keys = [f"t/{n}" for n in range(5)]
    answer = ask(proxy, "POST", "/lake?delete", delete_body(keys))
    left = {name for name in service.objects if f"<Key>{name.removeprefix('lake/')}</Key>".encode() in answer.body}
    assert answer.status == 200
    assert set(service.objects) == left


def test_pages_are_small(proxy: FaultProxy) -> None:
    """A listing comes in pages, and all of it comes."""
    weather(proxy)
    proxy.weather.page_size = 2
    assert b"<IsTruncated>true" in ask(proxy, "GET", "/lake?list-type=2").body
    storage, root = open_storage("s3://lake/t", proxy.options())
    assert [entry.name for entry in storage.walk(root)] == list("01234")
    assert proxy.requests == 4


def test_a_storm(proxy: FaultProxy) -> None:
    """All requests of a time are told to slow down."""
    weather(proxy)
    proxy.weather.storms = (Storm(1, 3),)
    assert [ask(proxy, "GET", "/lake/t/1").status for _ in range(4)] == [200, 503, 503, 200]


def test_the_service_in_memory(service: MemoryS3, proxy: FaultProxy) -> None:
    """It answers as S3 does: conditions, ranges, folders."""
    assert ask(proxy, "PUT", "/lake/t/1", b"", {"If-None-Match": "*"}).status == 412
    assert ask(proxy, "GET", "/lake/t/4", headers={"Range": "bytes=1-2"}).body == b"xx"
    assert ask(proxy, "GET", "/lake/t/none") == attrs_of(error(404, "NoSuchKey"))
    storage, root = open_storage("s3://lake/t", proxy.options())
    storage.create(f"{root}/d/e", b"1")
    with pytest.raises(PathExistsError):
        storage.create(f"{root}/d/e", b"2")
    assert [entry.name for entry in storage.list_dir(root) if entry.is_dir] == ["d"]


def attrs_of(response: Response) -> Response:
    return Response(response.status, response.body)
