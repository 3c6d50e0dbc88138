"""Options of expire-snapshots: the arguments of Iceberg's procedure, and those of lakemeta beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.service.arguments import FOREIGN, ids, texts, timestamp_ms
from lakemeta.iceberg.service.option_tables import OPTION_TABLES, reject_others
from lakemeta.iceberg.spec.options import check, small, truth

if TYPE_CHECKING:
    from collections.abc import Mapping

Level = Literal["none", "metadata", "all"]

_LEVELS: Final[Mapping[str, Level]] = {
    "none": "none",
    "metadata": "metadata",
    "metadata_only": "metadata",
    "all": "all",
}
OPTIONS: Final = frozenset(option.name for option in OPTION_TABLES["expire-snapshots"]) - {FOREIGN}


@attrs.frozen
class ExpireOptions:
    """What to expire. ``older_than`` is a time in ms (UTC); None leaves a choice to the table's properties.

    ``level`` says which files go: ``all`` that nothing names any more, those of ``metadata`` alone, or ``none``.
    ``foreign_uuids`` are uuids of tables that were dropped.
    """

    older_than: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    clean_expired_metadata: bool = False
    level: Level = "all"
    keep_flink: bool = False
    foreign_uuids: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ExpireOptions:
        """Read options as given.

        ``max_concurrent_deletes`` and ``stream_results`` are checked and change nothing. Raises OptionError, in
        Iceberg's words where it has any.
        """
        reject_others("expire-snapshots", options)
        retain_last = small(options, "retain_last", None)
        least = f"Number of snapshots to retain must be at least 1, cannot be: {retain_last}"
        check(retain_last is None or retain_last >= 1, least)
        deletes = small(options, "max_concurrent_deletes", 1)
        check(deletes > 0, f"max_concurrent_deletes should have value > 0, value: {deletes}")
        truth(options, "stream_results", False)
        return cls(
            timestamp_ms(options, "older_than"),
            retain_last,
            ids(options, "snapshot_ids"),
            truth(options, "clean_expired_metadata", False),
            _level(options.get("cleanup-level", "all")),
            truth(options, "lakemeta.keep-flink-snapshots", False),
            frozenset(texts(options, FOREIGN)),
        )


def _level(text: str) -> Level:
    level = _LEVELS.get(text.lower())
    if level is None:
        raise OptionError(f"'cleanup-level' is set to {text} but must be none, metadata or all")
    return level
