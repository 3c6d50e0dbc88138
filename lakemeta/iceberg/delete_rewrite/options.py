"""The options of rewrite_position_delete_files (engine: RewritePositionDeleteFilesSparkAction and its planner)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions
from lakemeta.iceberg.rewrite.options import max_concurrent, partial_progress
from lakemeta.iceberg.service.option_tables import reject_others
from lakemeta.iceberg.spec import options as given
from lakemeta.iceberg.write.settings import WRITE_PARQUET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.spec.table_metadata import TableMetadata

TARGET_FILE_SIZE: Final = "write.delete.target-file-size-bytes"
DEFAULT_TARGET_FILE_SIZE: Final = 64 * 1024 * 1024


@attrs.frozen(slots=True)
class PositionDeleteOptions:
    """``sizes`` are the options of the planner, the others say how groups are rewritten and committed.

    ``max_concurrent`` is None if not given: then an executor elsewhere takes as many groups as it can, this machine
    five.
    """

    sizes: RewriteOptions
    max_concurrent: int | None = None
    partial_progress: bool = False
    max_commits: int = 10
    write_parquet: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], metadata: TableMetadata) -> PositionDeleteOptions:
        """Read the options; raises OptionError for an unknown one, or in the engine's words."""
        reject_others("rewrite-position-deletes", options)
        target = given.whole(metadata.properties, TARGET_FILE_SIZE, DEFAULT_TARGET_FILE_SIZE)
        partial, commits = partial_progress(options)
        return cls(
            sizes=RewriteOptions.parse(options, metadata, target),
            max_concurrent=max_concurrent(options),
            partial_progress=partial,
            max_commits=commits,
            write_parquet=given.truth(options, WRITE_PARQUET, False),
        )

    def units_per_commit(self, units: int) -> int:
        """How many units of work one commit takes: all, or with partial progress a share of them."""
        return -(-units // self.max_commits) if self.partial_progress else units
