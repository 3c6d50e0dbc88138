r"""Reading from a data manifest just what planning needs, several times faster than decoding all of it.

Most bytes of a manifest are metrics that planning never looks at, but Avro has no way to seek over them, and even
a compiled decoder spends its time on making values of them. Here regular expressions step over whole runs of
fields: an Avro number is ``[\\x80-\\xff]*[\\x00-\\x7f]``, short texts are an alternation by length, and a map of n
entries is a pattern of its own. A first byte decides every alternative, so a match is the only way to read
the bytes. What the patterns do not know (codecs aside) is left to ``codec.read_manifest``.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.codec import check_header, partition_reader, read_manifest
from lakemeta.iceberg.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    Inheritance,
    ManifestEntry,
    ManifestFile,
)
from lakemeta.iceberg.spec.types import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakemeta.iceberg.spec.partitioning import PartitionSpec

    Row = list[Any]
    Step = Callable[[bytes, int, Row], int]
    _Find = tuple[int, Callable[[bytes], re.Match[bytes] | None]]

_LONGEST: Final = 127  # bytes of a text that patterns know
_COUNTS: Final = ("value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS: Final = ("lower_bounds", "upper_bounds")
_REPEATED: Final = ("status", "snapshot_id", "sequence_number", "file_sequence_number", "content", "sort_order_id")
_OTHERS: Final = ("record_count", "file_size_in_bytes", "first_row_id", "content_offset", "content_size_in_bytes")
_RAW: Final = ("file_format", "key_metadata", "split_offsets")
_PATHS: Final = {"file_path": "string", "manifest_path": "string", "referenced_data_file": ["null", "string"]}
_STATUSES: Final = dict(enumerate(EntryStatus))
_CONTENTS: Final[dict[int | None, FileContent]] = {None: FileContent.DATA, **dict(enumerate(FileContent))}


class UnfamiliarError(Exception):
    """These bytes are not laid out as the patterns have it; read them another way."""


UNFAMILIAR: Final = (UnfamiliarError, CorruptMetadataError, LookupError, TypeError, ValueError)


def scan_manifest(
    data: bytes, manifest: ManifestFile, spec: PartitionSpec, metrics: frozenset[int]
) -> list[ManifestEntry]:
    """The entries of a manifest as ``read_manifest`` gives them, without most metrics.

    Files carry counts and bounds of the columns ``metrics`` alone (None of no column), and no column_sizes and
    equality_ids. Raises CorruptMetadataError.
    """
    try:
        return [entry for entry, _, _ in scan(data, manifest, spec, metrics)[1]]
    except UNFAMILIAR:
        return read_manifest(data, manifest, spec)


def scan(
    data: bytes, manifest: ManifestFile, spec: PartitionSpec, metrics: frozenset[int]
) -> tuple[tuple[str, ...], Iterator[tuple[ManifestEntry, Row, bytes]]]:
    """The names of fields, and the entries, each with those fields' raw values (None for null) and its bytes.

    Any of ``UNFAMILIAR`` may be raised, sooner or later.
    """
    schema, blocks = avro.read_blocks(data, manifest.manifest_path)
    check_header(data, manifest)
    names, steps = _layout(json.dumps(schema), bool(metrics))
    entry = _entry_maker(names, _partitions(schema, spec, manifest.manifest_path), manifest, spec, metrics)
    return names, ((entry(row), row, raw) for count, block in blocks for row, raw in _rows(count, block, steps))


def split_records(data: bytes, path: str) -> tuple[avro.Schema, list[bytes]]:
    """The schema and the bytes of each record of a manifest list. Any of ``UNFAMILIAR`` may be raised."""
    schema, blocks = avro.read_blocks(data, path)
    _, steps = _layout(json.dumps(schema), False)
    return schema, [raw for count, block in blocks for _, raw in _rows(count, block, steps)]


def _rows(count: int, block: bytes, steps: tuple[Step, ...]) -> Iterator[tuple[Row, bytes]]:
    end = 0
    for _ in range(count):
        row: Row = []
        start = end
        for step in steps:
            end = step(block, end, row)
        yield row, block[start:end]
    if end != len(block):
        raise UnfamiliarError


def _entry_maker(
    names: tuple[str, ...],
    partition: Callable[[bytes], tuple[Value, ...]],
    manifest: ManifestFile,
    spec: PartitionSpec,
    metrics: frozenset[int],
) -> Callable[[Row], ManifestEntry]:
    inherited = Inheritance(manifest)
    at = {name: i for i, name in enumerate(names)}
    last = len(names)  # of what a manifest does not have, None is put there
    repeated, others, raw = ([at.get(n, last) for n in group] for group in (_REPEATED, _OTHERS, _RAW))
    measured = _measured(at, last, metrics)
    path, where, about = at["file_path"], at["partition"], at.get("referenced_data_file", last)
    none: list[Any] = [None] * 6

    def entry(row: Row) -> ManifestEntry:
        row.append(None)
        code, snapshot, sequence, own, content, order = [number_seen(row[i]) for i in repeated]
        records, size, first, *blob = [_number(row[i]) for i in others]
        form, key, offsets = [row[i] for i in raw]
        status = _STATUSES[code]
        known = [None, *[_metrics(row[i], find, value) for i, find, value in measured]] if metrics else none
        row_id = inherited.row_id(status, first, records)
        more: tuple[Any, ...] = (_bytes(key), _longs(offsets), None, order, row_id, row[about], *blob)
        spec_id, text = spec.spec_id, _text(form)
        kind = _CONTENTS[content]
        file = DataFile(kind, row[path], text, spec_id, partition(row[where]), records, size, *known, *more)
        return ManifestEntry(status, *inherited.of_entry(status, snapshot, sequence, own), file)

    return entry


def _partitions(schema: avro.Schema, spec: PartitionSpec, path: str) -> Callable[[bytes], tuple[Value, ...]]:
    """Decodes partition records, each different one once: files of one partition share its tuple."""
    data_file = {f["name"]: f["type"] for f in schema["fields"]}["data_file"]
    record = avro.schema_text({f["name"]: f["type"] for f in data_file["fields"]}["partition"])
    read, known = partition_reader(schema, spec, path), dict[bytes, tuple[Value, ...]]()

    def partition(raw: bytes) -> tuple[Value, ...]:
        found = known.get(raw)
        if found is None:
            found = known[raw] = read(avro.read_datum(record, raw, "a partition"))
        return found

    return partition


@lru_cache(maxsize=64)
def _layout(schema_text: str, with_metrics: bool) -> tuple[tuple[str, ...], tuple[Step, ...]]:
    """How entries of an Avro schema are stepped through, and the names of what a row then holds."""
    layout = _Layout(with_metrics)
    layout.record(avro.spelled_out(json.loads(schema_text)))
    layout.flush()
    return tuple(layout.names), tuple(layout.steps)


class _Layout:
    """Collects fields into patterns as long as possible."""

    def __init__(self, with_metrics: bool) -> None:
        self.keep = (*_REPEATED, *_OTHERS, *_RAW, *((_COUNTS + _BOUNDS) if with_metrics else ()))
        self.names: list[str] = []
        self.steps: list[Step] = []
        self.pattern = b""
        self.skipped: list[bytes] = []

    def record(self, schema: avro.Schema) -> None:
        for field in schema["fields"]:
            self.field(field["name"], field["type"])

    def field(self, name: str, kind: avro.Schema) -> None:
        if _is_array(kind) and name not in self.keep:
            self.flush(arrays=True)
            self.skipped.append(_pattern(kind[1]["items"]))
            return
        self.flush(pattern=False)
        if name == "data_file":
            self.record(kind)
        elif name == "partition":
            self.names.append(name)
            self.pattern += b"(" + _pattern(kind) + b")"
        elif name in _PATHS:
            if kind != _PATHS[name]:
                raise UnfamiliarError
            self.pattern += b"(" + VARINT + b")" if kind == "string" else b"(?:\\x00|\\x02(" + VARINT + b"))"
            self.names.append(name)
            self.flush()
            self.steps.append(_path)
        elif _is_array(kind):
            self.flush()
            self.names.append(name)
            self.steps.append(_kept_array(_pattern(kind[1]["items"])))
        else:
            self.pattern += self.captured(name, kind)

    def captured(self, name: str, kind: avro.Schema) -> bytes:
        """A field's pattern; what is kept is a group, which is None for null."""
        if name not in self.keep:
            return _pattern(kind)
        self.names.append(name)
        if isinstance(kind, list) and len(kind) == 2 and kind[0] == "null":
            return b"(?:\\x00|\\x02(" + _pattern(kind[1]) + b"))"
        if isinstance(kind, list):
            raise UnfamiliarError
        return b"(" + _pattern(kind) + b")"

    def flush(self, *, pattern: bool = True, arrays: bool = False) -> None:
        """End the pattern here, and the run of arrays to skip unless another one follows."""
        if self.skipped and not arrays:
            self.steps.append(_skipped_arrays(tuple(self.skipped)))
            self.skipped = []
        if self.pattern and pattern:
            self.steps.append(_stretch(re.compile(self.pattern, re.DOTALL)))
            self.pattern = b""


def _stretch(pattern: re.Pattern[bytes]) -> Step:
    match = pattern.match

    def step(block: bytes, position: int, row: Row) -> int:
        found = match(block, position)
        if found is None:
            raise UnfamiliarError
        row.extend(found.groups())
        return found.end()

    return step


def _path(block: bytes, position: int, row: Row) -> int:
    if row[-1] is None:
        return position
    end: int = position + _number(row[-1])
    row[-1] = block[position:end].decode()
    return end


def _kept_array(item: bytes) -> Step:
    def step(block: bytes, position: int, row: Row) -> int:
        end, count = _array(item, block, position)
        row.append(None if count is None else block[position + 1 : end])
        return end

    return step


def _skipped_arrays(items: tuple[bytes, ...]) -> Step:
    """Steps over arrays one after another.

    As a rule entries have as many items in each as the entry before; then one pattern steps over all of them.
    """
    usual: Callable[[bytes, int], re.Match[bytes] | None] = re.compile(b"(?!)").match
    last: list[int | None] = []

    def step(block: bytes, position: int, _: Row) -> int:
        nonlocal usual, last
        found = usual(block, position)
        if found is not None:
            return found.end()
        counts = []
        for item in items:
            position, count = _array(item, block, position)
            counts.append(count)
        if counts == last:
            usual = _arrays_pattern(items, tuple(counts))
        last = counts
        return position

    return step


def _array(item: bytes, block: bytes, position: int) -> tuple[int, int | None]:
    """Where an optional array ends, and how many items it has: None for null."""
    if block[position] == 0:  # the null of the union
        return position + 1, None
    count = block[position + 1]
    if block[position] != 2 or count & 1:
        raise UnfamiliarError
    if count > 0x7F:
        if block[position + 2] > 0x3F:
            raise UnfamiliarError
        count = count & 0x7F | block[position + 2] << 7
    found = _array_pattern(item, count >> 1)(block, position + 1)
    if found is None:
        raise UnfamiliarError
    return found.end(), count >> 1


@lru_cache(maxsize=1024)
def _arrays_pattern(
    items: tuple[bytes, ...], counts: tuple[int | None, ...]
) -> Callable[[bytes, int], re.Match[bytes] | None]:
    parts = (_array_bytes(item, count) for item, count in zip(items, counts, strict=True))
    return re.compile(b"".join(parts), re.DOTALL).match


def _array_bytes(item: bytes, count: int | None) -> bytes:
    if count is None:
        return b"\\x00"
    return b"\\x02" + (b"%b(?:%b){%d}" % (re.escape(_length(count)), item, count) if count else b"") + b"\\x00"


@lru_cache(maxsize=4096)
def _array_pattern(item: bytes, count: int) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """Matches one block of ``count`` items and the end of the array, or an empty array."""
    if count == 0:
        return re.compile(b"\\x00").match
    return re.compile(re.escape(_length(count)) + b"(?:%b){%d}\\x00" % (item, count), re.DOTALL).match


def _is_array(kind: avro.Schema) -> bool:
    return (
        isinstance(kind, list)
        and len(kind) == 2
        and kind[0] == "null"
        and isinstance(kind[1], dict)
        and kind[1].get("type") == "array"
    )


VARINT: Final = rb"[\x80-\xff]*+[\x00-\x7f]"


def _length(number: int) -> bytes:
    """A count or length below 8192 as Avro writes it."""
    twice = 2 * number
    return bytes([twice]) if twice < 0x80 else bytes([twice & 0x7F | 0x80, twice >> 7])


def _short_text() -> bytes:
    common = (8, 4, 16, 1)  # numbers, and texts of truncated metrics
    lengths = [*common, *(n for n in range(_LONGEST + 1) if n not in common)]
    choices = [re.escape(_length(n)) + b".{%d}" % n for n in lengths]
    return b"(?:" + b"|".join(choices) + b")"


_PATTERNS: Final[dict[str, bytes]] = {
    "null": b"",
    "boolean": b"[\\x00\\x01]",
    "int": VARINT,
    "long": VARINT,
    "float": b".{4}",
    "double": b".{8}",
    "string": _short_text(),
    "bytes": _short_text(),
}


def _pattern(kind: avro.Schema) -> bytes:
    if isinstance(kind, str) and kind in _PATTERNS:
        return _PATTERNS[kind]
    if isinstance(kind, list) and len(kind) < 64:
        return b"(?:" + b"|".join(re.escape(bytes([2 * i])) + _pattern(k) for i, k in enumerate(kind)) + b")"
    if not isinstance(kind, dict):
        raise UnfamiliarError  # the name of a type defined before
    if kind["type"] == "record":
        return b"".join(_pattern(field["type"]) for field in kind["fields"])
    if kind["type"] != "fixed":
        return _pattern(kind["type"])
    if "logicalType" not in kind:
        raise UnfamiliarError  # encoded in one of two ways
    return b".{%d}" % kind["size"]


def _number(raw: bytes | None) -> Any:
    """The value of an Avro int or long; None stays None."""
    if raw is None:
        return None
    zigzag = shift = 0
    for byte in raw:
        zigzag |= (byte & 0x7F) << shift
        shift += 7
    return (zigzag >> 1) ^ -(zigzag & 1)


number_seen = lru_cache(maxsize=4096)(_number)  # for numbers that most entries of a manifest share


def _bytes(raw: bytes | None) -> bytes | None:
    return None if raw is None else raw[1 if raw[0] < 0x80 else 2 :]


@lru_cache(maxsize=64)
def _text(raw: bytes) -> str:
    return raw[1 if raw[0] < 0x80 else 2 :].decode()


@lru_cache(maxsize=1024)
def _longs(raw: bytes | None) -> tuple[int, ...] | None:
    if raw is None:
        return None
    numbers = [_number(number) for number in re.findall(VARINT, raw)]
    return tuple(numbers[1:-1])  # between the count and the end of the array


def _measured(
    at: Mapping[str, int], last: int, metrics: frozenset[int]
) -> list[tuple[int, list[_Find], Callable[[bytes], Any]]]:
    """Where in a row each map of metrics is, how columns are found in it, and what their values are."""
    counts = [(i, _finder(i, VARINT)) for i in sorted(metrics)]
    bounds = [(i, _finder(i, _PATTERNS["bytes"])) for i in sorted(metrics)]
    found: list[tuple[int, list[_Find], Callable[[bytes], Any]]]
    found = [(at.get(name, last), counts, _number) for name in _COUNTS]
    return found + [(at.get(name, last), bounds, _bytes) for name in _BOUNDS]


def _finder(field_id: int, value: bytes) -> Callable[[bytes], re.Match[bytes] | None]:
    """Finds the value of one key in a map, stepping over whole items."""
    key = re.escape(avro.write_datum('"int"', field_id))
    return re.compile(b"%b(?:%b%b)*?%b(%b)" % (VARINT, VARINT, value, key, value), re.DOTALL).match


def _metrics(raw: bytes | None, finders: list[_Find], value: Callable[[bytes], Any]) -> dict[int, Any] | None:
    if raw is None:
        return None
    return {i: value(found[1]) for i, find in finders if (found := find(raw)) is not None}
