"""Plans: what would be done to a table, as a plain value and as a JSON Lines file.

A plan is a header, then operations sorted by (partition, path), then an end line with totals and a SHA-256 of
all bytes before it. One input gives one plan, byte for byte, and a truncated or edited file is refused.
Sizes are bytes; ``by`` names the instant, snapshot or savepoint that is the cause of the reason.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from lakemeta import __version__
from lakemeta.errors import CorruptMetadataError
from lakemeta.json_text import parse_json
from lakemeta.plan_fields import check_header, check_operation
from lakemeta.words import count_of, html_table, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PLAN_VERSION: Final = 1

Json = Any  # a value that json.dumps takes


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@attrs.frozen(slots=True)
class SummaryRow:
    """What a plan does for one reason in one partition: number of files and their bytes."""

    partition: str
    action: str
    reason: str
    files: int
    bytes: int


_Counted = tuple[tuple[str, str, str], int, int]  # (partition, action, reason), files, bytes


@attrs.frozen(slots=True)
class _OneFile:
    """An operation on one file; ``path`` is relative to the table root where the file lies under it."""

    op: ClassVar[str]
    partition: str
    path: str
    size: int
    reason: str
    by: str | None = None

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: by partition, then path."""
        return (self.partition, 0, self.path)

    @property
    def counted(self) -> _Counted:
        """What it adds to the summary of a plan."""
        return (self.partition, self.op, self.reason), 1, self.size


@attrs.frozen(slots=True)
class Delete(_OneFile):
    """Delete one file."""

    op: ClassVar[str] = "delete"


@attrs.frozen(slots=True)
class Keep(_OneFile):
    """A file that stays, and why; only explained plans carry these, and applying ignores them."""

    op: ClassVar[str] = "keep"


@attrs.frozen(slots=True)
class DeletePartition:
    """Remove the directory of a dropped partition with everything in it, after its planned files."""

    op: ClassVar[str] = "delete_partition"
    partition: str
    path: str
    reason: str
    by: str | None = None

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: after the files of its partition."""
        return (self.partition, 1, self.path)

    @property
    def counted(self) -> _Counted:
        """What it adds to the summary of a plan."""
        return (self.partition, "drop directory", self.reason), 0, 0


@attrs.frozen(slots=True)
class Rewrite:
    """Rewrite one group of data files into ``expected_outputs`` files; ``bytes`` is the size of its inputs.

    ``wholly_matching`` says of a plan with a filter how many inputs hold only rows that match it, for certain.
    """

    op: ClassVar[str] = "rewrite"
    group: int
    partition: Mapping[str, Json]
    spec_id: int
    inputs: tuple[str, ...] = attrs.field(converter=_strings)
    deletes: tuple[str, ...] = attrs.field(converter=_strings)
    bytes: int
    expected_outputs: int
    split_size: int | None = None
    max_output_size: int | None = None
    wholly_matching: int | None = None

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: by group number, the order in which groups are rewritten."""
        return ("", self.group, "")

    @property
    def counted(self) -> _Counted:
        """What it adds to the summary of a plan."""
        partition = "/".join(f"{name}={value}" for name, value in self.partition.items())
        into = f"into {count_of(self.expected_outputs, 'file')}{self._matching}"
        return (partition, self.op, into), len(self.inputs), self.bytes

    @property
    def _matching(self) -> str:
        if self.wholly_matching is None:
            return ""
        return "; all rows match" if self.wholly_matching == len(self.inputs) else "; some rows may not match"


Operation = Delete | Keep | DeletePartition | Rewrite
_OPERATIONS: Final[dict[str, Any]] = {c.op: c for c in (Delete, Keep, DeletePartition, Rewrite)}
# A plan may have a million lines: field names are looked up and the encoder is made once, not once a line.
_FIELDS: Final = {kind: tuple(field.name for field in attrs.fields(kind)) for kind in _OPERATIONS.values()}
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


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


def _in_plan_order(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    return tuple(sorted(operations, key=_sort_key))


@attrs.frozen
class Plan:
    """A header and its operations in plan order; an immutable value that can be saved, reviewed and applied."""

    header: PlanHeader
    operations: tuple[Operation, ...] = attrs.field(converter=_in_plan_order)

    @property
    def files(self) -> int:
        """Number of files that would be deleted or rewritten."""
        return sum(_files(op) for op in self.operations)

    @property
    def bytes(self) -> int:
        """Bytes of the files that would be deleted or rewritten."""
        return sum(_bytes(op) for op in self.operations)

    @property
    def is_empty(self) -> bool:
        """True if applying would change nothing in storage."""
        return all(isinstance(op, Keep) for op in self.operations)

    def deletes(self) -> Iterator[Delete]:
        """The file deletions, in plan order."""
        return (op for op in self.operations if isinstance(op, Delete))

    def dropped_partitions(self) -> tuple[str, ...]:
        """The partitions whose directories would be removed."""
        return tuple(op.partition for op in self.operations if isinstance(op, DeletePartition))

    def _repr_html_(self) -> str:
        cells = [
            (r.partition or "(table)", r.action, r.reason, str(r.files), human_bytes(r.bytes)) for r in self.summary()
        ]
        title = f"{self.header.plan} of {self.header.table}: {count_of(self.files, 'file')}, {human_bytes(self.bytes)}"
        return html_table(title, ("partition", "action", "reason", "files", "bytes"), cells)

    def summary(self) -> list[SummaryRow]:
        """The operations added up by partition, action and reason, in plan order."""
        totals: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
        for op in self.operations:
            key, files, size = op.counted
            totals[key][0] += files
            totals[key][1] += size
        return [SummaryRow(*key, *counts) for key, counts in totals.items()]

    def to_lines(self) -> Iterator[str]:
        """The plan file, line by line, each with its newline."""
        digest = hashlib.sha256()
        for value in chain([self.header.to_json()], map(operation_to_json, self.operations)):
            line = _line(value)
            digest.update(line.encode())
            yield line
        end = {"end": True, "ops": len(self.operations), "files": self.files, "bytes": self.bytes}
        yield _line({**end, "sha256": digest.hexdigest()})

    def dumps(self) -> str:
        """The whole plan file as text."""
        return "".join(self.to_lines())

    @classmethod
    def loads(cls, text: str | Iterable[str]) -> Plan:
        """Read a plan file; raises CorruptMetadataError if it is truncated, edited or not a plan."""
        # Names may hold what str.splitlines takes for the end of a line.
        lines = list(io.StringIO(text, newline="\n")) if isinstance(text, str) else list(text)
        if not lines:
            raise CorruptMetadataError("the plan file is empty; make the plan again")
        objects = [_parse(line, number) for number, line in enumerate(lines, 1)]
        _check_end(lines, objects)
        header = PlanHeader.from_json(objects[0])
        return cls(header, [operation_from_json(o, n) for n, o in enumerate(objects[1:-1], 2)])


def operation_to_json(op: Operation) -> dict[str, Json]:
    """One operation line as a JSON object; optional fields only where they have a value."""
    line: dict[str, Json] = {"op": op.op}
    for name in _FIELDS[type(op)]:
        value = getattr(op, name)
        if value is not None:
            line[name] = value
    return line


def operation_from_json(line: Mapping[str, Json], number: int) -> Operation:
    """Read one operation line; raises CorruptMetadataError naming the line if it is not a known operation."""
    fields = dict(line)
    op = fields.pop("op", "")
    kind = _OPERATIONS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise CorruptMetadataError(f"line {number} of the plan is not an operation this lakemeta knows")
    check_operation(op, fields, number)
    try:
        operation: Operation = kind(**fields)
    except TypeError as error:
        raise CorruptMetadataError(f"line {number} of the plan is not a whole operation: {error}") from error
    return operation


def _check_end(lines: list[str], objects: list[dict[str, Json]]) -> None:
    end = objects[-1]
    if end.get("end") is not True:
        raise CorruptMetadataError("the plan file has no end line, so it is truncated; make the plan again")
    digest = hashlib.sha256("".join(lines[:-1]).encode()).hexdigest()
    if end.get("sha256") != digest or end.get("ops") != len(objects) - 2:
        raise CorruptMetadataError("the plan file was changed after it was made; make the plan again")


def _parse(line: str, number: int) -> dict[str, Json]:
    try:
        value = parse_json(line)
    except ValueError as error:
        raise CorruptMetadataError(f"line {number} of the plan is not JSON; make the plan again") from error
    if not isinstance(value, dict):
        raise CorruptMetadataError(f"line {number} of the plan is not a JSON object; make the plan again")
    return value


def _line(value: Mapping[str, Json]) -> str:
    return _encode(value) + "\n"


def _sort_key(op: Operation) -> tuple[str, int, str]:
    return op.sort_key


def _files(op: Operation) -> int:
    if isinstance(op, Rewrite):
        return len(op.inputs)
    return 1 if isinstance(op, Delete) else 0


def _bytes(op: Operation) -> int:
    if isinstance(op, Rewrite):
        return op.bytes
    return op.size if isinstance(op, Delete) else 0
