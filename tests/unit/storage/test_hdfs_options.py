from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from lakemeta.errors import OptionError
from lakemeta.storage import open_storage
from lakemeta.storage.hdfs_options import Cluster, configuration, find_cluster

ONE = {"fs.defaultFS": "hdfs://nn:8020"}
HA = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.nameservices": "old, lake",
    "dfs.ha.namenodes.lake": "a,b",
    "dfs.namenode.rpc-address.lake.a": "one:8020",
    "dfs.namenode.rpc-address.lake.b": "two:8020",
    "dfs.namenode.http-address.lake.a": "one:50070",
    "dfs.namenode.http-address.lake.b": "0.0.0.0:50070",
    "dfs.namenode.rpc-address.old": "older:9000",
}
LAKE = Cluster(("lake", "one:8020", "two:8020"), ("http://one:50070", "http://two:50070"))


@pytest.mark.parametrize(
    ("authority", "options", "settings", "cluster"),
    [
        ("nn:8020", {}, {}, Cluster(("nn:8020",), ("http://nn:9870",))),
        ("nn", {}, {}, Cluster(("nn",), ("http://nn:9870",))),
        ("", {}, {}, Cluster()),
        ("", {"hdfs.host": "nn", "hdfs.port": "9000"}, {}, Cluster(("nn:9000",), ("http://nn:9870",))),
        ("lake", {"hdfs.webhdfs-url": "http://a:1,https://b"}, {}, Cluster(("lake",), ("http://a:1", "https://b"))),
        ("webhdfs@nn:9870", {}, {}, Cluster((), ("http://nn:9870",))),
        ("swebhdfs@nn:9871", {"hdfs.authority": "lake"}, {}, Cluster(("lake",), ("https://nn:9871",))),
        ("", {}, ONE, Cluster(("nn:8020",), ("http://nn:9870",))),
        ("other:8020", {}, ONE, Cluster(("other:8020",), ("http://other:9870",))),
        ("webhdfs@nn:9870", {}, ONE, Cluster(("nn:8020",), ("http://nn:9870",))),
        ("webhdfs@other:9870", {}, ONE, Cluster((), ("http://other:9870",))),
        ("", {}, ONE | {"dfs.http.policy": "HTTPS_ONLY"}, Cluster(("nn:8020",), ("https://nn:9871",))),
        ("", {}, {"fs.defaultFS": "s3a://lake"}, Cluster()),
        ("", {}, HA, LAKE),
        ("lake", {}, HA, LAKE),
        ("two:8020", {}, HA, Cluster(("two:8020", "lake", "one:8020"), LAKE.urls)),
        ("webhdfs@two:50070", {}, HA, Cluster(LAKE.names, ("http://two:50070",))),
        ("old", {}, HA, Cluster(("old", "older:9000"), ("http://older:9870",))),
        ("alias", {"hdfs.authority": "lake"}, HA, Cluster(("alias", *LAKE.names), LAKE.urls)),
    ],
)
def test_clusters(authority: str, options: dict[str, str], settings: dict[str, str], cluster: Cluster) -> None:
    """A cluster is found by any of its names, and has all that the options and the configuration files give it."""
    assert find_cluster(authority, options, settings) == cluster


def test_configuration_files(tmp_path: Path) -> None:
    """The later file wins; what has no value is passed over, and no directory is no configuration."""
    head = "<?xml version='1.0'?><configuration><property><name>{}</name><value> {}</value></property>"
    (tmp_path / "core-site.xml").write_text(head.format("a", 1) + "<property><name>b</name></property></configuration>")
    (tmp_path / "hdfs-site.xml").write_text(head.format("a", 2) + "</configuration>")
    assert configuration({"HADOOP_CONF_DIR": str(tmp_path)}) == {"a": "2"}
    assert configuration({}) == {}
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(OptionError, match=r"hdfs-site\.xml, in HADOOP_CONF_DIR, cannot be read"):
        configuration({"HADOOP_CONF_DIR": str(tmp_path)})


def test_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name, said or taken from the environment, or a token, which no repr shows and a pickle keeps."""
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    named, _ = open_storage("hdfs://nn/t")
    said, _ = open_storage("hdfs://nn/t", {"hdfs.user": "bob"})
    token, _ = open_storage("hdfs://nn/t", {"hdfs.delegation-token": "very-secret"})
    ticket, _ = open_storage("hdfs://nn/t", {"hdfs.kerberos": "true"})
    found = [storage.web.servers[0].options for storage in (named, said, token, ticket)]
    assert [options.get("user") for options in found] == ["etl", "bob", None, None]
    assert found[2]["token"] == pickle.loads(pickle.dumps(token)).web.servers[0].options["token"] == "very-secret"
    assert found[3]["kerberos"] is True
    assert "very-secret" not in repr(token)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hdfs.webhdfs_url": "x"}, r"did you mean hdfs\.webhdfs-url"),
        ({"hdfs.webhdfs-url": "nn:9870"}, "must be like http://namenode:9870"),
        ({"hdfs.webhdfs-url": "http://nn:x"}, "must be like http://namenode:9870"),
        ({"hdfs.webhdfs-url": "http://nn/webhdfs"}, "must be like http://namenode:9870"),
        ({"hdfs.user": "a", "hdfs.kerberos": "true"}, "give one of them"),
        ({"hdfs.kerberos": "yes"}, "must be true or false"),
        ({"hdfs.kerberos_ticket": "/tmp/x"}, "set KRB5CCNAME"),
        ({"hdfs.data-proxy": "[]"}, "no JSON object"),
        ({"hdfs.data-proxy": "{"}, "no JSON object"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    """An option that is unknown, malformed or contradicts another says so."""
    with pytest.raises(OptionError, match=message):
        open_storage("hdfs://nn/t", options)


def test_no_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name, an option or configuration files nothing can be asked, and the sentence says what to do."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    storage, path = open_storage("hdfs:///t")
    with pytest.raises(OptionError, match=r"--storage-option hdfs\.webhdfs-url=http://namenode:9870"):
        storage.list_dir(path)


def test_requests_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without requests a URL of HDFS says what to install."""
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(OptionError, match=r"pip install 'lakemeta\[hdfs\]'"):
        open_storage("hdfs://nn/t")
