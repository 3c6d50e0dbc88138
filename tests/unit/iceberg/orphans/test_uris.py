"""Locations as they are compared: prefixes, paths, and what the same file may be called."""

from __future__ import annotations

import pytest

from lakemeta.iceberg.orphans.uris import Prefix, PrefixRules, split_location


@pytest.mark.parametrize(
    ("location", "prefix", "path"),
    [
        ("/t/data/x", Prefix(), "/t/data/x"),
        ("file:/t/x", Prefix("file"), "/t/x"),
        ("file:///t//a/../x", Prefix("file"), "/t/x"),
        ("file://host/t/x", Prefix("file", "host"), "/t/x"),
        ("//t/data/x", Prefix(), "/t/data/x"),
        ("/x", Prefix(), "/x"),
        ("memory://t/x", Prefix("memory"), "/t/x"),
        ("s3://b/t/x", Prefix("s3", "b"), "/t/x"),
        ("s3a://b/t//data/x", Prefix("s3a", "b"), "/t//data/x"),
        ("s3://b//t/x", Prefix("s3", "b"), "//t/x"),
        ("s3://b/t/a/../x", Prefix("s3", "b"), "/t/a/../x"),
        ("s3://b/t/dir/", Prefix("s3", "b"), "/t/dir/"),
        ("s3://b", Prefix("s3", "b"), ""),
        ("/t/a:b%2F#c?d", Prefix(), "/t/a:b%2F#c?d"),
        ("/t/data/dir/", Prefix(), "/t/data/dir"),
    ],
)
def test_parts_of_a_location(location, prefix, path):
    """On disks parts that are empty or dots mean nothing, on object stores they are names; nothing is decoded."""
    assert split_location(location) == (prefix, path)


def test_prefixes_that_mean_the_same():
    """Nothing in the metadata matches anything; s3a and s3n are s3; case does not count; more may be said."""
    rules = PrefixRules()
    assert not rules.conflicts(Prefix(), Prefix("s3", "b"))
    assert not rules.conflicts(Prefix("S3", "B"), Prefix("s3a", "b"))
    assert rules.conflicts(
        Prefix("S3A", "b"), Prefix("s3a", "b")
    )  # names that stand for others are taken letter by letter
    assert not rules.conflicts(Prefix("s3n", "b"), Prefix("s3", "b"))
    assert rules.conflicts(Prefix("file"), Prefix()) == [("file", None)]
    assert rules.conflicts(Prefix("s3", "a"), Prefix("gs", "b")) == [("s3", "gs"), ("a", "b")]
    told = PrefixRules("ERROR", {"gs": "s3"}, {"b": "a"})
    assert not told.conflicts(Prefix("s3a", "a"), Prefix("gs", "b"))
