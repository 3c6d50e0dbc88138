"""What the worker does with rows: written and read by Spark and by Iceberg's generic Java API, a file's worth a call.

Rows come in as Parquet files with field ids, and go out as Arrow or Parquet files. Every function takes the Spark
session, then JSON values by name, as in ``iceberg_java``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from iceberg_java import each, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Json = Any
UTC_DATES = {"datetimeRebaseMode": "CORRECTED"}


def create(
    session: SparkSession, *, table: str, schema: Json, spec: list[Json], order: list[Json], properties: Json
) -> None:
    """A table of any schema.

    ``spec`` is a list of column, transform and perhaps width; ``order`` of asc or desc, column, NULLS_FIRST or _LAST.
    """
    iceberg = session._jvm.org.apache.iceberg
    bound = schema_of(session, schema)
    builder = iceberg.PartitionSpec.builderFor(bound)
    for column, transform, *width in spec:
        getattr(builder, transform)(column, *width)
    ordered = iceberg.SortOrder.builderFor(bound)
    for direction, column, nulls in order:
        term = iceberg.expressions.Expressions.ref(column)
        getattr(ordered, direction)(term, getattr(iceberg.NullOrder, nulls))
    catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(session._jsparkSession, table.split(".")[0])
    made = catalog.buildTable(iceberg.catalog.TableIdentifier.parse(table.partition(".")[2]), bound)
    made = made.withPartitionSpec(builder.build()).withSortOrder(ordered.build())
    made.withProperties(properties).create()


def evolve(session: SparkSession, *, table: str, method: str, arguments: list[Json]) -> None:
    """One change of UpdateSchema; a type is written as ``{"type": ...}``, a default value as ``{"default": ...}``."""
    change = load(session, table).updateSchema()
    getattr(change, method)(*(_argument(session, a) for a in arguments))
    change.commit()


def evolve_spec(session: SparkSession, *, table: str, transform: str, arguments: list[Json]) -> None:
    """Another partition field."""
    term = getattr(session._jvm.org.apache.iceberg.expressions.Expressions, transform)(*arguments)
    load(session, table).updateSpec().addField(term).commit()


def spark_append(session: SparkSession, *, table: str, path: str, options: dict[str, str]) -> None:
    """Spark writes the rows of a Parquet file."""
    rows = session.read.options(**UTC_DATES).parquet(path)
    rows.writeTo(table).options(**{"fanout-enabled": "true", "check-nullability": "false"}, **options).append()


def java_append(session: SparkSession, *, table: str, path: str, form: str) -> None:
    """The Java API writes the rows of a Parquet file into one data file; they all lie in one partition."""
    iceberg = session._jvm.org.apache.iceberg
    loaded = load(session, table)
    partition = _partition(session, loaded, path)
    factory = iceberg.data.GenericFileWriterFactory.Builder(loaded)
    form = getattr(iceberg.FileFormat, form)
    made = factory.dataSchema(loaded.schema()).dataFileFormat(form).build()
    writer = made.newDataWriter(_new_file(session, loaded, form, partition), loaded.spec(), partition)
    _write(session, writer, _rows(session, path, loaded.schema()))
    loaded.newAppend().appendFile(writer.toDataFile()).commit()


def equality_deletes(session: SparkSession, *, table: str, path: str, columns: list[str], data_file: str) -> None:
    """An equality delete file of the partition of a data file; its keys are ``columns`` of a Parquet file."""
    iceberg = session._jvm.org.apache.iceberg
    loaded = load(session, table)
    file = _tasks(loaded)[data_file].file()
    schema = loaded.schema().select(_texts(session, columns))
    ids = session.sparkContext._gateway.new_array(session._jvm.int, len(columns))
    for at, column in enumerate(columns):
        ids[at] = schema.findField(column).fieldId()
    form = iceberg.FileFormat.PARQUET
    factory = iceberg.data.GenericFileWriterFactory.Builder(loaded).deleteFileFormat(form)
    made = factory.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
    spec = loaded.specs().get(file.specId())
    out = _new_file(session, loaded, form, file.partition(), spec)
    writer = made.newEqualityDeleteWriter(out, spec, file.partition())
    _write(session, writer, _rows(session, path, schema))
    loaded.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def position_deletes(session: SparkSession, *, table: str, data_file: str, positions: list[int]) -> None:
    """A position delete file of Java's generic writer, or in version 3 a deletion vector."""
    iceberg = session._jvm.org.apache.iceberg
    loaded = load(session, table)
    file = _tasks(loaded)[data_file].file()
    spec = loaded.specs().get(file.specId())
    change = loaded.newRowDelta()
    if loaded.operations().current().formatVersion() >= 3:
        files = iceberg.io.OutputFileFactory.builderFor(loaded, 1, 1).format(iceberg.FileFormat.PUFFIN).build()
        vectors = iceberg.deletes.BaseDVFileWriter(files, _nothing(session))
        for position in positions:
            vectors.delete(data_file, position, spec, file.partition())
        vectors.close()
        for made in vectors.result().deleteFiles():
            change.addDeletes(made)
    else:
        form = iceberg.FileFormat.PARQUET
        factory = iceberg.data.GenericFileWriterFactory.Builder(loaded).deleteFileFormat(form).build()
        out = _new_file(session, loaded, form, file.partition(), spec)
        writer = factory.newPositionDeleteWriter(out, spec, file.partition())
        for position in positions:
            writer.write(iceberg.deletes.PositionDelete.create().set(data_file, position))
        writer.close()
        change.addDeletes(writer.toDeleteFile())
    change.commit()


def live(session: SparkSession, *, table: str) -> list[Json]:
    """The live data files: path, bytes, rows, and what delete files apply."""
    found = []
    for path, task in _tasks(load(session, table)).items():
        file = task.file()
        sizes = {"bytes": file.fileSizeInBytes(), "rows": file.recordCount(), "format": file.format().toString()}
        deletes = [delete.content().toString() for delete in task.deletes()]
        found.append({"path": path, "deletes": deletes, **sizes})
    return found


def spark_read(session: SparkSession, *, table: str, columns: list[str], options: dict[str, str], out: str) -> None:
    """Spark reads columns of a table through Iceberg."""
    _arrow(session.read.options(**options).table(table).select(*columns), out)


def spark_parquet(
    session: SparkSession, *, paths: list[str], like: str, columns: list[str], split: int, out: str
) -> None:
    """Spark's own reader: the columns of file ``like`` of files that are cut into splits of so many bytes anywhere."""
    known = session.read.parquet(like).schema
    session.conf.set("spark.sql.files.maxPartitionBytes", str(split))
    session.conf.set("spark.sql.files.openCostInBytes", "1")
    _arrow(session.read.options(**UTC_DATES).schema(known).parquet(*paths).select(*columns), out)


def generics_read(session: SparkSession, *, table: str, schema: Json, out: str) -> None:
    """IcebergGenerics reads a table; its rows go into a Parquet file of the Java API."""
    wanted = schema_of(session, schema)
    iceberg = session._jvm.org.apache.iceberg
    rows = iceberg.data.IcebergGenerics.read(load(session, table)).project(wanted).build()
    plain = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(iceberg.Files.localOutput(out))
    record = _record(session)
    builder = iceberg.formats.FormatModelRegistry.dataWriteBuilder(iceberg.FileFormat.PARQUET, record, plain)
    writer = builder.schema(wanted).spec(iceberg.PartitionSpec.unpartitioned()).overwrite().build()
    _write(session, writer, rows)


def lakemeta_rewrite(session: SparkSession, *, location: str, options: dict[str, str]) -> Json:
    """lakemeta rewrites a table on the workers of this session."""
    from lakemeta.iceberg import IcebergTable
    from lakemeta_spark import SparkExecutor

    executor = SparkExecutor(session)
    table = IcebergTable.open(location)
    report = table.apply(table.plan_rewrite_data_files(options, executor=executor), executor=executor)
    return dict(report.result)


def schema_of(session: SparkSession, schema: Json) -> Any:
    """A Java Schema."""
    return session._jvm.org.apache.iceberg.SchemaParser.fromJson(json.dumps({"schema-id": 0, **schema}))


def _argument(session: SparkSession, spelled: Json) -> Any:
    if not isinstance(spelled, dict):
        return spelled
    if "default" in spelled:
        return session._jvm.org.apache.iceberg.expressions.Expressions.lit(spelled["default"])
    field = {"id": 1, "name": "f", "required": False, "type": spelled["type"]}
    return schema_of(session, {"type": "struct", "fields": [field]}).findType("f")


def _texts(session: SparkSession, texts: list[str]) -> Any:
    listed = session._jvm.java.util.ArrayList()
    for text in texts:
        listed.add(text)
    return listed


def _tasks(table: Any) -> dict[str, Any]:
    tasks = table.newScan().planFiles()
    found = {task.file().location(): task for task in each(tasks)}
    tasks.close()
    return found


def _record(session: SparkSession) -> Any:
    name = "org.apache.iceberg.data.Record"
    return session._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)


def _rows(session: SparkSession, path: str, schema: Any) -> Any:
    iceberg = session._jvm.org.apache.iceberg
    source = iceberg.Files.localInput(path)
    registry = iceberg.formats.FormatModelRegistry
    return registry.readBuilder(iceberg.FileFormat.PARQUET, _record(session), source).project(schema).build()


def _write(session: SparkSession, writer: Any, rows: Any) -> None:
    """All rows of an iterable; by reflection, as Py4J would take it for one row."""
    lang = session._jvm.java.lang
    new_array = session.sparkContext._gateway.new_array
    types, arguments = new_array(lang.Class, 1), new_array(lang.Object, 1)
    types[0], arguments[0] = lang.Class.forName("java.lang.Iterable"), rows
    writer.getClass().getMethod("write", types).invoke(writer, arguments)
    writer.close()
    rows.close()


def _nothing(session: SparkSession) -> Any:
    """A Java function that gives null whatever it is given."""
    java = session._jvm.java
    types = session.sparkContext._gateway.new_array(java.lang.Class, 1)
    types[0] = java.lang.Class.forName("java.lang.Object")
    handles = java.lang.invoke.MethodHandles
    null = handles.dropArguments(handles.constant(types[0], None), 0, types)
    function = java.lang.Class.forName("java.util.function.Function")
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, null)


def _partition(session: SparkSession, table: Any, path: str) -> Any:
    """The partition of the first row of a file, in the table's present spec."""
    if table.spec().isUnpartitioned():
        return None
    iceberg = session._jvm.org.apache.iceberg
    rows = _rows(session, path, table.schema())
    key = iceberg.PartitionKey(table.spec(), table.schema())
    key.partition(iceberg.data.InternalRecordWrapper(table.schema().asStruct()).wrap(next(each(rows))))
    rows.close()
    return key


def _new_file(session: SparkSession, table: Any, form: Any, partition: Any, spec: Any = None) -> Any:
    files = session._jvm.org.apache.iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(form).build()
    spec = spec or table.spec()
    return files.newOutputFile() if spec.isUnpartitioned() else files.newOutputFile(spec, partition)


def _arrow(frame: DataFrame, out: str) -> None:
    import pyarrow as pa

    batches = frame._collect_as_arrow()
    table = pa.Table.from_batches(batches) if batches else None
    with pa.OSFile(out, "wb") as file:
        if table is not None:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)


CALLS = {
    call.__name__: call
    for call in (
        *(create, evolve, evolve_spec, spark_append, java_append, equality_deletes, position_deletes, live),
        *(spark_read, spark_parquet, generics_read, lakemeta_rewrite),
    )
}
