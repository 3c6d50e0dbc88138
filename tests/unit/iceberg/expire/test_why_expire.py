"""One sentence on a snapshot or a file: what an expire does with it, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.iceberg_checker import TableState
from support.iceberg_expire import ALL, NOW, build, opened, plan

from lakemeta.cli.main import cli
from lakemeta.errors import OptionError
from lakemeta.plan_operations import Expire


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("why") / "t"
    build(folder)
    return folder


def why(root: Path, what: str, **options: str) -> str:
    return opened(root).why(what, {**ALL, **options}, now=NOW)


def test_snapshots(root):
    """Each snapshot of a plan would expire, with what it alone holds; each other stays, and what keeps it is named."""
    made = plan(root)
    expired = {op.snapshot_id: op for op in made.operations if isinstance(op, Expire)}
    refs = {ref["snapshot-id"]: name for name, ref in TableState.local(root).metadata["refs"].items()}
    for snapshot in TableState.local(root).metadata["snapshots"]:
        told = why(root, str(snapshot["snapshot-id"]))
        if op := expired.get(snapshot["snapshot-id"]):
            assert "would expire: it is older than the cutoff, and not one of the newest of its branch" in told
            assert f"it alone holds {op.files} file" in told
        else:
            assert f"stays: the {'tag' if refs[snapshot['snapshot-id']] == 'old' else 'branch'}" in told
            assert refs[snapshot["snapshot-id"]] in told
    one = next(iter(expired))
    assert "would expire: snapshot_ids names it" in why(root, str(one), snapshot_ids=str(one))
    assert "one of the 99 newest of the branch main" in why(
        root, str(TableState.local(root).metadata["snapshots"][-2]["snapshot-id"]), retain_last="99"
    )
    with pytest.raises(OptionError, match="has no snapshot 77"):
        why(root, "77")
    with pytest.raises(OptionError, match="takes no filter"):
        opened(root).why("77", {}, "p = 'a'")


def test_files(root):
    """Each file of a plan would be deleted with a snapshot; a live one stays for one; what nobody names is no file."""
    for op in plan(root).deletes():
        assert f"would be deleted: it goes with snapshot {op.by}," in why(root, op.path)
        told = why(root, op.path, **{"cleanup-level": "none"})
        assert "stays, though no snapshot that stays names it: cleanup-level is none" in told
    state = TableState.local(root)
    for path in (*state.paths(0), state.manifests[0]["manifest_path"], state.snapshot["manifest-list"]):
        assert f"stays: snapshot {state.snapshot['snapshot-id']} names it, which stays: the branch main" in why(
            root, path
        )
    with pytest.raises(OptionError, match="ask --service remove-orphan-files about such a file"):
        why(root, "data/nothing.parquet")


def test_on_the_command_line(root):
    """Without options of its own, too, where the current snapshot does not have the file."""
    op = next(op for op in plan(root).deletes() if op.reason == "data_file")
    told = CliRunner().invoke(cli, ["why", str(root), op.path, "--now", NOW.isoformat()])
    assert f"{op.path} would be deleted: it goes with snapshot {op.by}" in told.output
    told = CliRunner().invoke(cli, ["why", str(root), op.by, "--set", "older_than=1970-01-02"])
    assert f"snapshot {op.by} stays" in told.output
