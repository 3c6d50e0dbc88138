"""The order of a Hudi table's maintenance, and what each service gains.

Rules of this module:

1. Failed writes are rolled back before a clean, which keeps what a pending write needs.
2. Which pending writes have failed cannot be seen where writers send no heartbeats, so a rollback is a part of
   maintenance only if ``hoodie.clean.failed.writes.policy`` is given to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.maintenance import Duty

if TYPE_CHECKING:
    from lakemeta.plan import Plan

ROLLBACK: Final = "rollback"
POLICY: Final = "hoodie.clean.failed.writes.policy"


def needs_clean(plan: Plan) -> bool:
    """True if applying the plan of a clean changes the table."""
    facts = plan.header.facts
    return not plan.is_empty or any(facts.get(name) for name in ("empty_clean", "pending_cleans", "failed_writes"))


def _cleaned(plan: Plan) -> int:
    facts = plan.header.facts
    return plan.changed[0] or sum(len(facts.get(name) or ()) for name in ("pending_cleans", "failed_writes"))


def _rolled_back(plan: Plan) -> int:
    return sum(len(plan.header.facts.get(name) or ()) for name in ("failed_writes", "metadata_rollbacks"))


DUTIES: Final = (
    Duty(ROLLBACK, "failed write", _rolled_back),
    Duty("clean", "file", _cleaned),
)
