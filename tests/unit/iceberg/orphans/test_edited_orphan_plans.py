"""Plans of orphan files that were edited or have grown old: nothing that the table needs goes, and failures refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.orphan_plans import applied, edited, names, planned, whole
from support.planted import age, plant

from lakemeta.errors import (
    CorruptMetadataError,
    LakemetaError,
    StalePlanError,
    StorageError,
)
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import ManifestFile
from lakemeta.iceberg.orphans import apply
from lakemeta.report import Outcome
from lakemeta.storage import Entry, LocalStorage


def test_edited_plans_never_take_what_the_table_needs(small):
    """Every file that a snapshot, the log or the catalog names is refused, and then nothing at all is deleted."""
    orphan = plant(small, "data/x")
    plan = planned(small)
    for path in [*TableState.local(small.root).referenced(), f"{small.root}/metadata/v1.metadata.json"]:
        name = os.path.relpath(path, small.root)
        for spelled in (name, path, f"file:{path}"):
            with pytest.raises(StalePlanError, match="the table names"):
                applied(small, edited(plan, spelled))
    with pytest.raises(CorruptMetadataError, match="does to no such name"):
        applied(small, edited(plan, "metadata/version-hint.text"))
    assert orphan.exists()
    assert whole(small)


def test_edited_plans_never_leave_the_table(small, tmp_path):
    """Whatever a line says, nothing outside the table goes, and nothing of a plan that says so."""
    (tmp_path / "db" / "other").mkdir()
    (tmp_path / "db" / "other" / "x").write_text("x")
    age(tmp_path)
    orphan = plant(small, "data/x")
    plan = planned(small)
    outside = ["../other/x", "data/../../other/x", "/etc/passwd", f"{small.root}x", "s3://b/x", "file:x"]
    for path in [*outside, "data//x", "data/./x", "", ".", "..", "data/", "a\0b"]:
        with pytest.raises(LakemetaError):
            applied(small, edited(plan, path))
    assert orphan.exists()
    report = applied(small, edited(plan, "data", "metadata"))
    assert (report.deleted_files, [o.path for o in report.failed]) == (
        1,
        [f"{small.root}/{d}" for d in ("data", "metadata")],
    )
    assert whole(small)
    assert (tmp_path / "db" / "other" / "x").exists()


def test_edited_plans_delete_nothing_young(small):
    """A file that is too young is looked up right before it would go, and stays with a note."""
    plant(small, "data/old")
    young = plant(small, "data/young", days=1)
    report = applied(small, edited(planned(small), "data/young"))
    assert (report.deleted_files, young.exists()) == (1, True)
    assert report.notes == ("1 file of the plan changed since, or has no age, and stayed",)


def test_what_was_committed_after_the_plan_refuses(small):
    """A file that the table has come to name is named, and nothing is deleted."""
    data = small.write([(9, "a", 0.5)])
    age(Path(small.root))
    plan = planned(small)
    assert names(plan) == [os.path.relpath(data.file_path, small.root)]
    small.update(SnapshotUpdate("append", (data,)))
    with pytest.raises(StalePlanError, match=r"the table names .*make the plan again"):
        applied(small, plan)
    assert whole(small)


def test_what_is_committed_between_rounds_is_spared(small, monkeypatch):
    """The metadata is read again before each round: a file that has become named since stays."""
    monkeypatch.setattr(apply, "_ROUND", 1)
    data = small.write([(9, "b", 0.5)])
    plant(small, "data/!goes-first")
    age(Path(small.root))
    plan = planned(small)
    assert len(plan.operations) == 2

    class CommitsThen(WrappedStorage):
        def delete_many(self, paths):
            small.update(SnapshotUpdate("append", (data,)))
            return super().delete_many(paths)

    report = applied(small, plan, CommitsThen(LocalStorage()))
    assert (report.deleted_files, report.notes) == (
        1,
        ("1 file of the plan came to be needed meanwhile and stayed",),
    )
    assert whole(small)


def test_what_is_committed_while_files_are_listed_is_named(small):
    """Files are listed first: a commit before the metadata is read cannot make an orphan of its files."""
    data = small.write([(9, "b", 0.5)])
    age(Path(small.root))

    class CommitsMeanwhile(WrappedStorage):
        done = False

        def list_dir(self, path: str) -> list[Entry]:
            found = super().list_dir(path)
            if path.endswith("/data") and not self.done:
                self.done = True
                small.update(SnapshotUpdate("append", (data,)))
            return found

    storage = CommitsMeanwhile(LocalStorage())
    assert planned(small, storage).is_empty
    assert storage.done


def test_a_damaged_manifest_refuses_everything(small):
    """Of any snapshot: nothing is planned, and of a plan from before nothing is deleted."""
    orphan = plant(small, "data/x")
    plan = planned(small)
    for path in Path(small.root).glob("metadata/*.avro"):
        kept = path.read_bytes()
        for damage in (b"", kept[: len(kept) // 2], None):
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            with pytest.raises(LakemetaError):
                planned(small)
            with pytest.raises(LakemetaError):
                applied(small, plan)
        path.write_bytes(kept)
    assert orphan.exists()
    assert applied(small, plan).deleted_files == 1


def test_a_listing_that_fails_refuses(small):
    """Part of a listing is none."""
    plant(small, "data/p=a/x")

    class Fails(WrappedStorage):
        def list_dir(self, path: str) -> list[Entry]:
            if path.endswith("p=a"):
                raise StorageError("cannot list")
            return super().list_dir(path)

    with pytest.raises(StorageError):
        planned(small, Fails(LocalStorage()))


def test_what_cannot_be_deleted_is_reported(small):
    """By name, the rest goes."""
    plant(small, "data/x")
    plant(small, "data/y")

    class Stubborn(WrappedStorage):
        def delete_many(self, paths):
            keep = [Outcome(path, "failed", "no") for path in paths if path.endswith("x")]
            return [*keep, *super().delete_many([path for path in paths if not path.endswith("x")])]

    report = applied(small, planned(small), Stubborn(LocalStorage()))
    assert (report.deleted_files, report.complete, len(report.failed)) == (1, False, 1)
    assert names(planned(small)) == ["data/x"]


def test_edited_plans_take_nothing_hidden(small):
    """What a listing never shows is none of its orphans: others keep there what is not finished."""
    hidden = plant(small, "data/_temporary/x")
    with pytest.raises(StalePlanError, match=r"data/_temporary/x is hidden"):
        applied(small, edited(planned(small), "data/_temporary/x"))
    assert hidden.exists()


def test_no_manifest_is_taken_for_empty(small, monkeypatch):
    """A line that counts no files does not make orphans of those in the manifest."""
    plant(small, "data/x")
    monkeypatch.setattr(ManifestFile, "may_have_live_files", property(lambda _: False))
    assert names(planned(small)) == ["data/x"]
