"""Which listed files no metadata names: one partition of the join (SparkDeleteOrphanFiles.FindOrphanFiles).

A listed row has a key (the path of its location) and the number of its prefix, and so has a row of what is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lakemeta.iceberg.orphans.uris import Prefix, PrefixRules

    Conflict = tuple[str | None, str | None]

NAMED: Final = pa.schema([("key", pa.string()), ("prefix", pa.int16())])
LISTED: Final = NAMED.append(pa.field("size", pa.int64()))


def orphans(
    listed: pa.Table,
    listed_prefixes: Sequence[Prefix],
    named: pa.Table,
    named_prefixes: Sequence[Prefix],
    rules: PrefixRules,
    conflicts: set[Conflict],
) -> tuple[pa.Table, pa.Table]:
    """The listed rows that are orphans, and those that are the table's.

    What differs in locations of one path is added to ``conflicts``.

    A file is the table's if any of the locations of its path matches. (The engine deletes one under DELETE that
    matches one location and differs from another.)
    """
    matched = mismatched = pa.repeat(pa.scalar(False), listed.num_rows)
    found: list[tuple[list[Conflict], Any]] = []
    for valid, keys in _by_prefix(named, named_prefixes):
        there = pc.is_in(listed.column("key"), value_set=keys)
        for actual, rows in _rows_by_prefix(listed, listed_prefixes):
            both = pc.and_(there, rows)
            different = rules.conflicts(valid, actual)
            if different:
                mismatched = pc.or_(mismatched, both)
                found.append((different, both))
            else:
                matched = pc.or_(matched, both)
    for different, rows in found:
        if pc.any(pc.and_not(rows, matched)).as_py():
            conflicts.update(different)
    ours = matched if rules.mode == "DELETE" else pc.or_(matched, mismatched)
    return listed.filter(pc.invert(ours)), listed.filter(ours)


def check_conflicts(conflicts: Collection[Conflict], rules: PrefixRules) -> None:
    """Raise CorruptMetadataError, in the engine's words, if prefixes differ and are to be the same."""
    if not conflicts or rules.mode != "ERROR":
        return
    pairs = sorted(f"({valid or 'null'}, {actual or 'null'})" for valid, actual in conflicts)
    raise CorruptMetadataError(
        "Unable to determine whether certain files are orphan. Metadata references files that match listed/provided "
        "files except for authority/scheme. Please, inspect the conflicting authorities/schemes and provide which of "
        "them are equal by equal_schemes and equal_authorities. Set prefix_mismatch_mode to IGNORE to keep files at "
        "locations with conflicting authorities/schemes or to DELETE iff you are ABSOLUTELY confident that they are "
        "different. It will be impossible to recover deleted files. Conflicting authorities/schemes: "
        f"[{', '.join(pairs)}]."
    )


def _by_prefix(table: pa.Table, prefixes: Sequence[Prefix]) -> Iterator[tuple[Prefix, pa.ChunkedArray]]:
    for prefix, rows in _rows_by_prefix(table, prefixes):
        yield prefix, table.column("key").filter(rows)


def _rows_by_prefix(table: pa.Table, prefixes: Sequence[Prefix]) -> Iterator[tuple[Prefix, Any]]:
    column = table.column("prefix")
    for number in sorted(pc.unique(column).to_pylist()):
        yield prefixes[number], pc.equal(column, number)
