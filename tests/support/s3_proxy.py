"""A proxy of HTTP before an S3 service, which does to requests and answers what :mod:`support.s3_weather` says.

It runs in a thread of its own. The service behind it is any function of a request: one in memory, or
:class:`HttpService` for a server. A request that the proxy changes (smaller pages, fewer keys) is signed anew.
"""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from urllib.parse import urlsplit

import attrs

from support.s3_memory import Request, Response, delete_answer, delete_body, error, keys_to_delete
from support.s3_weather import Weather

Service = Callable[[Request], Response]
ACCESS, SECRET, REGION = "access", "very-secret", "us-east-1"
STALL = 0.2  # seconds; longer than the read timeout of options
READ_TIMEOUT = 0.12
_LATE_BY = 12  # requests
_NO_BODY = {204, 304}
_OF_THE_WAY = {"connection", "content-length", "transfer-encoding", "date", "server"}


class HttpService:
    """A server at ``http://host:port``, with its credentials."""

    blocks = True

    def __init__(self, endpoint: str, access: str = ACCESS, secret: str = SECRET) -> None:
        self._host = urlsplit(endpoint).netloc
        self._access, self._secret = access, secret

    def __call__(self, request: Request) -> Response:
        connection = http.client.HTTPConnection(self._host, timeout=30)
        try:
            target = f"{request.path}?{request.query}" if request.query else request.path
            connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in {**self._signed(request), "content-length": str(len(request.body))}.items():
                connection.putheader(name, value)
            connection.endheaders(request.body)
            answer = connection.getresponse()
            headers = {k.lower(): v for k, v in answer.getheaders()}
            kept = {k: v for k, v in headers.items() if k not in _OF_THE_WAY}
            if request.method == "HEAD" and "content-length" in headers:
                kept["content-length"] = headers["content-length"]
            return Response(answer.status, answer.read(), kept)
        finally:
            connection.close()

    def _signed(self, request: Request) -> dict[str, str]:
        """The headers with a signature for this server: the proxy may have changed what the client signed."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        left_out = {"host", "authorization", "expect", "connection", "content-length", "x-amz-date"}
        own = {k: v for k, v in request.headers.items() if k not in left_out and "sha256" not in k and "md5" not in k}
        url = f"http://{self._host}{request.path}" + (f"?{request.query}" if request.query else "")
        made = AWSRequest(method=request.method, url=url, headers=own, data=request.body)
        if request.is_bulk_delete:
            import base64
            import hashlib

            digest = hashlib.md5(request.body, usedforsecurity=False).digest()
            made.headers["content-md5"] = base64.b64encode(digest).decode()
        S3SigV4Auth(Credentials(self._access, self._secret), "s3", REGION).add_auth(made)
        return {**dict(made.headers), "host": self._host}


class FaultProxy:
    """Listens on loopback until it is stopped. ``weather`` may be replaced between runs."""

    def __init__(self, service: Service) -> None:
        self.service, self.weather, self.requests = service, Weather(None), 0
        self.connections: set[_Connection] = set()
        self._late: list[tuple[int, Request]] = []
        self._loop = asyncio.new_event_loop()
        self._server: Any = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, name="s3-proxy", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def options(self, attempts: int | None = None) -> dict[str, str]:
        """Storage options that lead here; ``attempts`` are those of the client's library, beyond the first."""
        retries = "" if attempts is None else f', "retries": {{"max_attempts": {attempts}}}'
        return {
            "s3.endpoint": self.endpoint,
            "s3.anonymous": "true",  # the proxy signs where a server wants it
            "s3.region": REGION,
            "config_kwargs": f'{{"read_timeout": {READ_TIMEOUT if self.weather.seed else 10}{retries}}}',
        }

    def settle(self) -> None:
        """Let the requests arrive that are still on their way; then the weather is calm."""
        self.weather = Weather(None)
        done = asyncio.run_coroutine_threadsafe(self._arrive(now=None), self._loop)
        done.result(30)

    def stop(self) -> None:
        async def close() -> None:
            self._server.close()
            for connection in list(self.connections):
                connection.reset()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await _pause(0)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def answer(self, request: Request, connection: _Connection) -> None:
        """Do to a request what the weather says."""
        self.requests += 1
        await self._arrive(self.requests)
        kind, random = self.weather.of(request)
        if self.weather.page_size and request.is_listing:
            request = _with_pages(request, self.weather.page_size)
        if kind in ("reset before", "late"):
            if kind == "late":
                self._late.append((self.requests + random.randint(1, _LATE_BY), request))
            connection.reset()
        elif kind == "slow down":
            connection.send(error(503, random.choice(("SlowDown", "ServiceUnavailable"))), request)
        elif kind == "timeout answer":
            connection.send(error(400, "RequestTimeout"), request)
        elif kind == "conflict":
            connection.send(error(409, "ConditionalRequestConflict"), request)
        elif kind == "internal error":
            connection.send(error(500, "InternalError"), request)
        else:
            await self._forward(kind, random, request, connection)

    async def _forward(self, kind: str | None, random: Random, request: Request, connection: _Connection) -> None:
        if kind == "some keys":
            connection.send(await self._some_keys(request, random), request)
            return
        found = await self._ask(request)
        if kind == "internal error after":
            connection.send(error(500, "InternalError"), request)
        elif kind == "error in 200":
            connection.send(attrs.evolve(error(200, "InternalError")), request)
        elif kind == "reset after":
            connection.reset()
        elif kind == "cut body" and found.body:
            connection.send(found, request, random.randrange(len(found.body)))
            connection.close()
        elif kind == "slow body":
            await connection.send_slowly(found, request)
        else:
            if kind == "stall":
                await _pause(STALL)
            connection.send(found, request)

    async def _some_keys(self, request: Request, random: Random) -> Response:
        """Delete some keys and answer errors for the others, of which a few are gone all the same."""
        keys = keys_to_delete(request.body)
        failing = {key for key in keys if random.random() < 0.4}
        gone = [key for key in keys if key not in failing or random.random() < 0.2]
        if gone:
            await self._ask(attrs.evolve(request, body=delete_body(gone)))
        codes = ("InternalError", "SlowDown", "InternalError", "ServiceUnavailable", "AccessDenied")
        return delete_answer([], {key: random.choice(codes) for key in sorted(failing)})

    async def _arrive(self, now: int | None) -> None:
        """Let requests arrive whose connection was lost long ago."""
        due = [request for at, request in self._late if now is None or at <= now]
        self._late = [(at, request) for at, request in self._late if now is not None and at > now]
        for request in due:
            await self._ask(request)

    async def _ask(self, request: Request) -> Response:
        if getattr(self.service, "blocks", False):
            return await self._loop.run_in_executor(None, self.service, request)
        return self.service(request)


@contextmanager
def fault_proxy(service: Service) -> Iterator[FaultProxy]:
    """A proxy that runs as long as the ``with`` block."""
    proxy = FaultProxy(service)
    yield proxy
    proxy.stop()


def _with_pages(request: Request, size: int) -> Request:
    args = {**request.args, "max-keys": str(min(size, int(request.args.get("max-keys", size))))}
    from urllib.parse import quote, urlencode

    return attrs.evolve(request, query=urlencode(sorted(args.items()), quote_via=quote))


async def _pause(seconds: float) -> None:
    """Wait by the clock of the loop, whatever tests have made of ``asyncio.sleep``."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    loop.call_later(seconds, lambda: woken.done() or woken.set_result(None))
    await woken


class _Connection(asyncio.Protocol):
    """HTTP/1.1, one request after the other; bodies have a length."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy, self._data, self._busy = proxy, b"", False
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.proxy.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.proxy.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._next()

    def _next(self) -> None:
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if self._busy or not found:
            return
        start, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", "0"))
        if len(rest) < size:
            if headers.get("expect") and not rest:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        self._data, self._busy = rest[size:], True
        method, target, _ = start.split(" ", 2)
        path, _, query = target.partition("?")
        request = Request(method, path, query, headers, rest[:size])
        asyncio.get_running_loop().create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        try:
            await self.proxy.answer(request, self)
        finally:
            self._busy = False
        if self._data and not self._transport.is_closing():
            self._next()

    def send(self, response: Response, request: Request, cut: int | None = None) -> None:
        """Send an answer, of the body only the first ``cut`` bytes."""
        body = b"" if request.method == "HEAD" else response.body
        self._transport.write(_head(response) + body[:cut])

    async def send_slowly(self, response: Response, request: Request) -> None:
        """Send an answer in some pieces."""
        body = b"" if request.method == "HEAD" else response.body
        data = _head(response) + body
        step = max(1, len(data) // 4)
        for at in range(0, len(data), step):
            self._transport.write(data[at : at + step])
            await _pause(0.002)

    def reset(self) -> None:
        """Break the connection, with a RST."""
        self._transport.abort()

    def close(self) -> None:
        """End the connection once all is sent."""
        self._transport.close()


def _head(response: Response) -> bytes:
    headers = dict(response.headers)
    if response.status not in _NO_BODY:
        headers.setdefault("content-length", str(len(response.body)))
    lines = [f"HTTP/1.1 {response.status} {http.client.responses.get(response.status, 'Unknown')}"]
    return "\r\n".join([*lines, *(f"{k}: {v}" for k, v in headers.items()), "", ""]).encode()
