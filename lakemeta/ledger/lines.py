"""The lines of a ledger, as values: what a run deletes, written as it goes and read as a stranger's.

Rules of this module:

1. A ledger is JSON Lines in UTF-8. First the opening: which run of which plan on which table, and whether files are
   deleted or quarantined. Then for each batch the intent before, the outcome after; outcomes of batches come in any
   order. Last the end: totals.
2. Paths are relative to the ``base`` of their batch, a store path. A batch that is of a whole ``directory`` names that.
3. A line that is cut off is taken for none if nothing comes after it; any other line that is not as written here makes
   the ledger damaged. Fields that are not known are passed over.
4. Outcomes name files by their place in the batch. What is named nowhere was deleted.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.json_text import parse_json
from lakemeta.moments import utc_moment
from lakemeta.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

VERSION: Final = 1
RUN: Final = r"[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8}"
Mode = Literal["delete", "quarantine", "restore", "purge"]
_MODES: Final = ("delete", "quarantine", "restore", "purge")
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def run_id(now: datetime, token: str) -> str:
    """The name of a run: its time in UTC to the millisecond, and 8 hexadecimal digits of a token."""
    digits = re.sub("[^0-9a-f]", "", token.lower())[:8].ljust(8, "0")
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z-{digits}"


def run_time(run: str) -> datetime:
    """When a run began, by its name."""
    return utc_moment(f"{run[:15]}.{run[15:18]}")


@attrs.frozen
class Opening:
    """The first line: a run, the kind and hash of its plan, and the table.

    ``identity`` is the table's uuid (Iceberg) or the URL of its directory (Hudi). ``of`` are the runs that this one
    goes on with, restores or purges.
    """

    run: str
    plan: str
    plan_sha256: str | None
    table: str
    identity: str
    mode: Mode
    of: tuple[str, ...] = ()

    @property
    def at(self) -> datetime:
        """When the run began."""
        return run_time(self.run)

    def line(self) -> bytes:
        """The line."""
        fields = attrs.asdict(self)
        return _line({"ledger": VERSION, **fields, "created_by": f"lakemeta {__version__}"})


@attrs.frozen
class Batch:
    """What is about to be deleted: paths relative to ``base``, and their bytes (None: not known)."""

    number: int
    base: str
    files: Sequence[str]
    sizes: Sequence[int | None]
    directory: str | None = None

    @property
    def paths(self) -> list[str]:
        """The store paths."""
        return [f"{self.base}/{name}" for name in self.files]

    def line(self) -> bytes:
        """The line."""
        fields = {"batch": self.number, "base": self.base, "files": list(self.files), "sizes": list(self.sizes)}
        return _line(fields if self.directory is None else {**fields, "directory": self.directory})


@attrs.frozen
class Done:
    """What became of a batch: how many files and bytes (``size``) went; which were absent, stayed, or failed, and why.

    ``versions`` are the delete markers of a store that keeps versions, for each file of the batch.
    """

    number: int
    deleted: int
    size: int
    absent: Sequence[int] = ()
    stayed: Sequence[int] = ()
    failed: Mapping[int, str] = attrs.field(factory=dict)
    versions: Sequence[str | None] = ()

    def line(self) -> bytes:
        """The line."""
        fields: dict[str, Any] = {"done": self.number, "deleted": self.deleted, "size": self.size}
        for name in ("absent", "stayed", "versions"):
            if getattr(self, name):
                fields[name] = list(getattr(self, name))
        if self.failed:
            fields["failed"] = {str(place): why for place, why in self.failed.items()}
        return _line(fields)


@attrs.frozen
class End:
    """The last line: the totals (``size`` in bytes), what was committed, and whether all that was planned was done."""

    at: str
    complete: bool
    committed: str | None
    deleted: int
    absent: int
    failed: int
    size: int

    def line(self) -> bytes:
        """The line."""
        return _line({"end": self.at, **{k: v for k, v in attrs.asdict(self).items() if k != "at"}})


Line = Opening | Batch | Done | End


def parse_line(text: bytes, where: str) -> Line | None:
    """A line of a ledger at ``where``; None for one of a kind that is not known. Raises CorruptMetadataError."""
    try:
        fields = parse_json(text)
        if type(fields) is not dict:
            raise ValueError("it is no object")
        kind = next((kind for kind in _KINDS if kind in fields), None)
        return None if kind is None else _KINDS[kind](fields)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptMetadataError(f"{where} is no ledger, or was damaged ({error}); nothing was done by it") from None


def parse_lines(parts: Iterable[bytes], where: str) -> list[Line]:
    """All lines of the parts of a ledger (rule 3)."""
    found: list[Line] = []
    for part in parts:
        whole = part.split(b"\n")[:-1]  # what is cut off was never relied on
        found += [line for text in whole if (line := parse_line(text, where)) is not None]
    if not found or not isinstance(found[0], Opening) or any(isinstance(line, Opening) for line in found[1:]):
        raise CorruptMetadataError(f"{where} is no ledger: it does not begin as one; nothing was done by it")
    return found


def _opening(fields: dict[str, Any]) -> Opening:
    if fields["ledger"] != VERSION:
        raise ValueError(f"this lakemeta reads version {VERSION}")
    if re.fullmatch(RUN, fields["run"]) is None or fields["mode"] not in _MODES:
        raise ValueError("its run or mode is none")
    run_time(fields["run"])
    texts = [_text(fields[name]) for name in ("run", "plan", "table", "identity")]
    sha = fields["plan_sha256"]
    of = tuple(_text(run) for run in fields["of"])
    if any(re.fullmatch(RUN, run) is None for run in of):
        raise ValueError("it names a run that is none")
    run, plan, table, identity = texts
    return Opening(run, plan, None if sha is None else _text(sha), table, identity, fields["mode"], of)


def _batch(fields: dict[str, Any]) -> Batch:
    files, sizes = [_text(f) for f in fields["files"]], fields["sizes"]
    if len(sizes) != len(files) or not all(size is None or _count(size) >= 0 for size in sizes):
        raise ValueError("sizes do not fit the files")
    directory = fields.get("directory")
    return Batch(
        _count(fields["batch"]), _text(fields["base"]), files, sizes, None if directory is None else _text(directory)
    )


def _done(fields: dict[str, Any]) -> Done:
    return Done(
        _count(fields["done"]),
        _count(fields["deleted"]),
        _count(fields["size"]),
        [_count(n) for n in fields.get("absent", ())],
        [_count(n) for n in fields.get("stayed", ())],
        {int(n): _text(why) for n, why in dict(fields.get("failed", {})).items()},
        [None if v is None else _text(v) for v in fields.get("versions", ())],
    )


def _end(fields: dict[str, Any]) -> End:
    committed = fields["committed"]
    return End(
        utc_moment(_text(fields["end"])).isoformat(timespec="milliseconds"),
        fields["complete"] is True,
        None if committed is None else _text(committed),
        *(_count(fields[name]) for name in ("deleted", "absent", "failed", "size")),
    )


_KINDS: Final[dict[str, Callable[[dict[str, Any]], Line]]] = {
    "ledger": _opening,
    "batch": _batch,
    "done": _done,
    "end": _end,
}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{str(value)[:40]} is no text")
    value.encode()  # a lone surrogate is a ValueError too
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{str(value)[:40]} is no number of things")
    return value


def _line(fields: Mapping[str, Any]) -> bytes:
    return _encode(fields).encode() + b"\n"
