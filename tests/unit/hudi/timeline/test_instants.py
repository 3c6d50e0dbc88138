from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import at, done, timeline

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.timeline.instants import ACTIONS, Instant, State, Timeline, instant_file_name, parse_instant

TIMES = st.integers(0, 10**17 - 1).map(lambda n: f"{n:017d}")


@pytest.mark.parametrize(
    ("name", "action", "state", "completion"),
    [
        ("20260101000000000.commit", "commit", State.COMPLETED, None),
        ("20260101000000000_20260101000100000.commit", "commit", State.COMPLETED, "20260101000100000"),
        ("20260101000000000.commit.requested", "commit", State.REQUESTED, None),
        ("20260101000000000.inflight", "commit", State.INFLIGHT, None),
        ("20260101000000000.deltacommit.inflight", "deltacommit", State.INFLIGHT, None),
        ("20260101000000.clean", "clean", State.COMPLETED, None),
        ("20260101000000000.clustering.requested", "clustering", State.REQUESTED, None),
    ],
)
def test_names_of_instants(name: str, action: str, state: State, completion: str | None) -> None:
    """Both layouts are read; ``<ts>.inflight`` alone is an inflight commit; times of 14 digits are old ones."""
    instant = parse_instant(name, 7)
    assert instant == Instant(name[: name.find("_" if completion else ".")], action, state, name, completion, 7)


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "hoodie.properties.backup",
        ".hoodie_partition_metadata",
        ".20260101000000000.commit",
        "20260101000000000_20260101000100000.commit.tmp",
        ".20260101000000000.commit.crc",
        "20260101000000000.commit.tmp",
        "20260101000000000.commit.requested.crc",
        "20260101000000000.inflight.a4692f67-356d-40ab-88f9-c8a3b9229ba5",
        "20260101000000000_20260101000100000.commit.03972d9f-786b-4a30-80de-8f4339e05755",
        "archived",
    ],
)
def test_names_of_other_files(name: str) -> None:
    """What does not look like an instant is none."""
    assert parse_instant(name) is None


@pytest.mark.parametrize(
    "name", ["20260101000000000.vacuum", "20260101000000000.commit.paused", "20260101000000000_x.vacuum"]
)
def test_instants_of_newer_writers(name: str) -> None:
    """What looks like an instant and is not known is refused by name."""
    with pytest.raises(UnsupportedFeatureError, match=name):
        parse_instant(name)


@pytest.mark.parametrize(
    "name",
    [
        "\u0662\u0660\u06620101000000000.commit",
        "\u06620260101000000000_20260101000100000.commit",
        "20260101000000000_\u06620260101000100000.commit",
        "20260101.commit",
        "202601010000000001.clean",
        "20260101000000000_2026010100010000.deltacommit",
        "2026010100000000x_20260101000100000.commit",
        "20260101000000000_x.commit",
        "x0260101000000000.replacecommit.requested",
        "\uff12\uff10260101000000000.inflight",
        "commit.inflight",
    ],
)
def test_instants_without_a_time(name: str) -> None:
    """What ends as an instant does and has no time in ASCII digits of a length that Hudi writes is damage.

    Passed over, it would make the write of a completed instant that was renamed look failed.
    """
    with pytest.raises(CorruptMetadataError, match="named like an instant"):
        parse_instant(name)


@pytest.mark.parametrize("name", ["20260101000000000", "20260101000000000_2026010100010", "\u0662" * 17])
def test_times_alone_are_refused(name: str) -> None:
    """An instant whose name was cut off is not passed over."""
    with pytest.raises(UnsupportedFeatureError, match="no instant that lakemeta knows"):
        parse_instant(name)


@given(TIMES, st.sampled_from(sorted(ACTIONS)), st.sampled_from(State), st.none() | TIMES)
def test_a_name_reads_back(time: str, action: str, state: State, completion: str | None) -> None:
    """What we name, we read."""
    completion = completion if state is State.COMPLETED else None
    name = instant_file_name(time, action, state, completion)
    assert parse_instant(name) == Instant(time, action, state, name, completion)


@given(st.permutations(["1 commit", "1 commit requested", "1 commit inflight", "2 compaction requested", "2 commit"]))
def test_only_the_most_advanced_state_counts(words: list[str]) -> None:
    """Of one action at one time the furthest state counts; a compaction completes as a commit, in any order listed."""
    assert [str(i) for i in timeline(*words)] == [f"{at(1)} commit (completed)", f"{at(2)} commit (completed)"]


@pytest.mark.parametrize(
    ("pending", "completed"),
    [("compaction", "commit"), ("clustering", "replacecommit"), ("logcompaction", "deltacommit")],
)
def test_what_actions_complete_as(pending: str, completed: str) -> None:
    """Table services complete under another action."""
    (instant,) = timeline(f"1 {pending} inflight", f"1 {completed}")
    assert (instant.action, instant.completed) == (completed, True)


def test_different_actions_share_a_time() -> None:
    """A savepoint has the time of its commit and is another instant."""
    assert len(timeline("1 commit", "1 savepoint", "1 commit inflight")) == 2


def test_the_filters() -> None:
    """Each timeline of the engine has its actions; the view counts completed writes, and compactions in any state."""
    everything = timeline(
        "1 commit", "2 deltacommit inflight", "3 replacecommit", "4 clustering requested", "5 compaction requested",
        "6 logcompaction requested", "7 clean", "7 savepoint", "8 clean requested", "9 rollback",
        "10 savepoint inflight",
    )  # fmt: skip
    hours = {at(n): n for n in range(1, 11)}

    def of(found: Timeline) -> list[int]:
        return [hours[i.requested] for i in found]

    assert of(everything.commits) == [1, 2, 3, 4]
    assert of(everything.commits_and_compaction) == [1, 2, 3, 4, 5]
    assert of(everything.view) == [1, 3, 5, 6]
    assert of(everything.cleans) == [7, 8]
    assert of(everything.savepoints) == [7]
    assert of(everything.pending) == [2, 4, 5, 6, 8, 10]
    assert of(everything.completed) == [1, 3, 7, 7, 9]


@pytest.mark.parametrize("words", [("1 commit inflight", "1 deltacommit"), ("1 commit", "1 replacecommit requested")])
def test_two_writes_at_one_time_are_refused(words: tuple[str, str]) -> None:
    """A pending write at the time of a completed one would be rolled back, and its files are the other's."""
    with pytest.raises(CorruptMetadataError, match="cannot be of both"):
        timeline(*words).check_writes()
    timeline("1 commit", "1 commit requested", "1 savepoint", "2 compaction inflight", "2 commit").check_writes()


def test_the_ends() -> None:
    """First and last are by requested time, the newest time may be a completion."""
    found = timeline("2 commit", "1 commit 9")
    assert (found.first, found.last) == tuple(found)
    assert found.newest_time == at(9)
    assert timeline("1 commit").newest_time == done(1)
    empty = timeline()
    assert (empty.first, empty.last, empty.newest_time, len(empty)) == (None, None, "", 0)
