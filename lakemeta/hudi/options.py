"""Options of a clean: the engine's own names in both spellings, with its defaults and our refusals.

Every option has a primary name (Hudi 1.x) and may have an older spelling; both are accepted, and both at once with
different values are refused. Options that belong to the writer's side of a clean and change no plan
(``hoodie.clean.parallelism``, locks, archival) are accepted and kept, so that a writer's own configuration can be
passed as it is.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs

from lakemeta.errors import OptionError
from lakemeta.option_text import OptionText
from lakemeta.typed_text import truth, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Policy(StrEnum):
    """``HoodieCleaningPolicy``."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


class FailedWrites(StrEnum):
    """``HoodieFailedWritesCleaningPolicy``."""

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


_MOST: Final = 999_999_999  # fits Java's int, and is more than any option needs


@attrs.frozen(slots=True)
class _Option:
    """One option: the field it sets, its primary name, how its text is read, its older spelling, what it means."""

    field: str | None
    name: str
    parse: Callable[[str, str], Any]
    older: str | None = None
    meaning: str = "of a writer; it changes no plan"


def _whole(name: str, text: str) -> int:
    return whole(name, text, 0, _MOST)


def _text(_: str, text: str) -> str:
    return text


def _names(_: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(f"{name}={text} is no regular expression: {error}") from None
    return text


def _zone(name: str, text: str) -> str:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError):
        raise OptionError(f"{name}={text} is no timezone; give an IANA name such as Europe/Berlin") from None
    return text


def _choice(kind: type[StrEnum]) -> Callable[[str, str], Any]:
    def parse(name: str, text: str) -> StrEnum:
        try:
            return kind(text.upper())
        except ValueError:
            raise OptionError(f"{name}={text} is none of {', '.join(kind)}") from None

    return parse


# Retries within a provider, and the options of providers that lakemeta cannot ask.
_OTHER_LOCK_OPTIONS: Final = (
    "num_retries",
    "wait_time_ms",
    "wait_time_ms_between_retry",
    "max_wait_time_ms_between_retry",
    "heartbeat_interval_ms",
    "conflict.resolution.strategy",
    "zookeeper.url",
    "zookeeper.port",
    "zookeeper.lock_key",
    "zookeeper.base_path",
    "zookeeper.session_timeout_ms",
    "zookeeper.connection_timeout_ms",
    "hivemetastore.database",
    "hivemetastore.table",
    "hivemetastore.uris",
    "dynamodb.table",
    "dynamodb.partition_key",
    "dynamodb.region",
    "dynamodb.endpoint_url",
    "dynamodb.billing_mode",
)
_OPTIONS: Final = (
    _Option(
        "policy",
        "hoodie.clean.policy",
        _choice(Policy),
        "hoodie.cleaner.policy",
        meaning="KEEP_LATEST_COMMITS, KEEP_LATEST_BY_HOURS or KEEP_LATEST_FILE_VERSIONS",
    ),
    _Option(
        "commits_retained",
        "hoodie.clean.commits.retained",
        _whole,
        "hoodie.cleaner.commits.retained",
        meaning="KEEP_LATEST_COMMITS: commits whose files stay",
    ),
    _Option(
        "hours_retained",
        "hoodie.clean.hours.retained",
        _whole,
        "hoodie.cleaner.hours.retained",
        meaning="KEEP_LATEST_BY_HOURS: hours whose commits' files stay",
    ),
    _Option(
        "versions_retained",
        "hoodie.clean.fileversions.retained",
        _whole,
        "hoodie.cleaner.fileversions.retained",
        meaning="KEEP_LATEST_FILE_VERSIONS: versions of each file that stay",
    ),
    _Option(
        "incremental",
        "hoodie.clean.incremental.enabled",
        truth,
        "hoodie.cleaner.incremental.mode",
        meaning="visit only the partitions that commits since the last clean touched",
    ),
    _Option(
        "failed_writes",
        "hoodie.clean.failed.writes.policy",
        _choice(FailedWrites),
        "hoodie.cleaner.policy.failed.writes",
        meaning="which pending writes have failed: EAGER all, LAZY those without a heartbeat, NEVER none",
    ),
    _Option(
        "allow_multiple",
        "hoodie.clean.multiple.enabled",
        truth,
        "hoodie.clean.allow.multiple",
        meaning="plan a clean though another one is pending",
    ),
    _Option(
        "trigger_strategy",
        "hoodie.clean.trigger.strategy",
        _text,
        meaning="what makes a clean due; NUM_COMMITS alone is known",
    ),
    _Option(
        "trigger_max_commits",
        "hoodie.clean.trigger.max.commits",
        _whole,
        "hoodie.clean.max.commits",
        meaning="commits since the last clean that make one due",
    ),
    _Option(
        "delete_bootstrap_base",
        "hoodie.clean.delete.bootstrap.base.file",
        truth,
        "hoodie.cleaner.delete.bootstrap.base.file",
        meaning="true is refused: it would delete files outside of the table",
    ),
    _Option(
        "partition_regex",
        "hoodie.clean.partition.filter.regex",
        _pattern,
        "hoodie.cleaner.partition.filter.regex",
        meaning="clean only partitions that match; needs a full clean",
    ),
    _Option(
        "partition_selected",
        "hoodie.clean.partition.filter.selected",
        _names,
        "hoodie.cleaner.partition.filter.selected",
        meaning="clean only these partitions, by commas; needs a full clean",
    ),
    _Option(
        "max_commits_to_clean",
        "hoodie.clean.max.commits.to.clean",
        _whole,
        meaning="commits that one clean moves on by at most",
    ),
    _Option(
        "empty_clean_interval_hours",
        "hoodie.write.empty.clean.interval.hours",
        _whole,
        meaning="write a clean without files if the last clean is so old; 0 is off",
    ),
    _Option(
        "heartbeat_interval_ms",
        "hoodie.client.heartbeat.interval_in_ms",
        _whole,
        meaning="how often a writer shows that it is alive",
    ),
    _Option(
        "heartbeat_misses",
        "hoodie.client.heartbeat.tolerable.misses",
        _whole,
        meaning="heartbeats that may be missed before a write has failed",
    ),
    _Option(
        "rollback_by_markers",
        "hoodie.rollback.using.markers",
        truth,
        meaning="find the files of a failed write by its markers",
    ),
    _Option("concurrency_mode", "hoodie.write.concurrency.mode", _text, meaning="how writers exclude each other"),
    _Option("lock_provider", "hoodie.write.lock.provider", _text, meaning="the class of the lock that writers take"),
    _Option("lock_retries", "hoodie.write.lock.client.num_retries", _whole, meaning="how often the lock is tried for"),
    _Option(
        "lock_retry_wait_ms",
        "hoodie.write.lock.client.wait_time_ms_between_retry",
        _whole,
        meaning="how long to wait between tries",
    ),
    _Option(
        "lock_path",
        "hoodie.write.lock.filesystem.path",
        _text,
        meaning="FileSystemBasedLockProvider: the directory of the lock file",
    ),
    _Option(
        "lock_expire_minutes",
        "hoodie.write.lock.filesystem.expire",
        _whole,
        meaning="FileSystemBasedLockProvider: minutes after which a lock is stale; 0 is never",
    ),
    _Option(
        "lock_validity_s",
        "hoodie.write.lock.storage.validity.timeout.secs",
        _whole,
        meaning="StorageBasedLockProvider: seconds for which a lock holds",
    ),
    _Option(
        "lock_renew_s",
        "hoodie.write.lock.storage.renew.interval.secs",
        _whole,
        "hoodie.write.lock.storage.heartbeat.poll.secs",
        meaning="StorageBasedLockProvider: seconds after which it is renewed",
    ),
    _Option(
        "drop_savepointed",
        "lakemeta.clean.drop-savepointed-partitions",
        truth,
        meaning="drop partitions though savepoints name files in them, as Hudi does",
    ),
    _Option(
        "timezone", "lakemeta.timeline.timezone", _zone, meaning="the timezone of instants, where the table says LOCAL"
    ),
    # The rest changes no plan; a writer's configuration may carry it.
    _Option(None, "hoodie.clean.automatic", truth),
    _Option(None, "hoodie.clean.parallelism", _whole, "hoodie.cleaner.parallelism"),
    _Option(None, "hoodie.clean.async.enabled", truth, "hoodie.clean.async"),
    _Option(None, "hoodie.prewrite.cleaner.policy", _text),
    *(_Option(None, f"hoodie.write.lock.{name}", _text) for name in _OTHER_LOCK_OPTIONS),
    _Option(None, "hoodie.rollback.parallelism", _whole),
    _Option(None, "hoodie.archive.automatic", truth),
    _Option(None, "hoodie.archive.beyond.savepoint", truth),
    _Option(None, "hoodie.metadata.enable", truth),
)
_OF_ROLLBACKS: Final = frozenset(
    {"failed_writes", "heartbeat_interval_ms", "heartbeat_misses", "rollback_by_markers", "timezone"}
    | {option.field for option in _OPTIONS if option.field and option.field.startswith("lock_")}
)
_BY_NAME: Final = {name: option for option in _OPTIONS for name in (option.name, option.older) if name}


@attrs.frozen
class CleanOptions:
    """How to clean. Defaults are Hudi's (``HoodieCleanConfig``, ``HoodieWriteConfig``)."""

    policy: Policy = Policy.KEEP_LATEST_COMMITS
    commits_retained: int = 10
    hours_retained: int = 24
    versions_retained: int = 3
    incremental: bool = True
    failed_writes: FailedWrites = FailedWrites.EAGER
    allow_multiple: bool = False
    trigger_strategy: str = "NUM_COMMITS"
    trigger_max_commits: int = 1
    delete_bootstrap_base: bool = False
    partition_regex: str | None = None
    partition_selected: tuple[str, ...] = ()
    max_commits_to_clean: int | None = None
    empty_clean_interval_hours: int = 0
    heartbeat_interval_ms: int = 60_000
    heartbeat_misses: int = 2
    rollback_by_markers: bool = True
    concurrency_mode: str = "SINGLE_WRITER"
    lock_provider: str | None = None
    lock_retries: int = 50
    lock_retry_wait_ms: int = 5_000
    lock_path: str | None = None
    lock_expire_minutes: int = 0
    lock_validity_s: int = 300
    lock_renew_s: int = 30
    drop_savepointed: bool = False
    timezone: str | None = None
    given: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> CleanOptions:
        """Read options by either spelling.

        Raises:
            OptionError: a name is unknown, a value is malformed, two spellings disagree, or the values would delete
                every version of the data.
        """
        given: dict[str, str] = {}
        for name, value in options.items():
            option = _BY_NAME.get(name)
            if option is None:
                raise OptionError.unknown(name, _BY_NAME, "lakemeta options clean lists all")
            if given.setdefault(option.name, value) != value:
                raise OptionError(f"{option.name} and {option.older} are given with different values; give one")
        values = {name: _BY_NAME[name].parse(name, text) for name, text in given.items()}
        fields = {field: value for name, value in values.items() if (field := _BY_NAME[name].field)}
        parsed = cls(**fields, given=dict(sorted(given.items())))
        parsed._refuse()
        return parsed

    def wants(self, partition: str) -> bool:
        """True if the partition filters let a full clean visit this partition."""
        if self.partition_selected:  # then Hudi 1.2 does not look at the other filter
            return partition in self.partition_selected
        return self.partition_regex is None or re.fullmatch(self.partition_regex, partition) is not None

    def _refuse(self) -> None:
        if self.policy is Policy.KEEP_LATEST_FILE_VERSIONS and self.versions_retained == 0:
            raise OptionError(
                "hoodie.clean.fileversions.retained=0 would delete every version of every file, the live ones too; "
                "give 1 or more"
            )
        if self.max_commits_to_clean == 0:
            raise OptionError("hoodie.clean.max.commits.to.clean=0 would never move on; give 1 or more")
        if self.trigger_strategy != "NUM_COMMITS":
            raise OptionError(f"hoodie.clean.trigger.strategy={self.trigger_strategy} is unknown; give NUM_COMMITS")
        if self.delete_bootstrap_base:
            raise OptionError(
                "hoodie.clean.delete.bootstrap.base.file=true would delete files outside the table, which lakemeta "
                "never does; leave it false"
            )
        if self.incremental and (self.partition_regex or self.partition_selected):
            raise OptionError(
                "partition filters need hoodie.clean.incremental.enabled=false: an incremental clean must see every "
                "partition that changed"
            )


_DEFAULTS: Final = CleanOptions()


def option_texts(*, of_rollbacks: bool = False) -> tuple[OptionText, ...]:
    """What is said of each option, in order; ``of_rollbacks`` leaves out what only a clean reads."""
    return tuple(
        OptionText(option.name, _default(option), option.meaning, option.older, option.parse in (_names, _pattern))
        for option in _OPTIONS
        if not of_rollbacks or option.field in _OF_ROLLBACKS
    )


def _default(option: _Option) -> str:
    value = getattr(_DEFAULTS, option.field) if option.field else None
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None or value == () else str(value)
