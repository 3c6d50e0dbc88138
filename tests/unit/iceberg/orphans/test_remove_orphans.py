"""Removal of orphan files on small tables: what is looked at, what goes, and what arguments say."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import attrs
import pytest
from support.iceberg_tables import create_table
from support.orphan_plans import ENV, applied, change, edited, names, opened, planned, whole
from support.planted import NOW, age, plant

from lakemeta.errors import (
    LakemetaError,
    OptionError,
    ShareError,
    StalePlanError,
    UnsupportedFeatureError,
)
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.orphans import spool
from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage


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
