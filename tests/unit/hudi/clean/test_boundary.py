from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from support.builders import at, moment, timeline

from lakemeta.hudi.clean.boundary import (
    clean_scope,
    commits_since_clean,
    earliest_to_retain,
    empty_clean_boundary,
    partitions_touched,
)
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.timeline.action_metadata import CleanMetadata, CommitMetadata
from lakemeta.hudi.timeline.times import format_instant, hours_before

FIVE = tuple(f"{n} commit" for n in range(1, 6))


def by_commits(retained: int, *words: str, last_clean: CleanMetadata | None = None, **more: str) -> str | None:
    options = CleanOptions.parse({"hoodie.clean.commits.retained": str(retained), **more})
    found = earliest_to_retain(timeline(*words), options, moment(20), UTC, last_clean)
    return found.requested if found else None


def cleaned(earliest: float | None, last_commit: float = 0, savepoints: tuple[float, ...] = ()) -> CleanMetadata:
    return CleanMetadata("" if earliest is None else at(earliest), at(last_commit), frozenset(map(at, savepoints)))


@pytest.mark.parametrize(("last_commit", "count"), [(None, 4), (0, 4), (2, 2), (5, 0)])
def test_commits_since_the_last_clean(last_commit: float | None, count: int) -> None:
    """Completed commits after the last one that the last clean saw; compactions are commits once completed."""
    words = ("1 commit", "2 deltacommit", "3 replacecommit", "4 commit", "6 commit inflight", "5 clean")
    last = None if last_commit is None else cleaned(1, last_commit)
    assert commits_since_clean(timeline(*words), last) == count


@pytest.mark.parametrize(("retained", "earliest"), [(1, 5), (2, 4), (4, 2), (5, None), (9, None), (0, None)])
def test_the_nth_newest_commit(retained: int, earliest: float | None) -> None:
    """With N or fewer completed commits there is nothing to clean, and N = 0 cleans nothing."""
    assert by_commits(retained, *FIVE) == (earliest and at(earliest))


@pytest.mark.parametrize(
    "pending", ["commit inflight", "compaction requested", "clustering inflight", "replacecommit requested"]
)
@pytest.mark.parametrize(("hour", "earliest"), [(2.5, 2), (0.5, None), (4.5, 4), (7, 4)])
def test_pending_work_caps_it(pending: str, hour: float, earliest: float | None) -> None:
    """Never later than the last completed commit before the first pending one; without such, nothing."""
    assert by_commits(2, *FIVE, f"{hour} {pending}") == (earliest and at(earliest))


@pytest.mark.parametrize(
    "other", ["clean requested", "rollback inflight", "logcompaction requested", "indexing requested"]
)
def test_other_pending_actions_do_not(other: str) -> None:
    """Only commits, compactions and clusterings count."""
    assert by_commits(2, *FIVE, f"2.5 {other}") == at(4)


@pytest.mark.parametrize(("hours", "earliest"), [(15, 5), (16, 4), (15.5, 5), (99, 1), (14, None)])
def test_the_first_commit_of_the_last_hours(hours: float, earliest: float | None) -> None:
    """Counted from now (hour 20), the limit included; pending work does not cap it."""
    options = CleanOptions.parse(
        {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": str(int(hours))}
    )
    found = earliest_to_retain(timeline(*FIVE, "1.5 commit inflight"), options, moment(20), UTC, None)
    assert (found and found.requested) == (earliest and at(earliest))


def test_file_versions_have_no_earliest_commit() -> None:
    """They are kept by number, whatever the age."""
    assert by_commits(1, *FIVE, **{"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"}) is None


@pytest.mark.parametrize(("most", "last", "earliest"), [(1, 1, 2), (2, 1, 3), (9, 1, 5), (1, None, 5), (1, 5, 5)])
def test_at_most_so_many_commits_in_one_clean(most: int, last: float | None, earliest: float) -> None:
    """Counted from the last clean's earliest commit; without one there is no limit."""
    more = {"hoodie.clean.max.commits.to.clean": str(most)}
    assert by_commits(1, *FIVE, last_clean=cleaned(last), **more) == at(earliest)
    assert by_commits(1, *FIVE, last_clean=None, **more) == at(5)


def test_instants_are_written_in_the_timelines_timezone() -> None:
    """17 digits, down to milliseconds."""
    assert format_instant(moment(1), UTC) == "20260101010000000"
    assert format_instant(moment(1.0000005), ZoneInfo("Asia/Tokyo")) == "20260101100000001"
    assert hours_before(moment(2), 1, UTC) == "20260101010000000"
    assert hours_before(moment(2), 999_999_999, UTC) == ""


SCOPES = [
    ({"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"}, cleaned(1), 4, (), True, None, "keeps file versions"),
    ({}, cleaned(1), None, (), True, [], "no earliest commit to retain"),
    ({"hoodie.clean.incremental.enabled": "false"}, cleaned(1), 4, (), True, None, "incremental cleaning is off"),
    ({}, None, 4, (), True, None, "no completed clean"),
    ({}, cleaned(None), 4, (), True, None, "recorded no earliest commit"),
    ({}, cleaned(0.5), 4, (), True, None, f"earliest commit {at(0.5)} is archived"),
    ({}, cleaned(2, 0, (1, 3)), 4, ("1 savepoint",), True, None, f"savepoint {at(3)} was removed"),
    ({}, cleaned(2, 0, (1, 3)), 4, ("1 savepoint",), False, [2, 3], "commits from"),
    ({}, cleaned(2), 4, (), True, [2, 3], f"commits from {at(2)} up to {at(4)}"),
    ({}, cleaned(4), 4, (), True, [], "commits from"),
    ({}, cleaned(1), 4, ("2.5 commit inflight", "2.6 compaction requested"), True, [1, 2, 3], "commits from"),
]


@pytest.mark.parametrize(("options", "last", "earliest", "more", "partitioned", "hours", "reason"), SCOPES)
def test_which_commits_are_looked_at(
    options: dict[str, str],
    last: CleanMetadata | None,
    earliest: float | None,
    more: tuple[str, ...],
    partitioned: bool,
    hours: list[float] | None,
    reason: str,
) -> None:
    """Incremental from the last clean's earliest commit (included) to the new one (excluded), or everything and why."""
    line = timeline(*FIVE, *more)
    to = next((i for i in line.commits if earliest and i.requested == at(earliest)), None)
    scope = clean_scope(line, CleanOptions.parse(options), last, to, is_partitioned=partitioned)
    assert reason in scope.reason
    found = None if scope.commits is None else [i.requested for i in scope.commits]
    assert found == (None if hours is None else [at(hour) for hour in hours])


def test_an_empty_timeline() -> None:
    """There is nothing to retain, nothing to clean, and nothing archived to miss."""
    assert by_commits(1) is None
    assert (
        clean_scope(timeline(), CleanOptions(), cleaned(1), timeline("1 commit").last, is_partitioned=True).commits
        == ()
    )


@pytest.mark.parametrize(
    ("action", "operation", "copy_on_write", "touched"),
    [
        ("commit", "UPSERT", True, ["old"]),
        ("commit", "BULK_INSERT", True, ["old"]),
        ("commit", "DELETE", True, ["new", "null", "old"]),
        ("commit", "UPSERT", False, ["new", "null", "old"]),
        ("replacecommit", "INSERT", True, ["new", "null", "old", "replaced"]),
    ],
)
def test_which_partitions_a_commit_touched(
    action: str, operation: str, copy_on_write: bool, touched: list[str]
) -> None:
    """Those it wrote to or replaced groups in; an insert or upsert of files makes older slices only by an update."""
    (instant,) = timeline(f"1 {action}")
    stats = {"old": [{"prevCommit": at(0)}], "new": [{"prevCommit": None}], "null": [{"prevCommit": "null"}]}
    replaced = {"replaced": ["a-0"], "old": ["b-0"]} if action == "replacecommit" else {}
    commit = CommitMetadata(operation, stats, replaced, {})
    assert partitions_touched([(instant, commit)], copy_on_write=copy_on_write) == touched


@pytest.mark.parametrize(
    ("earliest", "last", "boundary"),
    [(None, None, ""), (2, None, at(2)), (None, 3, at(3)), (2, 3, at(3)), (4, 3, at(4))],
)
def test_a_clean_without_files_never_moves_back(earliest: int | None, last: int | None, boundary: str) -> None:
    """Its boundary is the later one of what the policy says now and of what the last clean said (rule 6)."""
    found = timeline(f"{earliest} commit").first if earliest else None
    assert empty_clean_boundary(found, cleaned(last) if last else None) == boundary
