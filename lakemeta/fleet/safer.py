"""Which of two contradicting values of an option is the safer one: it keeps more, or does less.

Options that are not listed have no safer value: two that differ are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import OptionError
from lakemeta.typed_text import number

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGER, _SMALLER = "larger", "smaller"
_OFF, _ON = ("false", "true"), ("true", "false")

_HUDI: Final[Mapping[str, str | tuple[str, ...]]] = {
    "hoodie.clean.failed.writes.policy": ("NEVER", "LAZY", "EAGER"),
    "hoodie.client.heartbeat.interval_in_ms": _LARGER,
    "hoodie.client.heartbeat.tolerable.misses": _LARGER,
}
_REWRITE: Final[Mapping[str, str | tuple[str, ...]]] = {
    "min-input-files": _LARGER,
    "rewrite-all": _OFF,
    "max-file-group-size-bytes": _SMALLER,
    "max-file-group-input-files": _SMALLER,
    "max-concurrent-file-group-rewrites": _SMALLER,
    "lakemeta.write-parquet": _OFF,
}
SAFER: Final[Mapping[str, Mapping[str, str | tuple[str, ...]]]] = {
    "clean": {
        **_HUDI,
        "hoodie.clean.commits.retained": _LARGER,
        "hoodie.clean.hours.retained": _LARGER,
        "hoodie.clean.fileversions.retained": _LARGER,
        "hoodie.clean.multiple.enabled": _OFF,
        "hoodie.clean.trigger.max.commits": _LARGER,
        "hoodie.clean.delete.bootstrap.base.file": _OFF,
        "hoodie.clean.max.commits.to.clean": _SMALLER,
        "lakemeta.clean.drop-savepointed-partitions": _OFF,
    },
    "rollback": _HUDI,
    "rewrite-data-files": {
        **_REWRITE,
        "delete-file-threshold": _LARGER,
        "delete-ratio-threshold": _LARGER,
        "max-files-to-rewrite": _SMALLER,
        "use-starting-sequence-number": _ON,
        "remove-dangling-deletes": _OFF,
    },
    "rewrite-position-deletes": _REWRITE,
    "expire-snapshots": {
        "older_than": _SMALLER,
        "retain_last": _LARGER,
        "clean_expired_metadata": _OFF,
        "cleanup-level": ("none", "metadata", "all"),
        "lakemeta.keep-flink-snapshots": _ON,
    },
    "rewrite-manifests": {"lakemeta.all-specs": _OFF, "lakemeta.only-if-gained": _ON},
    "remove-orphan-files": {
        "older_than": _SMALLER,
        "lakemeta.allow-young": _OFF,
        "prefix_mismatch_mode": ("ERROR", "IGNORE", "DELETE"),
    },
}


def safer(service: str, option: str, one: str, other: str) -> str:
    """The safer of two values; raises OptionError if they differ and it is not known which that is."""
    if one.lower() == other.lower():
        return one
    rule = SAFER.get(service, {}).get(option)
    name = f"{service}.{option}"
    if rule is None:
        raise OptionError(
            f"{name} is set to {one} and to {other} for one table, and neither is known to be safer; give it once"
        )
    if isinstance(rule, str):
        one_is_larger = number(name, one) >= number(name, other)
        return one if one_is_larger == (rule == _LARGER) else other
    ranks = {value.lower(): rank for rank, value in enumerate(rule)}
    for value in (one, other):
        if value.lower() not in ranks:
            raise OptionError(f"'{name}' is set to {value} but must be one of {', '.join(rule)}")
    return min(one, other, key=lambda value: ranks[value.lower()])
