"""Reads what the timelines of a table and of its metadata table say of the latter (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.hudi.files.layout import METADATA_TABLE, PROPERTIES
from lakemeta.hudi.files.logs import LogBlock, read_blocks
from lakemeta.hudi.files.properties import parse_properties
from lakemeta.hudi.metadata_table.advice import drop_advice
from lakemeta.hudi.metadata_table.slices import INIT_PREFIX, misplaced, older_log_files
from lakemeta.hudi.timeline.rollback_metadata import decode_restored, decode_rolled_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.hudi.files.properties import TableConfig
    from lakemeta.hudi.metadata_table.slices import Slice, Validity
    from lakemeta.hudi.timeline.instants import Timeline
    from lakemeta.storage import Storage


def check_version(storage: Storage, root: str, config: TableConfig) -> None:
    """Raise unless the metadata table of the table at ``root`` is there and of the table version of ``config``.

    CorruptMetadataError if its properties are missing, UnsupportedFeatureError if it is of another version.
    """
    where = f"{root}/{METADATA_TABLE}/{PROPERTIES}"
    try:
        version = parse_properties(storage.read(where), where).get("hoodie.table.version")
    except PathNotFoundError as error:
        raise CorruptMetadataError(
            f"{where} is missing, though the table's properties name a metadata table; {drop_advice(storage.url(root))}"
        ) from error
    if version != str(config.version):
        raise UnsupportedFeatureError(
            f"{where} says table version {version} and the data table is of version {config.version}; "
            "let a Hudi writer upgrade both"
        )


def check_older_slices(
    storage: Storage, directory: str, names: list[str], newest: tuple[Slice, ...], validity: Validity
) -> None:
    """Refuse blocks in older slices of a partition that are later than the newest base file (slices, rule 6)."""
    for above, log in older_log_files(names, newest):
        path = f"{directory}/{log.name}"
        blocks = (b.instant_time for b in read_blocks(storage.read(path), path) if isinstance(b, LogBlock))
        if late := [at for at in blocks if at is not None and at in validity.valid and at > above.base_instant]:
            raise misplaced(f"has {late[0]} in the log file {path} of an older slice")


def rolled_back_since_compaction(storage: Storage, folder: str, data: Timeline, timeline: Timeline) -> Iterator[str]:
    """The instants rolled back on the data table since the metadata table was last compacted (slices, rule 4)."""
    since = max((i.requested for i in timeline.completed.of_actions("commit")), default=INIT_PREFIX)
    for instant in data.completed.of_actions("rollback", "restore"):
        if instant.requested > since:
            path = f"{folder}/{instant.file_name}"
            decode = decode_rolled_back if instant.action == "rollback" else decode_restored
            yield from decode(storage.read(path), path)
