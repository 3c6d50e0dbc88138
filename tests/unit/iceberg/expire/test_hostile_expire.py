"""Plans of expire-snapshots that were edited, are old, or meet damage: refused before anything is changed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from support.faults import HookedStorage, Stubborn
from support.iceberg_checker import TableState
from support.iceberg_expire import apply, build, change, check, files, plan, set_refs
from support.iceberg_tables import SmallTable

from lakemeta.cli.main import cli
from lakemeta.errors import (
    CommitConflictError,
    CorruptMetadataError,
    LakemetaError,
    OptionError,
    StalePlanError,
    UnsupportedFeatureError,
)
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.spec.table_metadata import SnapshotRef
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete, Expire, RemoveUnused
from lakemeta.storage import LocalStorage


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A table that is built once; tests have it at the same place, as it names its files by whole paths."""
    root = tmp_path_factory.mktemp("hostile") / "t"
    build(root)
    shutil.copytree(root, root.parent / "kept")
    return root


@pytest.fixture
def root(kept) -> Path:
    shutil.rmtree(kept)
    shutil.copytree(kept.parent / "kept", kept)
    return kept


@pytest.fixture
def rows(root) -> dict[str, list[str]]:
    return TableState.local(root).rows_at_refs()


def edited(made: Plan, *more, without=()) -> Plan:
    """A plan with other lines, as a file with the right checksum would have them."""
    lines = [op for op in made.operations if op not in without]
    return Plan.loads(Plan(made.header, [*lines, *more]).dumps())


def refused(root: Path, made: Plan, error: type[Exception], match: str, storage=None) -> None:
    before = files(root), TableState.local(root).metadata
    with pytest.raises(error, match=match):
        apply(root, made, storage)
    assert (files(root), TableState.local(root).metadata) == before


def test_a_file_that_is_needed(root):
    """No edited line deletes a live data file, manifest, list, version or hint, however it spells the path."""
    state = TableState.local(root)
    made = plan(root)
    needed = [state.paths(0)[0], state.manifests[0]["manifest_path"], state.snapshot["manifest-list"]]
    spelled = [f"file:{needed[0]}", needed[0].replace("/data/", "//data/"), needed[0].replace("/data/", "/./data/")]
    others = [f"{root}/metadata/version-hint.text", state.metadata_file]
    for path in (*needed, *spelled, *others, "data/../metadata/version-hint.text", "/etc/hostname", "data", "", "\0"):
        refused(root, edited(made, Delete("", path, 1, "data_file")), StalePlanError, "is to take away")


def test_a_file_that_no_snapshot_named(root):
    """A file that another writer has not committed yet is no line's to delete."""
    other = SmallTable(LocalStorage(), str(root), seed=9).write([(5, "a", 1.0)])
    refused(root, edited(plan(root), Delete("", other.file_path, 1, "data_file")), StalePlanError, "no snapshot of the")


def test_snapshots_that_stay(root):
    """Snapshots, refs and schemas that the plan's own options keep are no line's to take away."""
    made = plan(root)
    head = TableState.local(root).metadata["refs"]["old"]["snapshot-id"]
    for line, match in (
        (Expire(head, 0, 0, 0, "too_old"), "the tag old names it"),
        (Expire(77, 0, 0, 0, "too_old"), "does not have it any more"),
        (RemoveUnused("schema", 0, "unused"), "or needs it"),
        (RemoveUnused("partition-spec", 0, "unused"), "or needs it"),
    ):
        refused(root, edited(made, line), StalePlanError, match)


def test_less_than_the_plan_said(root, rows):
    """A line that is taken out of a plan is not done, and nothing of what it leaves is."""
    made = plan(root)
    one = next(op for op in made.deletes() if op.reason == "data_file")
    report = apply(root, edited(made, without=(one,)))
    assert report.complete
    check(root, rows)
    assert files(root) - TableState.local(root).needed() == {f"{root}/{one.path}"}


def test_files_without_their_snapshot(root):
    """A plan that deletes files and leaves their snapshot is refused."""
    made = plan(root)
    expired = [op for op in made.operations if isinstance(op, Expire)]
    refused(root, edited(made, without=expired), StalePlanError, "the table needs it")


def test_another_level(root):
    """A plan of one cleanup level has no lines of another."""
    made = plan(root)
    for level in ("none", "metadata"):
        header = attrs.evolve(made.header, options={**made.header.options, "cleanup-level": level})
        refused(root, Plan(header, made.operations), StalePlanError, "cleanup-level, rule it out")
    for now in (None, "soon"):
        header = attrs.evolve(made.header, facts={**made.header.facts, "now_ms": now})
        refused(root, Plan(header, made.operations), CorruptMetadataError, "has no now_ms")


def test_links(root, tmp_path):
    """A directory that was replaced by a link is not deleted from, and nothing is committed."""
    made = plan(root)
    (root / "data").rename(tmp_path / "elsewhere")
    (root / "data").symlink_to(tmp_path / "elsewhere")
    before = set(os.listdir(tmp_path / "elsewhere"))
    with pytest.raises(UnsupportedFeatureError, match="behind a symbolic link"):
        apply(root, made)
    assert set(os.listdir(tmp_path / "elsewhere")) == before


def damages() -> list:
    kinds, hows, sides = ("list", "manifest"), ("missing", "cut", "flipped"), ("stays", "goes")
    fast = {("manifest", "missing", "stays"), ("list", "flipped", "goes"), ("manifest", "cut", "goes")}
    every = [(kind, how, side) for kind in kinds for how in hows for side in sides]
    return [pytest.param(*one, marks=() if one in fast else pytest.mark.slow) for one in every]


@pytest.mark.parametrize(("kind", "how", "side"), damages())
def test_damage(root, kind, how, side):
    """One list or manifest of either side that cannot be read, and neither a plan is made nor one applied."""
    made = plan(root)
    state = TableState.local(root)
    gone = {op.path for op in made.deletes()}
    every = {s["manifest-list"] for s in state.metadata["snapshots"]}
    if kind == "manifest":
        every = {m["manifest_path"] for one in state.every_snapshot() for m in one.manifests}
    path = next(Path(p) for p in sorted(every) if (os.path.relpath(p, root) in gone) == (side == "goes"))
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if how == "cut" else data[:-30] + bytes(b ^ 0xFF for b in data[-30:]))
    before = files(root)
    for work in (lambda: plan(root), lambda: apply(root, made)):
        with pytest.raises(LakemetaError) as caught:
            work()
        assert path.name in str(caught.value)
        assert files(root) == before


def test_a_branch_that_came_to_need_it(root, rows):
    """A tag on a snapshot that was to expire makes the plan stale; one that comes while it is committed, a conflict."""
    made = plan(root)
    expired = next(op for op in made.operations if isinstance(op, Expire))
    saved = root.parent / "before_tag"
    shutil.copytree(root, saved)
    other = SmallTable(LocalStorage(), str(root))
    set_refs(other, late=SnapshotRef(expired.snapshot_id, "tag"))
    refused(root, made, StalePlanError, f"snapshot {expired.snapshot_id}, and the tag late names it")
    shutil.rmtree(root)
    saved.rename(root)

    def tag_in_between(name: str, path: str) -> None:
        if name == "create" and path.endswith(".metadata.json") and "late" not in other.metadata.refs:
            set_refs(other, late=SnapshotRef(expired.snapshot_id, "tag"))

    other = SmallTable(LocalStorage(), str(root))
    before = files(root)
    with pytest.raises(CommitConflictError, match="the tag late names it"):
        apply(root, made, HookedStorage(LocalStorage(), tag_in_between))
    assert files(root) == before
    check(root, {**rows, "late": TableState.local(root).rows_at_refs()["late"]})


def test_a_file_that_came_back(root):
    """A removed data file that another commit adds again after ours stays, though the plan deletes it."""
    made = plan(root)
    other = SmallTable(LocalStorage(), str(root))
    again = next(op for op in made.deletes() if op.reason == "data_file")
    file = attrs.evolve(other.data_files()[0], file_path=f"{root}/{again.path}")

    came: list[str] = []

    def add_after_commit(name: str, path: str) -> None:
        if name == "replace" and path.endswith("version-hint.text") and not came:
            came.append(path)
            other.update(SnapshotUpdate("append", (file,)))

    report = apply(root, made, HookedStorage(LocalStorage(), add_after_commit))
    assert came
    assert report.complete
    assert (root / again.path).exists()
    assert TableState.local(root).needed() == files(root)


def test_an_append_beside(root, rows):
    """Commits of others between the plan and its end are kept, and the plan is done all the same."""
    made = plan(root)
    other = SmallTable(LocalStorage(), str(root), seed=5)
    appended: list[str] = []

    def append(name: str, path: str) -> None:
        if name == "create" and path.endswith(".metadata.json") and not appended:
            appended.append(path)
            other.append([(40, "a", 1.0)])

    report = apply(root, made, HookedStorage(LocalStorage(), append))
    assert report.complete
    assert appended
    state = TableState.local(root)
    assert len(state.rows()) == len(rows["main"]) + 1
    assert state.needed() == files(root)


def test_two_expirers(root, rows):
    """The second of two with the same plan finds it stale, or what it was about done, and deletes nothing else."""
    made = plan(root)
    first: list[object] = []

    def expire_first(name: str, path: str) -> None:
        if name == "create" and path.endswith(".metadata.json") and not first:
            first.append(apply(root, made, seed=7, later=1))

    with pytest.raises(CommitConflictError, match="does not have it any more"):
        apply(root, made, HookedStorage(LocalStorage(), expire_first))
    check(root, rows)
    assert files(root) == TableState.local(root).needed()
    refused(root, made, StalePlanError, "does not have it any more")


def test_files_that_cannot_be_deleted(root, rows):
    """What says which files are left stays with them, and the next expire deletes all of it."""
    made = plan(root)
    report = apply(root, made, Stubborn("/data/p=a" if (root / "data/p=a").exists() else "/data/"))
    assert not report.complete
    assert report.failed
    assert report.result["deleted_manifest_files_count"] == 0
    assert "which are left" in report.notes[0]
    check(root, rows)
    again = plan(root)
    assert not [op for op in again.operations if isinstance(op, Expire)]
    assert apply(root, again, seed=2).complete
    assert files(root) == TableState.local(root).needed()


def test_a_ref_that_is_lost(root):
    """If the table has lost a ref after the commit, no file goes."""
    made = plan(root)
    other = SmallTable(LocalStorage(), str(root))

    def lose(name: str, path: str) -> None:
        if name == "replace" and path.endswith("version-hint.text") and "side" in other.metadata.refs:
            refs = {n: r for n, r in other.metadata.refs.items() if n != "side"}
            change(other, lambda metadata: attrs.evolve(metadata, refs=refs))

    before = files(root)
    report = apply(root, made, HookedStorage(LocalStorage(), lose))
    assert not report.complete
    assert "lost its ref side" in report.notes[0]
    assert before <= files(root)


UUID = "00000000-0000-4000-8000-000000000001"
LEDGERS = {
    "garbage": b"{",
    "no ledger": b'{"expire": 1}',
    "another place": f'{{"expire": "{UUID}", "base": "/etc/hosts", "level": "all", "snapshots": []}}'.encode(),
}


@pytest.mark.parametrize("ledger", LEDGERS)
def test_ledgers_that_say_nothing(root, rows, ledger):
    """A ledger that cannot be read is named, and the table expires without it."""
    (root / "metadata" / ".lakemeta-expire-x.json").write_bytes(LEDGERS[ledger])
    made = plan(root)
    assert ".lakemeta-expire-x.json does not say what an expire has left" in made.header.facts["notes"][0]
    assert apply(root, made).complete
    check(root, rows)


def test_a_ledger_that_names_what_is_needed(root, rows):
    """A ledger names snapshots; those that the table has are none that went."""
    version = TableState.local(root)
    content = {
        "expire": UUID,
        "base": version.metadata_file,
        "level": "all",
        "snapshots": [s["snapshot-id"] for s in version.metadata["snapshots"]],
    }
    (root / "metadata" / ".lakemeta-expire-x.json").write_text(json.dumps(content))
    made = plan(root)
    assert apply(root, made).complete
    check(root, rows)
    assert files(root) == TableState.local(root).needed()


def test_a_ledger_of_another_table(root):
    """The version that a ledger names is one of this table."""
    state = TableState.local(root)
    foreign = {**state.metadata, "table-uuid": "00000000-0000-4000-8000-00000000000f"}
    (root / "metadata" / "foreign.metadata.json.gz").write_bytes(gzip.compress(json.dumps(foreign).encode()))
    content = {"expire": foreign["table-uuid"], "base": f"{root}/metadata/foreign.metadata.json.gz"}
    content |= {"level": "all", "snapshots": []}
    (root / "metadata" / ".lakemeta-expire-x.json").write_text(json.dumps(content))
    assert "it is about another table" in plan(root).header.facts["notes"][0]


def test_gc_disabled(root):
    """gc.enabled=false refuses a plan, and a plan that was made before."""
    made = plan(root)
    change(
        SmallTable(LocalStorage(), str(root)),
        lambda metadata: attrs.evolve(metadata, properties={**metadata.properties, "gc.enabled": "false"}),
    )
    with pytest.raises(UnsupportedFeatureError, match="GC is disabled"):
        plan(root)
    refused(root, made, UnsupportedFeatureError, "GC is disabled")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"retain-last": "1"}, "unknown option retain-last; did you mean retain_last"),
        ({"retain_last": "0"}, "Number of snapshots to retain must be at least 1, cannot be: 0"),
        ({"max_concurrent_deletes": "0"}, "max_concurrent_deletes should have value > 0, value: 0"),
        ({"stream_results": "perhaps"}, "'stream_results' is set to perhaps but must be true or false"),
        ({"snapshot_ids": "1,x"}, "'snapshot_ids' is set to x but must be a whole number"),
        ({"cleanup_level": "some"}, "'cleanup-level' is set to some but must be none, metadata or all"),
    ],
)
def test_options_that_make_no_sense(root, options, match):
    """In Iceberg's words where it has any."""
    with pytest.raises(OptionError, match=match):
        plan(root, **options)


def test_a_moment_that_has_not_come(root):
    """A plan edited to a far now_ms makes no snapshot old; five minutes are two machines' clocks."""
    made = plan(root)
    for ahead, fine in ((301_000, False), (10**15, False), (299_000, True)):
        facts = {**made.header.facts, "now_ms": made.header.facts["now_ms"] + ahead}
        later = Plan.loads(Plan(attrs.evolve(made.header, facts=facts), made.operations).dumps())
        if fine:
            assert apply(root, later).deleted_files
        else:
            refused(root, later, StalePlanError, "counts ages from a moment .* nothing was changed; make the plan")


def test_a_moment_to_come_may_be_said(root, tmp_path):
    """On the command line, where the plan is made and applied at once, and where it is read from a file."""
    later = ["--now", "2100-01-01T00:00:00Z"]
    command = ["expire-snapshots", str(root), "--set", "retain_last=1", "-q"]
    file = str(tmp_path / "plan.jsonl")
    assert CliRunner().invoke(cli, ["plan", *command, "--out", file, *later]).exit_code == 0
    told = CliRunner().invoke(cli, ["apply", file])
    assert isinstance(told.exception, StalePlanError)
    assert CliRunner().invoke(cli, ["apply", file, *later]).exit_code == 0
    assert CliRunner().invoke(cli, [*command, "--yes", *later]).exit_code == 0
