"""What planning one partition of a clean needs to know about the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.hudi.options import Policy
    from lakemeta.hudi.timeline.action_metadata import CompactionOperation
    from lakemeta.hudi.view.file_groups import View


@attrs.frozen
class CleanContext:
    """Everything about the table that planning one partition needs; small, and shipped to workers.

    ``earliest`` is the earliest commit to retain ("" if there is none). ``replaced`` maps (partition, file id) to the
    instant of the replace commit, ``savepointed`` a file name to the savepoint that pins it, ``needed`` (partition,
    file id) to the operation of a pending (log) compaction, ``pinned`` a partition to the names that savepoints pin in
    it, with the savepoint, and ``savepoint_partitions`` each savepoint to the partitions in which it names a file.
    ``claimed`` maps a file name to the pending operation whose plan names it ("compaction 20260801100000000").
    """

    policy: Policy
    earliest: str
    versions_retained: int
    view: View
    replaced: Mapping[tuple[str, str], str]
    savepointed: Mapping[str, str]
    needed: Mapping[tuple[str, str], CompactionOperation]
    drop_savepointed: bool = False
    pinned: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    savepoint_partitions: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    claimed: Mapping[str, str] = attrs.field(factory=dict)
