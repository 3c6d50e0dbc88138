"""What an expire plans and reports beyond what was recorded of Iceberg."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest
from support.executors import Cluster
from support.iceberg_checker import TableState
from support.iceberg_expire import ALL, NOW, apply, build, change, check, files, opened, plan
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CorruptMetadataError, OptionError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.expire.digests import Digests, pack
from lakemeta.plan import Plan
from lakemeta.plan_operations import Expire, RemoveUnused
from lakemeta.storage import LocalStorage


@pytest.fixture
def root(tmp_path) -> Path:
    build(tmp_path / "t")
    return tmp_path / "t"


def expired(made: Plan) -> list[Expire]:
    return [op for op in made.operations if isinstance(op, Expire)]


def table(root: Path) -> SmallTable:
    return SmallTable(LocalStorage(), str(root))


def test_what_each_snapshot_alone_holds(root):
    """Files and bytes of an expire line are those that no other snapshot names, by an independent reading."""
    state = TableState.local(root)
    named = {
        one.snapshot["snapshot-id"]: {
            one.snapshot["manifest-list"],
            *(m["manifest_path"] for m in one.manifests),
            *one.paths(0, 1, 2),
            *(
                s["statistics-path"]
                for s in state.metadata["statistics"]
                if s["snapshot-id"] == one.snapshot["snapshot-id"]
            ),
        }
        for one in state.every_snapshot()
    }
    made = plan(root)
    assert len(expired(made)) > 3
    for op in expired(made):
        others = set().union(*(found for snapshot_id, found in named.items() if snapshot_id != op.snapshot_id))
        alone = named[op.snapshot_id] - others
        assert (op.files, op.bytes) == (len(alone), sum(Path(path).stat().st_size for path in alone))
    gone = {op.snapshot_id for op in expired(made)}
    stay = set().union(*(found for snapshot_id, found in named.items() if snapshot_id not in gone))
    all_gone = set().union(*(named[snapshot_id] for snapshot_id in gone))
    assert {f"{root}/{op.path}" for op in made.deletes()} == all_gone - stay


def test_a_summary_has_each_snapshot(root):
    """The summary of a plan has a row for each snapshot, with what it alone holds."""
    made = plan(root)
    rows = {row.action: row.reason for row in made.summary()}
    for op in expired(made):
        at = datetime.fromtimestamp(op.timestamp_ms // 1000, UTC)
        what = f"expire snapshot {op.snapshot_id} of {at:%Y-%m-%d %H:%M:%S} UTC"
        assert rows[what].startswith(f"too_old; it alone holds {op.files} file")


def test_one_plan_for_all_executors(root):
    """Threads, one thread and an executor that ships its work give the same bytes; a plan read back is the plan."""
    made = plan(root)
    for executor in (LocalExecutor(8), Cluster()):
        assert opened(root).plan("expire-snapshots", ALL, now=NOW, executor=executor).dumps() == made.dumps()
    assert Plan.loads(made.dumps()) == made


def test_a_report_accounts_for_all(root):
    """Files, bytes and columns of the report are those of the plan; the version that was committed is named."""
    made = plan(root)
    report = apply(root, made)
    assert (report.deleted_files, report.freed_bytes) == (made.files, made.bytes)
    assert sum(report.result.values()) == made.files
    assert report.committed == Path(TableState.local(root).metadata_file).name


def test_cleanup_levels(root):
    """With ``metadata`` data and delete files stay, with ``none`` all files; the snapshots go."""
    before = files(root)
    apply(root, plan(root, cleanup_level="none", **ALL))
    assert files(root) == before
    assert plan(root).is_empty


def test_what_a_rewrite_works_on(root):
    """The snapshot that a mark of a rewrite names stays, also if the rewrite began after the plan was made."""
    made = plan(root)
    base = expired(made)[0].snapshot_id
    mark = root / "metadata" / ".lakemeta-rewrite-x.json"
    content = {"rewrite": "00000000-0000-4000-8000-000000000001", "begun_ms": 0, "snapshot_id": base, "commits": []}
    mark.write_text(json.dumps(content))
    assert base not in {op.snapshot_id for op in expired(plan(root))}
    with pytest.raises(StalePlanError, match=f"snapshot {base}, and the rewrite .* works on it"):
        apply(root, made)
    with pytest.raises(OptionError, match=f"Cannot expire {base}: the rewrite .* works on it"):
        plan(root, snapshot_ids=str(base))
    mark.write_text("{")
    with pytest.raises(CorruptMetadataError, match="is no mark of a rewrite"):
        plan(root)


def flink(table: SmallTable, job: str, checkpoint: int) -> int:
    """The head becomes a snapshot of a Flink job."""
    summary = {"flink.job-id": job, "flink.operator-id": "o", "flink.max-committed-checkpoint-id": str(checkpoint)}
    head = table.append([(checkpoint, "a", 0.5)])
    signed = attrs.evolve(head, summary={**head.summary, **summary})
    change(
        table,
        lambda m: attrs.evolve(
            m, snapshots=tuple(signed if s.snapshot_id == head.snapshot_id else s for s in m.snapshots)
        ),
    )
    return head.snapshot_id


def test_what_flink_jobs_look_for(tmp_path):
    """The newest snapshot of each job stays if asked, and what lies between the newest of all and the branch's head."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    old, older = flink(table, "one", 1), flink(table, "two", 1)
    newest_of_one = flink(table, "one", 2)
    newest = flink(table, "two", 2)
    between = table.append([(7, "b", 0.5)]).snapshot_id
    head = table.append([(8, "b", 0.5)]).snapshot_id
    root, asked = tmp_path / "t", {"lakemeta.keep-flink-snapshots": "true"}
    assert {op.snapshot_id for op in expired(plan(root))} == {old, older, newest_of_one, newest, between}
    kept = opened(root).plan("expire-snapshots", {**ALL, **asked}, now=NOW)
    assert {op.snapshot_id for op in expired(kept)} == {old, older}
    assert head not in {op.snapshot_id for op in expired(kept)}
    check(root, TableState.local(root).rows_at_refs())


def test_files_elsewhere(tmp_path):
    """A file outside of the locations that the table declares stays and is named; below ``write.data.path`` it goes."""
    root, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    table = create_table(LocalStorage(), str(root))
    added = table.write([(1, "a", 0.5)])
    elsewhere.mkdir()
    Path(added.file_path).rename(elsewhere / "a.parquet")
    moved = attrs.evolve(added, file_path=str(elsewhere / "a.parquet"))
    table.update(SnapshotUpdate("append", (moved,)))
    table.remove(moved)
    table.append([(2, "a", 0.5)])
    made = plan(root)
    assert str(elsewhere / "a.parquet") in made.header.facts["notes"][0]
    change(table, lambda m: attrs.evolve(m, properties={**m.properties, "write.data.path": str(elsewhere)}))
    apply(root, made)
    assert (elsewhere / "a.parquet").exists()


def test_unknown_snapshots_are_named(root):
    """A name of no snapshot means nothing, and the plan says so."""
    made = plan(root, snapshot_ids="12345")
    assert made.header.facts["notes"] == ["the table has no snapshot 12345"]


def test_unused_metadata_alone(root):
    """Schemas that nothing needs go also where no snapshot does, and nothing is written if there are none."""
    young = {"older_than": "1970-01-02", "clean_expired_metadata": "true"}
    assert plan(root, **young).is_empty
    change(
        table(root),
        lambda m: attrs.evolve(m, schemas=(*m.schemas, attrs.evolve(m.schema, schema_id=7))),
    )
    made = plan(root, **young)
    assert [(op.kind, op.id) for op in made.operations if isinstance(op, RemoveUnused)] == [("schema", 7)]
    apply(root, made)
    assert [s["schema-id"] for s in TableState.local(root).metadata["schemas"]] == [0]


def test_digests():
    """Every spelling of what was added is in, and little else: in runs that are sorted, and in what is not yet."""
    held = Digests()
    names = [f"file:/t/data/{n}" for n in range(5000)]
    held.add(names[:10])
    held.add_packed(pack(names[10:]))
    assert all(f"/t//data/./{n}" in held for n in range(0, 5000, 7))
    assert not any(f"/t/data/x{n}" in held for n in range(5000))


def test_digests_of_many(monkeypatch):
    """The same once runs are full."""
    monkeypatch.setattr("lakemeta.iceberg.expire.digests._RUN", 100)
    held = Digests()
    for start in range(0, 1000, 50):
        held.add(f"s3a://b/t/{n}" for n in range(start, start + 50))
    assert all(f"s3://b/t/{n}" in held for n in range(1000))
    assert not any(f"s3://b/t/{n}" in held for n in range(1000, 2000))
