"""What the worker asks of Iceberg's Java API, where SQL has no words for it: plans, and files that need not exist.

Every function takes the Spark session, then JSON values by name, and gives JSON values.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

Json = Any


def append(session: SparkSession, *, table: str, files: list[Json]) -> None:
    """Commit data files by their metadata alone; a file is in the form of ContentFileParser."""
    loaded = load(session, table)
    change = loaded.newAppend()
    for file in content_files(session, loaded, files):
        change.appendFile(file)
    change.commit()


def delete_rows(session: SparkSession, *, table: str, files: list[Json]) -> None:
    """Commit delete files by their metadata alone."""
    loaded = load(session, table)
    change = loaded.newRowDelta()
    for file in content_files(session, loaded, files):
        change.addDeletes(file)
    change.commit()


def remove(session: SparkSession, *, table: str, paths: list[str]) -> None:
    """Commit the removal of whole data files."""
    change = load(session, table).newDelete()
    for path in paths:
        change.deleteFile(path)
    change.commit()


def files(session: SparkSession, *, table: str) -> list[Json]:
    """The live data files in the order in which a scan of one thread meets them."""
    loaded = load(session, table)
    tasks = loaded.newScan().planFiles()
    try:
        return [file_json(session, loaded, task.file()) for task in each(tasks)]
    finally:
        tasks.close()


def partition_statistics(session: SparkSession, *, table: str, snapshot_id: int) -> list[list[int]]:
    """What a scan of a snapshot's partition statistics gives: spec, data records and data files of each partition."""
    rows = load(session, table).newPartitionStatisticsScan().useSnapshot(snapshot_id).scan()
    return [[row.specId(), row.dataRecordCount(), row.dataFileCount()] for row in each(rows)]


def remove_partition_statistics(session: SparkSession, *, table: str, snapshot_id: int) -> None:
    """Take a snapshot's partition statistics out of the metadata."""
    load(session, table).updatePartitionStatistics().removePartitionStatistics(snapshot_id).commit()


def table_statistics(session: SparkSession, *, table: str) -> list[list[Any]]:
    """Of each blob of the current snapshot's table statistics: its column, its ndv, and its sketch's bytes in hex."""
    loaded = load(session, table)
    iceberg = session._jvm.org.apache.iceberg
    current = loaded.currentSnapshot().snapshotId()
    (file,) = [found for found in loaded.statisticsFiles() if found.snapshotId() == current]
    source = loaded.io().newInputFile(file.path())
    reader = iceberg.puffin.Puffin.read(source).withFileSize(file.fileSizeInBytes())
    reader = reader.withFooterSize(file.fileFooterSizeInBytes()).build()
    try:
        blobs = reader.fileMetadata().blobs()
        return [_sketch(session, pair) for pair in each(reader.readAll(blobs))]
    finally:
        reader.close()


def _sketch(session: SparkSession, pair: Any) -> list[Any]:
    """Heapified by the engine's DataSketches, so that it has read every hash."""
    blob, buffer = pair.first(), pair.second()
    iceberg = session._jvm.org.apache.iceberg
    data = iceberg.util.ByteBuffers.toByteArray(buffer)
    shaded = iceberg.shaded.org.apache.datasketches
    sketch = shaded.theta.CompactSketch.heapify(shaded.memory.Memory.wrap(data))
    return [blob.inputFields()[0], int(blob.properties()["ndv"]), bytes(sketch.toByteArray()).hex()]


def plans(session: SparkSession, *, table: str, asked: list[Json]) -> list[Json]:
    """What BinPackRewriteFilePlanner answers to each pair of options and filter."""
    loaded = load(session, table)
    known: dict[str, Json] = {}
    return [asked_plan | _outcome(session, table, loaded, asked_plan, known) for asked_plan in asked]


def _outcome(session: SparkSession, name: str, table: Any, asked: Json, known: dict[str, Json]) -> Json:
    try:
        return _plan(session, name, table, asked, known)
    except (Py4JJavaError, CapturedException) as error:
        thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
        return {"error": {"class": thrown.getClass().getName(), "message": thrown.getMessage()}}


def _plan(session: SparkSession, name: str, table: Any, asked: Json, known: dict[str, Json]) -> Json:
    iceberg = session._jvm.org.apache.iceberg
    expression = iceberg.expressions.Expressions.alwaysTrue()
    if asked["where"] is not None:
        expression = filter_expression(session, name, asked["where"])
    planner = iceberg.actions.BinPackRewriteFilePlanner(table, expression)
    planner.init(asked["options"])
    plan = planner.plan()
    groups = [_group(session, table, group, known) for group in each(plan.groups())]
    return {"expression": expression.toString(), "total_group_count": plan.totalGroupCount(), "groups": groups}


def _group(session: SparkSession, table: Any, group: Any, known: dict[str, Json]) -> Json:
    found = []
    for task in group.fileScanTasks():
        file = task.file()
        path = file.location()
        if path not in known:
            known[path] = file_json(session, table, file)
        entry = {key: known[path][key] for key in ("path", "length", "spec_id", "records")}
        deletes = [[d.location(), d.contentOffset()] for d in task.deletes()]
        found.append(entry | ({"deletes": deletes} if deletes else {}))
    fields = [field.name() for field in table.spec().fields()]
    values = known[found[0]["path"]]["partition"]
    same = found[0]["spec_id"] == table.spec().specId()
    return {
        "partition": dict(zip(fields, values, strict=True)) if same else dict.fromkeys(fields),
        "input_files": group.inputFileNum(),
        "input_bytes": group.inputFilesSizeInBytes(),
        "max_output_file_size": group.maxOutputFileSize(),
        "input_split_size": group.inputSplitSize(),
        "expected_output_files": group.expectedOutputFiles(),
        "output_spec_id": group.outputSpecId(),
        "files": found,
    }


def filter_expression(session: SparkSession, table: str, where: str) -> Any:
    """The Iceberg expression that Spark's procedures make of a filter in SQL."""
    converter = session._jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    resolved = converter.collectResolvedSparkExpression(session._jsparkSession, table, where)
    return converter.convertToIcebergExpression(resolved)


def each(iterable: Any) -> Iterator[Any]:
    """The items of a Java Iterable that is no collection."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def load(session: SparkSession, table: str) -> Any:
    """A table by its name in the catalog."""
    return session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, table)


def content_files(session: SparkSession, table: Any, files: list[Json]) -> list[Any]:
    """DataFile and DeleteFile objects of the partition specs of a table."""
    iceberg = session._jvm.org.apache.iceberg
    mapper = iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper()
    specs = table.specs()
    return [iceberg.ContentFileParser.fromJson(mapper.readTree(json.dumps(file)), specs) for file in files]


def file_json(session: SparkSession, table: Any, file: Any) -> Json:
    """Path, size in bytes, spec, records and partition (in the order of its spec) of a data file."""
    spec = table.specs().get(file.specId())
    text = session._jvm.org.apache.iceberg.ContentFileParser.toJson(file, spec)
    parsed = json.loads(text)
    return {
        "path": parsed["file-path"],
        "length": parsed["file-size-in-bytes"],
        "spec_id": parsed["spec-id"],
        "records": parsed["record-count"],
        "partition": parsed.get("partition", []),
    }


_STATISTICS = (partition_statistics, remove_partition_statistics, table_statistics)
CALLS = {call.__name__: call for call in (append, delete_rows, remove, files, plans, *_STATISTICS)}
