"""Failures as data: what a command that did not end well leaves in its run log and, for a program, on stdout (I/O)."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.environment import utc_now

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOR_PROGRAMS: Final = ("json", "jsonl")


@attrs.frozen
class Failure:
    """How a command ended: in a sentence, by the class of its error, and with its exit code."""

    error: str
    kind: str
    exit_code: int

    def to_json(self) -> dict[str, str | int]:
        """As it is printed under ``--output json`` and ``jsonl``."""
        return {"error": self.error, "class": self.kind, "exit_code": self.exit_code}

    def publish(self, arguments: Sequence[str], *, printed: bool) -> str | None:
        """Add an event to the run log that the command line names; the line for stdout, if a program reads that.

        The command line itself is asked, as it may be what was wrong. ``printed`` says that stdout has the result.
        """
        log = _given(arguments, "--log")
        if log is not None:
            head = {"event": "exited", "at": utc_now().isoformat(timespec="milliseconds")}
            command = next((argument for argument in arguments if not argument.startswith("-")), None)
            line = json.dumps({**head, "command": command, **self.to_json()}, ensure_ascii=False, separators=(",", ":"))
            with suppress(OSError), Path(log).open("a", encoding="utf-8") as file:  # what failed first counts
                file.write(line + "\n")
        wanted = _given(arguments, "--output") in _FOR_PROGRAMS and not printed
        return json.dumps(self.to_json(), ensure_ascii=False) if wanted else None


def _given(arguments: Sequence[str], flag: str) -> str | None:
    """The value of a flag on the command line, the last one; None if there is none."""
    found = None
    for place, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == flag:
            found = next(iter(arguments[place + 1 : place + 2]), found)
        elif argument.startswith(f"{flag}="):
            found = argument.removeprefix(f"{flag}=")
    return found
