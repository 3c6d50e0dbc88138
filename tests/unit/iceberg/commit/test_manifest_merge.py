from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemeta.iceberg.commit.manifest_merge import MergePolicy, merge_bins
from lakemeta.iceberg.manifests.entries import ManifestFile


def manifest(name: str, length: int = 10, spec_id: int = 0) -> ManifestFile:
    return ManifestFile(name, length, spec_id)


def names(bins):
    return [[m.manifest_path for m in packed] for packed in bins]


def test_few_manifests_stay_as_they_are():
    """The bin with the newest manifest is not merged below min-count-to-merge."""
    assert names(merge_bins([manifest(n) for n in "abc"], MergePolicy())) == [["a"], ["b"], ["c"]]


def test_enough_manifests_are_merged():
    """At min-count-to-merge the bin with the newest manifest is merged."""
    assert names(merge_bins([manifest(n) for n in "abc"], MergePolicy(min_count_to_merge=3))) == [["a", "b", "c"]]


def test_a_bin_without_the_newest_manifest_merges_from_two():
    """min-count-to-merge protects only the bin with the newest manifest."""
    policy = MergePolicy(target_size_bytes=20)
    assert names(merge_bins([manifest(n) for n in "abcde"], policy)) == [["a"], ["b", "c"], ["d", "e"]]


def test_bins_are_packed_from_the_end():
    """The under-filled bin is the newest one, so that the next commit can fill it."""
    policy = MergePolicy(target_size_bytes=30, min_count_to_merge=2)
    assert names(merge_bins([manifest(n) for n in "abcde"], policy)) == [["a", "b"], ["c", "d", "e"]]


def test_specs_never_mix_and_come_highest_first():
    """Manifests of older specs are merged though they are few: the newest manifest is not among them."""
    listed = [manifest("new", spec_id=1), manifest("old1"), manifest("old2"), manifest("other", spec_id=1)]
    assert names(merge_bins(listed, MergePolicy())) == [["new"], ["other"], ["old1", "old2"]]


def test_merging_can_be_turned_off():
    """commit.manifest-merge.enabled=false keeps every manifest."""
    policy = MergePolicy.of({"commit.manifest-merge.enabled": "false", "commit.manifest.min-count-to-merge": "1"})
    assert names(merge_bins([manifest("a"), manifest("b")], policy)) == [["a"], ["b"]]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2)), max_size=30), st.integers(1, 100), st.integers(1, 9))
def test_every_manifest_is_in_exactly_one_bin(sizes, target, count):
    """No manifest is lost or doubled, and a bin above the target holds one manifest alone."""
    listed = [manifest(str(i), length, spec) for i, (length, spec) in enumerate(sizes)]
    bins = merge_bins(listed, MergePolicy(True, target, count))
    assert sorted(m.manifest_path for packed in bins for m in packed) == sorted(m.manifest_path for m in listed)
    for packed in bins:
        assert len({m.partition_spec_id for m in packed}) == 1
        assert len(packed) == 1 or sum(m.manifest_length for m in packed) <= target
