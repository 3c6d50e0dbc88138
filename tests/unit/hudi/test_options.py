from __future__ import annotations

import pickle

import pytest

from lakemeta.errors import OptionError
from lakemeta.hudi.options import CleanOptions, FailedWrites, Policy

SPELLINGS = [
    ("hoodie.clean.policy", "hoodie.cleaner.policy", "KEEP_LATEST_BY_HOURS", "policy", Policy.KEEP_LATEST_BY_HOURS),
    ("hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained", "4", "commits_retained", 4),
    ("hoodie.clean.hours.retained", "hoodie.cleaner.hours.retained", "5", "hours_retained", 5),
    ("hoodie.clean.fileversions.retained", "hoodie.cleaner.fileversions.retained", "6", "versions_retained", 6),
    ("hoodie.clean.incremental.enabled", "hoodie.cleaner.incremental.mode", "False", "incremental", False),
    (
        "hoodie.clean.failed.writes.policy",
        "hoodie.cleaner.policy.failed.writes",
        "lazy",
        "failed_writes",
        FailedWrites.LAZY,
    ),
    ("hoodie.clean.multiple.enabled", "hoodie.clean.allow.multiple", "true", "allow_multiple", True),
    ("hoodie.clean.trigger.max.commits", "hoodie.clean.max.commits", "7", "trigger_max_commits", 7),
]


@pytest.mark.parametrize(("name", "older", "text", "field", "value"), SPELLINGS)
def test_both_spellings(name: str, older: str, text: str, field: str, value: object) -> None:
    """Either name sets the field, both with one value too; both with different values are refused."""
    for given in ({name: text}, {older: text}, {name: text, older: text}):
        options = CleanOptions.parse(given)
        assert getattr(options, field) == value
        assert options.given == {name: text}
    with pytest.raises(OptionError, match=f"{name} and {older} are given with different values"):
        CleanOptions.parse({name: text, older: f"{text}x"})


def test_defaults_are_the_engines() -> None:
    """Nothing given is Hudi's own configuration."""
    options = CleanOptions.parse({})
    assert (options.policy, options.commits_retained, options.hours_retained, options.versions_retained) == (
        Policy.KEEP_LATEST_COMMITS, 10, 24, 3,
    )  # fmt: skip
    assert (options.incremental, options.failed_writes, options.allow_multiple, options.trigger_max_commits) == (
        True, FailedWrites.EAGER, False, 1,
    )  # fmt: skip
    assert options.given == {}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("hoodie.clean.policy", "KEEP_ALL", "is none of KEEP_LATEST_COMMITS, KEEP_LATEST_BY_HOURS"),
        ("hoodie.clean.commits.retained", "", "must be a whole number"),
        ("hoodie.clean.commits.retained", "1.5", "must be a whole number"),
        ("hoodie.clean.commits.retained", "1_0", "must be a whole number"),
        ("hoodie.clean.commits.retained", "-1", "must be from 0 to 999999999"),
        ("hoodie.clean.commits.retained", "10000000000", "must be from 0 to 999999999"),
        ("hoodie.clean.incremental.enabled", "yes", "must be true or false"),
        ("hoodie.clean.partition.filter.regex", "(", "is no regular expression"),
        ("hoodie.clean.max.commits.to.clean", "0", "would never move on; give 1 or more"),
        ("lakemeta.timeline.timezone", "Mars/Olympus", "is no timezone"),
        ("lakemeta.timeline.timezone", "../etc", "is no timezone"),
        ("hoodie.clean.automatic", "maybe", "must be true or false"),
        ("hoodie.clean.trigger.strategy", "SIZE", "trigger.strategy=SIZE is unknown"),
        ("hoodie.clean.delete.bootstrap.base.file", "true", "would delete files outside the table"),
        ("hoodie.clean.partition.filter.regex", "a.*", "need hoodie.clean.incremental.enabled=false"),
        ("hoodie.clean.partition.filter.selected", "a", "need hoodie.clean.incremental.enabled=false"),
        ("hoodie.cleaner.commits.retain", "1", "did you mean hoodie.cleaner.commits.retained"),
        ("write.target-file-size-bytes", "1", "unknown option write.target-file-size-bytes"),
    ],
)
def test_what_is_refused(name: str, text: str, words: str) -> None:
    """Unknown names, malformed values, and what would break tables, by name."""
    with pytest.raises(OptionError, match=words):
        CleanOptions.parse({name: text})


def test_no_version_at_all_is_refused() -> None:
    """Real Hudi deletes every data file with this; with another policy the number is not looked at."""
    none = {"hoodie.clean.fileversions.retained": "0"}
    with pytest.raises(OptionError, match="would delete every version of every file"):
        CleanOptions.parse({**none, "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"})
    assert CleanOptions.parse(none).versions_retained == 0


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"a1", "a2", "b"}),
        ({"hoodie.clean.partition.filter.regex": "a."}, {"a1", "a2"}),
        ({"hoodie.clean.partition.filter.regex": "a"}, set()),
        ({"hoodie.clean.partition.filter.selected": "a1, b,"}, {"a1", "b"}),
        ({"hoodie.clean.partition.filter.selected": "a1,b", "hoodie.clean.partition.filter.regex": "a."}, {"a1", "b"}),
    ],
)
def test_partition_filters(options: dict[str, str], wanted: set[str]) -> None:
    """A pattern is for the whole name; Hudi 1.2 does not look at it where names are selected."""
    parsed = CleanOptions.parse({**options, "hoodie.clean.incremental.enabled": "false"})
    assert {p for p in ("a1", "a2", "b") if parsed.wants(p)} == wanted


def test_a_writers_configuration_passes() -> None:
    """Options that change no plan are kept as given, and travel to workers."""
    given = {"hoodie.clean.parallelism": "200", "hoodie.clean.async": "true", "hoodie.archive.automatic": "true"}
    options = CleanOptions.parse(given)
    assert options.given["hoodie.clean.async.enabled"] == "true"
    assert pickle.loads(pickle.dumps(options)) == options
