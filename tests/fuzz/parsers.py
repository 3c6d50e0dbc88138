"""Every function of lakemeta that reads bytes or text of strangers, with what it may be given and what it may raise.

A parser gives a value or raises an error of lakemeta's, or one of those that its docstring names; in its time, within
its memory. Nothing is written: what a parser reads in a store lies in memory.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import attrs
from fuzz import seeds
from fuzz.memory import MemoryTable
from fuzz.text_parsers import WHERE, text_parsers

from lakemeta import json_text, protobuf, unpack, varint
from lakemeta.avro import container
from lakemeta.hudi.files import logs, properties
from lakemeta.hudi.metadata_table import deltacommit, hfile, hfile_format, records
from lakemeta.hudi.rollback.requests import parse_marker
from lakemeta.hudi.timeline import action_metadata, archive, locks, rollback_metadata
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.expire import ledger
from lakemeta.iceberg.manifests import codec, fast_reader
from lakemeta.iceberg.manifests.delete_entries import scan_delete_manifest
from lakemeta.iceberg.manifests.entries import ManifestContent, ManifestFile
from lakemeta.iceberg.manifests.list_reader import ManifestLists
from lakemeta.iceberg.orphans import inventory
from lakemeta.iceberg.orphans.roots import Root
from lakemeta.iceberg.orphans.spool import Spool
from lakemeta.iceberg.rewrite import unfinished
from lakemeta.iceberg.rows.data_files import WHOLE, open_data_file
from lakemeta.iceberg.rows.deletion_vectors import deletion_vector
from lakemeta.iceberg.spec import metadata_json
from lakemeta.iceberg.spec.partitioning import PartitionSpec, spec_fields_from_json
from lakemeta.iceberg.spec.table_metadata import TableMetadata
from lakemeta.ledger import lines
from lakemeta.orc.integers import unsigned_integers
from lakemeta.parquet import layout, thrift
from lakemeta.plan import Plan
from lakemeta.storage import gcs


@attrs.frozen
class Parser:
    """``raises`` are errors that it may raise besides lakemeta's; ``mend`` makes checksums right after a mutation.

    ``inner`` says that what is mutated is what a gzip file holds.
    """

    name: str
    seeds: tuple[bytes, ...] = attrs.field(repr=False)
    parse: Callable[[bytes], object] = attrs.field(repr=False)
    raises: tuple[type[Exception], ...] = ()
    mend: Callable[[bytes], bytes] | None = None
    inner: bool = False


@cache
def parsers() -> dict[str, Parser]:
    """All of them by name."""
    found = [*_avro(), *_iceberg(), *_data(), *_hudi(), *_hudi_tables(), *_own(), *text_parsers(of_text, _metadata())]
    return {parser.name: parser for parser in found}


def of_kind(kind: str, parse: Callable[[bytes], object], *also: str, name: str = "", **more: Any) -> Parser:
    """A parser of a kind of recorded files."""
    return Parser(name or kind, tuple(data for k in (kind, *also) for data in seeds.of_kind(k)), parse, **more)


def of_text(name: str, texts: Iterable[str], parse: Callable[[str], object], **more: Any) -> Parser:
    """A parser of text."""
    return Parser(
        name,
        tuple(text.encode() for text in texts),
        lambda data: parse(data.decode("utf-8", "surrogateescape")),
        **more,
    )


def _avro() -> list[Parser]:
    some = ("manifest", "commit", "clean_plan", "data_avro")

    def tail(data: bytes) -> object:
        return container.ends_whole(data[:4000], data[-16:], len(data)), action_metadata.looks_whole(
            data[:4000], data[-16:], len(data)
        )

    return [
        of_kind(some[0], lambda data: container.read_container(data, WHERE), *some[1:], name="avro container"),
        of_kind(some[0], lambda data: container.container_metadata(data, WHERE), *some[1:], name="avro header"),
        of_kind(some[0], tail, *some[1:], name="end of an avro file"),
    ]


# --- Iceberg


def _iceberg() -> list[Parser]:
    return [
        of_kind("metadata", lambda data: metadata_json.load_metadata(data, f"{WHERE}.metadata.json")),
        of_kind("metadata_gz", lambda data: metadata_json.load_metadata(data, f"{WHERE}.gz.metadata.json"), inner=True),
        of_kind(
            "metadata_gz",
            lambda data: metadata_json.load_metadata(data, f"{WHERE}.gz.metadata.json"),
            name="metadata_gz as it is",
        ),
        of_kind("version_hint", _hint),
        of_kind("manifest_list", lambda data: codec.read_manifest_list(data, WHERE)),
        of_kind("manifest_list", lambda data: ManifestLists().read(data, WHERE), name="manifest_list, fast"),
        *_manifests(),
        of_kind("deletion_vector", lambda data: _drain(deletion_vector(data, WHERE)), mend=_vector_mended),
        of_kind("rewrite_mark", partial(_in_store, "lakemeta-rewrite-x.json", _marks)),
        of_kind("expire_ledger", partial(_in_store, "lakemeta-expire-x.json", _ledgers)),
    ]


def _hint(data: bytes) -> object:
    version = seeds.of_kind("metadata")[0]
    files = {"/t/metadata/version-hint.text": data, "/t/metadata/v1.metadata.json": version}
    return HadoopTableOperations(_store(files), "/t").refresh()


def _manifests() -> list[Parser]:
    found = []
    for number, data in enumerate(seeds.of_kind("manifest")):
        manifest, spec = _manifest_of(data)
        some = partial(fast_reader.scan_manifest, metrics=frozenset({1, 2}))
        readers = {"manifest": codec.read_manifest, "manifest, fast": some, "delete manifest": scan_delete_manifest}
        for name, read in readers.items():
            found.append(Parser(f"{name} {number}", (data,), partial(read, manifest=manifest, spec=spec)))
    return found


def _manifest_of(data: bytes) -> tuple[ManifestFile, PartitionSpec]:
    header = container.container_metadata(data, WHERE)
    spec_id = int(header["partition-spec-id"])
    content = ManifestContent.DELETES if header.get("content") == b"deletes" else ManifestContent.DATA
    spec = PartitionSpec(spec_id, spec_fields_from_json(json.loads(header["partition-spec"])))
    return ManifestFile(WHERE, len(data), spec_id, content, 5, 5, 7), spec


def _vector_mended(data: bytes) -> bytes:
    if len(data) < 12:
        return data
    body = data[4:-4]
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _store(files: dict[str, bytes]) -> MemoryTable:
    return MemoryTable({path: (data, 1_700_000_000_000) for path, data in files.items()})


def _in_store(name: str, parse: Callable[[MemoryTable], object], data: bytes) -> object:
    version = seeds.of_kind("metadata")[1]
    return parse(_store({f"/t/metadata/{name}": data, "/t/metadata/v2.metadata.json": version}))


def _marks(storage: MemoryTable) -> object:
    (path,) = (path for path in storage.files if "rewrite" in path)
    return unfinished._read_marker(storage, path), unfinished.base_snapshots(storage, "/t/metadata")


def _ledgers(storage: MemoryTable) -> object:
    (path,) = (path for path in storage.files if "expire" in path)
    return ledger._former(storage, "/t/metadata", path.rpartition("/")[2], _metadata())


@cache
def _metadata() -> TableMetadata:
    return metadata_json.load_metadata(seeds.of_kind("metadata")[1], f"{WHERE}.metadata.json")


# --- data files


def _data() -> list[Parser]:
    arrow = [("data_parquet", "PARQUET"), ("data_orc", "ORC"), ("data_avro", "AVRO")]
    return [
        *(of_kind(kind, partial(_rows, form)) for kind, form in arrow),
        of_kind("data_parquet", _footer, "parquet", name="parquet footer"),
        Parser("thrift", tuple(_footers()), thrift.loads),
        Parser("orc integers", (b"\x5c\x03\x00\x01\x02", bytes(range(64)), b"\x9e\x00\x40"), _integers),
    ]


def _rows(form: str, data: bytes) -> int:
    opened = open_data_file(form, data if form == "AVRO" else io.BytesIO(data), WHERE)
    return sum(len(batch) for batch in opened.read(opened.schema.names, WHOLE))


def _footers() -> Iterable[bytes]:
    for data in seeds.of_kind("data_parquet") + seeds.of_kind("parquet"):
        yield layout.read_footer(lambda start, size, d=data: d[start : start + size], len(data), WHERE)


def _footer(data: bytes) -> object:
    footer = layout.read_footer(lambda start, size: data[start : start + size], len(data), WHERE)
    layout.lost_row_groups(footer, len(data), WHERE)
    return layout.check_layout(footer, len(data), WHERE)


def _integers(data: bytes) -> object:
    return unsigned_integers(data, 500, 1 + len(data) % 2, WHERE)


# --- Hudi


def _hudi() -> list[Parser]:
    def of(kind: str, decode: Callable[[bytes, str], object], *also: str) -> Parser:
        return of_kind(kind, lambda data: decode(data, WHERE), *also, name=f"{decode.__name__} {kind}")

    acts = action_metadata
    return [
        of("properties", properties.parse_table_config),
        of("properties", properties.parse_properties),
        of("commit", acts.decode_commit),
        of("commit", acts.decode_replace_commit),
        of("clean", acts.decode_clean),
        of("clean", acts.decode_failed_deletes),
        of("clean_plan", acts.decode_cleaner_plan),
        of("savepoint", acts.decode_savepoint),
        of("compaction_plan", acts.decode_compaction_plan),
        of("clustering_plan", acts.decode_requested_clustering),
        of("rollback_plan", rollback_metadata.decode_rollback_plan),
        of("rollback", rollback_metadata.decode_rolled_back),
        of("rollback", rollback_metadata.decode_restored),
        of_kind("markers", lambda d: [parse_marker(t, WHERE) for t in d.decode("utf-8", "replace").split("\n")]),
        of_kind("archive_v6", lambda data: archive.read_archived_v6([(".commits_.archive.1_1-0-1", data)])),
        of_kind("archive_manifest", lambda data: archive.manifest_files(data, WHERE)),
        of_kind("archive_version", lambda data: archive.newest_manifest(data, ["manifest_1", "manifest_2"], WHERE)),
        of_kind("archive_lsm", lambda d: archive.read_archived_lsm([(archive.LsmFile("a.parquet", len(d)), d)])),
        of_kind("lock", _lock),
    ]


class _Clock:
    def __call__(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


def _lock(data: bytes) -> object:
    lock = locks.StorageLock(_Locked(data), WHERE, 300, _Clock())
    return lock.try_acquire()


@attrs.frozen
class _Locked:
    data: bytes

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        return self.data, "1"

    def put_versioned(self, path: str, data: bytes, version: str | None) -> str | None:
        return "2"


def _hudi_tables() -> list[Parser]:
    """The metadata table's own files."""
    documented = (struct.error, ValueError, IndexError)
    inner = tuple(_hfile_blocks())
    indexes = tuple(body for magic, body in inner if magic == hfile_format.ROOT_INDEX)
    return [
        of_kind("log", lambda data: [*logs.read_blocks(data, WHERE)]),
        of_kind("hfile", _hfile),
        Parser(
            "hfile pairs", tuple(b for m, b in inner if m == hfile_format.DATA), hfile_format.parse_pairs, documented
        ),
        Parser("hfile root index", indexes, lambda d: hfile_format.parse_root_index(d, 1, whole=True), documented),
        Parser("hfile index", indexes, hfile_format.parse_nonroot_index, documented),
        of_kind("mdt_commit", lambda data: deltacommit.read_precedent(data, WHERE)),
        Parser(
            "deleted keys",
            (records.encode_deleted_keys("files", ["a", "b/c"]),),
            lambda data: records.decode_deleted_keys(data, WHERE),
        ),
        Parser(
            "protobuf", (protobuf.write_fields([(1, 5), (2, b"abc"), (3, 2**60)]),), _protobuf, (ValueError, IndexError)
        ),
        Parser(
            "varint", (b"\x96\x01", b"\xff" * 9 + b"\x01"), lambda d: varint.read_varint(d, 0), (ValueError, IndexError)
        ),
        Parser(
            "hadoop vint", (b"\x8f\x80", b"\x88\x01\x02"), lambda d: hfile_format.read_hadoop_vint(d, 0), documented
        ),
        Parser("unpack", tuple(_packed()), _unpack, unpack.ERRORS),
    ]


def _hfile(data: bytes) -> object:
    opened = hfile.open_hfile(data, WHERE)
    return opened.schema, opened.blocks(), _drain(opened.entries()), opened.get(b"x")


def _hfile_blocks() -> Iterable[tuple[bytes, bytes]]:
    for data in seeds.of_kind("hfile"):
        at = 0
        while at < len(data) - hfile_format.TRAILER_SIZE:
            packed = struct.unpack_from(">i", data, at + 8)[0]
            yield hfile_format.read_block(data[at : at + 33 + packed], at, "GZ", WHERE)
            at += 33 + packed


def _protobuf(data: bytes) -> object:
    return [*protobuf.read_fields(data, fixed=len(data) % 2 == 0)]


def _packed() -> Iterable[bytes]:
    import bz2
    import lzma

    import pyarrow as pa

    text = b"some text, some text, some text" * 9
    deflate = zlib.compressobj(wbits=-15)
    yield b"d" + deflate.compress(text) + deflate.flush()
    yield b"b" + bz2.compress(text)
    yield b"x" + lzma.compress(text)
    yield b"z" + pa.compress(text, "zstd", asbytes=True)
    yield b"s" + pa.compress(text, "snappy", asbytes=True) + struct.pack(">I", zlib.crc32(text))
    yield b"g" + gzip.compress(text)


_CODECS = {b"d": "deflate", b"b": "bzip2", b"x": "xz", b"z": "zstandard", b"s": "snappy"}


def _unpack(data: bytes) -> object:
    if data[:1] == b"g":
        return unpack.gunzip(data[1:], 100_000)
    return unpack.unpack_block(_CODECS.get(data[:1], "null"), data[1:], 100_000)


def _drain(items: Iterable[object]) -> int:
    """How many there are; none is kept."""
    return sum(1 for _ in items)


# --- plans, inventories


def _own() -> list[Parser]:
    kinds = ("csv", "parquet")
    return [
        of_kind("plan", lambda data: _plan(data.decode("utf-8", "surrogatepass")), raises=(UnicodeDecodeError,)),
        of_kind(
            "plan",
            lambda d: _plan(_plan_mended(d).decode()),
            name="plan with its checksum",
            raises=(UnicodeDecodeError,),
        ),
        *(of_kind(f"inventory_{kind}", partial(_inventory, f"i.{kind}")) for kind in kinds),
        of_kind("inventory_csv", partial(_inventory, "i.csv.gz"), name="inventory_csv_gz", mend=gzip.compress),
        of_kind("inventory_manifest", partial(_inventory, "i.json")),
        of_kind("metadata", json_text.parse_json, "commit", name="json", raises=(ValueError,)),
        Parser("ledger", (_ledger(),), lambda data: [_dated(line) for line in lines.parse_lines([data], WHERE)]),
        Parser("answers of gcs", (_ANSWERS,), partial(gcs._statuses, "multipart/mixed; boundary=b")),
        Parser("error of gcs", (b'{"error": {"code": 403, "message": "no"}}', b'{"error": "no"}'), gcs._message),
    ]


_ANSWERS = (
    b"--b\r\nContent-Type: application/http\r\nContent-ID: <response-1>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n"
    b"--b\r\nContent-Type: application/http\r\nContent-ID: <response-2>\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n{}\r\n"
    b"--b--\r\n"
)


def _ledger() -> bytes:
    run = "20260102T030405006Z-0123abcd"
    whole = (
        lines.Opening(run, "hudi.clean", "ab" * 32, "/t", "/t", "delete", (run,)),
        lines.Batch(0, "/t", ["p/a.parquet", "p/b.parquet"], [1, None], "p"),
        lines.Done(0, 1, 1, [1], [0], {1: "denied"}, ["v", None]),
        lines.End("2026-01-02T03:04:05.006+00:00", False, "20260102030405006", 1, 1, 1, 1),
    )
    return b"".join(line.line() for line in whole)


def _dated(line: lines.Line) -> object:
    return (line.at, line.line()) if isinstance(line, lines.Opening | lines.End) else line.line()


def _plan(text: str) -> object:
    plan = Plan.loads(text)
    return plan.summary(), plan.dumps(), plan.files, plan._repr_html_()


def _plan_mended(data: bytes) -> bytes:
    import hashlib

    lines = [line + b"\n" for line in data.split(b"\n") if line]
    if not lines:
        return data
    try:
        end = json.loads(lines[-1])
        end |= {"sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest(), "ops": len(lines) - 2}
    except (ValueError, TypeError, RecursionError):
        return data
    return b"".join([*lines[:-1], json.dumps(end).encode()])


def _inventory(name: str, data: bytes) -> object:
    listed = b"b,t/data/a,1,2026-01-01T00:00:00Z\n"
    storage = _store({f"/i/{name}": data, "/i/x/data/1.csv": listed, "/t/x": b""})
    return inventory.nominated(storage, f"file:///i/{name}", [Root("/t", "/t")], 2**60, _Listed())


class _Listed(Spool):
    """Takes what is nominated, and keeps nothing."""

    def __init__(self) -> None:
        pass

    def add(self, *_: object) -> None:
        pass
