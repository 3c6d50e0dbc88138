"""Programs that tests run and pip does not have: built or installed once, kept in the user's cache directory."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_MINUTES = 15


def go_program(module: str, version: str) -> Path:
    """The program of a Go module, built with the Go toolchain; skips the test where that fails."""
    name = module.rpartition("/")[2]
    folder = _cache() / f"{name}-{version}"
    program = folder / name
    with _one_builder(folder):
        if not program.exists():
            command = ["go", "install", f"{module}@{version}"]
            _run(command, name, {"GOBIN": str(folder), "GOFLAGS": "-buildvcs=false -mod=mod"})
    return program


def npm_program(package: str, version: str, program: str) -> Path:
    """A program of an npm package; skips the test where it cannot be installed."""
    folder = _cache() / f"{package}-{version}"
    found = folder / "node_modules" / ".bin" / program
    with _one_builder(folder):
        if not (folder / "installed").exists():
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"{package}@{version}"]
            _run(command, package)
            (folder / "installed").touch()
    return found


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakemeta-tests"


@contextmanager
def _one_builder(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str], name: str, more: dict[str, str] | None = None) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{name} cannot be had: there is no {command[0]}")
    environment = {**os.environ, **(more or {})}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60 * _MINUTES)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} cannot be had: {' '.join(command)} took more than {_MINUTES} minutes")
    if done.returncode:
        pytest.skip(f"{name} cannot be had: {done.stderr.strip()[-300:]}")
