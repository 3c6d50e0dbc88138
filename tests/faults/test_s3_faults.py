"""Jobs on S3 in bad weather: nothing that a reader needs is lost, and no run says that it did what it did not.

``LAKEMETA_FAULT_RUNS`` (37) runs of ``LAKEMETA_FAULT_SEED`` (1): each job in a weather of its own. The service behind
the proxy is in memory, and for a few runs a server. ``python -m faults.s3_runs`` does many, and says which went wrong.
"""

from __future__ import annotations

import os

import pytest
from faults import s3_runs
from faults.jobs import jobs

pytestmark = pytest.mark.slow

RUNS = int(os.environ.get("LAKEMETA_FAULT_RUNS", "37"))
SEED = int(os.environ.get("LAKEMETA_FAULT_SEED", "1"))


def test_runs_in_bad_weather() -> None:
    """Tables stay whole, exit codes and reports are true, and a run without faults completes what was begun."""
    names = sorted(jobs(s3_runs.URL))
    with s3_runs.place() as where:
        fates = list(s3_runs.runs(where, SEED, range(RUNS), names))
    assert not [str(fate) for _, fate in fates if fate.wrong]
    assert len({fate.code for _, fate in fates}) > 1
    assert len({kind for _, fate in fates for kind in fate.met}) > 5


def test_runs_against_a_server() -> None:
    """The same with moto behind the proxy."""
    names = [name for name in sorted(jobs(s3_runs.URL)) if "v9 cow" in name or name.endswith("manifests v2")]
    with s3_runs.place("moto") as where:
        fates = list(s3_runs.runs(where, SEED, range(len(names)), names))
    assert not [str(fate) for _, fate in fates if fate.wrong]
