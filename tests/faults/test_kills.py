"""A process that is killed at any moment leaves a whole table, and another run completes its work.

``LAKEMETA_KILLS`` (16) blows of ``LAKEMETA_FAULT_SEED`` (1), on disks and S3 in turn. ``python -m faults.many_kills``
does many.
"""

from __future__ import annotations

import os

import pytest
from faults.kills import strikes

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("LAKEMETA_KILLS", "16"))
SEED = int(os.environ.get("LAKEMETA_FAULT_SEED", "1"))


def test_a_blow_at_any_moment() -> None:
    """Nothing that a reader needs is gone, and the second run ends where an undisturbed one does."""
    fates = [fate for _, _, fate in strikes(SEED, range(KILLS))]
    assert not [str(fate) for fate in fates if fate.wrong]
    assert sum(fate.killed for fate in fates) > KILLS // 2
