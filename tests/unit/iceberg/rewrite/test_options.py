from __future__ import annotations

import pytest

from lakemeta.errors import OptionError
from lakemeta.iceberg.rewrite.options import JobOptions


def test_defaults_are_the_engines():
    """Five groups at a time, one commit, the starting sequence number, no dangling deletes removed."""
    job = JobOptions.parse({})
    assert (job.threads, job.partial_progress, job.max_commits, job.max_failed_commits) == (5, False, 10, 10)
    assert job.use_starting_sequence_number
    assert not job.remove_dangling_deletes
    assert (job.strategy, job.branch) == ("binpack", "main")


def test_max_failed_commits_follows_max_commits():
    """Unless given, as many commits may fail as there are."""
    assert JobOptions.parse({"partial-progress.max-commits": "3"}).max_failed_commits == 3


@pytest.mark.parametrize(
    ("commits", "groups", "share"), [("10", 3, 1), ("10", 10, 1), ("10", 11, 2), ("3", 10, 4), ("1", 7, 7)]
)
def test_partial_progress_shares_groups_out(commits, groups, share):
    """Groups a commit: groups / max-commits, rounded up."""
    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": commits}
    assert JobOptions.parse(options).groups_per_commit(groups) == share


def test_without_partial_progress_all_groups_go_into_one_commit():
    """max-commits means nothing without partial progress."""
    assert JobOptions.parse({"partial-progress.max-commits": "2"}).groups_per_commit(9) == 9


def test_a_sort_order_means_to_sort():
    """sort_order without a strategy sorts."""
    assert JobOptions.parse({"sort_order": "id"}).strategy == "sort"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "pile"}, "unsupported strategy: pile. Only binpack or sort is supported"),
        ({"strategy": "binpack", "sort_order": "id"}, "sort_order goes with strategy sort only"),
        ({"max-concurrent-file-group-rewrites": "0"}, "the value must be positive"),
        ({"partial-progress.enabled": "true", "partial-progress.max-commits": "0"}, "must be positive when"),
        ({"partial-progress.enabled": "yes"}, "must be true or false"),
        ({"compression-factor": "1.5"}, "unknown option compression-factor"),
        ({"strategy": "sort", "shuffle-partitions-per-file": "0"}, "must be > 0"),
        ({"strategy": "sort", "var-length-contribution": "0"}, "must be > 0"),
        ({"partial-progress.max-comits": "1"}, "did you mean partial-progress.max-commits"),
    ],
)
def test_options_that_make_no_sense(options, message):
    """Refused by name, in the engine's words where it has any."""
    with pytest.raises(OptionError) as raised:
        JobOptions.parse(options)
    assert message in str(raised.value)
