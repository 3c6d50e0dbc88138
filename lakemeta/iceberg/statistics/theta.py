"""Theta sketches: how many different values there are, from a few thousand of their hashes.

Rules of this module (Puffin spec, apache-datasketches-theta-v1; format: DataSketches' compact theta sketch, version 3):

1. Values are hashed to 63 bits. A sketch holds the 4096 smallest hashes of all, and as theta the one after them; of
   fewer values it holds all hashes, and is exact.
2. That is the same in whatever order and parts values come, so parts can be sketched anywhere and united.
3. The estimate is the number of hashes held, by the share of all hashes that lie below theta.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED: Final = 9001
_SEED_HASH: Final = 0x93CC  # what sketches of that seed say of it
_NOMINAL: Final = 4096
_ALL: Final = 2**63 - 1
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32
_NONE: Final = pa.array([], pa.uint64())


@attrs.frozen(eq=False)
class ThetaSketch:
    """The smallest hashes of some values, ascending; ``theta`` is above all of them."""

    hashes: pa.Array = _NONE
    theta: int = _ALL

    @classmethod
    def of(cls, hashes: Iterable[pa.Array], theta: int = _ALL) -> ThetaSketch:
        """A sketch of values with these hashes (uint64 arrays without nulls), of which those below ``theta`` count."""
        found = pc.unique(pa.chunked_array(list(hashes), pa.uint64()))
        found = found.filter(pc.and_(pc.less(found, pa.scalar(theta, pa.uint64())), pc.greater(found, _ZERO)))
        found = found.take(pc.sort_indices(found))
        if len(found) <= _NOMINAL:
            return cls(found, theta)
        return cls(found.slice(0, _NOMINAL), found[_NOMINAL].as_py())

    def united(self, *others: ThetaSketch) -> ThetaSketch:
        """The sketch of the values of all of them."""
        sketches = (self, *others)
        return ThetaSketch.of((s.hashes for s in sketches), min(s.theta for s in sketches))

    @property
    def estimate(self) -> float:
        """About how many different values there were; exact while all hashes are held."""
        return len(self.hashes) if self.theta == _ALL else len(self.hashes) / (self.theta / 2**63)

    def to_bytes(self) -> bytes:
        """The sketch as DataSketches' compact form."""
        flags, count = _READ_ONLY | _COMPACT | _ORDERED, len(self.hashes)
        if self.theta != _ALL:
            head = struct.pack("<6BH", 3, 3, 3, 0, 0, flags, _SEED_HASH) + struct.pack("<IfQ", count, 1.0, self.theta)
        elif count > 1:
            head = struct.pack("<6BH", 2, 3, 3, 0, 0, flags, _SEED_HASH) + struct.pack("<If", count, 1.0)
        else:
            flags |= _SINGLE if count else _EMPTY
            head = struct.pack("<6BH", 1, 3, 3, 0, 0, flags, _SEED_HASH)
        return head + struct.pack(f"<{count}Q", *self.hashes.to_pylist())


_ZERO: Final = pa.scalar(0, pa.uint64())  # a hash that stands for none
