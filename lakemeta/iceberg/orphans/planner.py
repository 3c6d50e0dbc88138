"""Plans the removal of orphan files (I/O: lists the table's directories, reads all of its metadata).

The rules are in ``roots`` (where), ``listing`` and ``names`` (which files), ``referenced`` and ``matching`` (what is an
orphan), ``neighbours`` (what refuses). A plan deletes nothing; ``apply`` proves each of its lines again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakemeta.iceberg.catalogs.opening import FixedTableOperations
from lakemeta.iceberg.orphans.options import SERVICE, OrphanOptions
from lakemeta.iceberg.orphans.roots import Root, alone, chosen_root, declared_roots
from lakemeta.iceberg.orphans.search import Found, Search
from lakemeta.iceberg.service.plans import header_of
from lakemeta.iceberg.spec.properties import check_gc
from lakemeta.plan import Plan
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

DELETING: Final = "delete orphan files"  # in sentences


def plan_orphans(request: PlanRequest) -> Plan:
    """Plan on the newest version of the table.

    Raises OptionError for arguments that make no sense, in the engine's words where it has any; otherwise as
    :meth:`Search.run`.
    """
    request.refuse_where(SERVICE)
    options = OrphanOptions.parse(request.options)
    operations = request.place.operations
    metadata = operations.refresh().metadata
    check_gc(metadata.properties, DELETING)
    if not isinstance(operations, FixedTableOperations):
        operations.check_writable()
    cutoff = options.cutoff(request.now_ms)
    roots, notes = chosen_roots(operations.storage, metadata, options, request.executor)
    found = Search(request.place, options, roots, cutoff, request.executor).run(metadata)
    facts = {**_facts(found, roots, cutoff), "notes": [*notes, *_notes(found)]}
    header = header_of(request, SERVICE, found.loaded.metadata, found.loaded.metadata.current_snapshot, facts)
    return Plan(header, found.lines)


def chosen_roots(
    storage: Storage, metadata: TableMetadata, options: OrphanOptions, executor: Executor
) -> tuple[list[Root], list[str]]:
    """The directories that a removal looks at, and sentences about those that it leaves out."""
    if options.location is not None:
        return [chosen_root(storage, metadata, options.location)], []
    table, outside = declared_roots(storage, metadata)
    roots, notes = [table], list[str]()
    for root in outside:
        why = alone(storage, metadata, root, executor)
        if why is None:
            roots.append(root)
        else:
            notes.append(
                f"the write path {root.location} lies outside the table's location and was left out, because {why}; "
                f"if all files there are this table's, name it with location={root.location}"
            )
    return roots, notes


def _facts(found: Found, roots: Sequence[Root], cutoff: int) -> dict[str, Any]:
    return {
        "older_than_ms": cutoff,
        "locations": [root.location for root in roots],
        "listed_files": found.counts.listed,
        "table_bytes": found.counts.bytes,
        "young_files": found.counts.young,
    }


def _notes(found: Found) -> list[str]:
    notes = [f"{count_of(n, 'file')} that no metadata names: each {why} and stays" for why, n in found.spared.items()]
    if found.counts.unknown_age:
        notes.append(f"{count_of(found.counts.unknown_age, 'file')} of unknown age: no store that hides it is cleaned")
    return notes
