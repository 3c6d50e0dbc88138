"""The file that says which tables are maintained: parsed, merged, refused."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.cli.many import known_options
from lakemeta.cli.option_list import option_tables
from lakemeta.errors import OptionError
from lakemeta.fleet.budget import Budget
from lakemeta.fleet.config import Config, Surroundings, parse_config
from lakemeta.fleet.part import Part, merge
from lakemeta.fleet.policies import parse_policies
from lakemeta.fleet.safer import SAFER, safer
from lakemeta.fleet.schedule import Schedule
from lakemeta.iceberg.expire.options import ExpireOptions
from lakemeta.iceberg.orphans.options import OrphanOptions

DAY = 86_400_000
NOW = 1_790_000_000_000
KNOWN = known_options()


def parsed(text: str, **files: str) -> Config:
    around = Surroundings(KNOWN, NOW, lambda glob: glob, lambda name: files[name.removesuffix(".json")])
    return parse_config(text, "l.toml", around)


def refusal(text: str, **files: str) -> str:
    with pytest.raises(OptionError) as caught:
        parsed(text, **files)
    return str(caught.value)


WHOLE = """
tables = ["/lake/**", "s3://lake/**", "catalog://prod/sales.*"]
services = ["expire-snapshots", "clean"]
tables-at-once = 2
quarantine = true
proof = "full"
max-share = 50

[storage-options."s3://"]
"s3.region" = "eu"
[storage-options."s3://lake"]
s3.region = "us"

[budget]
files = 1000
bytes = "1GiB"
minutes = 1.5

[schedule]
shortest-hours = 1
longest-hours = 10
little = "1KiB"
much = "1MiB"

[service.clean]
hoodie.clean.commits.retained = 20
hoodie.cleaner.policy = "KEEP_LATEST_COMMITS"
[service.expire-snapshots]
older_than = "7d"
retain_last = 3
at-least = 2
[service.rewrite-data-files]
enable = false
target-file-size-bytes = "1MiB"

[[override]]
tables = ["/lake/gold/**"]
services = ["clean"]
[override.service.clean]
hoodie.clean.commits.retained = 10
[override.budget]
files = 5

[[override]]
tables = ["/lake/gold/t", "/lake/gold/u"]
skip = true
[override.service.clean]
hoodie.clean.commits.retained = 30
"""


def test_a_whole_file() -> None:
    """Everything that a file may say; options by their primary names, sizes in bytes, ages as moments."""
    config = parsed(WHOLE)
    general = config.of("/lake/t")
    assert general.services == ("expire-snapshots", "clean")
    assert general.settings == {
        ("clean", "hoodie.clean.commits.retained"): "20",
        ("clean", "hoodie.clean.policy"): "KEEP_LATEST_COMMITS",
        ("expire-snapshots", "older_than"): str(NOW - 7 * DAY),
        ("expire-snapshots", "retain_last"): "3",
        ("rewrite-data-files", "target-file-size-bytes"): "1048576",
    }
    assert (general.at_least, general.enabled) == ({"expire-snapshots": 2}, {"rewrite-data-files": False})
    assert (general.quarantine, general.proof, general.max_share) == (True, "full", 50)
    assert config.budget == Budget(1000, 2**30, 1.5)
    assert (config.schedule.longest_hours, config.schedule.little, config.tables_at_once) == (10, 1024, 2)
    assert config.options_of("s3://lake/t") == {"s3.region": "us"}
    assert config.options_of("s3://other/t") == {"s3.region": "eu"}
    assert config.options_of("gs://lake/t") == {}


def test_overrides() -> None:
    """One takes the place of what is said in general; of two that contradict each other the safer value wins."""
    config = parsed(WHOLE)
    one, two = config.of("/lake/gold/x"), config.of("/lake/gold/t")
    assert one.settings["clean", "hoodie.clean.commits.retained"] == "10"
    assert two.settings["clean", "hoodie.clean.commits.retained"] == "30"
    assert (one.services, one.budget.files, one.skip, two.skip) == (("clean",), 5, None, True)
    assert one.settings["expire-snapshots", "retain_last"] == "3"


def test_the_order_of_services() -> None:
    """Those that are named, in that order; those of the table that are not switched off, in its own, if none are."""
    own = ("rewrite-data-files", "expire-snapshots", "remove-orphan-files")
    general = parsed(WHOLE).of("/lake/t")
    assert general.order(own) == ("expire-snapshots",)
    assert Part(enabled={"expire-snapshots": False}).order(own) == ("rewrite-data-files", "remove-orphan-files")
    assert Part(services=own[::-1]).order(own) == own[::-1]


def test_the_examples_of_the_page() -> None:
    """They are files that are taken, and the names of defaults are those of the code."""
    page = (Path(__file__).parents[3] / "docs/many-tables.md").read_text(encoding="utf-8")
    whole, schedule = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    config = parsed(whole)
    assert config.of("/lake/gold/t").settings["expire-snapshots", "older_than"] == str(NOW - 90 * DAY)
    assert config.of("/lake/scratch/t").skip
    assert config.budget == Budget(100_000, 500 * 2**30, 120)
    assert parsed(T + schedule).schedule == Schedule() == config.schedule


T = 'tables = ["/lake/**"]\n'
OVERRIDES = "[[override]]\ntables = ['/lake/a*']\n{}\n[[override]]\ntables = ['/lake/*b']\n{}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tabels = []", "unknown option tabels; did you mean tables?"),
        ("tables = []", 'l.toml names no tables; write tables = ["/lake/**"]'),
        ("tables = 'x'", "must be a list of texts"),
        ("tables = [", "l.toml is no TOML"),
        (T + "[budgets]", "did you mean budget?"),
        (T + "[budget]\nbyte = 1", "did you mean bytes?"),
        (T + "[budget]\nbytes = '1 GB of'", "or a size as 128MiB"),
        (T + "[budget]\nminutes = -1", "must be a number from 0 to 1e+09"),
        (T + "[schedule]\nshortest = 1", "did you mean shortest-hours?"),
        (T + "[schedule]\nshortest-hours = 10000", "must not be less than"),
        (T + "[service.expire-snapshot]", "unknown service expire-snapshot; did you mean expire-snapshots?"),
        (T + "services = ['cleen']", "unknown service cleen; did you mean clean?"),
        (T + "services = ['clean', 'clean']", "names one twice"),
        (T + "[service.expire-snapshots]\nretain-last = 1", "did you mean retain_last?"),
        (T + "[service.expire-snapshots]\nat-least = 0", "at-least"),
        (T + "[service.expire-snapshots]\nsnapshot_ids = [1, 2]", "is of one table; give it in an [[override]]"),
        (T + "[service.clean]\nhoodie.clean.comits.retained = 1", "did you mean hoodie.clean.commits.retained?"),
        (
            T + "[service.clean]\n'hoodie.cleaner.policy' = 'A'\n'hoodie.clean.policy' = 'B'",
            "hoodie.clean.policy is given twice",
        ),
        (T + "proof = 'some'", "one of full, sample, off"),
        (T + "max-share = 101", "a percentage"),
        (T + "tables-at-once = 1000", "from 1 to 64"),
        (T + "quarantine = 'yes'", "true or false"),
        (T + "[storage-options]\nregion = 'eu'", "must be a table"),
        (T + "[storage-options.region]\nx = 'eu'", "are of the beginning of a URL"),
        (T + "[override]", "write [[override]]"),
        (T + "[[override]]\nskip = true", "[[override]] 1 names no tables"),
        (T + "[[override]]\ntables = ['/x']\nstorage-options = {}", "unknown option storage-options"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    """In one sentence, which names the nearest known name."""
    assert said in refusal(text)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("services = ['clean']", "services = ['rollback', 'clean']"),
        (
            "service.rewrite-data-files.target-file-size-bytes = 1",
            "service.rewrite-data-files.target-file-size-bytes = 2",
        ),
        ("service.clean.hoodie.clean.policy = 'A'", "service.clean.hoodie.clean.policy = 'B'"),
    ],
)
def test_contradictions_without_a_safer_side(one: str, two: str) -> None:
    """They are refused for the tables of both overrides, and stand for the others."""
    config = parsed(T + OVERRIDES.format(one, two))
    assert config.of("/lake/a") != config.of("/lake/b")
    with pytest.raises(OptionError, match=r"neither is known to\s+be safer"):
        config.of("/lake/ab")


def test_every_rule_is_of_an_option() -> None:
    """What is safer is said of options that there are."""
    names = {service: {option.name for option in options} for service, options in option_tables().items()}
    for service, rules in SAFER.items():
        assert rules.keys() <= names[service]
    assert set(KNOWN) <= names.keys()


@pytest.mark.parametrize(
    ("service", "option", "safe", "less"),
    [
        ("clean", "hoodie.clean.commits.retained", "10", "9"),
        ("clean", "hoodie.clean.failed.writes.policy", "LAZY", "eager"),
        ("expire-snapshots", "older_than", str(NOW - DAY), str(NOW)),
        ("expire-snapshots", "retain_last", "100", "99"),
        ("expire-snapshots", "cleanup-level", "none", "metadata"),
        ("remove-orphan-files", "prefix_mismatch_mode", "IGNORE", "DELETE"),
        ("remove-orphan-files", "lakemeta.allow-young", "false", "true"),
        ("rewrite-data-files", "max-files-to-rewrite", "5", "10"),
    ],
)
def test_the_safer_value(service: str, option: str, safe: str, less: str) -> None:
    """More retained, an older cutoff, fewer files: whichever comes first."""
    assert safer(service, option, safe, less) == safer(service, option, less, safe) == safe


COUNTS = st.one_of(st.none(), st.integers(0, 5))
PARTS = st.builds(
    Part,
    settings=st.dictionaries(
        st.sampled_from([("expire-snapshots", "retain_last"), ("expire-snapshots", "older_than")]),
        st.integers(0, 9).map(str),
    ),
    at_least=st.dictionaries(st.sampled_from(["clean", "rollback"]), st.integers(1, 5)),
    enabled=st.dictionaries(st.sampled_from(["clean", "rollback"]), st.booleans()),
    skip=st.one_of(st.none(), st.booleans()),
    quarantine=st.one_of(st.none(), st.booleans()),
    proof=st.sampled_from([None, "full", "sample", "off"]),
    max_share=st.one_of(st.none(), st.floats(0, 100)),
    assume_single_writer=st.one_of(st.none(), st.booleans()),
    budget=st.builds(Budget, COUNTS, COUNTS, COUNTS),
)


@given(st.lists(PARTS, min_size=1, max_size=4), st.randoms())
def test_merging_is_safe_in_any_order(parts: list[Part], random: Any) -> None:
    """The order does not count, saying it twice does not either, and no part is less safe than the whole."""
    whole = merge(parts)
    shuffled = list(parts)
    random.shuffle(shuffled)
    assert merge(shuffled) == merge([*parts, *parts]) == whole
    for part in parts:
        for (service, option), value in part.settings.items():
            assert safer(service, option, whole.settings[service, option], value) == whole.settings[service, option]
        assert all(whole.at_least[name] >= least for name, least in part.at_least.items())
        assert whole.quarantine or not part.quarantine
        assert whole.skip or not part.skip
        if part.budget.files is not None:
            assert whole.budget.files is not None
            assert whole.budget.files <= part.budget.files


@given(PARTS, PARTS)
def test_an_override_is_taken_at_its_word(override: Part, general: Part) -> None:
    """Value by value, and what it does not say is as it is in general."""
    both = override.over(general)
    for name in ("skip", "quarantine", "proof", "max_share", "assume_single_writer"):
        said = getattr(override, name)
        assert getattr(both, name) == (getattr(general, name) if said is None else said)
    assert both.settings == {**general.settings, **override.settings}


# --- policies of Polaris


def policy(kind: str, content: object, **more: object) -> str:
    return json.dumps({"name": "p", "type": f"system.{kind}", "content": content, **more})


def said(text: str) -> Part:
    return parse_policies(text, "p.json", {s: set(o.values()) for s, o in KNOWN.items()}, NOW)[0]


def test_the_examples_of_polaris() -> None:
    """The contents of its documentation, as text and as an object, one policy or an answer with several."""
    compaction = {
        "version": "2025-02-03",
        "enable": True,
        "config": {
            "target_file_size_bytes": 134217728,
            "compaction_strategy": "bin-pack",
            "max-concurrent-file-group-rewrites": 5,
        },
    }
    expected = {
        ("rewrite-data-files", "target-file-size-bytes"): "134217728",
        ("rewrite-data-files", "strategy"): "binpack",
        ("rewrite-data-files", "max-concurrent-file-group-rewrites"): "5",
    }
    assert said(policy("data-compaction", compaction)).settings == expected
    assert said(policy("data-compaction", json.dumps(compaction))).settings == expected
    expiry = {"enable": True, "config": {"min_snapshot_to_keep": 1, "max_snapshot_age_days": 2, "max_ref_age_days": 3}}
    answer = {
        "policies": [
            {"name": "a", "type": "system.snapshot-expiry", "appliedAt": "namespace", "content": expiry},
            {"name": "b", "policy-type": "system.metadata-compaction", "content": {"enable": False}},
        ]
    }
    part, notes = parse_policies(json.dumps(answer), "p.json", {s: set(o.values()) for s, o in KNOWN.items()}, NOW)
    assert part.settings == {
        ("expire-snapshots", "retain_last"): "1",
        ("expire-snapshots", "older_than"): str(NOW - 2 * DAY),
    }
    assert part.enabled == {"expire-snapshots": True, "rewrite-manifests": False}
    assert notes == (
        "p.json: policy a: max_ref_age_days has no effect; the table's history.expire.max-ref-age-ms decides",
    )
    orphans = {"enable": True, "max_orphan_file_age_in_days": 30, "config": {"prefix_mismatch_mode": "ignore"}}
    settings = said(policy("orphan-file-removal", orphans)).settings_of(["remove-orphan-files"])
    options = {name.partition(".")[2]: value for name, value in settings.items()}
    assert OrphanOptions.parse(options).older_than_ms == NOW - 30 * DAY
    older = {"enable": True, "older_than": 1707315296}
    assert said(policy("orphan-file-removal", older)).settings == {
        ("remove-orphan-files", "older_than"): "1707315296000"
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is no JSON"),
        ("[1]", "must be a table"),
        (policy("data-compaktion", {"enable": True}), "did you mean system.data-compaction?"),
        (policy("data-compaction", {}), "does not say enable"),
        (policy("data-compaction", {"enable": "yes"}), "true or false"),
        (policy("data-compaction", {"enabled": True}), "did you mean enable?"),
        (policy("data-compaction", "{"), "its content is no JSON"),
        (policy("data-compaction", {"enable": True, "version": "2026-01-01"}), "2025-02-03 alone is known"),
        (policy("data-compaction", {"enable": True, "config": {"my-key": "v"}}), "unknown option my-key"),
        (policy("data-compaction", {"enable": True}, kontent=1), "did you mean content?"),
        (policy("snapshot-expiry", {"enable": True, "config": {"max_snapshot_age_days": "2"}}), "number of days"),
        (policy("orphan-file-removal", {"enable": True, "locations": ["s3://x"]}), "is of one table"),
        (policy("orphan-file-removal", {"enable": True, "older_than": "yesterday"}), "Unix timestamp"),
        (
            policy("orphan-file-removal", {"enable": True, "older_than": 1, "max_orphan_file_age_in_days": 1}),
            "to different values",
        ),
    ],
)
def test_policies_that_are_refused(text: str, expected: str) -> None:
    """In a sentence that names the file and the policy."""
    with pytest.raises(OptionError) as caught:
        said(text)
    assert expected in str(caught.value)
    assert str(caught.value).startswith("p.json")


def test_policies_beside_the_file() -> None:
    """What the file and its policies say in general is merged; an override may have policies of its own."""
    keep = policy("snapshot-expiry", {"enable": True, "config": {"min_snapshots_to_keep": 7}})
    less = policy("snapshot-expiry", {"enable": True, "config": {"retain_last": 2}})
    config = parsed(
        T
        + "policies = ['keep.json']\n[service.expire-snapshots]\nretain_last = 5\n"
        + "[[override]]\ntables = ['/lake/x']\npolicies = ['less.json']",
        keep=keep,
        less=less,
    )
    assert config.of("/lake/t").settings["expire-snapshots", "retain_last"] == "7"
    assert config.of("/lake/x").settings["expire-snapshots", "retain_last"] == "2"
    settings = config.of("/lake/t").settings_of(["expire-snapshots"])
    options = ExpireOptions.parse({name.partition(".")[2]: value for name, value in settings.items()})
    assert options.retain_last == 7


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "content", "enable", "config", "version", "policies", "older_than"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_anything_is_a_policy_or_a_sentence(value: object) -> None:
    """Whatever JSON there is."""
    for document in (value, {"type": "system.data-compaction", "content": value}):
        with suppress(OptionError):
            assert said(json.dumps(document)).settings is not None
