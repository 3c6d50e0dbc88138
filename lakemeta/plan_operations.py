"""The operations of plans: what is done to one file, partition, group of files, snapshot or ref.

Each says where it stands in a plan (``sort_key``), what it adds to the plan's summary (``counted``) and to its totals
(``changed``). Sizes are bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import eq
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_args

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.moments import date_of
from lakemeta.plan_fields import check_operation
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = Any  # a value that json.dumps takes
Counted = tuple[tuple[str, str, str], int, int]  # (partition, action, reason), files, bytes
Changed = tuple[int, int]  # files, bytes


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


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
    def counted(self) -> Counted:
        """What it adds to the summary of a plan."""
        return (self.partition, self.op, self.reason), 1, self.size

    @property
    def changed(self) -> Changed:
        """How many files it deletes, rewrites or takes out of the table, and their bytes."""
        return 1, self.size


@attrs.frozen(slots=True)
class Delete(_OneFile):
    """Delete one file."""

    op: ClassVar[str] = "delete"


@attrs.frozen(slots=True)
class Keep(_OneFile):
    """A file that stays, and why; only explained plans carry these, and applying ignores them."""

    op: ClassVar[str] = "keep"

    @property
    def changed(self) -> Changed:
        """Nothing."""
        return 0, 0


@attrs.frozen(slots=True)
class Remove(_OneFile):
    """Take one delete file out of the table's metadata; the file itself stays until no snapshot names it."""

    op: ClassVar[str] = "remove"


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
    def counted(self) -> Counted:
        """What it adds to the summary of a plan."""
        return (self.partition, "drop directory", self.reason), 0, 0

    @property
    def changed(self) -> Changed:
        """No file of its own: those that a directory holds have lines of theirs."""
        return 0, 0


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
    def counted(self) -> Counted:
        """What it adds to the summary of a plan."""
        partition = "/".join(f"{name}={value}" for name, value in self.partition.items())
        into = f"into {count_of(self.expected_outputs, 'file')}{self._matching}"
        return (partition, self.op, into), len(self.inputs), self.bytes

    @property
    def changed(self) -> Changed:
        """How many files it rewrites, and their bytes."""
        return len(self.inputs), self.bytes

    @property
    def _matching(self) -> str:
        if self.wholly_matching is None:
            return ""
        return "; all rows match" if self.wholly_matching == len(self.inputs) else "; some rows may not match"


@attrs.frozen(slots=True)
class RemoveRef:
    """Remove a branch or tag from an Iceberg table; ``snapshot_id`` is what it points to."""

    op: ClassVar[str] = "remove_ref"
    ref: str
    snapshot_id: int
    reason: str

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: first, by name."""
        return ("", -4, self.ref)

    @property
    def counted(self) -> Counted:
        """What it adds to the summary of a plan."""
        return ("", f"remove ref {self.ref}", self.reason), 0, 0

    @property
    def changed(self) -> Changed:
        """No file."""
        return 0, 0


@attrs.frozen(slots=True)
class Expire:
    """Expire a snapshot of an Iceberg table, of a time in ms since the epoch.

    ``files`` and ``bytes`` are what no other snapshot holds; files that go have ``delete`` lines of their own.
    """

    op: ClassVar[str] = "expire"
    snapshot_id: int
    timestamp_ms: int
    files: int
    bytes: int
    reason: str
    by: str | None = None

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: before all files, by time."""
        return ("", -3, f"{self.timestamp_ms:020d} {self.snapshot_id:020d}")

    @property
    def counted(self) -> Counted:
        """What it adds to the summary of a plan: no file, as each that goes is counted by itself."""
        alone = f"it alone holds {count_of(self.files, 'file')}, {human_bytes(self.bytes)}"
        what = f"expire snapshot {self.snapshot_id} of {date_of(self.timestamp_ms)}"
        return ("", what, f"{self.reason}; {alone}"), 0, 0

    @property
    def changed(self) -> Changed:
        """No file."""
        return 0, 0


@attrs.frozen(slots=True)
class RemoveUnused:
    """Remove a ``schema`` or ``partition-spec`` (``kind``) that no snapshot needs from an Iceberg table's metadata."""

    op: ClassVar[str] = "remove_unused"
    kind: str
    id: int
    reason: str

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: by kind, then id."""
        return ("", -2, f"{self.kind} {self.id:010d}")

    @property
    def counted(self) -> Counted:
        """What it adds to the summary of a plan."""
        return ("", f"remove {self.kind} {self.id}", self.reason), 0, 0

    @property
    def changed(self) -> Changed:
        """No file."""
        return 0, 0


@attrs.frozen(slots=True)
class RewriteManifests:
    """Rewrite the manifests of one partition spec and content (``data`` or ``deletes``) into ``expected_outputs``."""

    op: ClassVar[str] = "rewrite_manifests"
    spec_id: int
    content: str
    inputs: tuple[str, ...] = attrs.field(converter=_strings)
    bytes: int
    expected_outputs: int

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: by partition spec, then content."""
        return ("", -2, f"{self.spec_id:010d} {self.content}")

    @property
    def counted(self) -> Counted:
        """What it adds to the summary of a plan."""
        into = f"of partition spec {self.spec_id} into {count_of(self.expected_outputs, 'manifest')}"
        kind = "delete" if self.content == "deletes" else self.content
        return ("", f"rewrite {kind} manifests", into), len(self.inputs), self.bytes

    @property
    def changed(self) -> Changed:
        """How many manifests it rewrites, and their bytes."""
        return len(self.inputs), self.bytes


@attrs.frozen(slots=True)
class WriteStatistics:
    """Compute the statistics of a snapshot, of ``kind`` ``partition`` or ``table``, and put them in the metadata."""

    op: ClassVar[str] = "write_statistics"
    snapshot_id: int
    kind: str
    reason: str

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order in the plan: by kind, then snapshot."""
        return ("", -1, f"{self.kind} {self.snapshot_id:020d}")

    @property
    def counted(self) -> Counted:
        """What it adds to the summary of a plan."""
        return ("", f"write {self.kind} statistics", self.reason), 0, 0

    @property
    def changed(self) -> Changed:
        """No file."""
        return 0, 0


Operation = (
    Delete
    | Keep
    | Remove
    | DeletePartition
    | Rewrite
    | RemoveRef
    | Expire
    | RemoveUnused
    | RewriteManifests
    | WriteStatistics
)


class ManyOperations(ABC, Sequence[Any]):
    """Operations of one kind in plan order, which are not all in memory."""

    @property
    @abstractmethod
    def kind(self) -> type[Any]:
        """The class of each of them."""

    @property
    @abstractmethod
    def counted(self) -> Counted:
        """What they add to the summary of a plan, in one row."""

    @property
    @abstractmethod
    def changed(self) -> Changed:
        """How many files they delete, and their bytes."""

    @abstractmethod
    def at(self, place: int) -> Operation:
        """The operation at a place from 0."""

    def __getitem__(self, at: Any) -> Any:
        places = range(len(self))[at]
        return self.at(places) if isinstance(places, int) else tuple(map(self.at, places))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]


_OPERATIONS: Final[dict[str, Any]] = {kind.op: kind for kind in get_args(Operation)}
# A plan may have a million lines: field names are looked up once, not once a line.
_FIELDS: Final = {kind: tuple(field.name for field in attrs.fields(kind)) for kind in _OPERATIONS.values()}


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
