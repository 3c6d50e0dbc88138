from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.storage import LocalStorage, open_storage


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/data/t", "/data/t"),
        ("/data/t/", "/data/t"),
        ("/data//x/../t/.", "/data/t"),
        ("file:/data/t", "/data/t"),
        ("file:///data/t/", "/data/t"),
        ("/data/p=x%3Dy/a b", "/data/p=x%3Dy/a b"),
        ("/", "/"),
    ],
)
def test_local_urls(url: str, path: str) -> None:
    """Local paths are made absolute and plain; names are verbatim."""
    assert open_storage(url) == (LocalStorage(), path)


def test_relative_paths_start_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is taken from the working directory."""
    monkeypatch.chdir(tmp_path)
    assert open_storage("db/t")[1] == str(tmp_path / "db" / "t")
    assert open_storage("..")[1] == str(tmp_path.parent)


@pytest.mark.parametrize(
    ("url", "scheme", "path"),
    [
        ("memory://t/a/", "memory", "/t/a"),
        ("memory:///t", "memory", "/t"),
        ("gs://lake/t", "gs", "lake/t"),
        ("gcs://lake/t", "gs", "lake/t"),
        ("abfss://lake@acc.dfs.core.windows.net/t", "abfs:acc", "lake/t"),
        ("WASBS://lake@Acc.blob.core.windows.net/t/", "abfs:acc", "lake/t"),
        ("abfss://lake@acc.dfs.core.chinacloudapi.cn/t", "abfs:acc.core.chinacloudapi.cn", "lake/t"),
    ],
)
def test_other_urls(url: str, scheme: str, path: str) -> None:
    """Of other stores the path is what follows the scheme."""
    storage, found = open_storage(url)
    assert (storage.scheme, found) == (scheme, path)


MALFORMED = [
    "",
    "s3:/lake/t",
    "s3:///t",
    "file:t",
    "file://host/t",
    "gs://lake/../t",
    "gs://lake//t",
    "memory://",
    "/a\0b",
    "hdfs://nn",
    "hdfs://nn/",
    "hdfs:t",
    "hdfs://nn/t/../u",
    "webhdfs:///t",
    "abfss:///t",
    "abfss://lake@/t",
    "abfss://@acc.dfs.core.windows.net/t",
    "abfs://acc.dfs.core.windows.net/lake/t",
]


@pytest.mark.parametrize("url", MALFORMED)
def test_malformed_urls(url: str) -> None:
    """What names no table is an OptionError."""
    with pytest.raises(OptionError):
        open_storage(url)


def test_paths_that_are_not_utf8_are_refused() -> None:
    """Metadata and plans hold text: a table whose name is other bytes is refused before it is looked at."""
    with pytest.raises(OptionError, match=r"the path '/lake/caf\\udce9' is not UTF-8"):
        open_storage(b"/lake/caf\xe9".decode("utf-8", "surrogateescape"))
    assert open_storage("/lake/café/\U0001f9ca")[1] == "/lake/café/\U0001f9ca"


@pytest.mark.parametrize("url", ["sftp://host/t", "https://host/t"])
def test_urls_with_a_host(url: str) -> None:
    """Stores whose URLs name a machine are refused by name."""
    with pytest.raises(UnsupportedFeatureError, match=url.partition(":")[0]):
        open_storage(url)


@pytest.mark.parametrize("url", ["/t", "memory://t"])
def test_options_where_there_are_none(url: str) -> None:
    """An option that would have no effect is refused, without its value."""
    with pytest.raises(OptionError, match="takes no storage options") as caught:
        open_storage(url, {"secret": "hush"})
    assert "hush" not in str(caught.value)


def test_a_local_table_needs_no_fsspec() -> None:
    """Opening a local path loads neither fsspec nor pyarrow."""
    code = "import sys; from lakemeta.storage import open_storage; open_storage('/t'); print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert not {"'fsspec'", "'pyarrow'", "'s3fs'"} & set(modules.stdout.strip("[]\n").split(", "))
