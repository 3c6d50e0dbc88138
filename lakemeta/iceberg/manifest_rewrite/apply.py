"""Applies a plan of rewrite_manifests: manifests of the plan are replaced in one commit (I/O).

Rules of this module:

1. Only manifests that the plan names are replaced, each of the spec and content that it says, and all of them in the
   table's current snapshot as it is now; a plan of anything else is refused before anything is written.
2. The old manifests stay where they are: older snapshots have them until they expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import StalePlanError
from lakemeta.iceberg.commit.committer import commit, new_snapshot_id
from lakemeta.iceberg.commit.new_manifests import NewManifests
from lakemeta.iceberg.manifest_rewrite.options import ManifestOptions
from lakemeta.iceberg.manifest_rewrite.planner import REWRITE_MANIFESTS, refuse_uncounted
from lakemeta.iceberg.manifest_rewrite.replacement import Replaced, Replacement
from lakemeta.iceberg.manifests.entries import ManifestContent
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.service.plans import id_of, open_plan, report_of
from lakemeta.iceberg.spec.locations import whole
from lakemeta.plan_operations import RewriteManifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.commit.draft import Base, Draft
    from lakemeta.iceberg.manifests.entries import ManifestFile
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.report import Report

_CONTENTS = {content.name.lower(): content for content in ManifestContent}


def apply_rewrite_manifests(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed.

    Raises:
        StalePlanError: a manifest of the plan is no longer in the table, or the table is another one.
        CommitConflictError: another commit took a manifest of the plan away; the new manifests are gone.
        CommitStateUnknownError: it is unknown whether the commit happened; its new manifests were left alone.
        CorruptMetadataError: an entry would have been lost or changed; nothing was committed.
        UnsupportedFeatureError: the table cannot be written by lakemeta.
    """
    plan, operations, env = request.plan, request.place.operations, request.env
    metadata = open_plan(request, REWRITE_MANIFESTS, (RewriteManifests,)).metadata
    options = ManifestOptions.parse(plan.header.options, metadata)
    stored = StoredManifests(operations.storage, metadata.specs_by_id, request.executor)
    groups = _groups(request, options, metadata, stored)
    if not groups:
        return _report(request, None, 0, None)
    replacement = Replacement(
        groups=groups,
        sort_by=options.sort_by,
        target_size_bytes=options.target_size_bytes,
        manifests=stored,
        new=NewManifests(operations.metadata_location, env.new_uuid(), new_snapshot_id(env, metadata.snapshots_by_id)),
    )

    def change(base: Base) -> Draft:
        stored.specs = base.metadata.specs_by_id
        return replacement.next_version(base)

    return _report(request, commit(operations, change, env), sum(len(g.paths) for g in groups), replacement)


def _groups(
    request: ApplyRequest, options: ManifestOptions, metadata: TableMetadata, stored: StoredManifests
) -> tuple[Replaced, ...]:
    """The manifests that a plan names, each looked up in the current snapshot; raises StalePlanError."""
    head = metadata.current_snapshot
    known = {} if head is None else {m.manifest_path: m for m in stored.of(head)}
    groups, seen = [], set[str]()
    for op in request.plan.operations:
        assert isinstance(op, RewriteManifests), "open_plan lets no other operation through"
        paths = tuple(whole(metadata.location, path) for path in op.inputs)
        content = _CONTENTS.get(op.content)
        if content is None or op.spec_id not in options.spec_ids or not paths:
            raise StalePlanError(
                f"the plan has no manifests that its options ask for ({op.content}, partition spec {op.spec_id}); "
                f"make the plan again"
            )
        if len(set(paths)) < len(paths) or not seen.isdisjoint(paths):
            raise StalePlanError("the plan names a manifest twice; make the plan again")
        seen |= set(paths)
        refuse_uncounted([_manifest(path, content, op.spec_id, known) for path in paths])
        groups.append(Replaced(op.spec_id, content, paths))
    return tuple(groups)


def _manifest(path: str, content: ManifestContent, spec_id: int, known: Mapping[str, ManifestFile]) -> ManifestFile:
    found = known.get(path)
    if found is None or (found.content, found.partition_spec_id) != (content, spec_id):
        raise StalePlanError(
            f"{path} is no manifest of {content.name.lower()} of partition spec {spec_id} in the current snapshot; "
            f"make the plan again"
        )
    return found


def _report(request: ApplyRequest, draft: Draft | None, rewritten: int, replacement: Replacement | None) -> Report:
    result = {
        "rewritten_manifests_count": rewritten,
        "added_manifests_count": 0 if replacement is None else replacement.created,
    }
    notes = () if replacement is None else replacement.notes
    return report_of(request, id_of(None if draft is None else draft.snapshot), result, notes)
