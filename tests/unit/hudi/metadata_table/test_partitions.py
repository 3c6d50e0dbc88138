"""The partitions of a metadata table."""

from __future__ import annotations

import pytest

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.hudi.metadata_table.partitions import file_id_prefix, has_records_of_files


@pytest.mark.parametrize(
    ("partition", "prefix", "about_files"),
    [
        ("files", "files-", False),
        ("column_stats", "col-stats-", True),
        ("bloom_filters", "bloom-filters-", True),
        ("record_index", "record-index-", False),
        ("partition_stats", "partition-stats-", False),
        ("secondary_index_city", "secondary-index-city-", False),
        ("expr_index_day", "expr-index-day-", True),
    ],
)
def test_known_partitions(partition: str, prefix: str, about_files: bool) -> None:
    """How file ids start, and which partitions a clean must touch besides ``files``."""
    assert file_id_prefix(partition) == prefix
    assert has_records_of_files(partition) is about_files


def test_unknown_partitions_are_refused() -> None:
    """A newer index may need records that we cannot make."""
    with pytest.raises(UnsupportedFeatureError, match="vector_index"):
        file_id_prefix("vector_index")
