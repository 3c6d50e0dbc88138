"""Which files share a manifest."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import chain, pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.iceberg.manifest_rewrite.clustering import Clustering, range_bounds
from lakemeta.iceberg.manifest_rewrite.gain import Opened, in_order
from lakemeta.iceberg.manifests.codec import summarise
from lakemeta.iceberg.manifests.entries import ManifestFile
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import INT

IDENTITY = Transform.parse("identity")
TWO = PartitionSpec(0, (PartitionField(1, 1001, "a", IDENTITY), PartitionField(2, 1000, "b", IDENTITY)))


def clustering(wanted: int, *, fields: tuple[int, ...] = (0,), files: int = 250) -> Clustering:
    return Clustering(fields, wanted, files)


def spread(values: list, wanted: int) -> list[list]:
    partitions = [(value,) for value in values]
    return [[values[at] for at in found] for found in clustering(wanted).outputs(partitions)]


def test_a_partition_stays_together():
    """A range ends with the partition that fills its share: three partitions give three manifests at most."""
    values = ["a"] * 7 + ["b"] + ["c"] * 4
    assert [len(found) for found in spread(values, 2)] == [7, 5]
    assert [len(found) for found in spread(values, 3)] == [7, 1, 4]
    assert [len(found) for found in spread(values, 9)] == [7, 1, 4]


@pytest.mark.parametrize(
    "values",
    [
        [None, -math.inf, -1.5, 0.0, 2.5, math.inf, math.nan],
        [None, False, True],
        [None, b"", b"\x01", b"\x80", b"\xff\x00"],
        [None, "", "a", "a\x00", "b", "\ue000", "\U0001f600"],
        [None, Decimal("-1.0"), Decimal("0.5")],
    ],
)
def test_partitions_are_sorted_as_spark_sorts(values):
    """Nulls come first and NaN last; bytes count as unsigned, and texts by code points."""
    assert repr(list(chain(*spread(values[::-1], len(values))))) == repr(values)


def test_zeros_of_both_signs_are_one_key():
    """Zero and minus zero are equal to Spark: they never end in two ranges."""
    assert len(spread([0.0, -0.0, 0.0, -0.0], 4)) == 1


def test_fields_are_compared_by_their_ids():
    """The partition's struct has its fields by id, whatever their order in the spec; ``sort_by`` has its own."""
    manifests = [ManifestFile("m", 100, 0, added_files_count=1)]
    assert Clustering.of(manifests, TWO, None, 10).fields == (1, 0)
    assert Clustering.of(manifests, TWO, ("a",), 10).fields == (0,)
    assert Clustering.of(manifests, TWO, ("a", "b"), 10).fields == (0, 1)


def test_files_without_partitions_are_cut_evenly():
    """Into as many manifests as wanted, in their order, and none without a file; dropped fields do not count."""
    void = attrs.evolve(TWO, fields=tuple(attrs.evolve(f, transform=Transform.parse("void")) for f in TWO.fields))
    manifests = [ManifestFile("m", 100, 0, added_files_count=10)]
    cut = Clustering.of(manifests, void, None, 30)
    assert cut.wanted == 4
    assert cut.outputs([(None, None)] * 10) == [[0, 1], [2, 3, 4], [5, 6], [7, 8, 9]]
    assert cut.outputs([()] * 2) == [[0], [1]]
    assert cut.outputs([]) == []


def test_a_large_range_goes_on_in_another_manifest():
    """At 1.2 times the target, counted in steps of 250 files by the old manifests' mean."""
    manifests = [
        ManifestFile("m", 100_000, 0, added_files_count=600, existing_files_count=300, deleted_files_count=100)
    ]
    found = Clustering.of(manifests, TWO, ("a",), 50_000)
    assert (found.wanted, found.files_a_manifest) == (2, 750)
    assert [len(part) for part in found.outputs([("a", 1)] * 1000)] == [750, 250]
    assert Clustering.of(manifests, TWO, None, 1).files_a_manifest == 250


@given(st.lists(st.integers(-3, 12), max_size=60), st.integers(1, 12))
def test_ranges_are_those_of_a_walk_over_all_files(values, wanted):
    """The bounds by counts are those that Spark finds walking over every file's key, and no file is lost."""
    counts = {value: values.count(value) for value in sorted(set(values))}
    assert range_bounds(counts, wanted) == walked_bounds(sorted(values), wanted)
    outputs = spread(values, wanted)
    assert sorted(chain(*outputs)) == sorted(values)
    assert len(outputs) <= max(1, wanted)
    assert all(part[-1] < following[0] for part, following in pairwise(outputs))


def walked_bounds(keys: list, partitions: int) -> list:
    """Spark's RangePartitioner.determineBounds, where all keys are sampled with weight 1."""
    partitions = min(partitions, len(keys))
    if partitions <= 1:
        return []
    step = len(keys) / partitions
    weight, target, bounds = 0.0, step, []
    for key in keys:
        if len(bounds) == partitions - 1:
            break
        weight += 1
        if weight >= target and (not bounds or key > bounds[-1]):
            bounds.append(key)
            target += step
    return bounds


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=40), st.integers(1, 6))
def test_what_a_query_opens(values, wanted):
    """A query of one partition opens every manifest that has it, and after clustering two at most."""
    partitions = [(value,) for value in values]
    cut = clustering(wanted)
    outputs = [[partitions[at] for at in found] for found in cut.outputs(partitions)]
    opened = Opened.count([summarise((INT,), found) for found in outputs], (INT,), in_order(partitions, cut.key))
    holding = [sum(partition in found for found in outputs) for partition in set(partitions)]
    assert opened.manifests == len(outputs)
    assert max(holding) <= opened.most <= 2
    assert opened.mean >= sum(holding) / len(holding)


def test_what_is_a_gain():
    """A fifth fewer manifests, or a fifth fewer to open; summaries that are not known are opened always."""
    assert Opened(10, 5.0, 5).is_gain(Opened(8, 5.0, 5))
    assert Opened(10, 5.0, 5).is_gain(Opened(10, 4.0, 5))
    assert not Opened(10, 5.0, 5).is_gain(Opened(9, 4.1, 5))
    assert Opened.count([None, None], (INT,), [(1,), (2,)]) == Opened(2, 2.0, 2)
