"""Inventories nominate orphans: what is read of them, what counts, and that the store has the last word."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.iceberg_tables import SmallTable, create_table
from support.planted import NOW, age, plant

from lakemeta.environment import Environment
from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.orphans.inventory import nominated
from lakemeta.iceberg.orphans.join import Join
from lakemeta.iceberg.orphans.roots import Root
from lakemeta.iceberg.orphans.uris import PrefixRules
from lakemeta.storage import LocalStorage

OLD = "2020-01-01T00:00:00Z"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    table.append([(1, "a", 0.5)])
    age(tmp_path)
    return table


def written(small: SmallTable, kind: str, rows: list[tuple[str | None, str | None]]) -> str:
    """An inventory of paths below the table's root, and times."""
    paths = [path and (path if path.startswith("/") else f"{small.root}/{path}") for path, _ in rows]
    times = [None if text is None else datetime.fromisoformat(text) for _, text in rows]
    columns = {"file_path": paths, "last_modified": pa.array(times, pa.timestamp("us", "UTC")), "size": [7] * len(rows)}
    place = Path(small.root).parent / f"inventory.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(columns), place)
        return str(place)
    lines = [f'"{path or ""}",{text or ""},7\n' for path, (_, text) in zip(paths, rows, strict=True)]
    data = "".join(["path,modified,length\n", *lines]).encode()
    place.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    return str(place)


def planned(small: SmallTable, inventory: str, **options: str):
    return IcebergTable.open(small.root).plan("remove-orphan-files", {"inventory": inventory, **options}, now=NOW)


def names(plan) -> list[str]:
    return [op.path for op in plan.operations]


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz"])
def test_an_inventory_nominates(small, kind):
    """Old files that are there and that nothing names, once each, hidden ones too; sizes and ages are the store's."""
    plant(small, "data/x, y.parquet", content=b"12345")
    plant(small, "data/_hidden")
    plant(small, "data/not-listed")
    plant(small, "data/young", days=1)
    plant(small, "data/said-to-be-young")
    plant(small, "data/no-time")
    live = small.data_files()[0].file_path
    rows = [("data/x, y.parquet", OLD), ("data/x, y.parquet", OLD), ("data/_hidden", OLD), ("data/ghost", OLD)]
    rows += [("data/young", OLD), ("data/said-to-be-young", NOW.isoformat()), ("data/no-time", None), (None, OLD)]
    rows += [(live, OLD), (f"{small.root}/metadata/v1.metadata.json", OLD)]
    plan = planned(small, written(small, kind, rows))
    assert [(op.path, op.size) for op in plan.operations] == [("data/_hidden", 1), ("data/x, y.parquet", 5)]
    report = IcebergTable.open(small.root).apply(plan, env=Environment(now=lambda: NOW))
    assert report.deleted_files == 2


def test_rows_elsewhere_do_not_count(small, tmp_path):
    """Outside the location by folder, under another spelling, the location itself, with dots: none is an orphan."""
    (tmp_path / "t2").mkdir()
    (tmp_path / "t2" / "x").write_text("x")
    age(tmp_path)
    orphan = plant(small, "data/x")
    rows = [
        f"{small.root}2/x",
        small.root,
        f"{small.root}/",
        f"{small.root}/../t2/x",
        "/etc/passwd",
        f"{tmp_path}/t2/x",
    ]
    assert names(planned(small, written(small, "csv", [(row, OLD) for row in rows]))) == []
    spelled = written(small, "csv", [(f"{small.root}/data/../data//x", OLD)])
    assert names(planned(small, spelled)) == ["data/x"]
    place = tmp_path / "i.csv"
    place.write_text(f"file_path,last_modified\nfile:{orphan},{OLD}\nfile:{orphan},{OLD}\n")
    assert names(planned(small, str(place))) == []
    assert names(planned(small, str(place), location=f"file:{small.root}")) == ["data/x"]


def test_a_nominated_table_is_no_orphan(small):
    """The guard against other tables holds here too: beside every nominated file the store is asked."""
    plant(small, "nested/data/x.parquet")
    plant(small, "nested/metadata/v1.metadata.json", content=b"{}")
    with pytest.raises(UnsupportedFeatureError, match=r"another table lies .*nested/metadata"):
        planned(small, written(small, "csv", [("nested/data/x.parquet", OLD)]))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("i.csv", b"file_path,size\n", "last_modified does not exist. Available: file_path, size"),
        ("i.csv", b"", "file_path does not exist"),
        ("i.csv", b"file_path,last_modified\n/x,yesterday\n", "cannot be read: Invalid isoformat"),
        ("i.csv", b"file_path,last_modified\n\xff,2020-01-01\n", "cannot be read"),
        ("i.csv.gz", b"file_path", "cannot be read"),
        ("i.parquet", b"PAR1", "cannot be read"),
        ("i.txt", b"", "is no .parquet, .csv"),
        ("i.json", b"{}", "is no manifest.json"),
        ("i.json", b"[1]", "is no manifest.json"),
        ("i.json", b"x", "cannot be read"),
    ],
)
def test_what_is_no_inventory(small, tmp_path, name, content, words):
    """One sentence each, in the engine's words where it has any."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(OptionError, match=words):
        planned(small, str(tmp_path / name))


def test_what_parquet_needs(small, tmp_path):
    """Text for a time is refused in the engine's words, and so is an inventory in another store."""
    pq.write_table(pa.table({"file_path": ["/x"], "last_modified": ["2020-01-01"]}), tmp_path / "i.parquet")
    with pytest.raises(OptionError, match=r"^Invalid last_modified column: string is not a timestamp"):
        planned(small, str(tmp_path / "i.parquet"))
    with pytest.raises(OptionError, match="must lie in the table's own store"):
        planned(small, "s3://bucket/i.parquet")


@pytest.mark.parametrize("kind", ["CSV", "Parquet"])
def test_s3_inventory(tmp_path, kind):
    """Rows are bucket and key, encoded in CSV; only latest versions count, and no delete markers."""
    rows = [
        ("bkt", "wh/t/data/a b", True, False),
        ("bkt", "wh/t//x", True, False),
        ("bkt", "wh/t/gone", True, True),
        ("bkt", "wh/t/older", False, False),
        ("bkt", "wh/t2/x", True, False),
        ("other", "wh/t/x", True, False),
    ]
    (tmp_path / "data").mkdir()
    if kind == "CSV":
        lines = [
            f'"{b}","{k.replace(" ", "+")}","v","{str(n).lower()}","{str(m).lower()}","5","2020-01-01T00:00:00.000Z"\n'
            for b, k, n, m in rows
        ]
        (tmp_path / "data/f.csv.gz").write_bytes(gzip.compress("".join(lines).encode()))
    else:
        columns = dict(zip(("bucket", "key", "is_latest", "is_delete_marker"), zip(*rows, strict=True), strict=True))
        old = pa.array([datetime(2020, 1, 1)] * len(rows), pa.timestamp("ms"))
        table = pa.table(
            {**{n: list(v) for n, v in columns.items()}, "size": [5] * len(rows), "last_modified_date": old}
        )
        pq.write_table(table, tmp_path / "data/f.parquet")
    manifest = {
        "sourceBucket": "bkt",
        "destinationBucket": "arn:aws:s3:::inventories",
        "fileFormat": kind,
        "fileSchema": "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate",
        "files": [{"key": f"src/config/data/f.{'csv.gz' if kind == 'CSV' else 'parquet'}"}],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    storage = LocalStorage()
    object.__setattr__(storage, "scheme", "s3")
    cutoff = int((datetime.now(UTC) - timedelta(days=3)).timestamp() * 1000)
    with Join.opened(PrefixRules(), rooted=False) as join:
        root = Root("s3a://bkt/wh/t", "bkt/wh/t")
        counts = nominated(storage, str(tmp_path / "manifest.json"), [root], cutoff, join.listed)
        assert sorted((o.path, o.size) for o in join.orphans()) == [("bkt/wh/t//x", 5), ("bkt/wh/t/data/a b", 5)]
    assert counts.listed == 4
