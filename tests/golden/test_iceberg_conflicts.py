"""The recorded conflicts: another commit lands between planning a rewrite and committing it.

The same commits on the same table have the same outcome here, in the engine's own words.
"""

from __future__ import annotations

import re
from functools import partial

import attrs
import pytest
from support.iceberg_cases import Case, recorded_actions
from support.iceberg_tables import SmallTable
from support.sampling import one_in

from lakemeta.errors import CommitConflictError
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent, ManifestFile
from lakemeta.iceberg.manifests.store import read_snapshot
from lakemeta.iceberg.spec.table_metadata import SnapshotRef
from lakemeta.storage import LocalStorage

CASE = "conflicts_v2"


def recorded() -> list[str]:
    return list(recorded_actions(CASE))


class Scene:
    """The recorded table, a rewrite of all its files that was planned, and what others do to it meanwhile.

    Only metadata matters to a commit, so new files are described and not written.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.table = SmallTable(LocalStorage(), str(self.case.table))
        self.start = self.table.head
        self.files = tuple(sorted(self.table.data_files(), key=lambda f: f.lower_bounds[1]))

    def describe(self, content: FileContent = FileContent.DATA, records: int = 1, **fields) -> DataFile:
        name = f"{self.table.root}/data/{self.table.env.new_uuid()}.parquet"
        return DataFile(content, name, "PARQUET", 0, (), records, 100, **fields)

    def change(self, operation: str, **what) -> None:
        self.table.update(SnapshotUpdate(operation, starting_snapshot_id=self.table.head.snapshot_id, **what))

    def append(self) -> DataFile:
        file = self.describe()
        self.change("append", added=(file,))
        return file

    def remove(self, *files: DataFile, **more) -> None:
        self.change("delete", removed=files, **more)

    def overwrite(self, *files: DataFile) -> None:
        self.change("overwrite", removed=files, added=(self.describe(records=19),))

    def position_delete(self, file: DataFile) -> None:
        bound = {2147483546: file.file_path.encode()}
        delete = self.describe(FileContent.POSITION_DELETES, lower_bounds=bound, upper_bounds=bound)
        self.change("delete", added_deletes=((delete, None),))

    def equality_delete(self) -> None:
        delete = self.describe(FileContent.EQUALITY_DELETES, equality_ids=(1,))
        self.change("delete", added_deletes=((delete, None),))

    def evolve(self, **changes) -> None:
        base = self.table.operations.refresh()
        self.table.operations.commit(base, attrs.evolve(base.metadata, **changes))

    def manifests(self) -> list[ManifestFile]:
        return list(read_snapshot(self.table.storage, self.table.head))

    def rewrite(self, *, own_sequence: bool, validate: bool) -> None:
        added = self.describe(records=sum(f.record_count for f in self.files))
        self.table.update(
            SnapshotUpdate(
                added=(added,),
                removed=self.files,
                starting_snapshot_id=self.start.snapshot_id if validate else None,
                data_sequence_number=None if own_sequence else self.start.sequence_number,
            )
        )


def expire(scene: Scene) -> None:
    scene.append()
    head = scene.table.head
    scene.evolve(snapshots=(head,), snapshot_log=())


def rollback(scene: Scene) -> None:
    earlier = scene.table.metadata.snapshots[2]
    refs = {**scene.table.metadata.refs, "main": SnapshotRef(earlier.snapshot_id, "branch")}
    scene.evolve(current_snapshot_id=earlier.snapshot_id, refs=refs)


def change_schema(scene: Scene) -> None:
    metadata = scene.table.metadata
    schema = attrs.evolve(metadata.schema, schema_id=metadata.current_schema_id + 1)
    scene.evolve(schemas=(*metadata.schemas, schema), current_schema_id=schema.schema_id)


def rewrite_manifests(scene: Scene) -> None:
    """All entries into one manifest, as a snapshot of its own; the property that asks for it goes again."""
    properties = scene.table.metadata.properties
    scene.evolve(properties={**properties, "commit.manifest.min-count-to-merge": "1"})
    scene.change("replace")
    scene.evolve(properties=properties)
    assert len(scene.manifests()) == 1


def delete_on_branch(scene: Scene) -> None:
    refs = {**scene.table.metadata.refs, "bb": SnapshotRef(scene.start.snapshot_id, "branch")}
    scene.evolve(refs=refs)
    scene.remove(scene.files[0], branch="bb")


def compact(scene: Scene) -> None:
    scene.rewrite(own_sequence=False, validate=True)


SHAPE = (
    "sequence_number",
    "min_sequence_number",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
)


def shape(manifest: ManifestFile) -> tuple[int, ...]:
    return tuple(getattr(manifest, name) for name in SHAPE)


MEANWHILE = {
    "none": lambda scene: None,
    "append": Scene.append,
    "cow_delete_rewritten_file_rows": lambda scene: scene.overwrite(scene.files[0]),
    "metadata_delete_whole_file": lambda scene: scene.remove(scene.files[0]),
    "pos_delete_rewritten_file": lambda scene: scene.position_delete(scene.files[0]),
    "eq_delete": Scene.equality_delete,
    "compaction_won": compact,
    "rewrite_manifests": rewrite_manifests,
    "expire_base_snapshot": expire,
    "schema_change": change_schema,
    "rollback": rollback,
    "branch_delete": delete_on_branch,
    "overwrite_all": lambda scene: scene.overwrite(*scene.files),
    "append_then_delete_appended": lambda scene: scene.remove(scene.append()),
}


@pytest.mark.parametrize("name", one_in(6, recorded()))
def test_recorded_conflict(name, iceberg_cases):
    """The rewrite is committed or refused as recorded; a refusal says why and leaves no manifest."""
    scene = Scene(iceberg_cases.fresh(CASE))
    expected = dict(scene.case.actions())[name]["result"]
    kind = re.sub(r"^\d+_conflict_|_mgr$|_new_seq$|_no_validate$", "", re.sub(r"_(mgr|new_seq|no_validate)$", "", name))
    MEANWHILE[kind](scene)
    rewrite = partial(
        scene.rewrite,
        own_sequence=not expected["use_starting_sequence_number"],
        validate=expected["via"] != "table.newRewrite()",
    )
    before = scene.table.metadata
    if expected["commit"] == "ok":
        rewrite()
        assert scene.table.head.operation == "replace"
        assert scene.table.head.parent_snapshot_id == before.current_snapshot_id
        if kind == "rewrite_manifests":
            expected = dict(scene.case.actions())[name]["diff"]["manifests_after"]
            assert [shape(m) for m in scene.manifests()] == [tuple(m[n] for n in SHAPE) for m in expected]
        return
    message = expected["error"]["message"].split(": ")[0].split(" and the last known")[0]
    with pytest.raises(CommitConflictError, match=re.escape(message)):
        rewrite()
    assert scene.table.metadata == before
    known = {m.manifest_path for s in before.snapshots for m in read_snapshot(scene.table.storage, s)}
    on_disk = {e.path for e in scene.table.storage.list_dir(f"{scene.table.root}/metadata") if "-m" in e.name}
    assert on_disk <= known
