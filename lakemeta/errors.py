"""Every error that lakemeta raises on purpose.

A message is one sentence that says what is wrong, where, and what to do. ``exit_code`` is what the command
line returns for the error: 1 failed, 2 usage or configuration, 3 refused with nothing changed, 5 commit state
unknown.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class LakemetaError(Exception):
    """Base of every error that lakemeta raises on purpose."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        # Names and values in metadata may hold anything and be of any length, and a message is one line on a terminal.
        text = super().__str__()
        if len(text) > _LONGEST:
            text = f"{text[: 2 * _LONGEST // 3]} ... {text[-_LONGEST // 3 :]}"
        return _CONTROL.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


_LONGEST_NAME: Final = 100  # characters of an option that may be one of ours by mistake; longer ones take long
_LONGEST: Final = 3000  # characters; what to do stands at the end, so the middle goes
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class TableNotFoundError(LakemetaError, FileNotFoundError):
    """No table of the expected format lies at the given place."""

    exit_code = 2


class OptionError(LakemetaError, ValueError):
    """An option is unknown, malformed, contradictory or would delete live data."""

    exit_code = 2

    @classmethod
    def unknown(cls, name: str, known: Iterable[str], advice: str = "") -> OptionError:
        """The error for an unknown option; it names the nearest known one, or says what to do if none is near."""
        near = get_close_matches(name[:_LONGEST_NAME], list(known), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else f"; {advice}" if advice else ""
        return cls(f"unknown option {name}{hint}")


class UnsupportedFeatureError(LakemetaError):
    """The table uses a known feature that lakemeta does not handle; nothing was written."""

    exit_code = 3


class CorruptMetadataError(LakemetaError):
    """Bytes do not parse, or facts contradict each other, so nothing may be planned or deleted."""

    exit_code = 3


class StalePlanError(LakemetaError):
    """The table has moved since the plan was made, in a way that could make it wrong."""

    exit_code = 3


class ShareError(LakemetaError):
    """A plan would remove more of a table's bytes than may go unless said; nothing was changed."""

    exit_code = 3


class CommitConflictError(LakemetaError):
    """The commit surely did not happen; new files of this run have been removed."""


class CommitStateUnknownError(LakemetaError):
    """The commit may or may not have happened, so nothing was removed."""

    exit_code = 5


class CatalogError(LakemetaError):
    """A catalog could not be asked, or refused a request that it will refuse again; nothing was changed."""


class StorageError(LakemetaError):
    """The storage could not be read, listed or written; the message names the path."""


class PathExistsError(StorageError, FileExistsError):
    """A create-if-absent found the path taken."""


class PathNotFoundError(StorageError, FileNotFoundError):
    """A read or listing named a path that does not exist."""


class ExecutorError(LakemetaError):
    """A batch of work failed on a worker; the message names its first item."""
