"""Removal of orphan files on small tables: what is looked at, what stays, and what no plan, however edited, takes."""

from __future__ import annotations

import gzip
import json
import os
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table
from support.planted import NOW, age, plant, touch

from lakemeta.environment import Environment
from lakemeta.errors import (
    CorruptMetadataError,
    LakemetaError,
    OptionError,
    ShareError,
    StalePlanError,
    StorageError,
    UnsupportedFeatureError,
)
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import ManifestFile
from lakemeta.iceberg.orphans import apply, spool
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.table_metadata import MetadataLogEntry
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete
from lakemeta.report import Outcome, Report
from lakemeta.storage import Entry, LocalStorage

ENV = Environment(now=lambda: NOW)
OTHER = "00000000-0000-0000-0000-00000000abcd"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """A table of old files, with two data files and one that was replaced."""
    table = create_table(LocalStorage(), str(tmp_path / "db" / "t"), partitioned=True)
    table.append([(1, "a", 0.5)], [(2, "b", 0.5)])
    table.overwrite(table.data_files()[0], [(3, "a", 0.5)])
    age(tmp_path)
    return table


def opened(small: SmallTable, storage=None) -> IcebergTable:
    return IcebergTable(Place(small.root, HadoopTableOperations(storage or LocalStorage(), small.root)))


def planned(small: SmallTable, storage=None, **options: str) -> Plan:
    return opened(small, storage).plan("remove-orphan-files", options, now=NOW, executor=LocalExecutor(2))


def applied(small: SmallTable, plan: Plan, storage=None, **more) -> Report:
    return opened(small, storage).apply(plan, env=ENV, **more)


def names(plan: Plan) -> list[str]:
    return [op.path for op in plan.operations]


def edited(plan: Plan, *paths: str) -> Plan:
    """The plan with lines for other files, its hash made anew."""
    return Plan(plan.header, [*plan.operations, *(Delete("", path, 1, "edited") for path in paths)])


def change(small: SmallTable, **fields) -> None:
    """Commit metadata with other fields."""
    base = small.operations.refresh()
    log = (*base.metadata.metadata_log, MetadataLogEntry(base.metadata.last_updated_ms, base.location))
    small.operations.commit(base, attrs.evolve(base.metadata, metadata_log=log, **fields))


def whole(small: SmallTable) -> bool:
    """True if every file of every snapshot is there, by a reader that knows nothing of lakemeta."""
    return all(Path(path).exists() for path in TableState.local(small.root).referenced())


def test_old_files_that_nothing_names_go(small):
    """Anywhere below the location; the table's own files stay, and a second plan is empty."""
    plant(small, "data/p=a/x.parquet")
    plant(small, "metadata/lost-m0.avro")
    plant(small, "readme.txt")
    plant(small, "data/young.parquet", days=2)
    plan = planned(small)
    assert names(plan) == ["data/p=a/x.parquet", "metadata/lost-m0.avro", "readme.txt"]
    assert (plan.header.facts["young_files"], plan.bytes) == (1, 3)
    report = applied(small, Plan.loads(plan.dumps()))
    assert (report.deleted_files, report.freed_bytes, report.committed) == (3, 3, None)
    assert report.result == {"orphan_file_location": [f"file:{small.root}/{name}" for name in names(plan)]}
    assert whole(small)
    assert planned(small).is_empty


def test_odd_names(small):
    """A file may be called anything; a name that is no text stays."""
    odd = [
        "data/a:b",
        "data/a%2Fb",
        "data/a#b",
        "data/a?b",
        "data/quote'\"",
        "data/back\\slash",
        "data/é 日本",
        "data/ ",
    ]
    for name in odd:
        plant(small, name)
    os.close(os.open(os.fsencode(f"{small.root}/data/") + b"\xff", os.O_CREAT))
    plan = planned(small)
    assert sorted(names(plan)) == sorted(odd)
    assert applied(small, Plan.loads(plan.dumps())).deleted_files == len(odd)


def test_links_are_not_followed(small, tmp_path):
    """What is behind a link to a directory is another's; of a link to a file the link goes, and not the file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    touch(outside / "precious", 40)
    (Path(small.root) / "data" / "link").symlink_to(outside)
    (Path(small.root) / "data" / "file").symlink_to(outside / "precious")
    touch(Path(small.root) / "data" / "file", 40)
    for flat in ("true", "false"):
        assert names(planned(small, prefix_listing=flat)) == ["data/file"]
    applied(small, planned(small))
    assert (outside / "precious").exists()
    with pytest.raises(UnsupportedFeatureError, match="symbolic link"):
        applied(small, edited(planned(small), "data/link/precious"))


def test_the_cutoff_is_strict(small):
    """A file changed exactly at the cutoff stays; files of unknown age stay, with a note."""
    plant(small, "data/at", days=3)
    plant(small, "data/before", days=3.0001)
    path = plant(small, "data/ageless")
    os.utime(path, (0, 0))
    plan = planned(small)
    assert names(plan) == ["data/before"]
    assert plan.header.facts["notes"] == ["1 file of unknown age: no store that hides it is cleaned"]


def test_less_than_a_day_is_refused(small):
    """In the engine's words, unless allowed by name; also when a plan is applied that was edited so."""
    plant(small, "data/x", days=0.5)
    recent = (NOW - timedelta(hours=1)).isoformat()
    with pytest.raises(OptionError, match=r"^Cannot remove orphan files with an interval less than 24 hours"):
        planned(small, older_than=recent)
    plan = planned(small, **{"older_than": recent, "lakemeta.allow-young": "true"})
    assert names(plan) == ["data/x"]
    header = attrs.evolve(plan.header, options={"older_than": recent})
    with pytest.raises(OptionError, match="less than 24 hours"):
        applied(small, Plan(header, plan.operations))
    facts = {**plan.header.facts, "older_than_ms": plan.header.facts["older_than_ms"] + 1}
    with pytest.raises(StalePlanError, match="does not say how old"):
        applied(small, Plan(attrs.evolve(plan.header, facts=facts), plan.operations))
    assert applied(small, plan).deleted_files == 1


def test_unknown_arguments(small):
    """The nearest known one is named; what Spark alone has is explained."""
    for name, words in (
        ("older-than", "did you mean older_than"),
        ("dry_run", "is the plan"),
        ("file_list_view", "as inventory"),
    ):
        with pytest.raises(OptionError, match=words):
            opened(small).plan("remove-orphan-files", {name: "true"}, now=NOW)
    with pytest.raises(OptionError, match="takes no filter"):
        opened(small).plan("remove-orphan-files", {}, "id = 1", now=NOW)
    for text in ("x", "=s3", "a,b", "a=b,c", ""):
        with pytest.raises(OptionError, match="must be a map such as"):
            planned(small, equal_schemes=text)


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


def other_metadata(small: SmallTable, **changes) -> bytes:
    return dump_metadata(attrs.evolve(small.metadata, table_uuid=OTHER, **changes))


FOREIGN = [
    ("nested/metadata/v1.metadata.json", dump_metadata, OTHER),
    ("metadata/v99.metadata.json", dump_metadata, OTHER),
    ("metadata/00001-00000000-0000-0000-0000-000000000009.metadata.json", dump_metadata, OTHER),
    ("data/v1.gz.metadata.json", lambda m: dump_metadata(m, compress=True), OTHER),
    ("x/metadata/00001.metadata.json.gz", lambda m: dump_metadata(m, compress=True), OTHER),
    ("x/v1.metadata.json", lambda m: dump_metadata(m)[:40], "no table uuid can be read"),
    ("x/v1.metadata.json", lambda _: b"xxxx", "no table uuid can be read"),
    ("x/v1.metadata.json", lambda _: b"", "no table uuid can be read"),
    ("x/v1.metadata.json", lambda _: b"{}", "no table uuid can be read"),
    ("x/v1.metadata.json", lambda _: b"\x1f\x8bxx", "no table uuid can be read"),
    ("metadata/v99.metadata.json", lambda _: b"xxxx", "no table uuid can be read"),
    ("metadata/oddly-named.metadata.json", lambda _: b'{"location": 1}', "no table uuid can be read"),
    ("x/v1.metadata.json", lambda m: b" " * 9000 + dump_metadata(m), OTHER),
    (
        "x/v1.metadata.json",
        lambda m: json.dumps(dict(reversed(json.loads(dump_metadata(m)).items()))).encode(),
        OTHER,
    ),
]


def test_another_tables_metadata_refuses_by_name(small):
    """Of whatever age, plain or gzipped, and also if it cannot be read; to the engine that table is all orphans."""
    plant(small, "data/x")
    plan = planned(small)
    for number, (name, content, words) in enumerate(FOREIGN):
        days = (40, 0.1)[number % 2]
        path = plant(small, name, days, content(attrs.evolve(small.metadata, table_uuid=OTHER)))
        with pytest.raises(UnsupportedFeatureError, match=f"another table lies .*{name}.*{words}"):
            planned(small)
        if words == OTHER:
            dropped = planned(small, **{"foreign-uuid": f"abc, {OTHER.upper()}"})
            assert (name in names(dropped)) is (days == 40)
        if "metadata/" in name:  # beside the files of the plan
            with pytest.raises(UnsupportedFeatureError, match=name):
                applied(small, edited(plan, f"{name.partition('/')[0]}/x"))
        path.unlink()
    assert applied(small, plan).deleted_files == 1


def test_own_old_metadata_and_debris_are_orphans(small):
    """Metadata files that left the log go; so does what a crashed commit left, which is no table's metadata."""
    plant(small, "metadata/00000000-0000-0000-0000-000000000001.metadata.json", content=b"")
    plant(small, "metadata/00000-dead.metadata.json")
    plant(small, "metadata/v0.metadata.json", content=dump_metadata(small.metadata))
    plant(small, "metadata/v0.gz.metadata.json", content=gzip.compress(dump_metadata(small.metadata)[:300]))
    assert len(planned(small).operations) == 4


def test_tables_from_before_uuids(tmp_path):
    """A table of version 1 may have none: metadata of its location is its own, and any other's refuses."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), version=1)
    small.append([(1, "a", 0.5)])
    for path in Path(small.root).glob("metadata/v*.json"):
        document = json.loads(path.read_bytes())
        del document["table-uuid"]
        path.write_text(json.dumps(document))
    age(tmp_path)
    own = plant(small, "metadata/v0.metadata.json", content=json.dumps({"location": f"file:{small.root}"}).encode())
    assert names(planned(small)) == ["metadata/v0.metadata.json"]
    own.write_text(json.dumps({"location": "/elsewhere"}))
    with pytest.raises(UnsupportedFeatureError, match=r"v0.metadata.json is metadata of which no table uuid"):
        planned(small)


def test_files_of_a_rewrite_that_runs_stay(small):
    """By the uuids of its mark, and of its commits; a mark that cannot be read refuses."""
    run, commit = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
    plant(small, f"data/p=a/00000-0-{run}-00001.parquet")
    plant(small, f"metadata/{commit}-m0.avro")
    plant(small, "data/x")
    assert len(planned(small).operations) == 3
    plan = planned(small)
    mark = plant(
        small,
        f"metadata/.lakemeta-rewrite-{run}.json",
        content=json.dumps({"rewrite": run, "begun_ms": 1, "commits": [commit]}).encode(),
    )
    assert names(planned(small)) == ["data/x"]
    assert planned(small).header.facts["notes"] == [
        "2 files that no metadata names: each is of a rewrite that has not ended and stays"
    ]
    with pytest.raises(StalePlanError, match="is of a rewrite that has not ended"):
        applied(small, plan)
    mark.write_text("{}")
    with pytest.raises(CorruptMetadataError, match="is no mark of a rewrite"):
        planned(small)


def test_files_of_flink_jobs_and_quarantines_stay(small):
    """Manifests that a Flink sink has not committed begin with its job's id; nothing in a quarantine is an orphan."""
    job = "0123456789abcdef0123456789abcdef"
    plant(small, f"metadata/{job}-operator-00001-0-7-00001.avro")
    plant(small, "data/.lakemeta-quarantine/x.parquet")
    assert len(planned(small).operations) == 1
    base = small.operations.current()
    snapshots = [attrs.evolve(s, summary={**s.summary, "flink.job-id": job}) for s in base.metadata.snapshots]
    change(small, snapshots=tuple(snapshots))
    assert planned(small).is_empty
    quarantine = f"{small.root}/data/.lakemeta-quarantine"
    with pytest.raises(OptionError, match="quarantine"):
        planned(small, location=quarantine)
    with pytest.raises(LakemetaError):
        applied(small, edited(planned(small), "data/.lakemeta-quarantine/x.parquet"))


def test_location(small, tmp_path):
    """Only what lies below it by folder; hidden is judged below it; one outside the table is refused."""
    plant(small, "data/x")
    plant(small, "data2/y")
    plant(small, "data/_tmp/z")
    assert names(planned(small, location=f"{small.root}/data")) == ["data/x"]
    assert names(planned(small, location=f"file:{small.root}/data/")) == ["data/x"]
    assert names(planned(small, location=f"{small.root}/data/_tmp")) == ["data/_tmp/z"]
    for wrong in (f"{small.root}2", str(tmp_path), f"{small.root}/../other", "s3://b/t", "data", f"{small.root}/none"):
        with pytest.raises(LakemetaError):
            planned(small, location=wrong)
    plan = planned(small, location=f"{small.root}/data")
    with pytest.raises(StalePlanError, match="lies in no directory that this removal looks at"):
        applied(small, edited(plan, "data2/y"))
    assert applied(small, plan).deleted_files == 1


def test_write_paths_outside_the_table_are_looked_at(small, tmp_path):
    """Unless a table beside this one writes there too, which leaves the path out with a note."""
    elsewhere = tmp_path / "fast"
    change(small, properties={**small.metadata.properties, "write.data.path": str(elsewhere)})
    (elsewhere / "p=a").mkdir(parents=True)
    (elsewhere / "p=a" / "x.parquet").write_text("x")
    plant(small, "data/y")
    age(tmp_path)
    plan = planned(small)
    assert names(plan) == [f"{elsewhere}/p=a/x.parquet", "data/y"]
    assert Plan.loads(plan.dumps()) == plan
    neighbour = create_table(
        LocalStorage(), str(tmp_path / "db" / "u"), properties={"write.data.path": f"{elsewhere}/deep/"}
    )
    assert neighbour.root
    again = planned(small)
    assert names(again) == ["data/y"]
    assert f"left out, because the table at {tmp_path}/db/u writes there too" in again.header.facts["notes"][0]
    with pytest.raises(StalePlanError, match="no directory that this removal looks at"):
        applied(small, plan)
    named = planned(small, location=str(elsewhere))
    assert names(named) == [f"{elsewhere}/p=a/x.parquet"]
    with pytest.raises(ShareError, match=r"removes 100\.0 % of the bytes"):  # that directory has nothing else
        applied(small, named, max_share=99)
    assert applied(small, named).deleted_files == 1


def test_the_same_plan_however_it_is_found(small, monkeypatch):
    """Byte for byte: on one thread and many, listed flat or by directory, in memory and on disk."""
    for n in range(30):
        plant(small, f"data/p={n % 3}/d{n % 5}/x{n}")
    plan = planned(small).dumps()
    one = opened(small).plan("remove-orphan-files", {}, now=NOW, executor=LocalExecutor(1))
    assert one.dumps() == plan
    monkeypatch.setattr(spool, "_ROWS", 4)
    monkeypatch.setattr(spool, "BUDGET", 1)
    assert planned(small).dumps() == plan
    flat = planned(small, prefix_listing="true")
    assert flat.operations == planned(small).operations


def test_a_table_that_a_catalog_keeps_is_planned_and_not_changed(small):
    """From its metadata file alone; and a moved table is refused before anything is listed."""
    plant(small, "data/x")
    newest = small.operations.current().location
    table = IcebergTable.open(newest)
    plan = table.plan("remove-orphan-files", {}, now=NOW)
    with pytest.raises(UnsupportedFeatureError, match="kept by a catalog"):
        table.apply(plan, env=ENV)
    moved = Path(small.root).rename(f"{small.root}-moved")
    with pytest.raises(UnsupportedFeatureError, match="open it there"):
        IcebergTable.open(str(moved)).plan("remove-orphan-files", {}, now=NOW)


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


def test_other_formats_and_copies_refuse(small):
    """A Hudi or Delta Lake table below, whose metadata is hidden, and a copy of this table are none of its orphans."""
    plant(small, "data/x")
    plan = planned(small)
    own = dump_metadata(small.metadata)
    for name, words in (
        ("nested/.hoodie/hoodie.properties", r"nested/.hoodie is of a Hudi table"),
        ("_delta_log/0.json", r"_delta_log is of a Delta Lake table"),
        ("backup/metadata/v1.metadata.json", r"v1.metadata.json is of a copy of this table"),
    ):
        path = plant(small, name, content=own)
        for flat in ("true", "false"):
            with pytest.raises(UnsupportedFeatureError, match=words):
                planned(small, prefix_listing=flat)
        with pytest.raises(UnsupportedFeatureError, match=words):
            applied(small, edited(plan, f"{name.partition('/')[0].replace('_delta_log', 'data')}/y"))
        path.unlink()
        path.parent.rmdir()
    assert applied(small, plan).deleted_files == 1


def test_files_that_are_named_through_links_stay(tmp_path):
    """A table reached by a link names its files so, or by the place that the link leads to: both are the same file."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    small = create_table(LocalStorage(), str(tmp_path / "link" / "t"))
    small.append([(1, "a", 0.5)])
    small.append([(2, "a", 0.5)])
    inner, data = tmp_path / "link/t/inner", small.write([(3, "a", 0.5)])
    inner.symlink_to(real / "t" / "data")
    small.update(SnapshotUpdate("append", (attrs.evolve(data, file_path=f"{inner}/{Path(data.file_path).name}"),)))
    other = small.write([(4, "a", 0.5)])
    name = Path(other.file_path).name
    small.update(SnapshotUpdate("append", (attrs.evolve(other, file_path=f"{real}/t/data/{name}"),)))
    age(real)
    assert planned(small).is_empty
    plan = planned(small)
    for file in (data, other):
        with pytest.raises(StalePlanError, match="the table names"):
            applied(small, edited(plan, os.path.relpath(file.file_path, small.root)))


def test_no_manifest_is_taken_for_empty(small, monkeypatch):
    """A line that counts no files does not make orphans of those in the manifest."""
    plant(small, "data/x")
    monkeypatch.setattr(ManifestFile, "may_have_live_files", property(lambda _: False))
    assert names(planned(small)) == ["data/x"]
