"""The options of rewrite_data_files that are not about packing: how groups are rewritten, ordered and committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, cast

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.rewrite import bin_pack as rewrite
from lakemeta.iceberg.rewrite import split_combine
from lakemeta.iceberg.spec import options as given
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Mapping

CONCURRENCY: Final = "max-concurrent-file-group-rewrites"
PARTIAL: Final = "partial-progress.enabled"
MAX_COMMITS: Final = "partial-progress.max-commits"
MAX_FAILED: Final = "partial-progress.max-failed-commits"
PARTITIONS_PER_FILE: Final = "shuffle-partitions-per-file"

_JOB: Final = (
    CONCURRENCY,
    PARTIAL,
    MAX_COMMITS,
    MAX_FAILED,
    "use-starting-sequence-number",
    "remove-dangling-deletes",
    "lakemeta.write-parquet",
    "strategy",
    "sort_order",
    "branch",
)
_SORT: Final = (rewrite.COMPRESSION_FACTOR, PARTITIONS_PER_FILE, "var-length-contribution", "max-output-size")


@attrs.frozen(slots=True)
class JobOptions:
    """Options by the names of Iceberg's action, and the arguments ``strategy``, ``sort_order`` and ``branch``.

    ``max_concurrent`` is None if not given: then an executor elsewhere takes as many groups as it can, this machine
    five. ``max_failed_commits`` defaults to ``max_commits``.
    """

    max_concurrent: int | None = None
    partial_progress: bool = False
    max_commits: int = 10
    max_failed_commits: int = 10
    use_starting_sequence_number: bool = True
    remove_dangling_deletes: bool = False
    write_parquet: bool = False
    strategy: Literal["binpack", "sort"] = "binpack"
    sort_order: str | None = None
    string_bytes: int = 8
    shuffle_partitions_per_file: int = 1
    branch: str = MAIN_BRANCH

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> JobOptions:
        """Read the options of the job; raises OptionError for an unknown one, or in the engine's words."""
        strategy = _strategy(options)
        packing = split_combine.OPTIONS if split_combine.is_asked_for(options) else (*rewrite.OPTIONS, "planner")
        known = (*packing, *_JOB, *(_SORT if strategy == "sort" else ()))
        given.reject_unknown(options, known, "rewrite-data-files")
        partial, commits = partial_progress(options)
        parsed = cls(
            max_concurrent=max_concurrent(options),
            partial_progress=partial,
            max_commits=commits,
            max_failed_commits=given.small(options, MAX_FAILED, commits),
            use_starting_sequence_number=given.truth(options, "use-starting-sequence-number", True),
            remove_dangling_deletes=given.truth(options, "remove-dangling-deletes", False),
            write_parquet=given.truth(options, "lakemeta.write-parquet", False),
            strategy=strategy,
            sort_order=options.get("sort_order"),
            string_bytes=given.small(options, "var-length-contribution", 8),
            shuffle_partitions_per_file=given.small(options, PARTITIONS_PER_FILE, 1),
            branch=options.get("branch", MAIN_BRANCH),
        )
        _check(parsed)
        return parsed

    @property
    def threads(self) -> int:
        """How many groups are rewritten at a time on this machine."""
        return self.max_concurrent or 5

    def groups_per_commit(self, groups: int) -> int:
        """How many groups one commit takes: all, or with partial progress a share of them."""
        return -(-groups // self.max_commits) if self.partial_progress else groups


def max_concurrent(options: Mapping[str, str]) -> int | None:
    """How many groups are worked on at a time, None if not given; raises OptionError in the engine's words."""
    found = given.small(options, CONCURRENCY, None)
    given.check(found is None or found >= 1, f"Cannot set {CONCURRENCY} to {found}, the value must be positive.")
    return found


def partial_progress(options: Mapping[str, str]) -> tuple[bool, int]:
    """Whether groups are committed in parts, and in how many at most; raises OptionError in the engine's words."""
    enabled, commits = given.truth(options, PARTIAL, False), given.small(options, MAX_COMMITS, 10)
    positive = f"Cannot set {MAX_COMMITS} to {commits}, the value must be positive when {PARTIAL} is true"
    given.check(not enabled or commits > 0, positive)
    return enabled, commits


def _strategy(options: Mapping[str, str]) -> Literal["binpack", "sort"]:
    strategy = options.get("strategy", "sort" if "sort_order" in options else "binpack").lower()
    if strategy not in ("binpack", "sort"):
        zorder = "; for a z-order give strategy=sort and sort_order=zorder(a, b)" if "order" in strategy else ""
        raise OptionError(f"unsupported strategy: {strategy}. Only binpack or sort is supported{zorder}")
    if strategy == "binpack" and "sort_order" in options:
        raise OptionError("sort_order goes with strategy sort only; leave one of the two out")
    return cast("Literal['binpack', 'sort']", strategy)


def _check(parsed: JobOptions) -> None:
    given.check(parsed.string_bytes > 0, f"Cannot set var-length-contribution to {parsed.string_bytes}; it must be > 0")
    per_file = parsed.shuffle_partitions_per_file
    given.check(per_file > 0, f"'{PARTITIONS_PER_FILE}' is set to {per_file} but must be > 0")
