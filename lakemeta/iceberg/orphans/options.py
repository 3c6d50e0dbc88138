"""The arguments of remove_orphan_files, by the names of Iceberg's procedure, and those that lakemeta adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.orphans.uris import MODES, MismatchMode, PrefixRules
from lakemeta.iceberg.service.arguments import FOREIGN, texts, timestamp_ms
from lakemeta.iceberg.service.option_tables import reject_others
from lakemeta.iceberg.spec import options as given

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE: Final = "remove-orphan-files"
ALLOW_YOUNG: Final = "lakemeta.allow-young"
UNRELATED: Final = "lakemeta.unrelated-tables"
DAY_MS: Final = 86_400_000
_NOT_HERE: Final = {
    "dry_run": "the dry run of remove_orphan_files is the plan; leave dry_run out",
    "file_list_view": "a view is Spark's own; write its rows to a Parquet or CSV file and give that as inventory",
}


@attrs.frozen
class OrphanOptions:
    """What is asked of a removal. Times are ms since the epoch; ``older_than_ms`` is None where it is not given.

    ``foreign_uuids`` are uuids of tables that were dropped; the catalog is not asked about those tables whose names
    match one of ``unrelated``. ``stream_results`` says that a sample of the result does.
    """

    older_than_ms: int | None = None
    location: str | None = None
    threads: int | None = None
    rules: PrefixRules = attrs.field(factory=PrefixRules)
    prefix_listing: bool = False
    stream_results: bool = False
    inventory: str | None = None
    foreign_uuids: frozenset[str] = frozenset()
    unrelated: tuple[str, ...] = ()
    allow_young: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> OrphanOptions:
        """Read the arguments; raises OptionError for an unknown one, or in the engine's words."""
        for name, advice in _NOT_HERE.items():
            if name in options:
                raise OptionError(advice)
        reject_others(SERVICE, options)
        threads = given.small(options, "max_concurrent_deletes", None)
        given.check(threads is None or threads > 0, f"max_concurrent_deletes should have value > 0, value: {threads}")
        return cls(
            older_than_ms=timestamp_ms(options, "older_than"),
            location=_text(options, "location"),
            threads=threads,
            rules=PrefixRules(
                _mode(options.get("prefix_mismatch_mode", "ERROR")),
                _same(options, "equal_schemes"),
                _same(options, "equal_authorities"),
            ),
            prefix_listing=given.truth(options, "prefix_listing", False),
            stream_results=given.truth(options, "stream_results", False),
            inventory=_text(options, "inventory"),
            foreign_uuids=frozenset(text.lower() for text in texts(options, FOREIGN)),
            unrelated=texts(options, UNRELATED),
            allow_young=given.truth(options, ALLOW_YOUNG, False),
        )

    def cutoff(self, now_ms: int) -> int:
        """Files last changed before this moment (ms) may go: by default three days ago.

        Raises OptionError, in the engine's words, for a moment less than 24 hours ago that is not allowed by name.
        """
        if self.older_than_ms is None:
            return now_ms - 3 * DAY_MS
        self.check_age(self.older_than_ms, now_ms)
        return self.older_than_ms

    def check_age(self, cutoff_ms: int, now_ms: int) -> None:
        """Raise OptionError for a cutoff less than 24 hours ago that is not allowed by name."""
        given.check(
            self.allow_young or now_ms - cutoff_ms >= DAY_MS,
            "Cannot remove orphan files with an interval less than 24 hours. Executing this procedure with a short "
            "interval may corrupt the table if other operations are happening at the same time. If you are absolutely "
            "confident that no concurrent operations will be affected by removing orphan files with such a short "
            f"interval, set {ALLOW_YOUNG}=true",
        )


def _text(options: Mapping[str, str], name: str) -> str | None:
    if name in options and not options[name]:
        raise OptionError(f"'{name}' is empty; leave it out, or say which")
    return options.get(name)


def _mode(text: str) -> MismatchMode:
    for mode in MODES:
        if text.upper() == mode:
            return mode
    raise OptionError(f"Invalid mode: {text}")


def _same(options: Mapping[str, str], name: str) -> dict[str, str]:
    """A map such as ``s3a,s3n=s3,gs=s3``: what each name before an equals sign stands for."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    for item in options[name].split(",") if name in options else ():
        key, equals, value = (part.strip() for part in item.partition("="))
        waiting.append(key)
        if equals:
            found |= dict.fromkeys(waiting, value)
            waiting = []
        if not key:
            raise OptionError(f"'{name}' is set to {options[name]!r} but must be a map such as s3a,s3n=s3")
    if waiting:
        raise OptionError(f"'{name}' is set to {options[name]!r} but must be a map such as s3a,s3n=s3")
    return found
