"""The order of an Iceberg table's maintenance, and what each service gains.

Rules of this module:

1. Files are rewritten first, because that makes delete files and old files unused. Position deletes follow, then the
   delete files that apply to nothing, then snapshots, which hold the old files. Manifests are rewritten of what is
   left. Orphan files come last, and with them what an interrupted run left.
2. A rewrite of manifests is due by how many fewer there will be: one that only sorts them is for those who ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.maintenance import Duty, files_gained
from lakemeta.plan_operations import Expire, RewriteManifests

if TYPE_CHECKING:
    from lakemeta.plan import Plan


def _snapshots(plan: Plan) -> int:
    return sum(isinstance(op, Expire) for op in plan.operations)


def _manifests(plan: Plan) -> int:
    rewrites = [op for op in plan.operations if isinstance(op, RewriteManifests)]
    return max(0, sum(len(op.inputs) - op.expected_outputs for op in rewrites))


DUTIES: Final = (
    Duty("rewrite-data-files", "file", files_gained),
    Duty("rewrite-position-deletes", "delete file", files_gained),
    Duty("remove-dangling-deletes", "delete file", files_gained),
    Duty("expire-snapshots", "snapshot", _snapshots),
    Duty("rewrite-manifests", "manifest", _manifests),
    Duty("remove-orphan-files", "file", files_gained),
)
