"""Applies a plan of compute_table_stats: sketches of columns, a Puffin file, one change of metadata (I/O).

Rules of this module:

1. Live rows of the snapshot are read, in its own schema; files are shared out, and sketches of parts united, which
   gives the same bytes however they are shared out.
2. The new file is in the place of what the snapshot had; older files stay where they are.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.rows.live_rows import LiveRows
from lakemeta.iceberg.scan.stored_scan import scan
from lakemeta.iceberg.service.plans import open_plan, report_of
from lakemeta.iceberg.spec.table_metadata import StatisticsFile
from lakemeta.iceberg.statistics.columns import chosen_columns, schema_of
from lakemeta.iceberg.statistics.commit import commit_statistics, planned_snapshot
from lakemeta.iceberg.statistics.hashing import hashes
from lakemeta.iceberg.statistics.planner import TABLE_STATS
from lakemeta.iceberg.statistics.theta import ThetaSketch
from lakemeta.iceberg.write.puffin import Blob, PuffinWriter
from lakemeta.plan_operations import WriteStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.iceberg.spec.types import NestedField
    from lakemeta.report import Report

_SKETCH: Final = "apache-datasketches-theta-v1"
_FILES: Final = 8  # in one batch of work


def apply_table_stats(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed; the report names the new file.

    Raises:
        StalePlanError: the snapshot has expired, or the table is another one.
        CommitConflictError: the snapshot expired in between; the new file is gone.
        CommitStateUnknownError: it is unknown whether the commit happened; the new file was left alone.
        CorruptMetadataError: a manifest, data or delete file is not what the metadata says.
        UnsupportedFeatureError: the table cannot be written by lakemeta, or a column's type is not handled.
    """
    metadata = open_plan(request, TABLE_STATS, (WriteStatistics,)).metadata
    snapshot = planned_snapshot(request, metadata, "table")
    if snapshot is None:
        return _report(request, None)
    schema = schema_of(snapshot, metadata)
    columns = chosen_columns(request.plan.header.options, schema)
    of_snapshot = attrs.evolve(metadata, current_schema_id=schema.schema_id)
    sketches = _sketches(request, of_snapshot, snapshot, columns)
    location = request.place.operations.metadata_location(f"{snapshot.snapshot_id}-{request.env.new_uuid()}.stats")
    data, file = _puffin(snapshot, columns, sketches, location)
    commit_statistics(request, data, table=file)
    return _report(request, file)


def _sketches(
    request: ApplyRequest, metadata: TableMetadata, snapshot: Snapshot, columns: Sequence[NestedField]
) -> list[ThetaSketch]:
    """The sketch of each column's values in the live rows of a snapshot."""
    storage, executor = request.place.operations.storage, request.executor or LocalExecutor()
    tasks = scan(storage, metadata, snapshot, executor)
    rows = LiveRows(storage, metadata.without_history(), tuple(column.field_id for column in columns))
    found = [ThetaSketch()] * len(columns)
    for part in executor.map_batches(partial(_sketch, rows, columns), tasks, batch_size=_FILES):
        found = [sketch.united(more) for sketch, more in zip(found, part, strict=True)]
    return found


def _sketch(
    rows: LiveRows, columns: Sequence[NestedField], tasks: Sequence[FileScanTask]
) -> Iterator[list[ThetaSketch]]:
    found = [ThetaSketch()] * len(columns)
    for batch in rows.of(tasks):
        for at, (column, values) in enumerate(zip(columns, batch, strict=True)):
            found[at] = found[at].united(ThetaSketch.of(hashes(values, column.type)))
    yield found


def _puffin(
    snapshot: Snapshot, columns: Sequence[NestedField], sketches: Sequence[ThetaSketch], location: str
) -> tuple[bytes, StatisticsFile]:
    """The bytes of the file, and what the metadata says of it."""
    out = io.BytesIO()
    writer = PuffinWriter(out)
    described = []
    for column, sketch in zip(columns, sketches, strict=True):
        ndv = {"ndv": str(int(sketch.estimate))}
        blob = Blob(_SKETCH, (column.field_id,), snapshot.snapshot_id, snapshot.sequence_number, ndv)
        writer.add(blob, sketch.to_bytes())
        described.append(blob.to_json())
    blobs = writer.size
    size = writer.finish()
    extras = {"file-footer-size-in-bytes": size - blobs, "blob-metadata": described}
    return out.getvalue(), StatisticsFile(snapshot.snapshot_id, location, size, extras)


def _report(request: ApplyRequest, file: StatisticsFile | None) -> Report:
    result = {"statistics_file": None if file is None else file.statistics_path}
    return report_of(request, None if file is None else file.snapshot_id, result)
