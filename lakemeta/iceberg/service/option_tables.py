"""The options of every service: names as in Iceberg's procedures and actions, defaults, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.spec.options import reject_unknown
from lakemeta.option_text import OptionText as Text

if TYPE_CHECKING:
    from collections.abc import Mapping

_BRANCH: Final = Text("branch", "main", "the branch to read and commit to")
_AT_ONCE: Final = Text("max-concurrent-file-group-rewrites", "5", "groups that are rewritten at a time on this machine")
_PARQUET: Final = Text("lakemeta.write-parquet", "false", "write Parquet though the table is to hold another format")
_FOREIGN: Final = Text(
    "foreign-uuid", "none", "uuids of dropped tables whose metadata may still lie there, by commas", commas=True
)
_DELETES: Final = "max_concurrent_deletes"
_STREAM: Final = "stream_results"
_OLDER: Final = "older_than"


def _sizes(target: str) -> tuple[Text, ...]:
    return (
        Text("target-file-size-bytes", target, "the size of new files"),
        Text("min-file-size-bytes", "75 % of the target", "smaller files are candidates"),
        Text("max-file-size-bytes", "180 % of the target", "larger files are candidates"),
        Text("min-input-files", "5", "candidates of a partition that make a rewrite worth it"),
        Text("rewrite-all", "false", "take every file"),
        Text("max-file-group-size-bytes", "100 GiB", "how many bytes are rewritten together"),
        Text("max-file-group-input-files", "no limit", "how many files are rewritten together"),
        Text("rewrite-job-order", "none", "none, bytes-asc, bytes-desc, files-asc or files-desc"),
        _AT_ONCE,
        Text("partial-progress.enabled", "false", "commit groups as they get ready"),
        Text("partial-progress.max-commits", "10", "how many commits that may be"),
        _PARQUET,
    )


OPTION_TABLES: Final[Mapping[str, tuple[Text, ...]]] = {
    "rewrite-data-files": (
        *_sizes("write.target-file-size-bytes, 512 MiB"),
        Text("delete-file-threshold", "no limit", "files with so many delete files are candidates"),
        Text("delete-ratio-threshold", "0.3", "files of which so large a part is deleted are candidates"),
        Text("max-files-to-rewrite", "no limit", "files that a plan takes at most"),
        Text("output-spec-id", "the table's own", "the partition spec of new files"),
        Text("partial-progress.max-failed-commits", "all", "failed commits from which on the rewrite fails"),
        Text("use-starting-sequence-number", "true", "new files have the sequence number from before the rewrite"),
        Text("remove-dangling-deletes", "false", "take out delete files that apply to nothing afterwards"),
        Text("strategy", "binpack; sort with a sort_order", "binpack or sort"),
        Text("sort_order", "the table's own", "columns to sort by (c desc nulls last), or zorder(a, b)", commas=True),
        _BRANCH,
        Text("compression-factor", "1.0", "with sort: how much larger rows are before they are written"),
        Text("shuffle-partitions-per-file", "1", "with sort: ranges of the key for each new file"),
        Text("var-length-contribution", "8", "with zorder: bytes of texts and binaries that count"),
        Text("max-output-size", "no limit", "with zorder: bytes of a key that count"),
        Text("planner", "that of Iceberg's action", "split-combine plans like a table scan"),
        Text("read.split.planning-lookback", "10", "with split-combine: bins that are open at a time"),
        Text("read.split.open-file-cost", "4 MiB", "with split-combine: the least weight of a file"),
    ),
    "rewrite-manifests": (
        Text("spec_id", "the default spec", "manifests of this partition spec"),
        Text(
            "sort_by", "all fields of the spec", "partition fields to cluster by, first to last, by commas", commas=True
        ),
        Text("use_caching", "false", "accepted; it changes nothing, in the engine neither"),
        Text("lakemeta.all-specs", "false", "those of all specs, each spec by itself"),
        Text("lakemeta.only-if-gained", "false", "leave manifests alone where too little would be gained"),
    ),
    "remove-orphan-files": (
        Text(_OLDER, "three days ago", "files last changed before it may go: ISO 8601, or ms since the epoch"),
        Text("lakemeta.allow-young", "false", "take a cutoff less than a day ago; nothing may be writing then"),
        Text("location", "the table's directories", "look only in this directory"),
        Text("inventory", "none", "do not list; look at the files of this list"),
        Text("prefix_listing", "false", "one flat listing instead of directory by directory"),
        Text("equal_schemes", "s3a,s3n=s3", "schemes that mean the same", commas=True),
        Text("equal_authorities", "none", "authorities that mean the same", commas=True),
        Text("prefix_mismatch_mode", "ERROR", "what becomes of files under another prefix: ERROR, IGNORE or DELETE"),
        _FOREIGN,
        Text(
            "lakemeta.unrelated-tables",
            "none",
            "tables of the catalog not to ask about, names or patterns",
            commas=True,
        ),
        Text(_DELETES, "four a core", "threads, where no executor is given"),
        Text(_STREAM, "false", "the report names at most 20,000 files"),
    ),
    "rewrite-position-deletes": _sizes("write.delete.target-file-size-bytes, 64 MiB"),
    "convert-equality-deletes": (_BRANCH, _AT_ONCE, _PARQUET),
    "remove-dangling-deletes": (_BRANCH,),
    "expire-snapshots": (
        Text(_OLDER, "history.expire.max-snapshot-age-ms, 5 days ago", "the cutoff: ISO 8601, or ms since the epoch"),
        Text("retain_last", "history.expire.min-snapshots-to-keep, 1", "snapshots of each branch that stay at any age"),
        Text("snapshot_ids", "none", "snapshots that go at any age, by commas", commas=True),
        Text("clean_expired_metadata", "false", "schemas and partition specs that no snapshot needs go too"),
        Text("cleanup-level", "all", "which files go: all, metadata or none"),
        Text("lakemeta.keep-flink-snapshots", "false", "what Flink jobs look for when they are restored stays"),
        _FOREIGN,
        Text(_DELETES, "1", "accepted; it changes nothing"),
        Text(_STREAM, "false", "accepted; it changes nothing"),
    ),
    "compute-partition-stats": (Text("snapshot_id", "the current one", "the snapshot"),),
    "compute-table-stats": (
        Text("snapshot_id", "the current one", "the snapshot, whose schema holds"),
        Text("columns", "all of primitive types outside of structs", "full names of columns, by commas", commas=True),
    ),
}


def reject_others(service: str, options: Mapping[str, str]) -> None:
    """Raise OptionError for the first option (by name) that a service does not have."""
    reject_unknown(options, [option.name for option in OPTION_TABLES[service]], service)
