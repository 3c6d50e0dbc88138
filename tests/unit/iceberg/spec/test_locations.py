from __future__ import annotations

import pytest

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec.locations import file_key, same_location, store_path, whole, within


@pytest.mark.parametrize(
    ("scheme", "location", "path"),
    [
        ("file", "/t/data/a", "/t/data/a"),
        ("file", "file:/t/a", "/t/a"),
        ("file", "file:///t/a", "/t/a"),
        ("s3", "s3a://bucket/t/a", "bucket/t/a"),
        ("memory", "/t/a", "/t/a"),
        ("hdfs://lake,nn:8020", "hdfs://lake/t/a", "/t/a"),
        ("hdfs://lake,nn:8020", "hdfs://nn:8020/t//a", "/t/a"),
        ("hdfs://lake", "hdfs:///t/a", "/t/a"),
        ("hdfs://lake", "/t//a", "/t/a"),
    ],
)
def test_locations_become_store_paths(scheme, location, path):
    """Every spelling of a location in the table's store is found there."""
    assert store_path(scheme, location) == path


@pytest.mark.parametrize(
    ("scheme", "location"),
    [
        ("file", "s3://b/t"),
        ("s3", "/t/a"),
        ("memory", "file:/t"),
        ("hdfs://lake", "hdfs://other/t"),
        ("hdfs://lake", "file:/t"),
        ("file", "hdfs:///t"),
    ],
)
def test_other_stores_are_refused(scheme, location):
    """A file in another store is named and refused."""
    with pytest.raises(UnsupportedFeatureError, match=location):
        store_path(scheme, location)


@pytest.mark.parametrize(
    ("scheme", "location"),
    [
        ("hdfs://lake", "hdfs://lake/t/../a"),
        ("hdfs://lake", "t/a"),
        ("s3", "s3:b/t"),
        ("file", "t/a"),
        ("s3", "s3://b/./t"),
        ("gs", "gs://b/t/../a"),
    ],
)
def test_malformed_locations_are_corrupt(scheme: str, location: str) -> None:
    """A location that is no URL, not a full one, or one that not all clients of an object store take as it is."""
    with pytest.raises(CorruptMetadataError, match=location):
        store_path(scheme, location)


@pytest.mark.parametrize(
    ("root", "location", "part"),
    [
        ("/t", "/t/data/a", "data/a"),
        ("/t/", "/t/data//a", "data//a"),
        ("/t", "/t//data/a", "/t//data/a"),
        ("s3://b/t//", "s3://b/t//data/a", "s3://b/t//data/a"),
        ("/t", "/t/file:a", "/t/file:a"),
        ("/t", "/t/x://a", "/t/x://a"),
        ("/t", "/tt/a", "/tt/a"),
        ("/t", "file:/t/a", "file:/t/a"),
        ("/t", "a", "a"),
    ],
)
def test_plans_give_locations_back(root: str, location: str, part: str) -> None:
    """What a plan calls a file is its location again, letter by letter; but for one that is none."""
    assert within(root, location) == part
    assert whole(root, part) == location or location == "a"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/t/a", "file:///t//./x/../a", True),
        ("//t/a", "/t/a", True),
        ("/t/a/.", "/t/a", True),
        ("s3://b/t/a", "s3a://b/t/a", True),
        ("s3://b/t/a", "s3://b/t//a", False),
        ("/t/a", "/t/b", False),
        ("x:a", "x:a", True),
        ("hdfs://lake/t//a", "hdfs:/t/./a", True),
        ("hdfs://lake/t/a", "/t/a", True),
    ],
)
def test_one_file_has_one_key(one: str, other: str, same: bool) -> None:
    """On disks empty and dot parts mean nothing, in object stores a key is a key."""
    assert (file_key(one) == file_key(other)) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/t", "file:///t/", True),
        ("s3a://b/t", "s3://b/t", True),
        ("/t", "memory:///t", True),
        ("/t", "/u", False),
        ("/b/t", "s3://b/t", False),
        ("hdfs://lake/t/", "hdfs:///t", True),
        ("hdfs:/t", "hdfs://lake/t", True),
        ("hdfs://lake/t", "/t", True),
        ("hdfs://lake/t", "hdfs://other/t", False),
    ],
)
def test_spelling_does_not_make_two_places(one, other, same):
    """Scheme aliases and a trailing slash do not matter; another path or store does."""
    assert same_location(one, other) is same
