"""Pending rollbacks and markers that were written to have files deleted of other writes or elsewhere."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, at, avro, base, log, moment, tree
from support.hudi_hostile import clean, everything, neighboured
from support.sampling import one_in

from lakemeta.environment import Environment
from lakemeta.errors import LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    return neighboured(tmp_path, request.param)


def rollback_record(instant: str, action: str = "commit", **request: Any) -> bytes:
    whole = {
        "partitionPath": "p1",
        "fileId": "a-0",
        "latestBaseInstant": instant,
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": None,
        **request,
    }
    record = {
        "instantToRollback": {"commitTime": instant, "action": action},
        "RollbackRequests": [whole],
        "version": 1,
    }
    return avro("HoodieRollbackPlan", record)


def try_rollback(table: TableFiles, plan: bytes, instant: str | None = None) -> set[str]:
    """Execute a pending rollback by every way there is; the files that are gone, or of other content, then."""
    table.put(f"{instant or at(table.hour)}.rollback.requested", plan)
    before = {**everything(table), **{f"t/{name}": b"" for name in tree(table.root) if name.startswith(".hoodie/")}}
    opened = HudiTable.open(str(table.root))
    executor = LocalExecutor(1)
    with suppress(LakemetaError):
        made = opened.plan_rollback({}, now=moment(30), executor=executor)
        opened.apply(made, executor=executor, env=Environment(lambda: moment(30)))
    with suppress(LakemetaError):
        clean(table, {"hoodie.clean.commits.retained": "20", "hoodie.clean.failed.writes.policy": "LAZY"})
    after = tree(table.root.parent)
    return {name for name in before if name not in after}


STRINGS = ["../../../victim", "../../p1", "/..", "..", ".", "", "/", "\0", "20260101", "x" * 17, "\uff12" * 17,
           "20260101000000000/..", "2026010100000000000000", ".hoodie", "metadata", "../metadata"]  # fmt: skip


@pytest.mark.parametrize("text", one_in(4, STRINGS))
def test_the_instant_of_a_rollback(table: TableFiles, text: str) -> None:
    """Whatever is no instant becomes no path: no directory and no file goes."""
    assert try_rollback(table, rollback_record(text)) == set()


@pytest.mark.parametrize(
    "text", ["clean", "savepoint", "COMMIT", "rollback", "deltacommit", "compaction", *one_in(4, STRINGS)]
)
def test_the_action_of_a_rollback(table: TableFiles, text: str) -> None:
    """Only what writes is rolled back, and only the write that the timeline has: nothing of the others goes."""
    instant = table.begin({"p1": "a"})
    assert try_rollback(table, rollback_record(instant, text)) <= {
        f"t/p1/{base('a', 6)}",
        *(f"t/{name}" for name in tree(table.root) if instant in name),
        *(f"t/.hoodie/{folder}{instant}{end}" for folder in ("", "timeline/") for end in ENDS),
    }
    assert f"p1/{base('a', 5)}" in table.files()


ENDS = (".commit.requested", ".inflight", ".commit.inflight")


@pytest.mark.parametrize("hour", [1, 4, 5])
def test_a_rollback_of_what_completed(table: TableFiles, hour: int) -> None:
    """A completed commit, be it an early one, is rolled back by nobody."""
    name = f"{table.root}/p1/{base('a', hour)}"
    assert try_rollback(table, rollback_record(at(hour), filesToBeDeleted=[name])) == set()


@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit"])
def test_a_rollback_of_what_was_archived(table: TableFiles, action: str) -> None:
    """A commit that the timeline does not have any more counts: its files stay."""
    for path in table.timeline.glob(f"{at(1)}*"):
        path.unlink()
    name = f"{table.root}/p2/{base('b', 1)}"
    plan = rollback_record(at(1), action, partitionPath="p2", fileId="b-0", filesToBeDeleted=[name])
    assert try_rollback(table, plan) == set()


def test_a_rollback_that_appends_to_what_was_archived(tmp_path: Path) -> None:
    """Nor do its log blocks get a rollback block."""
    table = TableFiles(tmp_path / "t", 6, mor=True)
    table.insert({"p1": "a"})
    archived = table.delta({"p1": "a"})
    table.delta({"p1": "a"})
    (table.root / "p1" / log("a", 1)).write_bytes(b"")
    (table.root / "p1" / log("a", 1, 2)).write_bytes(b"")
    for path in (*table.timeline.glob(f"{at(1)}*"), *table.timeline.glob(f"{archived}*")):
        path.unlink()
    before = table.files()
    blocks = {log("a", 1): 1}
    plan = rollback_record(archived, "deltacommit", latestBaseInstant=at(1), logBlocksToBeDeleted=blocks)
    try_rollback(table, plan)
    assert table.files() == before


FIELDS = {
    "partitionPath": [*STRINGS, "p2", "out", "out/deep", "P1", "p1/", "p1//", "./p1"],
    "fileId": [*STRINGS, "b-0"],
    "latestBaseInstant": [*STRINGS, at(5)],
    "filesToBeDeleted": [["{root}/" + path] for path in (
        "p1/" + base("a", 5), "p2/" + base("b", 1), "../victim/precious", "../t2/precious", "p1", "", ".hoodie",
        ".hoodie/hoodie.properties", "p1/../p1/" + base("a", 5), "p1//" + base("a", 6), "out/" + base("a", 6),
        "p1/" + base("a", 6) + "/", "P1/" + base("a", 6), "p1/%2e%2e/" + base("a", 6),
    )],
    "logBlocksToBeDeleted": [{"../../victim/precious": 1}, {base("a", 5): 1}, {"": 1}, {"/": 1}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"), one_in(4, [(field, value) for field, values in FIELDS.items() for value in values], of=2)
)
def test_the_fields_of_a_rollback(table: TableFiles, field: str, value: Any) -> None:
    """A rollback of a write that failed takes that write's files, and no other, whatever else its plan names."""
    instant = table.begin({"p1": "a"})
    victim = table.root.parent / "victim" / base("a", 6)
    victim.write_bytes(b"1")
    (table.root / "out").symlink_to(victim.parent)
    if field == "filesToBeDeleted":
        value = [path.format(root=table.root) for path in value]
    gone = try_rollback(table, rollback_record(instant, **{field: value}))
    assert all(instant in name for name in gone)
    assert victim.exists()
    assert (victim.parent / "precious").exists()


@pytest.mark.parametrize(
    "line",
    ["../victim/precious.marker.CREATE", "p1/../../victim/x.marker.CREATE", "/etc/passwd.marker.CREATE",
     ".hoodie/hoodie.properties.marker.CREATE", "p1/{live}.marker.CREATE", "p1/{live}.marker.MERGE",
     "out/{failed}.marker.CREATE", "../victim/{failed}.marker.CREATE", ".hoodie/{failed}.marker.CREATE",
     "p1//{failed}.marker.CREATE", "/p1/{failed}.marker.CREATE", "./p1/{failed}.marker.MERGE",
     "p1/{failed}\0.marker.CREATE", "p1/{failed}.marker.CREATE/.marker.CREATE"],
)  # fmt: skip
def test_markers(table: TableFiles, line: str) -> None:
    """A marker that points elsewhere than at a file of the write in the table is refused."""
    instant = table.begin({"p1": "a"})
    victim = table.root.parent / "victim" / base("a", 6)
    victim.write_bytes(b"1")
    (table.root / "out").symlink_to(victim.parent)
    folder = table.root / ".hoodie/.temp" / instant
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED\n")
    (folder / "MARKERS0").write_text(line.format(live=base("a", 5), failed=base("a", 6)) + "\n")
    before = everything(table)
    opened = HudiTable.open(str(table.root))
    with pytest.raises(LakemetaError):
        opened.apply(opened.plan_rollback({}, now=moment(30)), env=Environment(lambda: moment(30)))
    assert everything(table) == before


@pytest.mark.parametrize("target", ["none", "victim", "t/p1", "t"])
def test_a_marker_directory_that_is_a_link(table: TableFiles, target: str) -> None:
    """Be it broken: refused before anything is requested, and nothing spins."""
    instant = table.begin({"p1": "a"})
    folder = table.root / ".hoodie/.temp"
    folder.mkdir()
    (folder / instant).symlink_to(table.root.parent / target)
    before = everything(table)
    opened = HudiTable.open(str(table.root))
    with pytest.raises(LakemetaError, match=r"symbolic link|none that Hudi writes"):
        opened.apply(opened.plan_rollback({}, now=moment(30)), env=Environment(lambda: moment(30)))
    assert everything(table) == before
    assert not list(table.timeline.glob("*.rollback.requested"))
