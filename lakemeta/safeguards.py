"""What is looked at before the first deletion of an application, whatever its plan: a proof, and the share that goes.

Rules of this module:

1. The proof looks at the files that a table is to keep: each is there, with the size that was recorded for it, and the
   plan deletes none of them. ``full`` looks at all of them, ``sample`` at a bounded part, ``off`` at none.
2. What it looks at comes from the table's metadata by another way than the plan's.
3. A file that is missing before anything was deleted means that the table is damaged: what old versions hold may be
   the only way back, so nothing of them is deleted.
4. A plan that takes more than a share of the table's bytes is more often a mistake than what was meant. Of small tables
   most bytes are old versions as a rule, and the engines delete them: the default share counts from 64 MiB on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError, OptionError, ShareError
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

PROOFS: Final = ("full", "sample", "off")
SAMPLE: Final = "sample"
MAX_SHARE: Final = 90.0
SMALL: Final = 64 * 2**20  # bytes of a plan up to which the default share does not count


@attrs.frozen
class Safeguards:
    """The proof that is asked for (one of PROOFS), and how much of a table's bytes may go at once, in percent."""

    proof: str = SAMPLE
    max_share: float = MAX_SHARE

    @classmethod
    def of(cls, proof: str, max_share: float) -> Safeguards:
        """Raises OptionError for another proof, or a share that is no percentage."""
        if proof not in PROOFS:
            raise OptionError(f"there is no proof {proof!r:.60}; give one of {', '.join(PROOFS)}")
        if not 0 <= max_share <= 100:
            raise OptionError(f"max-share is {max_share} but must be a percentage from 0 to 100")
        return cls(proof, float(max_share))

    def exceeds(self, going: int, total: int) -> bool:
        """True if ``going`` of ``total`` bytes are more than may go."""
        if self.max_share == MAX_SHARE and going < SMALL:
            return False
        return self.max_share < 100 and going * 100 > self.max_share * total

    def refuse_share(self, table: str, going: int, total: int) -> None:
        """Raise ShareError if the plan takes more of the table's bytes than may go."""
        if self.exceeds(going, total):
            raise ShareError(
                f"the plan removes {percent(going, total)} of the bytes of {table} ({human_bytes(going)} of "
                f"{human_bytes(total)}), and more than {self.max_share:g} % is refused unless said; nothing was "
                "changed; look at the plan, and if it is right say --max-share=100"
            )


@attrs.frozen
class Proved:
    """What a proof has looked at: ``files`` of the table, and ``how`` they were chosen and looked up, in words."""

    proof: str
    files: int
    how: str

    def plus(self, other: Proved | None) -> Proved:
        """Both together, of one application."""
        return self if other is None else attrs.evolve(self, files=self.files + other.files)

    def to_json(self) -> Mapping[str, Any]:
        """As reports have it. Files that are missing are refused, and so never counted here."""
        return {"proof": self.proof, "files_checked": self.files, "missing": 0, "how": self.how}

    def __str__(self) -> str:
        if self.proof == "off":
            return "off: nothing was looked up before deleting"
        there = "is there with its size" if self.files == 1 else "are there with their sizes"
        return f"{self.proof}: {count_of(self.files, 'file')} of what stays {there} ({self.how})"


def damaged(file: str, what: str, table: str) -> CorruptMetadataError:
    """The refusal by rule 3: ``what`` is a clause about the file that begins with who names it."""
    return CorruptMetadataError(
        f"{file}, which {what}: the table is damaged, and nothing was deleted, as old versions may be the only way "
        f"back; restore that file, look with: lakemeta doctor {table}, or go on with --proof=off"
    )


def percent(part: int, whole: int) -> str:
    """A share in words; of nothing it is 0 %."""
    return f"{100 * part / whole:.1f} %" if whole else "0 %"
