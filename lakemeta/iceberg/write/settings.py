"""What table properties say about new data files: encoding, names and places.

Engine classes: Parquet.WriteBuilder, OutputFileFactory, LocationProviders.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.iceberg.rows.arrow import element_field, entry_fields
from lakemeta.iceberg.spec.properties import bool_property, int_property
from lakemeta.iceberg.spec.transforms import murmur3_32
from lakemeta.iceberg.spec.types import BOOLEAN, UNKNOWN, ListType, MapType, StructType
from lakemeta.iceberg.write.rollover import BufferLimits
from lakemeta.parquet.footer import WriteOptions
from lakemeta.typed_text import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.types import NestedField, Type

WRITE_PARQUET: Final = "lakemeta.write-parquet"
_PARQUET: Final = "write.parquet."
_DELETE: Final = "write.delete."
_MIB: Final = 1024 * 1024
_DELETE_FORMAT: Final = _DELETE + "format.default"
_GZIP_LEVELS: Final = 9
_CODECS: Final = {
    "zstd": "zstd",
    "gzip": "gzip",
    "snappy": "snappy",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "uncompressed": "none",
}
_LEVELS: Final = {"zstd": 3, "gzip": 6}  # what Iceberg's Parquet library takes where the property is absent


def check_format(properties: Mapping[str, str], *, write_parquet: bool, deletes: bool = False) -> None:
    """Refuse a table whose default format, of data or delete files, is not Parquet, unless Parquet is asked for."""
    name = "write.format.default"
    if deletes and _DELETE_FORMAT in properties:
        name = _DELETE_FORMAT
    default = properties.get(name, "parquet").lower()
    if default != "parquet" and not write_parquet:
        raise UnsupportedFeatureError(
            f"the table's {name} is {default}, and lakemeta writes Parquet only; "
            f"set the option {WRITE_PARQUET}=true to have its files rewritten as Parquet"
        )


def with_bloom_paths(options: WriteOptions, schema: Schema) -> WriteOptions:
    """The options with bloom filters by paths in Parquet, which the table's properties give by column names.

    Names of nothing in the schema, and of structs, lists and maps, mean nothing. Booleans have no filters: Iceberg's
    are empty there, and no reader asks them.
    """
    paths = {schema.names[i]: path for i, kind, path in _leaves(schema.fields, ()) if kind not in (BOOLEAN, UNKNOWN)}
    wanted = {".".join(paths[name]): how for name, how in options.bloom_filters.items() if name in paths}
    return attrs.evolve(options, bloom_filters=wanted)


def _leaves(fields: Iterable[NestedField], above: tuple[str, ...]) -> Iterator[tuple[int, Type, tuple[str, ...]]]:
    for field in fields:
        path = (*above, field.name)
        if isinstance(field.type, StructType):
            yield from _leaves(field.type.fields, path)
        elif isinstance(field.type, ListType):
            yield from _leaves([element_field(field.type)], (*path, "list"))
        elif isinstance(field.type, MapType):
            yield from _leaves(entry_fields(field.type), (*path, "key_value"))
        else:
            yield field.field_id, field.type, path


def delete_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table for its delete files: ``write.delete.parquet.*`` goes before ``write.parquet.*``.

    Filters and statistics of single columns are left out: delete files have columns of their own.
    """
    kept = {key: text for key, text in properties.items() if not (key.startswith(_PARQUET) and ".column." in key)}
    own = {key: text for key, text in properties.items() if key.startswith(_DELETE + "parquet.")}
    return {**kept, **{f"{_PARQUET}{key.removeprefix(_DELETE + 'parquet.')}": text for key, text in own.items()}}


def parquet_options(properties: Mapping[str, str], key_values: Mapping[str, str]) -> WriteOptions:
    """The ``write.parquet.*`` properties; tables older than Iceberg 1.4 name no codec, which means gzip.

    Raises OptionError for a property that does not parse, UnsupportedFeatureError for an unknown codec.
    """
    codec = properties.get(_PARQUET + "compression-codec", "gzip").lower()
    if codec not in _CODECS:
        raise UnsupportedFeatureError(
            f"{_PARQUET}compression-codec is {codec}, which lakemeta does not write; use one of {', '.join(_CODECS)}"
        )
    level = _LEVELS.get(codec)
    if level is not None:
        level = int_property(properties, _PARQUET + "compression-level", level)
        if codec == "gzip" and not -1 <= level <= _GZIP_LEVELS:
            raise OptionError(f"{_PARQUET}compression-level is {level}; set it to one of gzip's, 0 to {_GZIP_LEVELS}")
    limit = properties.get(_PARQUET + "page-row-limit")
    return WriteOptions(
        codec=_CODECS[codec],
        level=level,
        page_version="2.0" if properties.get(_PARQUET + "page-version", "v1").lower() == "v2" else "1.0",
        page_bytes=int_property(properties, _PARQUET + "page-size-bytes", _MIB),
        page_rows=None if limit is None else int_property(properties, _PARQUET + "page-row-limit", 0),
        dictionary_bytes=int_property(properties, _PARQUET + "dict-size-bytes", 2 * _MIB),
        plain_columns=_off(properties, "dict-encoding-enabled.column."),
        columns_without_statistics=_off(properties, "stats-enabled.column."),
        bloom_filters=_bloom_filters(properties),
        key_values=key_values,
    )


def buffer_limits(properties: Mapping[str, str]) -> BufferLimits:
    """When the table's Parquet writers end pages and row groups; OptionError for a property that does not parse."""
    check = _PARQUET + "row-group-check-"
    return BufferLimits(
        row_group_bytes=max(1, int_property(properties, _PARQUET + "row-group-size-bytes", 128 * _MIB)),
        page_bytes=max(1, int_property(properties, _PARQUET + "page-size-bytes", _MIB)),
        page_rows=max(1, int_property(properties, _PARQUET + "page-row-limit", 20_000)),
        least_rows=max(1, int_property(properties, check + "min-record-count", 100)),
        most_rows=max(1, int_property(properties, check + "max-record-count", 10_000)),
    )


def _off(properties: Mapping[str, str], prefix: str) -> frozenset[str]:
    prefix = _PARQUET + prefix
    return frozenset(
        key.removeprefix(prefix)
        for key in properties
        if key.startswith(prefix) and not bool_property(properties, key, True)
    )


def _bloom_filters(properties: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    prefix = _PARQUET + "bloom-filter-enabled.column."
    columns = [k.removeprefix(prefix) for k in properties if k.startswith(prefix)]
    limit = int_property(properties, _PARQUET + "bloom-filter-max-bytes", _MIB)
    return {
        column: _bloom_filter(properties, column, limit)
        for column in columns
        if bool_property(properties, prefix + column, False)
    }


def _bloom_filter(properties: Mapping[str, str], column: str, limit: int) -> dict[str, Any]:
    """Size a filter: by the number of distinct values if it is given, and never above ``limit`` bytes."""
    name = f"{_PARQUET}bloom-filter-fpp.column.{column}"
    fpp = number(name, properties.get(name, "0.01"))
    if not 0 < fpp < 1:
        raise OptionError(f"'{name}' is set to {fpp} but must lie between 0 and 1")
    fits = max(1, int(-limit * math.log(1 - fpp ** (1 / 8))))
    wanted = int_property(properties, f"{_PARQUET}bloom-filter-ndv.column.{column}", fits)
    return {"ndv": max(1, min(fits, wanted)), "fpp": fpp}


def file_name(group: int, attempt: int, uuid: str, count: int, ending: str = ".parquet") -> str:
    """The name of the ``count``-th file (from 1) that an attempt at a group writes; ``uuid`` is the rewrite's."""
    return f"{group:05d}-{attempt}-{uuid}-{count:05d}{ending}"


def is_name_of(uuid: str, name: str) -> bool:
    """True for a :func:`file_name` of the rewrite ``uuid``, also with the hash that may stand before it."""
    return re.fullmatch(name_pattern(uuid), name) is not None


def name_pattern(uuid: str) -> str:
    """The regular expression of the names that :func:`is_name_of` knows."""
    return rf"(?:[01]{{8}}-)?\d{{5,}}-\d+-{re.escape(uuid)}-\d{{5,}}(?:\.parquet|-deletes\.(?:parquet|puffin))"


def data_root(location: str, properties: Mapping[str, str]) -> str:
    """The directory below which all new data files go. ``location`` is the table's."""
    return properties.get("write.data.path", f"{location}/data").rstrip("/")


def hashes_names(properties: Mapping[str, str]) -> bool:
    """True for the object storage layout, where a file's directory depends on the file's name."""
    return bool_property(properties, "write.object-storage.enabled", False)


def data_location(location: str, properties: Mapping[str, str], partition_path: str, name: str) -> str:
    """Where a new data file goes. ``location`` is the table's; ``partition_path`` is empty if unpartitioned.

    Raises UnsupportedFeatureError for a location provider class of the table's own, and for the old spellings
    of ``write.data.path``, which newer engines refuse too.
    """
    if "write.location-provider.impl" in properties:
        raise UnsupportedFeatureError(
            "the table places its files with the Java class of write.location-provider.impl, which lakemeta "
            "cannot run; rewrite its files with that engine"
        )
    for old in ("write.object-storage.path", "write.folder-storage.path"):
        if old in properties and "write.data.path" not in properties:
            raise UnsupportedFeatureError(f"table property {old} is no longer supported; set write.data.path")
    root = data_root(location, properties)
    in_partition = f"{partition_path}/{name}" if partition_path else name
    if not hashes_names(properties):
        return f"{root}/{in_partition}"
    partitioned_paths = bool_property(properties, "write.object-storage.partitioned-paths", True)
    return _hashed(root, location, in_partition if partitioned_paths else name, partitioned_paths)


def _hashed(root: str, location: str, name: str, partitioned_paths: bool) -> str:
    bits = f"{murmur3_32(name.encode()) & 0xFFFFF:020b}"
    entropy = "/".join((bits[:4], bits[4:8], bits[8:12], bits[12:]))
    if not root.startswith(location):
        return f"{root}/{entropy}/{'/'.join(location.rstrip('/').split('/')[-2:])}/{name}"
    return f"{root}/{entropy}/{name}" if partitioned_paths else f"{root}/{entropy}-{name}"
