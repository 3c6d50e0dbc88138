"""Names of data files (``FSUtils``): base files, log files, and what lies beside them.

A base file is ``<fileId>_<writeToken>_<instant>.parquet``: its group is what stands before the first ``_`` and its
instant the third field up to the first dot. A log file is ``.<fileId>_<instant>.log.<n>[_<writeToken>[.cdc]]``.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

BASE_SUFFIX: Final = ".parquet"
PARTITION_METADATA: Final = ".hoodie_partition_metadata"
BLOCK_TOKEN: Final = "1-0-1"  # noqa: S105 - HoodieLogFormat.UNKNOWN_WRITE_TOKEN, of log files with a rollback block
_LOG: Final = re.compile(
    r"\.(?P<file_id>.+)_(?P<instant>.*)\.(?P<kind>log|archive)\.(?P<version>\d+)"
    r"(?:_(?P<token>(?:\d+-\d+-\d+)?)(?P<cdc>\.cdc)?)?"
)


@attrs.frozen(slots=True)
class BaseFile:
    """One base file: its group, the instant that wrote it and its size in bytes."""

    name: str
    file_id: str
    instant: str
    size: int


@attrs.frozen(slots=True)
class LogFile:
    """One log file (or CDC log file).

    ``instant`` is the one in its name: of its slice's base in table version 6, of its own delta commit from
    version 8 on.
    """

    name: str
    file_id: str
    instant: str
    version: int
    token: str
    is_cdc: bool
    size: int

    @property
    def order(self) -> tuple[str, int, str, bool]:
        """The order of log files of one slice (``HoodieLogFile.LogFileComparator``)."""
        return (self.instant, self.version, self.token, self.is_cdc)


def parse_base_file(name: str, size: int) -> BaseFile | None:
    """The base file of this name, or None if the name is not one's."""
    if BASE_SUFFIX not in name or name.startswith(PARTITION_METADATA):
        return None
    fields = name.split("_", 3)  # the third field ends at the next "_" or "."
    if len(fields) < 3:
        return None
    return BaseFile(name, fields[0], fields[2].partition(".")[0], size)


def parse_log_file(name: str, size: int) -> LogFile | None:
    """The log file of this name, or None if the name is not one's."""
    if name[:1] != ".":
        return None
    match = _LOG.fullmatch(name)
    if match is None or match["kind"] != "log":
        return None
    return LogFile(
        name,
        match["file_id"],
        match["instant"],
        int(match["version"]),
        match["token"] or "",
        match["cdc"] is not None,
        size,
    )


def parse_data_file(name: str) -> BaseFile | LogFile | None:
    """The base or log file of this name, of unknown size (0 here), or None if the name is neither's."""
    return parse_base_file(name, 0) or parse_log_file(name, 0)


def is_partition_metadata(name: str) -> bool:
    """True for the file that marks a directory as a partition, in any of its formats."""
    return name.startswith(PARTITION_METADATA)
