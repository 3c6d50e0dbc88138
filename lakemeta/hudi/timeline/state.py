"""What the timeline of a table says at one moment, as one value that every decision is made from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.hudi.files.properties import TableConfig
    from lakemeta.hudi.timeline.action_metadata import CleanMetadata, CompactionOperation
    from lakemeta.hudi.timeline.instants import Instant, Timeline


@attrs.frozen
class TableState:
    """What the timeline of a table says at one moment.

    ``replaced`` maps (partition, file id) to the newest replace commit of it; ``savepoints`` a savepoint's instant to
    the names of the files it pins; ``compactions`` are the operations of pending compactions with their instants,
    ``log_compactions`` those of pending log compactions; ``clusterings`` the pending clusterings of table version 6.
    ``needed`` maps the names of the files that plans of pending compactions, log compactions and clusterings name to
    those operations, ``pinned`` a partition to the names that savepoints pin in it, with the earliest such savepoint.
    ``completions`` maps requested to completion times (None for table version 6). ``emptied_cleans`` are the newest
    cleans that completed with an empty file, which a crash leaves where files do not appear as a whole; in the state
    that they were in before.
    """

    config: TableConfig
    timeline: Timeline
    last_clean: CleanMetadata | None
    savepoints: Mapping[str, frozenset[str]]
    replaced: Mapping[tuple[str, str], str]
    compactions: tuple[tuple[str, CompactionOperation], ...]
    log_compactions: tuple[CompactionOperation, ...]
    clusterings: frozenset[str]
    completions: Mapping[str, str] | None
    needed: Mapping[str, str] = attrs.field(factory=dict)
    pinned: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    emptied_cleans: tuple[Instant, ...] = ()

    @property
    def unfinished_cleans(self) -> tuple[Instant, ...]:
        """The cleans whose plans are still to be executed, earliest first."""
        return tuple(sorted((*self.timeline.cleans.pending, *self.emptied_cleans), key=lambda i: i.requested))

    @property
    def digest(self) -> str:
        """A fingerprint of the timeline: equal digests mean that nothing happened in between."""
        lines = (f"{i.requested} {i.action} {i.state} {i.completion}" for i in self.timeline)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
