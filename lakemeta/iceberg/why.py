"""Says in one sentence what a service would do with one file or snapshot, and why (I/O).

Rules of this module:

1. Each service has a verdict of its own, which asks its planner. The caller may name the service.
2. Otherwise snapshots, and options of expire-snapshots, are for that service. A file is for the service that would take
   its kind: a manifest of the current snapshot for rewrite-manifests, a delete file for the services on delete files, a
   data file for rewrite-data-files; a file that only other snapshots name is for expire-snapshots, and one that none
   names for remove-orphan-files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.delete_rewrite import why as deletes
from lakemeta.iceberg.delete_rewrite.convert import CONVERT
from lakemeta.iceberg.delete_rewrite.dangling import SERVICE as DANGLING
from lakemeta.iceberg.delete_rewrite.planner import REWRITE_POSITION_DELETES
from lakemeta.iceberg.expire.options import OPTIONS as OF_EXPIRE
from lakemeta.iceberg.expire.planner import EXPIRE_SNAPSHOTS
from lakemeta.iceberg.expire.why import find_file, why_file, why_snapshot
from lakemeta.iceberg.manifest_rewrite.planner import REWRITE_MANIFESTS
from lakemeta.iceberg.manifest_rewrite.why import why_manifest
from lakemeta.iceberg.manifests.entries import ManifestContent
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.orphans.options import SERVICE as REMOVE_ORPHANS
from lakemeta.iceberg.orphans.why import why_orphan
from lakemeta.iceberg.rewrite.planner import REWRITE_DATA_FILES
from lakemeta.iceberg.rewrite.why import why_rewritten
from lakemeta.iceberg.spec.locations import file_key
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

    Verdict = Callable[[PlanRequest, str], str]

_SNAPSHOT: Final = re.compile("-?[0-9]{1,19}")
_VERDICTS: Final[Mapping[str, Verdict]] = {
    REWRITE_DATA_FILES: why_rewritten,
    REWRITE_MANIFESTS: why_manifest,
    REWRITE_POSITION_DELETES: deletes.why_rewritten,
    CONVERT: deletes.why_converted,
    DANGLING: deletes.why_dangling,
    EXPIRE_SNAPSHOTS: why_file,
    REMOVE_ORPHANS: why_orphan,
}


def why(request: PlanRequest, what: str, service: str | None = None) -> str:
    """One sentence on a snapshot, given by its id, or a file, by the service named or the one for its kind.

    Raises OptionError if there is no such file, or the service says nothing of files.
    """
    metadata = request.place.operations.refresh().metadata
    if service is not None and service not in _VERDICTS:
        raise OptionError(f"{service} says nothing of single files; known are {', '.join(sorted(_VERDICTS))}")
    if _SNAPSHOT.fullmatch(what) and service in (None, EXPIRE_SNAPSHOTS):
        request.refuse_where(EXPIRE_SNAPSHOTS)
        return why_snapshot(request, int(what))
    location = what if what.startswith("/") or ":/" in what else f"{metadata.location.rstrip('/')}/{what}"
    if service is None and request.options.keys() & OF_EXPIRE:
        service = EXPIRE_SNAPSHOTS
    if service is not None:
        return f"{what} {_VERDICTS[service](request, location)}"
    return f"{what} {(_of_head(request, metadata, location) or _of_others)(request, location)}"


def _of_head(request: PlanRequest, metadata: TableMetadata, location: str) -> Verdict | None:
    """The verdict on what the head of a branch names; None if it does not name the file."""
    head = metadata.branch_head(request.options.get("branch", MAIN_BRANCH))
    if head is None:
        return None
    key = file_key(location.partition("#")[0])
    stored = StoredManifests(request.place.operations.storage, metadata.specs_by_id, request.executor)
    manifests = stored.of(head)
    if any(file_key(manifest.manifest_path) == key for manifest in manifests):
        return why_manifest
    for content, verdict in ((ManifestContent.DATA, why_rewritten), (ManifestContent.DELETES, deletes.why_live)):
        read = stored.stream([m for m in manifests if m.content == content], frozenset())
        if any(entry.is_live and file_key(entry.data_file.file_path) == key for part in read for entry in part):
            return verdict
    return None


def _of_others(request: PlanRequest, location: str) -> str:
    request = attrs.evolve(request, options={}, where=None)
    return find_file(request, location) or why_orphan(request, location)
