"""A real S3 server over HTTP on this machine, which can be told to misbehave.

moto keeps the objects; around it a layer counts requests, runs them one at a time (so that a conditional put is as
atomic as the real service's) and lets a test answer in the service's place.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from lakemeta.storage import open_storage

Fault = Callable[[Request], Response | None]


class S3Server:
    """``requests`` are the (method, path, query) of all requests; ``faults`` are asked first, each in turn.

    A fault gives its answer, or None to let the request pass.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.faults: list[Fault] = []
        self._service = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def options(self) -> dict[str, str]:
        """Storage options that lead here."""
        return {
            "s3.endpoint": f"http://127.0.0.1:{self._server.server_port}",
            "s3.access-key-id": "access",
            "s3.secret-access-key": "very-secret",
            "s3.region": "us-east-1",
        }

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        with self._one_at_a_time:
            self.requests.append((request.method, request.path, request.query_string.decode()))
            for fault in self.faults:
                answer = fault(request)
                if answer is not None:
                    return answer(environ, start_response)
            return self._service(environ, start_response)

    def let_pass(self, request: Request) -> None:
        """Let the service do a request whose answer gets lost."""
        Response.from_app(self._service, request.environ)

    def reset(self) -> None:
        self.requests.clear()
        self.faults.clear()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def s3_server(bucket: str) -> Iterator[S3Server]:
    """A server with one bucket, which runs as long as the ``with`` block."""
    server = S3Server()
    storage, _ = open_storage(f"s3://{bucket}/t", server.options)
    storage.fs.call_s3("create_bucket", Bucket=bucket)
    yield server
    server.stop()


def error(status: int, code: str) -> Response:
    """The service's error answer."""
    body = f"<Error><Code>{code}</Code><Message>as you wish</Message></Error>"
    return Response(body, status, content_type="application/xml")


def times(count: int, matches: Callable[[Request], bool], answer: Callable[[Request], Response]) -> Fault:
    """A fault that answers the first ``count`` requests that match."""
    left = [count]

    def fault(request: Request) -> Response | None:
        if not left[0] or not matches(request):
            return None
        left[0] -= 1
        return answer(request)

    return fault


def is_bulk_delete(request: Request) -> bool:
    return request.method == "POST" and "delete" in request.args


def is_put(request: Request) -> bool:
    return request.method == "PUT"
