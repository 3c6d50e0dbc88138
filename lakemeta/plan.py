"""Plans: what would be done to a table, as a plain value and as a JSON Lines file.

A plan is a header, then operations sorted by (partition, path), then an end line with totals and a SHA-256 of
all bytes before it. One input gives one plan, byte for byte, and a truncated or edited file is refused.
Sizes are bytes; ``by`` names the instant, snapshot or savepoint that is the cause of the reason.
Only ``save`` and ``load`` touch files.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError, OptionError
from lakemeta.json_text import parse_json
from lakemeta.plan_fields import check_header
from lakemeta.plan_operations import (
    Delete,
    DeletePartition,
    Json,
    Keep,
    ManyOperations,
    Operation,
    operation_from_json,
    operation_to_json,
)
from lakemeta.version import __version__
from lakemeta.words import count_of, html_table, human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    import pandas as pd
    import pyarrow as pa

    Gather = Callable[[Iterable[Operation]], Sequence[Operation]]

PLAN_VERSION: Final = 1
# A plan may have a million lines: the encoder is made once, not once a line.
_ENCODED_AT_ONCE: Final = 1000
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@attrs.frozen(slots=True)
class SummaryRow:
    """What a plan does for one reason in one partition: number of files and their bytes."""

    partition: str
    action: str
    reason: str
    files: int
    bytes: int


@attrs.frozen
class PlanHeader:
    """What a plan is about and what it was based on.

    ``facts`` holds what only this kind of plan knows (``earliest_to_retain``, ``partitions``, ...); its keys
    stand beside the fixed ones in the header line. ``based_on`` is the newest instant (Hudi) or the snapshot id
    (Iceberg) the planner saw; ``options`` are the options as given, by their primary names.
    """

    plan: str
    table: str
    table_format_version: int
    based_on: str | None
    options: Mapping[str, str] = attrs.field(factory=dict)
    facts: Mapping[str, Json] = attrs.field(factory=dict)
    created_by: str = f"lakemeta {__version__}"

    def to_json(self) -> dict[str, Json]:
        """The header line as a JSON object."""
        return {
            "plan": self.plan,
            "version": PLAN_VERSION,
            "table": self.table,
            "table_format_version": self.table_format_version,
            "based_on": self.based_on,
            "created_by": self.created_by,
            "options": dict(sorted(self.options.items())),
            **dict(self.facts),
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Json]) -> PlanHeader:
        """Read a header line; raises CorruptMetadataError if a fixed key is missing or the version is unknown."""
        rest = dict(line)
        version = rest.pop("version", None)
        if type(version) is not int:
            raise CorruptMetadataError("the plan's first line: version is not a whole number; make the plan again")
        if version != PLAN_VERSION:
            raise CorruptMetadataError(
                f"this plan has version {str(version)[:20]}; this lakemeta reads version {PLAN_VERSION}"
            )
        fixed = ("plan", "table", "table_format_version", "based_on", "options", "created_by")
        missing = [name for name in fixed if name not in rest]
        if missing:
            raise CorruptMetadataError(f"the plan's first line has no {missing[0]}; make the plan again")
        check_header(line)
        return cls(**{name: rest.pop(name) for name in fixed}, facts=rest)


def _in_plan_order(operations: Iterable[Operation]) -> Sequence[Operation]:
    if isinstance(operations, ManyOperations):
        return operations
    return tuple(sorted(operations, key=attrgetter("sort_key")))


@attrs.frozen
class Plan:
    """A header and its operations in plan order; an immutable value that can be saved, reviewed and applied."""

    header: PlanHeader
    operations: Sequence[Operation] = attrs.field(converter=_in_plan_order)

    def __repr__(self) -> str:
        return f"<Plan {self._title}>"

    @property
    def _title(self) -> str:
        files, size = self.changed
        return f"{self.header.plan} of {self.header.table}: {count_of(files, 'file')}, {human_bytes(size)}"

    @property
    def _parts(self) -> Sequence[Any]:
        """The operations, or what counts for all of them."""
        return (self.operations,) if isinstance(self.operations, ManyOperations) else self.operations

    @property
    def kinds(self) -> frozenset[type]:
        """The classes of the operations."""
        if isinstance(self.operations, ManyOperations):
            return frozenset({self.operations.kind})
        return frozenset(map(type, self.operations))

    @property
    def files(self) -> int:
        """Number of files that would be deleted or rewritten."""
        return sum(op.changed[0] for op in self._parts)

    @property
    def bytes(self) -> int:
        """Bytes of the files that would be deleted or rewritten."""
        return sum(op.changed[1] for op in self._parts)

    @property
    def changed(self) -> tuple[int, int]:
        """Files and bytes that applying changes: of the plan, and of pending cleans, which are executed first."""
        rows = self._pending()
        return self.files + sum(row.files for row in rows), self.bytes + sum(row.bytes for row in rows)

    def _pending(self) -> list[SummaryRow]:
        rows = self.header.facts.get("pending_deletes", ())
        return [
            SummaryRow(r["partition"], "delete", f"pending clean {r['clean']}", r["files"], r["bytes"]) for r in rows
        ]

    @property
    def is_empty(self) -> bool:
        """True if applying would change nothing in storage."""
        return self.kinds <= {Keep}

    def deletes(self) -> Iterator[Delete]:
        """The file deletions, in plan order."""
        return (op for op in self.operations if isinstance(op, Delete))

    def dropped_partitions(self) -> tuple[str, ...]:
        """The partitions whose directories would be removed."""
        if DeletePartition not in self.kinds:
            return ()
        return tuple(op.partition for op in self.operations if isinstance(op, DeletePartition))

    def _repr_html_(self) -> str:
        cells = [
            (r.partition or "(table)", r.action, r.reason, str(r.files), human_bytes(r.bytes)) for r in self.summary()
        ]
        return html_table(self._title, ("partition", "action", "reason", "files", "bytes"), cells)

    def summary(self) -> list[SummaryRow]:
        """Pending cleans, then the operations added up by partition, action and reason, in plan order."""
        totals: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
        for op in self._parts:
            key, files, size = op.counted
            totals[key][0] += files
            totals[key][1] += size
        return [*self._pending(), *(SummaryRow(*key, *counts) for key, counts in totals.items())]

    def to_lines(self) -> Iterator[str]:
        """The plan file, line by line, each with its newline."""
        digest = hashlib.sha256()
        for line in chain([_line(self.header.to_json())], _operation_lines(self.operations)):
            digest.update(line.encode())
            yield line
        end = {"end": True, "ops": len(self.operations), "files": self.files, "bytes": self.bytes}
        yield _line({**end, "sha256": digest.hexdigest()})

    def dumps(self) -> str:
        """The whole plan file as text."""
        return "".join(self.to_lines())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan file; raises OptionError if that cannot be done."""
        try:
            with Path(path).open("w", encoding="utf-8") as file:
                file.writelines(self.to_lines())
        except OSError as error:
            raise OptionError(f"the plan cannot be written to {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | PathLike[str], gather: Gather = tuple) -> Plan:
        """Read a plan file; raises OptionError if it cannot be read, and otherwise as :meth:`loads`."""
        try:
            with Path(path).open(encoding="utf-8", newline="\n") as lines:
                return cls.loads(lines, gather)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise OptionError(f"the plan {path} cannot be read: {reason}") from None

    def to_arrow(self) -> pa.Table:
        """The operations as a table, a row for each, with the fields of the plan file as columns."""
        from lakemeta.plan_table import operations_table

        return operations_table(self.operations)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a data frame. Raises OptionError if pandas is not installed."""
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise OptionError("pandas is not installed; pip install pandas, or use to_arrow()") from None

    @property
    def sha256(self) -> str:
        """The hash in the plan file's last line, by which a plan is known."""
        *_, end = self.to_lines()
        found: str = json.loads(end)["sha256"]
        return found

    @classmethod
    def loads(cls, text: str | Iterable[str], gather: Gather = tuple) -> Plan:
        """Read a plan file; raises CorruptMetadataError if it is truncated, edited or not a plan.

        ``gather`` holds the operations, which are given to it as they are read.
        """
        # Names may hold what str.splitlines takes for the end of a line.
        reader = _Reader(io.StringIO(text, newline="\n") if isinstance(text, str) else text)
        operations = gather(reader.operations())
        return cls(reader.header, operations)


@attrs.define(eq=False)
class _Reader:
    """Reads a plan file line by line; ``first`` is its first line once all operations were given."""

    lines: Iterable[str]
    first: dict[str, Json] = attrs.field(factory=dict)

    @property
    def header(self) -> PlanHeader:
        """What the first line says."""
        return PlanHeader.from_json(self.first)

    def operations(self) -> Iterator[Operation]:
        """The operations. Damage of the file as a whole is raised first, then that of the first line, then others'."""
        digest, wrong, number = hashlib.sha256(), None, 0
        last, value = "", dict[str, Json]()
        for number, line in enumerate(self.lines, 1):
            before, value = value, _parse(line, number)
            digest.update(last.encode("utf-8", "surrogatepass"))
            last = line
            if number == 1:
                self.first = value
            elif number > 2:
                try:
                    op = operation_from_json(before, number - 1)
                except CorruptMetadataError as error:
                    wrong = wrong or error
                    continue
                yield op
        if not number:
            raise CorruptMetadataError("the plan file is empty; make the plan again")
        _check_end(value, digest.hexdigest(), number - 2)
        assert self.header
        if wrong is not None:
            raise wrong


def _check_end(end: Mapping[str, Json], digest: str, operations: int) -> None:
    if end.get("end") is not True:
        raise CorruptMetadataError("the plan file has no end line, so it is truncated; make the plan again")
    if end.get("sha256") != digest or end.get("ops") != operations:
        raise CorruptMetadataError("the plan file was changed after it was made; make the plan again")


def _parse(line: str, number: int) -> dict[str, Json]:
    try:
        value = parse_json(line)
    except ValueError as error:
        raise CorruptMetadataError(f"line {number} of the plan is not JSON; make the plan again") from error
    if not isinstance(value, dict):
        raise CorruptMetadataError(f"line {number} of the plan is not a JSON object; make the plan again")
    return value


def _operation_lines(operations: Sequence[Operation]) -> Iterator[str]:
    """The lines of operations: many in one call of the encoder, which is several times as fast."""
    for start in range(0, len(operations), _ENCODED_AT_ONCE):
        values = [operation_to_json(op) for op in operations[start : start + _ENCODED_AT_ONCE]]
        # No text in JSON has a bare quotation mark, so this is found between operations alone, unless one holds others.
        lines = _encode(values)[1:-1].replace('},{"op":', '}\n{"op":').split("\n")
        yield from (line + "\n" for line in lines) if len(lines) == len(values) else map(_line, values)


def _line(value: Mapping[str, Json]) -> str:
    return _encode(value) + "\n"
