"""Rules of the bin-pack planner, one by one; recorded plans of the engine are in tests/golden."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.iceberg_values import data_file, delete_file, spec, table, task

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.iceberg.rewrite.bin_pack import OPTIONS, RewriteOptions, plan_groups
from lakemeta.iceberg.rewrite.groups import RewriteGroup
from lakemeta.iceberg.spec.options import fraction, reject_unknown, small, truth, whole
from lakemeta.plan_operations import operation_to_json

SMALL = {"target-file-size-bytes": "1000"}  # so files from 750 to 1800 bytes are fine


def options(given_options: dict[str, str] | None = None, metadata: Any = None) -> RewriteOptions:
    return RewriteOptions.parse(SMALL | (given_options or {}), metadata or table())


def plan(sizes: list[int], **given_options: str) -> list[list[int]]:
    named = {name.replace("_", "-"): value for name, value in given_options.items()}
    groups = plan_groups(table(), [task(data_file(str(i), size)) for i, size in enumerate(sizes)], options(named))
    return [[t.length for t in g.tasks] for g in groups]


def test_defaults() -> None:
    """512 MiB, 75 % and 180 % of it, 5 files, 100 GiB, a delete ratio of 0.3 and no limit else."""
    parsed = RewriteOptions.parse({}, table())
    assert parsed == RewriteOptions(536870912, 402653184, 966367641, output_spec_id=0)
    assert (parsed.min_input_files, parsed.max_file_group_size_bytes, parsed.delete_ratio_threshold) == (
        5,
        100 << 30,
        0.3,
    )
    assert parsed.max_output_size == 751619276


def test_the_target_comes_from_the_table() -> None:
    """write.target-file-size-bytes, unless the option is given."""
    metadata = attrs.evolve(table(), properties={"write.target-file-size-bytes": "2000"})
    assert RewriteOptions.parse({}, metadata).target_file_size_bytes == 2000
    assert RewriteOptions.parse(SMALL, metadata).target_file_size_bytes == 1000


def test_files_of_a_good_size_stay() -> None:
    """Both limits are inclusive: only files outside them are candidates."""
    assert plan([750, 1800, 900, 1000, 1100]) == []
    assert plan([749] * 5) == [[749] * 5]


def test_five_small_files_make_a_group() -> None:
    """Four do not, unless they are more than the target together."""
    assert plan([10] * 4) == []
    assert plan([10] * 5) == [[10] * 5]
    assert plan([400] * 3) == [[400] * 3]
    assert plan([500] * 2) == []


def test_a_lone_small_file_is_never_rewritten() -> None:
    """Not even with min-input-files=1; a lone file above the maximum is."""
    assert plan([10], min_input_files="1") == []
    assert plan([1801]) == [[1801]]


def test_rewrite_all_skips_every_filter() -> None:
    """Good files and single files, too."""
    assert plan([1000], rewrite_all="true") == [[1000]]


def test_groups_are_closed_by_bytes_and_by_number() -> None:
    """Bins are packed in order, one open at a time."""
    assert plan([600] * 4, max_file_group_size_bytes="1200") == [[600, 600], [600, 600]]
    assert plan([10] * 10, max_file_group_input_files="5") == [[10] * 5, [10] * 5]
    assert plan([10] * 10, max_file_group_input_files="4") == []


def test_max_files_to_rewrite_cuts_the_group_that_reaches_it() -> None:
    """And drops those after it."""
    groups = plan([10] * 15, max_file_group_input_files="5", max_files_to_rewrite="7")
    assert [len(g) for g in groups] == [5, 2]


def one(deletes: list[Any], records: int = 10, **given_options: str) -> bool:
    """Whether a single file of a good size with these deletes is rewritten."""
    named = {name.replace("_", "-"): value for name, value in given_options.items()}
    return bool(plan_groups(table(), [task(data_file(size=1000, records=records), 1, *deletes)], options(named)))


def scoped(records: int) -> Any:
    return delete_file("d", records=records, referenced_data_file="/warehouse/t/data/f")


def test_deleted_rows_make_a_candidate_from_30_percent_on() -> None:
    """Only deletes about this one file count, at most as many as it has rows."""
    assert not one([scoped(2)])
    assert one([scoped(3)])
    assert one([scoped(2), scoped(1)])
    assert not one([delete_file("wide", records=9)])
    assert one([scoped(99)], delete_ratio_threshold="1")
    assert not one([scoped(99)], records=0)


def test_delete_files_make_a_candidate_when_asked_for() -> None:
    """delete-file-threshold counts every delete file; 0 makes every file a candidate."""
    wide = delete_file("wide")
    assert not one([wide, wide])
    assert one([wide, wide], delete_file_threshold="2")
    assert one([], delete_file_threshold="0")


def test_old_specs_go_together_without_a_partition() -> None:
    """Files of another spec than the default are one group of null partition values."""
    metadata = table(spec(spec_id=0), spec((2, "identity"), (1, "bucket[4]"), spec_id=1))
    files = [data_file(str(i), 10, partition=(), spec_id=0) for i in range(5)]
    files += [data_file(str(i), 10, partition=("a", 1), spec_id=1) for i in range(5, 10)]
    groups = plan_groups(metadata, [task(f) for f in files], options({"output-spec-id": "0"}, metadata))
    assert [(g.partition, g.spec_id, len(g.tasks)) for g in groups] == [((None, None), 0, 5), (("a", 1), 0, 5)]


def test_encrypted_files_are_refused() -> None:
    """A candidate that nobody can read is refused by name before anything is written."""
    with pytest.raises(UnsupportedFeatureError, match="/f is encrypted"):
        plan_groups(table(), [task(data_file(size=1, key_metadata=b"k"))], options())


def test_partitions_of_nan_are_one() -> None:
    """NaN values belong together though they are not equal."""
    metadata = table(spec((4, "identity")))
    tasks = [task(data_file(str(i), 10, partition=(float("nan"),))) for i in range(5)]
    assert len(plan_groups(metadata, tasks, options())) == 1


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("none", [12, 6, 9]),
        ("bytes-asc", [6, 9, 12]),
        ("bytes-desc", [12, 9, 6]),
        ("FILES_DESC", [6, 9, 12]),
        ("files-asc", [12, 9, 6]),
    ],
)
def test_job_order(order: str, expected: list[int]) -> None:
    """Groups are sorted by their bytes or number of files and numbered in that order."""
    metadata = table(spec((2, "identity")))
    sizes = {"a": [12], "b": [1] * 6, "c": [3] * 3}
    tasks = [task(data_file(f"{p}{i}", s, partition=(p,))) for p, found in sizes.items() for i, s in enumerate(found)]
    parsed = options({"rewrite-all": "true", "rewrite-job-order": order}, metadata)
    groups = plan_groups(metadata, tasks, parsed)
    assert [g.bytes for g in groups] == expected
    assert [g.group for g in groups] == [0, 1, 2]


@pytest.mark.parametrize(
    ("size", "outputs"),
    [
        (0, 1),
        (999, 1),
        (1000, 1),
        (1099, 1),
        (1100, 2),
        (1750, 2),
        (1751, 2),
        (2199, 2),
        (2200, 3),
        (5499, 5),
        (5751, 6),
    ],
)
def test_expected_outputs(size: int, outputs: int) -> None:
    """A remainder above 75 % is a file; a smaller one is spread while files stay below 110 %, else a file."""
    assert options().expected_outputs(size) == outputs


@given(st.integers(0, 10**7))
def test_split_sizes_lie_between_target_and_largest_output(size: int) -> None:
    """And the outputs hold the input."""
    parsed = options({"max-file-size-bytes": "50000"})
    assert 1000 <= parsed.split_size(size) <= parsed.max_output_size


def test_an_operation_of_a_plan() -> None:
    """Paths are relative under the table, partition values are JSON, deletes are listed once."""
    metadata = table(spec((5, "identity"), (2, "identity")))
    delete = delete_file("d")
    far = attrs.evolve(data_file("x"), file_path="s3://elsewhere/x.parquet")
    group = RewriteGroup(
        3, (19725, None), 0, (task(data_file("f"), 1, delete), task(far, 1, delete)), 200, 1000, 1, 1400
    )
    assert operation_to_json(group.to_operation(metadata)) == {
        "op": "rewrite",
        "group": 3,
        "partition": {"p0": "2024-01-03", "p1": None},
        "spec_id": 0,
        "inputs": ("data/f", "s3://elsewhere/x.parquet"),
        "deletes": ("data/d",),
        "bytes": 200,
        "expected_outputs": 1,
        "split_size": 1000,
        "max_output_size": 1400,
    }
    assert json.dumps(operation_to_json(group.to_operation(metadata)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min-input-files": "0"}, "'min-input-files' is set to 0 but must be > 0"),
        ({"delete-ratio-threshold": "1e-8"}, None),
        ({"delete-ratio-threshold": "-1"}, "'delete-ratio-threshold' is set to -1.0 but must be > 0"),
        ({"compression-factor": "0"}, "'compression-factor' is set to 0.0 but must be > 0"),
        ({"delete-ratio-threshold": "some"}, "'delete-ratio-threshold' is set to some but must be a number"),
        ({"min-input-files": "five"}, "'min-input-files' is set to five but must be a whole number"),
        ({"min-input-files": " 5"}, "'min-input-files' is set to  5 but must be a whole number"),
        ({"min-input-files": "1_0"}, "'min-input-files' is set to 1_0 but must be a whole number"),
        (
            {"min-input-files": "3000000000"},
            "'min-input-files' is set to 3000000000 but must be from -2147483648 to 2147483647",
        ),
        ({"rewrite-all": "yes"}, "'rewrite-all' is set to yes but must be true or false"),
        ({"rewrite-job-order": "random"}, "Invalid rewrite job order name: random"),
    ],
)
def test_wrong_values(wrong: dict[str, str], message: str | None) -> None:
    """Values that make no sense are refused in a sentence; the engine's own where it has one."""
    if message is None:
        options(wrong)
    else:
        with pytest.raises(OptionError) as caught:
            options(wrong)
        assert str(caught.value) == message


def test_unknown_options_name_the_nearest_one() -> None:
    """A slip of the finger is told from an option of another job."""
    reject_unknown({"min-input-files": "1"}, OPTIONS, "rewrite-data-files")
    with pytest.raises(OptionError, match="did you mean min-input-files"):
        reject_unknown({"min-input-file": "1"}, OPTIONS, "rewrite-data-files")


def test_options_that_are_not_given_are_their_defaults() -> None:
    """None is a default like any other."""
    assert (whole({}, "a", None), small({}, "a", 3), fraction({}, "a", 0.5), truth({}, "a", True)) == (
        None,
        3,
        0.5,
        True,
    )
    assert truth({"a": "FALSE"}, "a", True) is False
