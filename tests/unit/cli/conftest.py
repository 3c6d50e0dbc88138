"""Runs the command line in this process, as a program in a pipe would see it."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.builders import TableFiles, tree

from lakemeta.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Result(NamedTuple):
    """What a command left: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line on stderr; an interruption ends the line that was being written first."""
        (line,) = self.err.strip().splitlines()
        return line


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Call with the arguments of ``lakemeta``."""

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["lakemeta", *map(str, arguments)])
        capsys.readouterr()
        terminated = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as exited:
            main()
        signal.signal(signal.SIGTERM, terminated)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Result(exited.value.code or 0, out, err)

    return call


@pytest.fixture
def table(tmp_path: Path) -> TableFiles:
    """Three versions of group a, of which a clean deletes one, and a dropped partition with one file."""
    table = TableFiles(tmp_path / "t")
    table.insert({"p1": "a", "p2": "c"})
    table.commit({"p1": "a"})
    table.delete_partition("p2")
    table.commit({"p1": "a"})
    return table


@pytest.fixture
def refused(run: Callable[..., Result], table: TableFiles) -> Callable[..., str]:
    """Run a command that must say no in one sentence with this exit code, changing nothing."""

    def call(code: int, *arguments: object) -> str:
        before = tree(table.root)
        result = run(*arguments)
        assert result.code == code
        assert result.out == ""
        assert tree(table.root) == before
        return result.sentence

    return call
