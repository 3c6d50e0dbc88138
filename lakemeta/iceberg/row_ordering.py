"""What the rows of rewritten files are sorted by, as the options and the table say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.row_order import RowOrder, ZOrder, parse_row_order

if TYPE_CHECKING:
    from lakemeta.iceberg.job_options import JobOptions
    from lakemeta.iceberg.metadata import TableMetadata


def row_order(metadata: TableMetadata, job: JobOptions) -> tuple[RowOrder | None, int]:
    """The order of rows in each new file, None for none, and the sort order id that files carry for it.

    Bin-packing sorts a table that has a sort order. An order of the options has id 0. Raises OptionError if the
    strategy is to sort and neither the options nor the table say by what.
    """
    if job.sort_order is not None:
        order = parse_row_order(job.sort_order, metadata.schema)
        return (attrs.evolve(order, string_bytes=job.string_bytes) if isinstance(order, ZOrder) else order), 0
    own = metadata.sort_order
    if own.is_sorted:
        return own, own.order_id
    if job.strategy == "sort":
        raise OptionError(
            f"Cannot sort data without a valid sort order, table {metadata.location} is unsorted and no sort order is "
            f"provided"
        )
    return None, 0
