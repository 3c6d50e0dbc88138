"""Which storage account a URL and options lead to, and which spellings are one place."""

from __future__ import annotations

import sys

import pytest

from lakemeta.errors import CorruptMetadataError, OptionError, UnsupportedFeatureError
from lakemeta.iceberg.spec.locations import file_key, same_location, store_path
from lakemeta.paths import inside
from lakemeta.storage import open_storage

FULL = "abfss://lake@acc.dfs.core.windows.net/t"
SPELLINGS = [
    FULL,
    "abfs://lake@acc.dfs.core.windows.net/t",
    "wasb://lake@acc.blob.core.windows.net/t",
    "wasbs://lake@ACC.blob.core.windows.net/t",
    "abfs://lake/t",
    "abfss://lake/t",
]
ELSEWHERE = ["abfss://lake@other.dfs.core.windows.net/t", "abfss://lake@acc.dfs.core.chinacloudapi.cn/t", "s3://lake/t"]
CONNECTION = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.windows.net"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCOUNT_NAME", "CONNECTION_STRING", "ACCOUNT_KEY"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("opened", SPELLINGS)
def test_all_spellings_are_one_place(opened: str, spelling: str) -> None:
    """Whichever opened the table, metadata may have any other."""
    storage, path = open_storage(opened, {"adls.account-name": "acc"})
    assert (storage.scheme, path, storage.url(path)) == ("abfs:acc", "lake/t", FULL)
    assert store_path(storage.scheme, f"{spelling}/x") == "lake/t/x"
    assert inside(opened, f"{spelling}/x") == inside("lake/t", f"{spelling}/x") == "lake/t/x"
    assert same_location(opened, spelling)
    assert file_key(f"{opened}/x") == file_key(f"{spelling}/x")


@pytest.mark.parametrize("other", ELSEWHERE)
def test_other_accounts_are_other_stores(other: str) -> None:
    """The same container and path in another account, or another cloud, is no place of the table's."""
    storage, _ = open_storage(FULL)
    with pytest.raises(UnsupportedFeatureError, match="own store"):
        store_path(storage.scheme, other)
    with pytest.raises(CorruptMetadataError, match="another store"):
        inside(FULL, f"{other}/x")
    assert not same_location(FULL, other)


@pytest.mark.parametrize(
    "options", [{"adls.account-name": "acc"}, {"account_name": "acc"}, {"adls.connection-string": CONNECTION}]
)
def test_options_name_the_account(options: dict[str, str]) -> None:
    """A URL without account takes that of the options; one with another is refused, and no secret is said."""
    assert open_storage("abfs://lake/t", options)[0].scheme == "abfs:acc"
    with pytest.raises(OptionError, match="the storage account other, but the storage options lead to acc") as caught:
        open_storage("abfss://lake@other.dfs.core.windows.net/t", options)
    assert "a2V5" not in str(caught.value)


def test_the_environment_names_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """adlfs's own variables count, as they decide where it connects to."""
    with pytest.raises(OptionError, match="names no storage account"):
        open_storage("abfs://lake/t")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc")
    assert open_storage("abfs://lake/t")[0].scheme == "abfs:acc"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", CONNECTION.replace("acc", "second"))
    assert open_storage("abfs://lake/t")[0].scheme == "abfs:second"


def test_other_clouds_have_other_hosts() -> None:
    """The host of a URL leads to the Blob endpoint of its cloud, and back."""
    url = "abfss://lake@acc.dfs.core.chinacloudapi.cn/t"
    storage, path = open_storage(url)
    assert storage.options["account_host"] == "acc.blob.core.chinacloudapi.cn"
    assert storage.url(path) == url


@pytest.mark.parametrize(("url", "library", "extra"), [("gs://b/t", "gcsfs", "gcs"), (FULL, "adlfs", "azure")])
def test_a_missing_library(url: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names what to install."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(OptionError, match=rf"pip install 'lakemeta\[{extra}\]'"):
        open_storage(url)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("gs://b/t", {"gcs.projectid": "x"}, r"did you mean gcs\.project-id"),
        ("gs://b/t", {"gcs.session-kwargs": "[]"}, "not a JSON object"),
        (FULL, {"adls.acount-key": "x"}, r"did you mean adls\.account-key"),
        (FULL, {"adls.anon": "yes"}, "must be true or false"),
    ],
)
def test_bad_options_are_refused(url: str, options: dict[str, str], message: str) -> None:
    """An option that is unknown or malformed says so."""
    with pytest.raises(OptionError, match=message):
        open_storage(url, options)
