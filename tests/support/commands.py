"""Runs the command line in this process, as a program in a pipe would see it."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakemeta.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable


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


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Call what it gives with the arguments of ``lakemeta``."""

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["lakemeta", *map(str, arguments)])
        capsys.readouterr()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        with pytest.raises(SystemExit) as exited:
            main()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Result(exited.value.code or 0, out, err)

    return call
