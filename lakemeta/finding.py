"""What the doctor finds, in a table of either format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.words import count_of, html_table, human_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMED: Final = 3  # how many examples a sentence names


@attrs.frozen
class Finding:
    """One thing found: it blocks cleaning, it is wrong, or it is worth knowing.

    ``bytes`` is what the files that it is about weigh, which is what mending it would free at most; None where that is
    not a matter of bytes.
    """

    kind: str
    severity: Literal["blocks", "wrong", "note"]
    sentence: str
    bytes: int | None = None


class Findings(tuple[Finding, ...]):
    """What the doctor found, in its order; a table in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [(f.severity, f.sentence, "" if f.bytes is None else human_bytes(f.bytes)) for f in self]
        return html_table(count_of(len(self), "finding"), ("severity", "what", "bytes"), rows)


def examples(names: Sequence[str]) -> str:
    """The first few of some names, for a sentence."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
