"""Places that cannot be reached: one sentence each, with the full URL, the cause and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Result

from lakemeta.errors import ExecutorError, StorageError
from lakemeta.storage.failure import storage_errors
from lakemeta_spark.session import find_or_start

Run = Callable[..., Result]
NOWHERE = "http://127.0.0.1:1"  # no server has port 1


def raised(name: str, words: str, base: type[Exception] = Exception) -> Exception:
    """An error of a store's library, by its class's name."""
    error: Exception = type(name, (base,), {})(words)
    return error


ERRORS = [
    (
        "s3://b/t/x",
        raised("NoCredentialsError", "Unable to locate"),
        "give credentials: --storage-option s3.access",
    ),
    ("s3://b/t/x", PermissionError("Access Denied"), "check the credentials, and what they are allowed to do there"),
    ("s3://b/t/x", raised("EndpointConnectionError", "Could not connect"), "check the address and that the store"),
    ("gs://b/t/x", raised("RefreshError", "metadata"), "gcloud auth application-default login"),
    ("abfss://c@a.dfs.core.windows.net/t", raised("ClientAuthenticationError", "one\ntwo"), "adls.account-key="),
    ("abfss://c@a.dfs.core.windows.net/t", raised("ServiceRequestError", "dns"), "check the address"),
]


@pytest.mark.parametrize(("url", "error", "words"), ERRORS)
def test_errors_of_stores_say_what_to_do(url: str, error: Exception, words: str) -> None:
    """Their own first line, the URL, and advice; other errors and local paths have none."""
    with pytest.raises(StorageError) as caught, storage_errors("read", url):
        raise error
    sentence = str(caught.value)
    assert sentence.startswith(f"cannot read {url}: {type(error).__name__}: ")
    assert words in sentence
    assert "two" not in sentence
    with pytest.raises(StorageError) as caught, storage_errors("read", "/local/x"):
        raise error
    assert ";" not in str(caught.value)


def test_s3_that_does_not_answer(run: Run) -> None:
    """Refused at once."""
    options = [f"s3.endpoint={NOWHERE}", "s3.access-key-id=a", "s3.secret-access-key=b", "s3.region=us-east-1"]
    given = [part for option in options for part in ("--storage-option", option)]
    result = run("inspect", "s3://bucket/t", *given)
    assert result.code == 1
    assert result.sentence.startswith("lakemeta: cannot read s3://bucket/t/.hoodie/hoodie.properties: EndpointConn")
    assert result.sentence.endswith("; check the address and that the store is running")


@pytest.mark.parametrize(("url", "library", "words"), [
    ("s3://b/t", "s3fs", "s3:// needs s3fs: pip install 'lakemeta[s3]'"),
    ("gs://b/t", "gcsfs", "gs:// needs gcsfs: pip install 'lakemeta[gcs]'"),
    ("abfs://c@a.dfs.core.windows.net/t", "adlfs", "needs adlfs: pip install 'lakemeta[azure]'"),
])  # fmt: skip
def test_a_library_that_is_missing(
    run: Run, monkeypatch: pytest.MonkeyPatch, url: str, library: str, words: str
) -> None:
    """By the name of the extra."""
    monkeypatch.setitem(sys.modules, library, None)
    for command in (("inspect",), ("clean",), ("expire-snapshots",)):
        result = run(*command, url)
        assert (result.code, words in result.sentence) == (2, True)


OTHER = "catalog:\n  other:\n    uri: x"
CATALOGS = [
    ("catalog:\n  c:\n    uri: " + NOWHERE, "catalog://c/db.t", f"no connection to {NOWHERE}/v1/config; is it running"),
    (OTHER, "catalog://nope/db.t", "it has no uri; give --storage-option uri=..., set PYICEBERG_CATALOG__NOPE__URI"),
    ("catalog:\n  c: 7", "catalog://c/db.t", "needs to be an object; correct "),
    (OTHER, "catalog://c", "names no table; write catalog://NAME/namespace.table"),
]


@pytest.mark.parametrize(("configuration", "url", "words"), CATALOGS)
def test_catalogs_that_cannot_be_opened(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configuration: str, url: str, words: str
) -> None:
    """A server that is down, a name that is not configured, a configuration that is none."""
    from pyiceberg.utils.config import Config

    (tmp_path / ".pyiceberg.yaml").write_text(configuration)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    result = run("inspect", url)
    assert result.code in (1, 2)
    assert words in result.sentence


def test_a_catalog_whose_package_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pyiceberg's own words name the extra."""
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    given = ("--storage-option", "type=sql", "--storage-option", "uri=sqlite:///x.db")
    result = run("inspect", "catalog://c/db.t", *given)
    assert result.code == 2
    assert "needs a package that is not installed" in result.sentence
    assert "pip install 'pyiceberg[sql" in result.sentence


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "spark://nonsense"])
def test_a_spark_master_that_does_not_answer(master: str) -> None:
    """Found out before Spark is started, which would try for minutes and say so in a page of Java."""
    pytest.importorskip("pyspark")
    with pytest.raises(ExecutorError, match=f"no Spark master answers at {master}; is it running"):
        find_or_start(master, {})
