from __future__ import annotations

from typing import Any

import attrs
import pytest
from support.builders import at, base, log, sized, timeline

from lakemeta.hudi.clean import rules as clean
from lakemeta.hudi.clean.context import CleanContext
from lakemeta.hudi.clean.rules import plan_partition
from lakemeta.hudi.options import Policy
from lakemeta.hudi.timeline.action_metadata import CompactionOperation
from lakemeta.hudi.view.file_groups import View

COMMITS = tuple(f"{n} commit" for n in range(1, 8))


def context(earliest: float | None = None, versions: int | None = None, **more: Any) -> CleanContext:
    """Commits at every hour from 1 to 7; by earliest commit to retain, or by versions."""
    policy = Policy.KEEP_LATEST_COMMITS if versions is None else Policy.KEEP_LATEST_FILE_VERSIONS
    fields = {
        "view": View.of(
            timeline(*more.pop("words", COMMITS)), more.pop("completions", None), more.pop("pending", None)
        ),
        "replaced": {},
        "savepointed": {},
        "needed": {},
        **more,
    }
    return CleanContext(policy, "" if earliest is None else at(earliest), versions or 0, **fields)


def judged(ctx: CleanContext, *names: str) -> dict[str, str]:
    """The reason for every file: ``superseded``, ..."""
    planned = plan_partition(ctx, "p", sized(*names))
    return {file.name: v.reason for v in planned.verdicts for file in v.slice.files}


def deleted(ctx: CleanContext, *names: str) -> set[str]:
    planned = plan_partition(ctx, "p", sized(*names))
    return {file.name for v in planned.verdicts if v.delete for file in v.slice.files}


def needed(base_hour: float) -> dict[tuple[str, str], CompactionOperation]:
    return {("p", "a-0"): CompactionOperation("p", "a-0", at(base_hour))}


A = [base("a", n) for n in range(1, 8)]


def test_slices_before_the_earliest_commit_go_but_the_newest_of_them() -> None:
    """A reader as of the earliest commit to retain needs the newest slice before it."""
    assert judged(context(5), base("a", 1), base("a", 2), base("a", 4), base("a", 5), base("a", 6)) == {
        base("a", 1): clean.SUPERSEDED,
        base("a", 2): clean.SUPERSEDED,
        base("a", 4): clean.NEWEST_BEFORE,
        base("a", 5): clean.RETAINED,
        base("a", 6): clean.LATEST,
    }


def test_the_latest_slice_stays_however_old() -> None:
    """A group that nobody wrote to for long keeps its one version."""
    assert deleted(context(7), base("a", 1)) == set()
    assert deleted(context(7), base("a", 1), base("a", 2)) == {base("a", 1)}


def test_log_files_go_with_their_slice() -> None:
    """And CDC log files with them."""
    names = [base("a", 1), log("a", 1), log("a", 1, suffix=".cdc"), base("a", 2), log("a", 2), base("a", 3)]
    assert deleted(context(3), *names) == set(names[:3])


def test_versions_are_counted_in_slices() -> None:
    """The newest K stay, however old or new."""
    assert deleted(context(versions=1), *A) == set(A[:6])
    assert deleted(context(versions=3), *A) == set(A[:4])
    assert deleted(context(versions=9), *A) == set()
    assert judged(context(versions=2), *A[:3]) == {
        A[0]: clean.SUPERSEDED,
        A[1]: clean.WITHIN_VERSIONS,
        A[2]: clean.LATEST,
    }


@pytest.mark.parametrize("ctx", [context(6), context(versions=1)])
def test_uncommitted_slices_stay_and_do_not_count(ctx: CleanContext) -> None:
    """Files of instants that are pending, unknown or later than all are left alone."""
    view = View.of(timeline("1 commit", "2 commit", "3 commit", "4 commit inflight", "6 commit"))
    names = [*(base("a", n) for n in (1, 2, 3, 4, 5, 6, 8)), "a-0_0-1-1_7.parquet"]
    reasons = judged(attrs.evolve(ctx, view=view), *names)
    assert {name for name, reason in reasons.items() if reason == clean.UNCOMMITTED} == {
        base("a", 4), base("a", 5), base("a", 8), "a-0_0-1-1_7.parquet",
    }  # fmt: skip
    assert reasons[base("a", 6)] == clean.LATEST


@pytest.mark.parametrize(("versions", "earliest"), [(None, 7), (1, None)])
def test_one_pinned_file_keeps_its_whole_slice(versions: int | None, earliest: float | None) -> None:
    """A slice with a file that a savepoint names stays, base file and log files."""
    names = [base("a", 1), log("a", 1), base("a", 2), base("a", 3), base("a", 4)]
    ctx = context(earliest, versions, savepointed={log("a", 1): at(1)})
    reasons = judged(ctx, *names)
    assert reasons[base("a", 1)] == reasons[log("a", 1)] == clean.SAVEPOINT
    assert reasons[base("a", 2)] == clean.SUPERSEDED


def test_a_pinned_slice_among_the_newest_takes_a_place() -> None:
    """An older one stays in addition."""
    assert deleted(context(versions=2, savepointed={A[6]: at(7)}), *A) == set(A[:5])
    assert deleted(context(versions=2, savepointed={A[0]: at(1)}), *A) == set(A[1:5])


def test_a_pending_compaction_keeps_what_it_will_read() -> None:
    """Slices from its base instant on stay."""
    ctx = context(7, needed=needed(3))
    assert deleted(ctx, *A) == set(A[:2])
    assert judged(ctx, *A)[A[3]] == clean.COMPACTION


def test_a_pending_compaction_counts_as_a_version() -> None:
    """Slices it needs are not counted, and one version less stays."""
    assert deleted(context(versions=2, needed=needed(6)), *A) == set(A[:4])
    assert deleted(context(versions=1, needed=needed(6)), *A) == set(A[:5])


def test_a_pending_compaction_of_nothing_we_see() -> None:
    """One that needs none of the slices there are takes no place from the versions that stay."""
    assert deleted(context(versions=1, needed=needed(9)), *A) == set(A[:6])


def test_replaced_groups_go_whole_once_the_replacement_is_old() -> None:
    """Strictly before the earliest commit to retain; no newest slice is kept."""
    replaced = {("p", "a-0"): at(4)}
    assert deleted(context(5, replaced=replaced), *A[:3], base("b", 6)) == set(A[:3])
    assert deleted(context(4, replaced=replaced), *A[:3], base("b", 6)) == set()
    assert judged(context(4, replaced=replaced), A[0]) == {A[0]: clean.REPLACED_RETAINED}
    assert deleted(context(replaced=replaced), *A[:3]) == set()
    assert deleted(context(versions=5, replaced=replaced), *A[:3], base("b", 6)) == set(A[:3])


def test_replaced_groups_keep_pinned_and_uncommitted_slices() -> None:
    """A savepoint pins, and what is not committed is not ours to judge."""
    ctx = context(5, replaced={("p", "a-0"): at(4)}, savepointed={A[1]: at(2)})
    assert judged(ctx, *A[:2], base("a", 9)) == {
        A[0]: clean.REPLACED,
        A[1]: clean.SAVEPOINT,
        base("a", 9): clean.UNCOMMITTED,
    }


def test_a_replaced_group_of_another_partition() -> None:
    """File ids count with their partition."""
    assert deleted(context(5, replaced={("q", "a-0"): at(4)}), A[0]) == set()


@pytest.mark.parametrize(
    ("names", "more", "dropped"),
    [
        ([A[0]], {"replaced": {("p", "a-0"): 4}}, True),
        ([], {}, True),
        (["notes.txt"], {}, True),
        ([A[0], base("b", 2)], {"replaced": {("p", "a-0"): 4}}, False),
        ([A[0], base("b", 9)], {"replaced": {("p", "a-0"): 4}}, False),
        ([A[0]], {"replaced": {("p", "a-0"): 5}}, False),
        ([A[0], base("b", 1)], {"replaced": {("p", "a-0"): 4, ("p", "b-0"): 6}}, False),
        ([A[0]], {"replaced": {("p", "a-0"): 6}, "versions": 1}, True),
    ],
    ids=["replaced", "empty", "foreign", "live", "uncommitted", "at the earliest", "later", "versions"],
)
def test_when_a_directory_goes(names: list[str], more: dict[str, Any], dropped: bool) -> None:
    """No live group, uncommitted ones included, and nothing replaced at or after the earliest commit is on disk."""
    versions = more.pop("versions", None)
    replaced = {key: at(hour) for key, hour in more.get("replaced", {}).items()}
    ctx = context(None if versions else 5, versions, replaced=replaced)
    assert plan_partition(ctx, "p", sized(*names)).drop == dropped


def test_a_directory_with_a_savepointed_file_stays() -> None:
    """Hudi would remove it and break the savepoint; we do so only if asked to, and say why it stays."""
    more = {"replaced": {("p", "a-0"): at(4)}, "savepointed": {A[0]: at(1)}}
    planned = plan_partition(context(5, **more), "p", sized(A[0]))
    assert not planned.drop
    assert planned.note == f"the directory of p stays: savepoint {at(1)} names files in it"
    assert plan_partition(context(5, drop_savepointed=True, **more), "p", sized(A[0])).drop


def test_the_table_root_is_never_dropped() -> None:
    """A table without partitions is its own partition."""
    ctx = context(5, replaced={("", "a-0"): at(4)})
    planned = plan_partition(ctx, "", sized(A[0]))
    assert not planned.drop
    assert "its directory stays" in (planned.note or "")
    assert [v.delete for v in planned.verdicts] == [True]


def test_who_is_to_blame() -> None:
    """A superseded slice names the one after it, a pinned one its savepoint."""
    planned = plan_partition(context(7, savepointed={A[1]: at(2)}), "p", sized(*A[:4]))
    assert [(v.reason, v.by) for v in planned.verdicts] == [
        (clean.LATEST, at(4)),
        (clean.SUPERSEDED, at(4)),
        (clean.SAVEPOINT, at(2)),
        (clean.SUPERSEDED, at(2)),
    ]
