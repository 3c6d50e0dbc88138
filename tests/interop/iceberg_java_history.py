"""What the worker does to make histories of a table: one commit of Iceberg's Java API a call, as tests ask for them.

Every function takes the Spark session, then JSON values by name, as in ``iceberg_java``. ``branch`` is where the commit
goes, ``wap`` stages it under that id instead. A data file is written as [first id, rows, p, q]: its rows have ids from
the first on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_java import each, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

Json = Any


def change_files(
    session: SparkSession,
    *,
    table: str,
    kind: str,
    add: Json = (),
    remove: Json = (),
    branch: str = "",
    wap: str = "",
    again: Json = (),
) -> None:
    """A commit of ``kind`` (newAppend, newFastAppend, newOverwrite, ...) that adds and removes data files.

    ``again`` are (snapshot id, path) of files that were removed and are to be added once more.
    """
    loaded = load(session, table)
    change = getattr(loaded, kind)()
    known = {path: task.file() for path, task in _tasks(loaded, branch).items()} if remove else {}
    if kind == "newRewrite":
        change.validateFromSnapshot(_head(loaded, branch))
    for path in remove:
        change.deleteFile(known[path])
    added = [file for of in add for file in _data_files(session, loaded, *of)]
    added += [_tasks_of(loaded.newScan().useSnapshot(at))[path].file() for at, path in again]
    for file in added:
        (change.appendFile if kind in ("newAppend", "newFastAppend") else change.addFile)(file)
    _commit(change, branch, wap)


def delete_positions(
    session: SparkSession, *, table: str, deletes: list[Json], form: str, branch: str = "", shared: bool = False
) -> None:
    """Positions of data files, as Parquet (one for each partition if ``shared``) or as vectors in one Puffin file.

    A vector takes the place of the one before it.
    """
    iceberg = session._jvm.org.apache.iceberg
    loaded = load(session, table)
    change, tasks = loaded.newRowDelta(), _tasks(loaded, branch)
    if form == "vectors":
        change.validateFromSnapshot(_head(loaded, branch))
        files = iceberg.io.OutputFileFactory.builderFor(loaded, 1, 1).format(iceberg.FileFormat.PUFFIN).build()
        vectors = iceberg.deletes.BaseDVFileWriter(files, _constant(session, None))
        for path, positions in deletes:
            file = tasks[path].file()
            for position in positions:
                vectors.delete(path, position, loaded.specs().get(file.specId()), file.partition())
            for old in tasks[path].deletes():
                if old.format().toString() == "PUFFIN":
                    change.removeDeletes(old)
        vectors.close()
        for made in vectors.result().deleteFiles():
            change.addDeletes(made)
    else:
        groups: dict[Any, list[Json]] = {}
        for path, positions in sorted(deletes):
            file = tasks[path].file()
            key = (file.specId(), file.partition().toString(), "" if shared else path)
            groups.setdefault(key, []).append((path, positions, file))
        for group in groups.values():
            change.addDeletes(_position_file(session, loaded, group))
    _commit(change, branch)


def delete_equal(session: SparkSession, *, table: str, columns: list[str], rows: list[Json], like: str) -> None:
    """An equality delete file in the partition of data file ``like``."""
    iceberg = session._jvm.org.apache.iceberg
    loaded = load(session, table)
    file = _tasks(loaded, "")[like].file()
    names = session._jvm.java.util.ArrayList()
    ids = session.sparkContext._gateway.new_array(session._jvm.int, len(columns))
    for at, column in enumerate(columns):
        names.add(column)
        ids[at] = loaded.schema().findField(column).fieldId()
    schema = loaded.schema().select(names)
    form = iceberg.FileFormat.PARQUET
    factory = iceberg.data.GenericFileWriterFactory.Builder(loaded).deleteFileFormat(form)
    made = factory.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
    spec = loaded.specs().get(file.specId())
    writer = made.newEqualityDeleteWriter(_new_file(session, loaded, spec, file.partition()), spec, file.partition())
    for row in rows:
        writer.write(_record(session, schema, dict(zip(columns, row, strict=True))))
    writer.close()
    loaded.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def manage(session: SparkSession, *, table: str, steps: list[Json]) -> None:
    """Calls of ManageSnapshots, each [method, *arguments], in one commit."""
    change = load(session, table).manageSnapshots()
    for method, *arguments in steps:
        change = getattr(change, method)(*arguments)
    change.commit()


def cluster_manifests(session: SparkSession, *, table: str) -> None:
    """All manifests of data files into one."""
    load(session, table).rewriteManifests().clusterBy(_constant(session, "all")).commit()


def change_spec(session: SparkSession, *, table: str, add: list[Json], remove: list[str]) -> None:
    """Fields added, each [transform, column, perhaps width], and removed by name."""
    expressions = session._jvm.org.apache.iceberg.expressions.Expressions
    change = load(session, table).updateSpec()
    for transform, column, *width in add:
        change.addField(getattr(expressions, transform)(column, *width) if transform != "identity" else column)
    for name in remove:
        change.removeField(name)
    change.commit()


def set_properties(session: SparkSession, *, table: str, properties: dict[str, str]) -> None:
    change = load(session, table).updateProperties()
    for key, value in properties.items():
        change.set(key, value)
    change.commit()


def register_statistics(session: SparkSession, *, table: str, kind: str, snapshot_id: int, path: str) -> None:
    """Statistics whose content does not matter: a file of four bytes that is there already."""
    iceberg = session._jvm.org.apache.iceberg
    loaded = load(session, table)
    if kind == "table":
        nothing = session._jvm.java.util.ArrayList()
        file = iceberg.GenericStatisticsFile(snapshot_id, path, 4, 4, nothing)
        loaded.updateStatistics().setStatistics(file).commit()
        return
    builder = iceberg.ImmutableGenericPartitionStatisticsFile.builder()
    file = builder.snapshotId(snapshot_id).path(path).fileSizeInBytes(4).build()
    loaded.updatePartitionStatistics().setPartitionStatistics(file).commit()


def remove_dangling(session: SparkSession, *, table: str) -> list[str]:
    """Spark's action by that name; the locations of the delete files that it removed."""
    actions = session._jvm.org.apache.iceberg.spark.actions.SparkActions.get(session._jsparkSession)
    done = actions.removeDanglingDeleteFiles(load(session, table)).execute()
    return [file.location() for file in done.removedDeleteFiles()]


def _commit(change: Any, branch: str, wap: str = "") -> None:
    if branch:
        change = change.toBranch(branch)
    if wap:
        change.set("wap.id", wap)
        change.stageOnly()
    change.commit()


def _head(table: Any, branch: str) -> int:
    """The snapshot that a change is made of; unless it is named, all earlier deletes conflict with the change."""
    found: int = (table.snapshot(branch) if branch else table.currentSnapshot()).snapshotId()
    return found


def _tasks(table: Any, branch: str) -> dict[str, Any]:
    return _tasks_of(table.newScan().useRef(branch) if branch else table.newScan())


def _tasks_of(scan: Any) -> dict[str, Any]:
    tasks = scan.planFiles()
    found = {task.file().location(): task for task in each(tasks)}
    tasks.close()
    return found


def _data_files(session: SparkSession, table: Any, first: int, rows: int, p: str, q: int) -> Iterator[Any]:
    """One file for each partition that the rows fall into."""
    iceberg = session._jvm.org.apache.iceberg
    spec, schema = table.spec(), table.schema()
    wrapper = iceberg.data.InternalRecordWrapper(schema.asStruct())
    parts: dict[str, tuple[Any, list[Any]]] = {}
    for number in range(first, first + rows):
        record = _record(session, schema, {"id": number, "p": p, "q": q, "v": number / 2})
        key = iceberg.PartitionKey(spec, schema)
        key.partition(wrapper.wrap(record))
        parts.setdefault(key.toString(), (key, []))[1].append(record)
    form = iceberg.FileFormat.PARQUET
    factory = iceberg.data.GenericFileWriterFactory.Builder(table).dataSchema(schema).dataFileFormat(form).build()
    for key, records in parts.values():
        key = None if spec.isUnpartitioned() else key
        writer = factory.newDataWriter(_new_file(session, table, spec, key), spec, key)
        for record in records:
            writer.write(record)
        writer.close()
        yield writer.toDataFile()


def _position_file(session: SparkSession, table: Any, group: Iterable[Any]) -> Any:
    iceberg = session._jvm.org.apache.iceberg
    file = next(iter(group))[2]
    spec = table.specs().get(file.specId())
    factory = iceberg.data.GenericFileWriterFactory.Builder(table).deleteFileFormat(iceberg.FileFormat.PARQUET).build()
    writer = factory.newPositionDeleteWriter(_new_file(session, table, spec, file.partition()), spec, file.partition())
    for path, positions, _ in group:
        for position in positions:
            writer.write(iceberg.deletes.PositionDelete.create().set(path, position))
    writer.close()
    return writer.toDeleteFile()


def _record(session: SparkSession, schema: Any, values: dict[str, Json]) -> Any:
    """A row. Py4J takes only what needs more than 32 bits for a long."""
    record = session._jvm.org.apache.iceberg.data.GenericRecord.create(schema)
    for field in schema.columns():
        record.setField(field.name(), values.get(field.name()))
    return record


def _new_file(session: SparkSession, table: Any, spec: Any, partition: Any) -> Any:
    iceberg = session._jvm.org.apache.iceberg
    files = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(iceberg.FileFormat.PARQUET).build()
    return files.newOutputFile() if spec.isUnpartitioned() else files.newOutputFile(spec, partition)


def _constant(session: SparkSession, value: Any) -> Any:
    """A Java function that gives one value whatever it is given."""
    java = session._jvm.java
    types = session.sparkContext._gateway.new_array(java.lang.Class, 1)
    types[0] = java.lang.Class.forName("java.lang.Object")
    handles = java.lang.invoke.MethodHandles
    always = handles.dropArguments(handles.constant(types[0], value), 0, types)
    function = java.lang.Class.forName("java.util.function.Function")
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, always)


CALLS = {
    call.__name__: call
    for call in (
        *(change_files, delete_positions, delete_equal, manage, cluster_manifests, change_spec),
        *(set_properties, register_statistics, remove_dangling),
    )
}
