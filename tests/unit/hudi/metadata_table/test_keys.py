"""Keys of the metadata table."""

from __future__ import annotations

import pytest

from lakemeta.hudi.metadata_table import keys


@pytest.mark.parametrize(
    ("data", "seed", "digest"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
        (b"The quick brown fox jumps over the lazy dog", 0, 0x0B242D361FDA71BC),
        (b"xxhash", 20141025, 0xB559B98D844E0635),
    ],
)
def test_xxh64(data: bytes, seed: int, digest: int) -> None:
    """The published values of XXH64, below and above its block of 32 bytes."""
    assert keys.xxh64(data, seed) == digest


def test_ids_are_hudis() -> None:
    """The seed is sign-extended; ids seen in tables that Hudi wrote."""
    assert keys.id64("_hoodie_commit_time") == "JBBzUToHtLc="
    assert keys.id64("p1") == "qT4Pioac33A="
    assert keys.id64("val") == "QjknHjLew3k="


def test_a_table_without_partitions_is_a_dot() -> None:
    """In keys and in the files partition."""
    assert keys.partition_key("") == "."
    assert keys.partition_path(".") == ""
    assert keys.partition_path(keys.partition_key("a/b")) == "a/b"


def test_every_key_about_a_file_ends_alike() -> None:
    """Partition, then file; column statistics have their column before it."""
    assert keys.file_suffix("p1", "f.parquet") == keys.id64("p1") + keys.id128("f.parquet")
    assert len(keys.file_suffix("p1", "f.parquet")) == keys.FILE_SUFFIX_LENGTH
    assert keys.file_suffix("", "f").startswith(keys.id64("."))


@pytest.mark.parametrize(
    ("key", "groups", "group"),
    [("anything", 1, 0), ("", 7, 0), ("abc", 10, 4), ("polygenelubricants", 10, 8), ("\U0001f600", 7, 2)],
)
def test_file_groups(key: str, groups: int, group: int) -> None:
    """Java's String.hashCode over UTF-16 units, abs and %; the hash of "polygenelubricants" is Java's smallest int."""
    assert keys.file_group_index(key, groups) == group
