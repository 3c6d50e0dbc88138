from __future__ import annotations

import pytest

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.locations import same_location, store_path


@pytest.mark.parametrize(
    ("scheme", "location", "path"),
    [
        ("file", "/t/data/a", "/t/data/a"),
        ("file", "file:/t/a", "/t/a"),
        ("file", "file:///t/a", "/t/a"),
        ("s3", "s3a://bucket/t/a", "bucket/t/a"),
        ("memory", "/t/a", "/t/a"),
    ],
)
def test_locations_become_store_paths(scheme, location, path):
    """Every spelling of a location in the table's store is found there."""
    assert store_path(scheme, location) == path


@pytest.mark.parametrize(("scheme", "location"), [("file", "s3://b/t"), ("s3", "/t/a"), ("memory", "file:/t")])
def test_other_stores_are_refused(scheme, location):
    """A file in another store is named and refused."""
    with pytest.raises(UnsupportedFeatureError, match=location):
        store_path(scheme, location)


def test_malformed_locations_are_corrupt():
    """A location that is no URL is corrupt metadata."""
    with pytest.raises(CorruptMetadataError):
        store_path("s3", "s3:b/t")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/t", "file:///t/", True),
        ("s3a://b/t", "s3://b/t", True),
        ("/t", "memory:///t", True),
        ("/t", "/u", False),
        ("/b/t", "s3://b/t", False),
    ],
)
def test_spelling_does_not_make_two_places(one, other, same):
    """Scheme aliases and a trailing slash do not matter; another path or store does."""
    assert same_location(one, other) is same
