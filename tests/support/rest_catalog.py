"""A REST catalog over HTTP on this machine, whose answers to commits can go wrong, before or after they have happened.

Behind it is either one of pyiceberg's own catalogs, or another server that requests are handed on to.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableRequest
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

Proceed = Callable[[], Response]
Fault = Callable[[Proceed], Response]


class LostError(Exception):
    """The connection breaks before the client has an answer."""


def answered(status: int, *, after: bool) -> Fault:
    """The answer of a proxy, given before the request is handed on or after it was answered."""

    def fault(proceed: Proceed) -> Response:
        if after:
            assert proceed().status_code == 200
        return error(status, "the proxy says so")

    return fault


def lost(*, after: bool) -> Fault:
    """A connection that breaks."""

    def fault(proceed: Proceed) -> Response:
        if after:
            assert proceed().status_code == 200
        raise LostError

    return fault


def cut_off(proceed: Proceed) -> Response:
    """An answer of which only the beginning arrives."""
    return Response(proceed().get_data()[:40], 200, content_type="application/json")


def repeated(proceed: Proceed) -> Response:
    """A proxy that repeats a request, though the first was carried out."""
    assert proceed().status_code == 200
    return proceed()


def error(status: int, message: str) -> Response:
    return answer({"error": {"message": message, "type": "Error", "code": status}}, status)


def answer(document: Any, status: int = 200) -> Response:
    return Response(json.dumps(document), status, content_type="application/json")


class RestCatalogServer:
    """``faults`` are for the next commits, one each; ``config`` goes with every table that is loaded.

    ``refused`` are answers by path, instead of what is asked there.
    """

    def __init__(self, behind: Catalog | str) -> None:
        self.faults: list[Fault] = []
        self.config: dict[str, str] = {}
        self.refused: dict[str, Response] = {}
        self.commits: list[Mapping[str, Any]] = []
        self._behind = behind
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self._server = make_server("127.0.0.1", 0, self, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        is_commit = request.method == "POST" and "/tables/" in request.path
        if is_commit:
            self.commits.append(request.get_json())
        fault = self.faults.pop(0) if is_commit and self.faults else None
        try:
            found = fault(lambda: self._answer(request)) if fault else self._answer(request)
        except LostError:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            found = Response(status=500)
        return found(environ, start_response)

    def _answer(self, request: Request) -> Response:
        if isinstance(self._behind, str):
            done = requests.request(
                request.method,
                self._behind + request.full_path.rstrip("?"),
                data=request.get_data(),
                headers={"content-type": "application/json"},
                timeout=60,
            )
            return Response(done.content, done.status_code, content_type=done.headers.get("content-type"))
        if request.path in self.refused:
            return self.refused[request.path]
        if request.path == "/v1/config":
            return answer({"defaults": {}, "overrides": {}})
        if request.path == "/v1/namespaces":
            parent = tuple(request.args.get("parent", "").split("\x1f")) if request.args.get("parent") else ()
            return answer({"namespaces": self._behind.list_namespaces(parent)})
        if request.path.endswith("/tables"):
            found = self._behind.list_tables(tuple(request.path.split("/")[3].split("\x1f")))
            return answer({"identifiers": [{"namespace": name[:-1], "name": name[-1]} for name in found]})
        return self._of_table(self._behind, request)

    def _of_table(self, catalog: Catalog, request: Request) -> Response:
        _, _, _, namespace, _, name = request.path.split("/")
        try:
            table = catalog.load_table((*namespace.split("\x1f"), name))
            if request.method == "POST":
                asked = CommitTableRequest.model_validate_json(request.get_data())
                catalog.commit_table(table, asked.requirements, asked.updates)
                table = catalog.load_table((namespace, name))
        except NoSuchTableError as missing:
            return error(404, str(missing))
        except CommitFailedException as failed:
            return error(409, str(failed))
        metadata = json.loads(table.metadata.model_dump_json())
        return answer({"metadata-location": table.metadata_location, "metadata": metadata, "config": self.config})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def rest_catalog(behind: Catalog | str) -> Iterator[RestCatalogServer]:
    server = RestCatalogServer(behind)
    try:
        yield server
    finally:
        server.close()
