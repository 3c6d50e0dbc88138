from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError
from lakemeta.paths import inside, relative


@pytest.mark.parametrize(
    ("root", "path", "found"),
    [
        ("/data/t", "/data/t/a", "/data/t/a"),
        ("/data/t/", "file:/data/t/p=1/a", "/data/t/p=1/a"),
        ("/data/t", "file:///data/t/a", "/data/t/a"),
        ("/data/t", "file://localhost/data/t/a", "/data/t/a"),
        ("file:///data/t", "/data/t/a", "/data/t/a"),
        ("lake/t", "s3://lake/t/a", "lake/t/a"),
        ("lake/t", "s3a://lake/t/a", "lake/t/a"),
        ("s3n://lake/t", "S3A://lake/t/a", "lake/t/a"),
        ("lake/t", "lake/t/a", "lake/t/a"),
        ("lake/t", "/t/a", "lake/t/a"),
        ("lake", "s3://lake/a", "lake/a"),
        ("gs://lake/t", "gs://lake/t/a", "lake/t/a"),
        ("/t", "memory://t/a", "/t/a"),
        ("memory://t", "memory:///t/a", "/t/a"),
        ("/t", "/t/p=x%3Dy/a b#c?d:e", "/t/p=x%3Dy/a b#c?d:e"),
        ("/t", "/t/..a/.b/...", "/t/..a/.b/..."),
        ("/", "/a", "/a"),
        ("hdfs://nn:8020/t", "hdfs://nn:8020/t/p=x%3Dy/a b", "/t/p=x%3Dy/a b"),
        ("hdfs://nn:8020/t", "hdfs:///t/a", "/t/a"),
        ("hdfs://nn:8020/t", "hdfs:/t/a", "/t/a"),
        ("hdfs://nn:8020/t", "/t/a", "/t/a"),
        ("hdfs://nn:8020/t", "HDFS://nn:8020//t//a", "/t/a"),
        ("hdfs://lake,nn:8020,webhdfs@nn:9870/t", "hdfs://nn:8020/t/a", "/t/a"),
        ("hdfs://lake,nn:8020,webhdfs@nn:9870/t", "hdfs://lake/t/a", "/t/a"),
        ("hdfs://lake,nn:8020,webhdfs@nn:9870/t", "webhdfs://nn:9870/t/a", "/t/a"),
        ("hdfs:///t", "hdfs://nn:8020/t/a", "/t/a"),
    ],
)
def test_paths_inside(root: str, path: str, found: str) -> None:
    """A path below the root is found in every spelling, and its name is never decoded."""
    assert inside(root, path) == found
    assert found.endswith("/" + relative(root, path))


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/t", "/t"),
        ("/t", "/t/"),
        ("/t", "/t2/a"),
        ("/t", "/other/a"),
        ("/t", "t/a"),
        ("/t", "a"),
        ("/t", ""),
        ("/t", "/t/../etc/passwd"),
        ("/t", "/t/a/.."),
        ("/t", "/t/./a"),
        ("/t", "/t//a"),
        ("/t", "//t/a"),
        ("/t", "/t/a/"),
        ("/t", "/t/a\0b"),
        ("/t", "file:t/a"),
        ("/t", "file://host/t/a"),
        ("/t", "file:////t/a"),
        ("/t", "s3://t/a"),
        ("/t", "s3:///t/a"),
        ("/t", "hdfs://host/t/a"),
        ("file:///t", "memory://t/a"),
        ("memory://t", "file:///t/a"),
        ("lake/t", "s3://lake2/t/a"),
        ("lake/t", "s3://other/t/a"),
        ("lake/t", "s3:/lake/t/a"),
        ("lake/t", "s3://lake/t2/a"),
        ("lake/t", "s3://lake/t"),
        ("lake/t", "/lake/t/a"),
        ("lake/t", "t/a"),
        ("lake/t", "file:///lake/t/a"),
        ("lake/t", "file:/t/a"),
        ("s3://lake/t", "gs://lake/t/a"),
        ("/t/%2e%2e", "/t/../a"),
        ("", "a"),
        ("hdfs://nn:8020/t", "hdfs://other:8020/t/a"),
        ("hdfs://nn:8020/t", "hdfs://nn:8021/t/a"),
        ("hdfs://nn:8020/t", "hdfs://nn/t/a"),
        ("hdfs://nn:8020/t", "webhdfs://nn:8020/t/a"),
        ("hdfs://lake,nn:8020/t", "hdfs://lake,other/t/a"),
        ("hdfs://nn:8020/t", "hdfs://nn:8020/t/../u/a"),
        ("hdfs://nn:8020/t", "hdfs://nn:8020/t"),
        ("hdfs://nn:8020/t", "hdfs://nn:8020"),
        ("hdfs://nn:8020/t", "hdfs:t/a"),
        ("hdfs://nn:8020/t", "webhdfs:///t/a"),
        ("hdfs://nn:8020/t", "s3://nn:8020/t/a"),
        ("hdfs://nn:8020/t", "file:/t/a"),
        ("nn:8020/t", "hdfs://nn:8020/t/a"),
    ],
)
def test_paths_outside(root: str, path: str) -> None:
    """What is not strictly below the root is refused, in a sentence with both."""
    with pytest.raises(CorruptMetadataError, match="does not lie inside the table"):
        inside(root, path)


def test_another_cluster_may_be_the_same() -> None:
    """Only who knows the clusters can say so: the sentence names the option."""
    with pytest.raises(CorruptMetadataError, match=r"say --storage-option hdfs\.authority=lake$"):
        inside("hdfs://nn:8020/t", "hdfs://lake/t/a")


_PARTS = st.text(alphabet=st.sampled_from("ab.%=:#? \0/"), min_size=0, max_size=6)


@given(st.lists(_PARTS, max_size=5))
def test_what_is_accepted_cannot_leave_the_root(parts: list[str]) -> None:
    """Whatever is accepted starts with the root and has only ordinary parts after it."""
    path = "/".join(["/root/t", *parts])
    try:
        found = inside("/root/t", path)
    except CorruptMetadataError:
        return
    assert found == path
    below = relative("/root/t", path)
    assert f"/root/t/{below}" == path
    assert all(part not in {"", ".", ".."} and "\0" not in part for part in below.split("/"))
