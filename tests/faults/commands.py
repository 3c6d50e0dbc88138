"""Runs ``lakemeta`` in this process as a program would, without waiting where it would wait."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from unittest import mock

from lakemeta.cli.main import main
from lakemeta.storage.s3 import S3Storage


class Result(NamedTuple):
    """What a command left: its exit code, what it printed as JSON (None if nothing), and stderr."""

    code: int
    report: dict[str, Any] | None
    err: str


def run(arguments: list[str]) -> Result:
    """Run it with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    with (
        mock.patch.object(sys, "argv", ["lakemeta", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as done:
            code = done.code
        finally:
            signal.signal(signal.SIGTERM, before)
    assert isinstance(code, int)
    return Result(code, json.loads(out.getvalue()) if out.getvalue() else None, err.getvalue())


@contextlib.contextmanager
def nobody_waits() -> Iterator[None]:
    """All pauses are short, nothing waits for the disk, and remarks are not said."""
    pause, nap = time.sleep, asyncio.sleep

    def brief(seconds: float) -> float:
        return min(seconds, 0.001)

    with contextlib.ExitStack() as stack:
        for target, name, new in (
            (time, "sleep", lambda seconds: pause(brief(seconds))),
            (asyncio, "sleep", lambda seconds, result=None: nap(brief(seconds), result)),
            (os, "fsync", lambda _: None),
        ):
            stack.enter_context(mock.patch.object(target, name, new))
        stack.enter_context(mock.patch("lakemeta.hudi.timeline.loading._WAITS", (0.0,)))
        stack.enter_context(_light_client())
        logging.disable(logging.CRITICAL)
        stack.callback(logging.disable, logging.NOTSET)
        yield


@contextlib.contextmanager
def _light_client() -> Iterator[None]:
    """One client for each set of options, which does not spend its time on its own name and on forms of times."""
    known: dict[str, Any] = {}
    connect = S3Storage._connect

    def connected(self: S3Storage) -> Any:
        options = f"{os.getpid()} {sorted(self.options.items())}"
        if options not in known:
            known[options] = connect(self)
        return known[options]

    def moment(text: str) -> datetime:
        return datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)

    def name(_: object) -> str:  # a mock would remember every call
        return "tests"

    with (
        mock.patch.object(S3Storage, "_connect", connected),
        mock.patch("botocore.parsers.DEFAULT_TIMESTAMP_PARSER", moment),
        mock.patch("botocore.useragent.UserAgentString.to_string", name),
    ):
        yield
