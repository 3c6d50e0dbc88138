"""The older planner: cut at split offsets, combine, leave lone whole files."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from support.iceberg_values import data_file, table, task

from lakemeta.errors import OptionError
from lakemeta.iceberg.rewrite.split_combine import SplitCombineOptions, is_asked_for, plan_split_combine

MIB = 1024 * 1024


def groups(sizes: list[int], options: dict[str, str] | None = None, **file: Any) -> list[list[int]]:
    metadata = table()
    tasks = [task(data_file(f"f{i}", size, **file)) for i, size in enumerate(sizes)]
    planned = plan_split_combine(metadata, tasks, SplitCombineOptions.parse(options or {}, metadata))
    return [[t.length for t in g.tasks] for g in planned]


def test_five_files_make_two_pairs_and_leave_one() -> None:
    """Five files of 60 MiB with bins of 128 MiB: two bins of two, and the fifth stays as it is."""
    assert groups([60 * MIB] * 5) == [[60 * MIB] * 2, [60 * MIB] * 2]


def test_a_lone_file_of_a_partition_is_left_alone() -> None:
    """A partition with one file is not looked at, even if the file is larger than the target."""
    assert groups([600 * MIB]) == []


def test_small_files_weigh_what_opening_costs() -> None:
    """A tiny file counts 4 MiB, so a bin of 128 MiB takes 32 of them."""
    assert [len(g) for g in groups([1000] * 64)] == [32, 32]


def test_the_heaviest_bin_is_closed_first() -> None:
    """When more than lookback bins are open, the heaviest goes, so that a later file may join a light one."""
    sizes = [70 * MIB, 100 * MIB, 90 * MIB, 50 * MIB]
    assert groups(sizes, {"read.split.planning-lookback": "2"}) == [[70 * MIB, 50 * MIB]]


def test_a_file_cut_in_parts_is_rewritten_with_its_neighbours_as_one_group() -> None:
    """A 200 MiB file without offsets is cut at 128 MiB; the rest shares a bin with the next file: one group."""
    assert groups([200 * MIB, 40 * MIB]) == [[200 * MIB, 40 * MIB]]


def test_offsets_decide_where_a_file_is_cut() -> None:
    """Row groups of 64 MiB pack two by two into bins: four of them are two outputs."""
    metadata = table()
    offsets = tuple(4 + 64 * MIB * i for i in range(4))
    tasks = [task(data_file("big", 4 + 256 * MIB, split_offsets=offsets)), task(data_file("small", 1))]
    options = SplitCombineOptions.parse({"target-file-size-bytes": str(129 * MIB)}, metadata)
    (group,) = plan_split_combine(metadata, tasks, options)
    assert (len(group.tasks), group.expected_outputs, group.bytes) == (1, 2, 4 + 256 * MIB)


def test_the_target_is_the_lesser_of_split_size_and_file_size() -> None:
    """Defaults come from the table's properties, options beat them."""
    metadata = attrs.evolve(table(), properties={"write.target-file-size-bytes": "1000"})
    assert SplitCombineOptions.parse({}, metadata).target_file_size_bytes == 1000
    assert SplitCombineOptions.parse({}, table()).target_file_size_bytes == 128 * MIB
    assert SplitCombineOptions.parse({"target-file-size-bytes": "7"}, metadata).target_file_size_bytes == 7


@pytest.mark.parametrize(
    "options",
    [
        {"target-file-size-bytes": "0"},
        {"read.split.planning-lookback": "0"},
        {"read.split.open-file-cost": "0"},
        {"output-spec-id": "9"},
    ],
)
def test_senseless_options_are_refused(options: dict[str, str]) -> None:
    """Sizes, lookback and cost are positive, and the output spec is one of the table."""
    with pytest.raises(OptionError):
        SplitCombineOptions.parse(options, table())


def test_planner_names() -> None:
    """planner is bin-pack, which is the default, or split-combine."""
    assert is_asked_for({"planner": "split-combine"})
    assert not is_asked_for({"planner": "bin-pack"})
    assert not is_asked_for({})
    with pytest.raises(OptionError, match="planner best is neither"):
        is_asked_for({"planner": "best"})
