"""What is no orphan though no metadata of the table names it: other tables, running jobs, links."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import attrs
import pytest
from support.iceberg_tables import SmallTable, create_table
from support.orphan_plans import applied, change, edited, names, planned
from support.planted import age, plant, touch

from lakemeta.errors import (
    CorruptMetadataError,
    LakemetaError,
    OptionError,
    StalePlanError,
    UnsupportedFeatureError,
)
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.storage import LocalStorage

OTHER = "00000000-0000-0000-0000-00000000abcd"


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
