from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.builders import at, base, done, log, sized, timeline

from lakemeta.hudi.view.file_groups import FileGroup, View, build_file_groups

GROUP = ("p", "a-0")


def slices(group: FileGroup) -> list[tuple[str, list[str]]]:
    """Instant and names of each slice, newest first."""
    return [(s.instant, [f.name for f in s.files]) for s in group.slices]


def only(names: list[str], view: View) -> list[tuple[str, list[str]]]:
    (group,) = build_file_groups("p", sized(*names), view)
    return slices(group)


def view_6(*words: str, **more: Any) -> View:
    return View.of(timeline(*words), None, **more)


def view_8(*words: str, **more: Any) -> View:
    return View.of(timeline(*words), {at(n): done(n) for n in range(1, 9)}, **more)


def test_groups_in_order_of_file_id() -> None:
    """A group is the slices of one file id, newest first; what is neither base nor log file is left out."""
    names = [base("b", 1), base("a", 1), base("a", 3), base("a", 2), "notes.txt", ".hoodie_partition_metadata"]
    groups = build_file_groups("p", sized(*names), view_6())
    assert [(g.partition, g.file_id, [s.instant for s in g.slices]) for g in groups] == [
        ("p", "a-0", [at(3), at(2), at(1)]),
        ("p", "b-0", [at(1)]),
    ]


def test_of_two_base_files_of_a_slice_the_greater_name_counts() -> None:
    """As in a sorted listing."""
    names = [base("a", 1, "0-2-1"), base("a", 1, "0-1-1")]
    assert only(names, view_6()) == [(at(1), [base("a", 1, "0-2-1")])]


def test_version_6_names_the_slice_in_the_log_file() -> None:
    """The instant in a log file's name is its slice's; newest log files first."""
    names = [base("a", 1), log("a", 1), log("a", 1, 2), log("a", 1, 10), log("a", 3)]
    assert only(names, view_6()) == [
        (at(3), [log("a", 3)]),
        (at(1), [base("a", 1), log("a", 1, 10), log("a", 1, 2), log("a", 1)]),
    ]


def test_version_8_goes_by_completion() -> None:
    """A log file belongs to the newest slice that is not after its delta commit's completion."""
    completions = {at(2): at(5)}
    names = [base("a", 1), base("a", 4), base("a", 6), log("a", 2)]
    assert only(names, View.of(timeline(), completions)) == [
        (at(6), [base("a", 6)]),
        (at(4), [base("a", 4), log("a", 2)]),
        (at(1), [base("a", 1)]),
    ]


def test_version_8_without_an_earlier_slice() -> None:
    """Then it starts a slice at its own delta commit, and later log files join that."""
    assert only([log("a", 2), base("a", 4)], view_8()) == [(at(4), [base("a", 4)]), (at(2), [log("a", 2)])]
    assert only([log("a", 2), log("a", 3)], view_8()) == [(at(2), [log("a", 3), log("a", 2)])]


def test_version_8_uncompleted_delta_commits() -> None:
    """Log files of a delta commit that never completed belong to the newest slice, or start one."""
    view = View.of(timeline(), {})
    assert only([base("a", 1), base("a", 3), log("a", 2)], view)[0] == (at(3), [base("a", 3), log("a", 2)])
    assert only([log("a", 2)], view) == [(at(2), [log("a", 2)])]


def test_version_8_archived_delta_commits() -> None:
    """Completion times of archived delta commits count like active ones; the timeline does not matter for slices."""
    archived = {at(2): done(2)}
    assert only([base("a", 1), base("a", 3), log("a", 2)], View.of(timeline("9 commit"), archived)) == [
        (at(3), [base("a", 3)]),
        (at(1), [base("a", 1), log("a", 2)]),
    ]


def test_a_pending_compaction_adds_an_empty_slice() -> None:
    """It is there before log files are sorted into slices, so later ones lie on it."""
    pending = {GROUP: at(3)}
    assert only([base("a", 1)], view_6(pending_compactions=pending)) == [(at(3), []), (at(1), [base("a", 1)])]
    assert only([base("a", 1), log("a", 2), log("a", 4)], view_8(pending_compactions=pending)) == [
        (at(3), [log("a", 4)]),
        (at(1), [base("a", 1), log("a", 2)]),
    ]


def test_cdc_log_files_lie_in_their_slice() -> None:
    """A CDC log file comes after the log file of its write."""
    names = [base("a", 1), log("a", 1), log("a", 1, suffix=".cdc")]
    assert only(names, view_6()) == [(at(1), [base("a", 1), log("a", 1, suffix=".cdc"), log("a", 1)])]


def test_files_of_failed_writes_are_gone_already() -> None:
    """Base files in both layouts, log files only where their name says the write."""
    failed = frozenset({at(2)})
    names = [base("a", 1), base("a", 2), log("a", 2)]
    assert only(names, view_8(rolled_back=failed)) == [(at(1), [base("a", 1)])]
    assert only(names, view_6(rolled_back=failed)) == [(at(2), [log("a", 2)]), (at(1), [base("a", 1)])]


def test_which_slices_count() -> None:
    """Those of instants on the view or before its first; not pending ones, not later ones, not what is no instant."""
    view = view_6("3 commit", "5 commit inflight", "6 compaction requested", "7 commit")
    counts = {n: view.counts(at(n)) for n in range(1, 9)}
    assert counts == {1: True, 2: True, 3: True, 4: False, 5: False, 6: True, 7: True, 8: False}
    assert not view.counts("0")
    assert not view.counts("2026010100000x")
    assert not view_6().counts(at(1))


def test_the_size_of_a_slice() -> None:
    """Base and log files together."""
    (group,) = build_file_groups("p", sized(base("a", 1), log("a", 1)), view_6())
    assert group.slices[0].size == 20


@given(
    st.lists(
        st.one_of(
            st.builds(base, st.sampled_from("ab"), st.integers(1, 9)),
            st.builds(log, st.sampled_from("ab"), st.integers(1, 9), st.integers(1, 3)),
        ),
        unique=True,
    ),
    st.booleans(),
    st.randoms(),
)
def test_every_file_lies_in_exactly_one_slice(names: list[str], is_8: bool, random: Any) -> None:
    """No file is lost or doubled, and the order of a listing does not matter."""
    view = (view_8 if is_8 else view_6)("2 commit", "5 commit", pending_compactions={GROUP: at(4)})
    groups = build_file_groups("p", sized(*names), view)
    found = [file.name for group in groups for s in group.slices for file in s.files]
    assert sorted(found) == sorted(names)
    random.shuffle(names)
    assert build_file_groups("p", sized(*names), view) == groups
    for group in groups:
        instants = [s.instant for s in group.slices]
        assert instants == sorted(set(instants), reverse=True)
