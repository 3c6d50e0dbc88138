"""Says whether remove-orphan-files takes a file, and why (I/O). No directory is listed for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakemeta.deletion import Links
from lakemeta.errors import CatalogError, OptionError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.iceberg.orphans.join import Join
from lakemeta.iceberg.orphans.names import HiddenNames, Spared
from lakemeta.iceberg.orphans.options import SERVICE, OrphanOptions
from lakemeta.iceberg.orphans.others import refuse_others
from lakemeta.iceberg.orphans.planner import DELETING, chosen_roots
from lakemeta.iceberg.orphans.referenced import References
from lakemeta.iceberg.orphans.search import REASON, neighbours_of, path_of
from lakemeta.iceberg.rewrite.unfinished import unfinished_uuids
from lakemeta.iceberg.service.neighbours import metadata_directory
from lakemeta.iceberg.spec.properties import check_gc
from lakemeta.paths import is_rooted

if TYPE_CHECKING:
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.storage.contract import Entry


def why_orphan(request: PlanRequest, location: str) -> str:
    """The end of a sentence on a file. Raises OptionError if there is none, and as planning does for a table."""
    request.refuse_where(SERVICE)
    options, operations = OrphanOptions.parse(request.options), request.place.operations
    loaded = operations.refresh()
    check_gc(loaded.metadata.properties, DELETING)
    storage = operations.storage
    roots, _ = chosen_roots(storage, loaded.metadata, options, request.executor)
    path = path_of(storage, loaded.metadata, location)
    root = next((root for root in roots if root.holds(path)), None)
    if root is None:
        return "stays: it lies in no directory that is looked at for orphan files"
    try:
        entry = storage.stat(path)
    except PathNotFoundError:
        raise OptionError(f"there is no file {location}, and nothing in {request.place.url} names one") from None
    reason = _reason(request, options, loaded, root, entry)
    if reason is None:
        return f"would be deleted as an orphan: {REASON}, and it was changed {_time(entry.modified_ms)}"
    return f"stays: {reason}"


def _reason(request: PlanRequest, options: OrphanOptions, loaded: LoadedTable, root: Root, entry: Entry) -> str | None:
    """Why a file stays, None if it goes; the rules are those of the search, asked in its order."""
    storage, below = request.place.operations.storage, entry.path[len(root.path) + 1 :]
    if options.inventory is None and any(map(HiddenNames.of(loaded.metadata).hide, below.split("/"))):
        return "its name, or that of a directory on the way, is hidden"
    if Links(storage, root.path).hide(below.rpartition("/")[0]):
        return "it lies behind a symbolic link"
    if _is_named(request, options, loaded, root, entry):
        return "metadata of the table names it"
    cutoff = options.cutoff(request.now_ms)
    if entry.modified_ms <= 0:
        return "its store does not say how old it is"
    if entry.modified_ms >= cutoff:
        return f"it was changed {_time(entry.modified_ms)}, and only files from before {_time(cutoff)} go"
    spared = Spared.of(loaded.metadata, unfinished_uuids(storage, metadata_directory(storage, loaded.metadata)))
    if (why := spared.why(below)) is not None:
        return f"it {why}"
    try:
        neighbours_of(storage, loaded, options).refuse_near(root.path, [entry.path], request.executor)
        refuse_others(request.place.operations, loaded, [root], options)
    except (UnsupportedFeatureError, CatalogError) as error:
        return f"no orphan file goes at all: {error}"
    return None


def _is_named(request: PlanRequest, options: OrphanOptions, loaded: LoadedTable, root: Root, entry: Entry) -> bool:
    storage = request.place.operations.storage
    with Join.opened(options.rules, rooted=is_rooted(storage.scheme)) as join:
        join.add_listed(root, storage.scheme, [entry.path], [entry.size])
        for prefix, keys in References(storage, request.executor, [root]).of(loaded):
            join.named.add(prefix, keys)
        return not list(join.orphans())


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
