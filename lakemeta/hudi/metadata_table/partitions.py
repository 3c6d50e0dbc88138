"""The partitions a metadata table can have, and how their file groups are named (MetadataPartitionType)."""

from __future__ import annotations

from typing import Final

from lakemeta.errors import UnsupportedFeatureError

FILES: Final = "files"
COLUMN_STATS: Final = "column_stats"
BLOOM_FILTERS: Final = "bloom_filters"
RECORD_INDEX: Final = "record_index"
PARTITION_STATS: Final = "partition_stats"
_SECONDARY: Final = "secondary_index_"
_EXPRESSION: Final = "expr_index_"
_PREFIXES: Final = {
    FILES: "files-",
    COLUMN_STATS: "col-stats-",
    BLOOM_FILTERS: "bloom-filters-",
    RECORD_INDEX: "record-index-",
    PARTITION_STATS: "partition-stats-",
}


def file_id_prefix(partition: str) -> str:
    """How the file ids of a metadata partition start; UnsupportedFeatureError for an unknown partition."""
    if partition in _PREFIXES:
        return _PREFIXES[partition]
    if partition.startswith(_SECONDARY):
        return f"secondary-index-{partition.removeprefix(_SECONDARY)}-"
    if partition.startswith(_EXPRESSION):
        return f"expr-index-{partition.removeprefix(_EXPRESSION)}-"
    raise UnsupportedFeatureError(
        f"the metadata table has a partition {partition}, an index that lakemeta does not know; "
        "clean this table with the engine that wrote it"
    )


def has_records_of_files(partition: str) -> bool:
    """True if a metadata partition keeps records about single data files, which must go when the files go."""
    return partition in (COLUMN_STATS, BLOOM_FILTERS) or partition.startswith(_EXPRESSION)
