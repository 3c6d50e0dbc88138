"""What clustering manifests gains: how many of them a query of one partition opens.

A scan opens a manifest unless its partition summaries rule the partition out, so that number is what a query that
names all partition fields waits for. Of many partitions a thousand are counted, evenly spread over all in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.spec import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakemeta.iceberg.manifests.entries import PartitionFieldSummary
    from lakemeta.iceberg.spec.types import Type, Value

    Partition = tuple[Value, ...]
    Summaries = Sequence[PartitionFieldSummary] | None
    Bounds = tuple[Value, Value, bool, bool]  # lower, upper, may be null, may be NaN

_COUNTED: Final = 1000
_WORTH_IT: Final = 0.8  # of what there was before: one that leaves more of it is no gain


@attrs.frozen(slots=True)
class Opened:
    """How many manifests there are, and how many a query of one partition opens, on average and at most."""

    manifests: int
    mean: float
    most: int

    @classmethod
    def count(cls, summaries: Sequence[Summaries], types: Sequence[Type], partitions: Iterable[Partition]) -> Opened:
        """Count for manifests with these partition summaries (None: not known), in lists of live partitions."""
        listed = list(partitions)
        step = max(1, -(-len(listed) // _COUNTED))
        bounds = [None if found is None else _bounds(found, types) for found in summaries]
        opened = [sum(b is None or _may_hold(b, p) for b in bounds) for p in listed[::step]]
        return cls(len(summaries), sum(opened) / len(opened) if opened else 0.0, max(opened, default=0))

    def is_gain(self, after: Opened) -> bool:
        """True if there are fewer manifests, or ones that a query opens, by a fifth at least."""
        return after.manifests <= _WORTH_IT * self.manifests or after.mean <= _WORTH_IT * self.mean

    def describe(self) -> str:
        """In words, of one partition."""
        return f"{self.mean:.1f} of {self.manifests} on average and {self.most} at most"


def in_order(partitions: Iterable[Partition], key: Callable[[Partition], object]) -> list[Partition]:
    """The different partitions, sorted by a key."""
    return sorted(set(partitions), key=key)  # type: ignore[arg-type]


def _bounds(summaries: Sequence[PartitionFieldSummary], types: Sequence[Type]) -> list[Bounds]:
    return [
        (
            None if s.lower_bound is None else values.from_bytes(kind, s.lower_bound),
            None if s.upper_bound is None else values.from_bytes(kind, s.upper_bound),
            s.contains_null,
            s.contains_nan is not False,
        )
        for s, kind in zip(summaries, types, strict=True)
    ]


def _may_hold(bounds: Sequence[Bounds], partition: Partition) -> bool:
    for (lower, upper, has_null, has_nan), value in zip(bounds, partition, strict=True):
        if value is None:
            if not has_null:
                return False
        elif value != value:
            if not has_nan:
                return False
        elif lower is None or upper is None or not _between(lower, value, upper):
            return False
    return True


def _between(lower: Any, value: Any, upper: Any) -> bool:
    try:
        return bool(lower <= value <= upper)
    except TypeError:
        raise CorruptMetadataError(
            f"a manifest has the partition value {value!r:.60}, which is not of its spec's type; nothing was rewritten"
        ) from None
