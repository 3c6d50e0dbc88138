"""Ctrl-C and a scheduler's SIGTERM: the first stops the command, which says so at once; others change nothing (I/O).

What was begun is cleaned up after the first: a second one in the middle of that would leave what the first would not.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLEAR_LINE = "\r\x1b[2K"  # of a bar


@attrs.define
class Interrupt:
    """The state of one command: whether it was stopped, and whether that is said."""

    asked: bool = False
    quiet: bool = False

    def install(self) -> None:
        """Take the signals for a command that begins."""
        self.asked = self.quiet = False
        for number in _SIGNALS:
            signal.signal(number, self._stop)

    def end(self) -> None:
        """The command is over: a signal that comes while the interpreter ends would still kill it."""
        if self.asked:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    @contextmanager
    def unannounced(self) -> Iterator[None]:
        """While a person is asked there is nothing to stop."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def _stop(self, *_: Any) -> None:
        if self.asked:
            return
        self.asked = True
        if not self.quiet and sys.stderr.isatty():
            os.write(sys.stderr.fileno(), f"{_CLEAR_LINE}lakemeta: stopping ...\n".encode())
        raise KeyboardInterrupt


INTERRUPT = Interrupt()
