"""Servers of object stores on this machine, which tests start: versitygw, fake-gcs-server and Azurite.

What each lacks of the service that it stands for:

- versitygw keeps objects as files: there is no object at a prefix of another (``a`` beside ``a/b``), and no key has
  an empty part or dots. It never throttles.
- fake-gcs-server has batches and preconditions of uploads. It never throttles.
- Azurite has no hierarchical namespace, so no directories of their own. It reads the boundary of a batch up to its
  first equals sign, with which all boundaries of Python's begin, so these get other ones here.
"""

from __future__ import annotations

import base64
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.generator import Generator
from pathlib import Path

import attrs
import pytest
from support.tools import go_program, npm_program

from lakemeta.storage import Storage, open_storage

VERSITYGW = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
FAKE_GCS = "github.com/fsouza/fake-gcs-server", "v1.56.1"
AZURITE = "azurite", "3.35.0"
ACCOUNT, ACCOUNT_KEY = "devstoreaccount1", base64.b64encode(b"a key of this test" * 3).decode()
BUCKET = "lake"


@attrs.frozen
class StoreServer:
    """A running server with the bucket ``lake``: the URL of that, its other spellings, and the storage options."""

    url: str
    spellings: tuple[str, ...]
    options: Mapping[str, str]

    def open(self, path: str) -> tuple[Storage, str]:
        """The storage, and a path in the bucket."""
        return open_storage(f"{self.url}/{path}", self.options)


@contextmanager
def versitygw(folder: Path) -> Iterator[StoreServer]:
    program, port = go_program(*VERSITYGW), free_port()
    (folder / "data" / BUCKET).mkdir(parents=True)
    (folder / "sidecar").mkdir()
    command = [program, "--access", "access", "--secret", "very-secret", "--port", f"127.0.0.1:{port}", "--quiet"]
    command += ["--keep-alive", "posix", "--sidecar", folder / "sidecar", folder / "data"]
    options = {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key-id": "access",
        "s3.secret-access-key": "very-secret",
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }
    with _running(command, port, folder):
        yield StoreServer(f"s3://{BUCKET}", (f"s3a://{BUCKET}", f"s3n://{BUCKET}"), options)


@contextmanager
def fake_gcs(folder: Path) -> Iterator[StoreServer]:
    program, port = go_program(*FAKE_GCS), free_port()
    (folder / "data" / BUCKET).mkdir(parents=True)
    place = f"http://127.0.0.1:{port}"
    command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    command += ["-external-url", place, "-public-host", f"127.0.0.1:{port}", "-data", folder / "data"]
    with _running([*command, "-log-level", "error"], port, folder):
        options = {"gcs.service.host": place, "token": "anon", "gcs.project-id": "test"}
        yield StoreServer(f"gs://{BUCKET}", (f"gcs://{BUCKET}",), options)


@contextmanager
def azurite(folder: Path) -> Iterator[StoreServer]:
    program, port = npm_program(*AZURITE, "azurite-blob"), free_port()
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
    command += ["--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={endpoint}"
    environment = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    hosts = f"{ACCOUNT}.dfs.core.windows.net", f"{ACCOUNT}.blob.core.windows.net"
    others = f"abfs://{BUCKET}", f"wasbs://{BUCKET}@{hosts[1]}", f"abfs://{BUCKET}@{hosts[0]}"
    with _running(command, port, folder, environment), _plain_boundaries():
        server = StoreServer(f"abfss://{BUCKET}@{hosts[0]}", others, {"adls.connection-string": connection})
        storage, _ = server.open("t")
        storage.fs.mkdir(BUCKET)
        yield server


@contextmanager
def _plain_boundaries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Generator, "_make_boundary", classmethod(lambda cls, text=None: secrets.token_hex(16)))
        yield


SERVERS = {"s3": versitygw, "gs": fake_gcs, "abfss": azurite}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(
    command: Sequence[object], port: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A process as long as the ``with`` block, once it listens."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            cwd=folder,
        )
    try:
        _wait_for(port, process, folder / "server.log")
        yield
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the server does not listen on {port}: {log.read_text('utf-8', 'replace')[-2000:]}")
