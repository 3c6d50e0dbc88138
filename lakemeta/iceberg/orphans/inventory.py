"""Inventories: lists of files made elsewhere, as Parquet, CSV or S3 Inventory (I/O).

Rules of this module:

1. An inventory nominates, as the engine's file_list_view does. Rows count that are older than the cutoff by their own
   word and lie below a looked-at directory as that is spelled, compared by folder; rows without a path or a time do
   not. Hidden names do count.
2. Parquet needs ``file_path`` as text and ``last_modified`` as timestamps, CSV the same with a header and ISO 8601
   times. Other usual names of these columns will do.
3. A bucket and a key are no spelling: such a row is compared by where it lies. ``manifest.json`` of S3 Inventory names
   its files in its own bucket, or, downloaded, beside itself. Of a bucket with versions only rows of the latest
   versions count, and no delete markers. In its CSV files, keys are URL-encoded.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

import attrs
import pyarrow as pa

from lakemeta.errors import LakemetaError, OptionError
from lakemeta.executor import batched
from lakemeta.iceberg.orphans.listing import Counts
from lakemeta.iceberg.orphans.uris import split_location
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.json_text import parse_json
from lakemeta.moments import epoch_ms, utc_moment
from lakemeta.paths import is_rooted, is_text, same_store, split_scheme
from lakemeta.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.iceberg.orphans.spool import Spool
    from lakemeta.iceberg.orphans.uris import Prefix
    from lakemeta.storage.contract import Storage

    # Location, size in bytes (0: unknown), last change in ms since the epoch, and whether bucket and key were given.
    Row = tuple[str, int, int, bool]

_SPELLINGS: Final = {
    "file_path": ("file_path", "path", "location", "key"),
    "last_modified": ("last_modified", "last_modified_date", "lastmodifieddate", "modified"),
    "size": ("size", "file_size", "length"),
    "bucket": ("bucket",),
    "latest": ("is_latest", "islatest"),
    "marker": ("is_delete_marker", "isdeletemarker"),
}
_NEEDED: Final = ("file_path", "last_modified")
_ROWS: Final = 65_536


def nominated(storage: Storage, inventory: str, roots: Sequence[Root], cutoff_ms: int, listed: Spool) -> Counts:
    """Put what an inventory nominates into a spool; how many rows there were, and how many too young.

    Raises OptionError for an inventory that cannot be read as one.
    """
    rows = young = bytes_below = 0
    for batch in _batches(_source(storage, inventory), inventory):
        rows += len(batch)
        older = [row for row in batch if row[2] < cutoff_ms]
        young += len(batch) - len(older)
        found: defaultdict[Prefix, tuple[list[str], list[int]]] = defaultdict(lambda: ([], []))
        for location, size, _, by_key in older:
            if _lies_below(storage, roots, location, by_key=by_key):
                prefix, key = split_location(location)
                keys, sizes = found[prefix]
                keys.append(key)
                sizes.append(size)
                bytes_below += size
        for prefix, (keys, sizes) in found.items():
            listed.add(prefix, pa.array(keys, pa.string()), pa.array(sizes, pa.int64()))
    return Counts(rows, young, bytes=bytes_below)


def _lies_below(storage: Storage, roots: Sequence[Root], location: str, *, by_key: bool) -> bool:
    if not by_key and not any(location.startswith(f"{root.location}/") for root in roots):
        return False
    try:
        path = store_path(storage.scheme, location)
    except LakemetaError:
        return False
    if is_rooted(storage.scheme):
        path = split_location(path)[1]
    return is_text(path) and any(root.holds(path) for root in roots)


def _source(storage: Storage, inventory: str) -> Storage:
    """The store of an inventory: the table's own, or the disks of this machine."""
    try:
        scheme = split_scheme(inventory)[0]
    except ValueError as error:
        raise OptionError(f"'inventory' is set to {inventory} but that is no path or URL: {error}") from None
    if scheme and same_store(storage.scheme, scheme):
        return storage
    if scheme in ("", "file"):
        return LocalStorage()
    raise OptionError(f"'inventory' is set to {inventory} but must lie in the table's own store, or on this machine")


def _batches(source: Storage, inventory: str) -> Iterator[list[Row]]:
    path = split_scheme(inventory)[1]
    try:
        if path.endswith(".json"):
            yield from _manifest(source, path)
        elif path.endswith(".parquet"):
            yield from _parquet(source, path)
        elif path.endswith((".csv", ".csv.gz")):
            yield from _csv(source, path, None)
        else:
            raise OptionError(f"the inventory {inventory} is no .parquet, .csv, .csv.gz or manifest.json file")
    except LakemetaError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise OptionError(f"the inventory {inventory} cannot be read: {error}") from error


def _manifest(source: Storage, path: str) -> Iterator[list[Row]]:
    """The rows of all files of an S3 Inventory."""
    manifest = parse_json(source.read(path))
    try:
        kind, files = manifest["fileFormat"].upper(), [file["key"] for file in manifest["files"]]
        if not all(type(key) is str for key in files):
            raise TypeError
        names = [name.strip() for name in manifest["fileSchema"].split(",")] if kind == "CSV" else None
        bucket = manifest["destinationBucket"].rpartition(":")[2]
    except (TypeError, KeyError, AttributeError):
        raise OptionError(f"{path} is no manifest.json of S3 Inventory: it lacks fileFormat, files or bucket") from None
    if kind not in ("CSV", "PARQUET"):
        raise OptionError(f"the S3 Inventory {path} is {kind}; have it made as Parquet or CSV")
    for key in files:
        found = _beside(source, path, bucket, key)
        yield from _csv(source, found, names) if kind == "CSV" else _parquet(source, found)


def _beside(source: Storage, manifest: str, bucket: str, key: str) -> str:
    """Where a file of an S3 Inventory lies: in its bucket, or on disks below the manifest's directory or beside it."""
    if not is_rooted(source.scheme):
        return f"{bucket}/{key}"
    folder, name = manifest.rpartition("/")[0], key.rpartition("/")[2]
    parent = folder.rpartition("/")[0]
    places = [f"{folder}/{key}", f"{folder}/{name}", f"{folder}/data/{name}", f"{parent}/data/{name}"]
    return next((place for place in places if source.exists(place)), places[0])


def _parquet(source: Storage, path: str) -> Iterator[list[Row]]:
    import pyarrow.parquet as pq

    with source.open_input(path) as stream, pq.ParquetFile(stream) as file:
        columns = _Columns.of(file.schema_arrow.names)
        modified = columns.names[columns.at["last_modified"]]
        kind = file.schema_arrow.field(modified).type
        if not pa.types.is_timestamp(kind):
            raise OptionError(f"Invalid last_modified column: {kind} is not a timestamp")
        for batch in file.iter_batches(_ROWS):
            times = batch.column(modified).cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
            values = [times if name == modified else batch.column(name) for name in columns.names]
            lines = zip(*(values[at].to_pylist() for at in columns.at.values()), strict=True)
            yield list(columns.rows(lines, _same, _same))


def _csv(source: Storage, path: str, names: Sequence[str] | None) -> Iterator[list[Row]]:
    """Rows of a CSV file; of one without a header ``names`` are the columns, and keys are URL-encoded."""
    with source.open_input(path) as stream:
        plain = gzip.GzipFile(fileobj=stream) if path.endswith(".gz") else stream
        lines = csv.reader(io.TextIOWrapper(plain, "utf-8", newline=""))
        columns = _Columns.of(next(lines, []) if names is None else names)
        places = list(columns.at.values())
        wanted = (tuple(line[at] for at in places) for line in lines if len(line) > max(places))
        for batch in batched(wanted, _ROWS):
            yield list(columns.rows(batch, _milliseconds, _same if names is None else unquote_plus))


def _milliseconds(text: str) -> int | None:
    """A time of a CSV file, None for no time; raises ValueError for what is no ISO 8601 time."""
    return epoch_ms(utc_moment(text)) if text else None


def _same(value: Any) -> Any:
    return value


@attrs.frozen
class _Columns:
    """The columns of an inventory, and where among them those are that count."""

    names: list[str]
    at: dict[str, int]

    @classmethod
    def of(cls, names: Sequence[str]) -> _Columns:
        """Find them; raises OptionError, in the engine's words, if a needed one is missing."""
        lower = [name.strip().lower() for name in names]
        found = {}
        for column, spellings in _SPELLINGS.items():
            with suppress(StopIteration):
                found[column] = next(lower.index(spelling) for spelling in spellings if spelling in lower)
        for column in _NEEDED:
            if column not in found:
                raise OptionError(f"{column} does not exist. Available: {', '.join(names)}")
        return cls(list(names), found)

    def rows(
        self, lines: Iterable[tuple[Any, ...]], milliseconds: Callable[[Any], int | None], key: Callable[[Any], str]
    ) -> Iterator[Row]:
        """The rows of lines that hold the columns of ``at`` in order; those that say nothing are left out."""
        for line in lines:
            value = partial(dict(zip(self.at, line, strict=True)).get)
            path, modified = value("file_path"), milliseconds(value("last_modified"))
            if not path or modified is None or not _holds(value("latest"), True) or not _holds(value("marker"), False):
                continue
            by_key = "bucket" in self.at
            location = f"s3://{value('bucket')}/{key(path)}" if by_key else key(path)
            yield location, int(value("size") or 0), modified, by_key


def _holds(flag: Any, wanted: bool) -> bool:
    """True if a flag, a truth value or its text, is as wanted, or not there."""
    return flag is None or flag == "" or str(flag).lower() == str(wanted).lower()
