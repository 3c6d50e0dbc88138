"""Plans a rewrite of position delete files from the stored table (I/O: reads metadata and manifests)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.delete_rewrite.groups import plan_groups
from lakemeta.iceberg.delete_rewrite.options import PositionDeleteOptions
from lakemeta.iceberg.filters.expressions import TRUE
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.scan.stored_scan import live_deletes
from lakemeta.iceberg.service.plans import header_of, id_of
from lakemeta.iceberg.write.settings import check_format
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

REWRITE_POSITION_DELETES: Final = "rewrite-position-deletes"


def plan_rewrite_position_deletes(request: PlanRequest) -> Plan:
    """Plan on the newest version of the table; an empty table gives an empty plan.

    ``where`` picks partitions: delete files of those that may hold matching rows. Raises OptionError for options or a
    filter that make no sense, in the engine's words where it has any.
    """
    operations = request.place.operations
    metadata = operations.refresh().metadata
    options = PositionDeleteOptions.parse(request.options, metadata)
    check_delete_format(metadata, options)
    where = TRUE if request.where is None else parse_where(request.where, metadata.schema)
    head = metadata.current_snapshot
    found = [] if head is None else live_deletes(operations.storage, metadata, head, request.executor, where)
    groups = plan_groups(metadata, found, options.sizes)
    facts = {
        "snapshot_id": id_of(head),
        "where": request.where,
        "groups": len(groups),
    }
    header = header_of(request, REWRITE_POSITION_DELETES, metadata, head, facts)
    return Plan(header, [group.to_operation(metadata) for group in groups])


def check_delete_format(metadata: TableMetadata, options: PositionDeleteOptions) -> None:
    """Refuse a table of version 2 whose delete files are not Parquet, unless Parquet is asked for all the same."""
    if metadata.format_version < 3:
        check_format(metadata.properties, write_parquet=options.write_parquet, deletes=True)
