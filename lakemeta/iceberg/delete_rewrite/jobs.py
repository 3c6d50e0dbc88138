"""What the units of one run have in common, made of the request and the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import OptionError
from lakemeta.iceberg.delete_rewrite.units import DeleteJob

if TYPE_CHECKING:
    from lakemeta.iceberg.delete_rewrite.units import Granularity
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata


def delete_job(request: ApplyRequest, metadata: TableMetadata, uuid: str) -> DeleteJob:
    """What all units have in common."""
    return DeleteJob(request.place.operations.storage, metadata.without_history(), uuid, granularity(metadata))


def granularity(metadata: TableMetadata) -> Granularity:
    """The granularity of new position deletes; a rewrite writes them by file unless the table says otherwise."""
    found = metadata.properties.get("write.delete.granularity", "file").lower()
    if found == "file":
        return "file"
    if found == "partition":
        return "partition"
    raise OptionError(f"Unknown delete granularity: {found}")
