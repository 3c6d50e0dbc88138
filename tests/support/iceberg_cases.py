"""Recorded Iceberg tables: what real Iceberg 1.12 on Spark 3.5 wrote, planned and did.

``unpack("small_files_v2", tmp_path)`` extracts a case and makes its table usable where it lies: tables name their
files by absolute path, so every path in metadata, manifest lists, manifests, position deletes and deletion
vectors is moved, and sizes that change with the paths are corrected. Modification times stay as recorded. That takes a
tenth of a second and more; :class:`Cases` does it once for many tests.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import os
import re
import shutil
import struct
import tarfile
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import fastavro
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

DATA = Path(os.environ.get("ICEBERG_CASES") or Path(__file__).parents[1] / "golden" / "data" / "iceberg")
CASES = tuple(sorted(p.name.removesuffix(".tar.xz") for p in DATA.glob("*.tar.xz")))


METADATA = DATA.with_name("iceberg_metadata")  # cases of services that read metadata alone: no data files


def metadata_chains(prefix: str, procedures: Collection[str]) -> list[tuple[str, list[str]]]:
    """(case, names of calls): each call after the first is made on what the one before it left."""
    found: list[tuple[str, list[str]]] = []
    for case in sorted(path.name.removesuffix(".tar.xz") for path in METADATA.glob(f"{prefix}*.tar.xz")):
        for name, expected in recorded_actions(case, METADATA).items():
            action = expected["action"]
            if action["chained"] and action["procedure"] in procedures:
                found[-1][1].append(name)
            elif action["procedure"] in procedures:
                found.append((case, [name]))
    return found


# Beside the first rewrite of each case, one of each kind: parts committed one by one, filters, options, orders.
_FAST = (
    "eq_deletes_v2-02_rewrite_data_files_remove_dangling",
    "failures-04_rewrite_data_files_partial_3commits",
    "pos_deletes_v2-02_rewrite_data_files_default_remove_dangling",
    "pos_deletes_v2-06_rewrite_data_files_where",
    "schema_evolution_v2-03_rewrite_data_files_sort",
    "small_files_v2-06_rewrite_data_files_partial_progress",
    "sort_order_v2-04_rewrite_data_files_sort_target",
    "sort_order_v2-08_rewrite_data_files_zorder_opts",
    "spec_evolution_v2-03_rewrite_data_files_where_eu",
    "table_properties-02_rewrite_data_files_metrics_none",
    "v3_dv_lineage-05_rewrite_data_files_partial",
    "v3_dv_lineage-06_rewrite_data_files_sort",
)


# A table of each kind of input.
_KINDS = ("partitioned_v1", "mixed_formats", "eq_deletes_v2", "pos_deletes_v2", "stats_files", "v3_dv_lineage")


def is_fast(case: str, action: str) -> bool:
    """Whether a recorded rewrite is among those that fast tests do again; slow ones do all others."""
    return (case in _KINDS and action.startswith("01_")) or f"{case}-{action}" in _FAST


_LARGE = ("plan_bimodal_pd_v2", "plan_identity_skew_2k", "plan_unpart_mixed_1k")
PARAMS = [
    pytest.param(n, marks=() if at % 3 == 0 and n not in _LARGE else pytest.mark.slow) for at, n in enumerate(CASES)
]


@attrs.frozen
class Case:
    """One unpacked case; ``table`` is the root of its table."""

    name: str
    folder: Path
    table: Path

    def info(self) -> dict[str, Any]:
        """What the case is about (case.json)."""
        return read_json(self.folder / "case.json")

    def plans(self) -> list[dict[str, Any]]:
        """The recorded plans: options, where, groups or error."""
        path = self.folder / "plans.json"
        return read_json(path) if path.exists() else []

    def actions(self) -> list[tuple[str, dict[str, Any]]]:
        """(name, expected.json) of every recorded action, in order."""
        found = sorted((self.folder / "actions").glob("*/expected.json"))
        return [(p.parent.name, read_json(p)) for p in found]

    def rows(self) -> list[str]:
        """The rows of the table before any action, one JSON object with sorted keys a line, lines sorted."""
        return (self.folder / "rows_before.jsonl").read_text().splitlines()

    def metadata_files(self) -> list[Path]:
        """Table metadata files, oldest version first."""
        return metadata_files(self.table)

    def local(self, path: str) -> Path:
        """Where a file lies that table metadata names with or without a scheme."""
        return Path(re.sub(r"^file:(//)?(?=/)", "", path))

    def relative(self, path: str) -> str:
        """A path of the table relative to its root, as recorded results spell it."""
        plain, table = re.sub(r"^file:(//)?(?=/)", "", path), f"{self.table}/"
        return plain.removeprefix(table) if plain.startswith(table) else os.path.relpath(plain, self.table)


def unpack(name: str, folder: Path, data: Path = DATA) -> Case:
    """Extract a case below ``folder`` and move its table there."""
    target = Path(folder) / name
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress((data / f"{name}.tar.xz").read_bytes()))) as archive:
        archive.extractall(target, filter="data")
    relocate(target / "before")
    return Case(name, target, target / "before")


@cache
def recorded_actions(name: str, data: Path = DATA) -> dict[str, Any]:
    """The expected.json of every recorded action of a case, by action, without unpacking it."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress((data / f"{name}.tar.xz").read_bytes()))) as archive:
        found = {}
        for member in archive:
            if member.name.endswith("/expected.json"):
                content = archive.extractfile(member)
                assert content is not None
                found[member.name.split("/")[-2]] = json.load(content)
    return dict(sorted(found.items()))


class Cases:
    """Cases below one directory, each of them unpacked once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared: dict[str, Case] = {}
        self._pristine: dict[str, dict[str, tuple[bytes, int]]] = {}

    def shared(self, name: str) -> Case:
        """A case for tests that change none of its files."""
        if name not in self._shared:
            self._shared[name] = unpack(name, self._folder / "shared")
        return self._shared[name]

    def fresh(self, name: str) -> Case:
        """A case for one test at a time: whatever the test before it did to the table is undone."""
        case = Case(name, self._folder / "fresh" / name, self._folder / "fresh" / name / "before")
        if name not in self._pristine:
            unpack(name, self._folder / "fresh")
            paths = (path for path in case.table.rglob("*") if path.is_file())
            self._pristine[name] = {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
            return case
        shutil.rmtree(case.table)
        for folder in {os.path.dirname(path) for path in self._pristine[name]}:
            os.makedirs(folder, exist_ok=True)
        for path, (data, mtime_ns) in self._pristine[name].items():
            Path(path).write_bytes(data)
            os.utime(path, ns=(mtime_ns, mtime_ns))
        return case


def relocate(table: Path, url: str = "") -> None:
    """Make a copied table name its files where they now lie, or below the URL of a store that they are to be put in."""
    metadata = metadata_files(table)
    location = re.sub(r"^file:(//)?", "", read_json(metadata[-1])["location"])
    _Move(table.resolve(), location, url).run(metadata)


def metadata_files(table: Path) -> list[Path]:
    """Files of table metadata, oldest version first; planted files that only look the part are left out."""
    numbered = []
    for path in (table / "metadata").iterdir():
        match = re.fullmatch(r"v?(\d+).*\.metadata\.json(\.gz)?", path.name)
        with contextlib.suppress(ValueError, EOFError):
            if match and "location" in read_json(path):
                numbered.append((int(match[1]), path))
    return [path for _, path in sorted(numbered)]


def read_json(path: Path) -> Any:
    """The value of a JSON file, plain or gzipped."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


class _Move:
    """Moves one table from path ``old`` to its folder or ``url``, files that others name by size before the others."""

    def __init__(self, folder: Path, old: str, url: str = "") -> None:
        self.root, self.old, self.new = folder, old, url or str(folder)
        self.has_scheme = bool(url)
        self.prefix = re.compile(r"^(file:(?://)?)?" + re.escape(old) + r"(?=/|$)")

    def run(self, metadata: list[Path]) -> None:
        avro = dict(self._avro_files())
        lists = [p for p, (schema, _, _) in avro.items() if schema["fields"][0]["name"] == "manifest_path"]
        sizes: dict[str, int] = {}
        for path in avro.keys() - set(lists):
            for file in (entry["data_file"] for entry in avro[path][2]):
                if file.get("content") == 1:
                    name = file["file_path"]
                    sizes.setdefault(name, self._delete_file(self._here(name), file["file_size_in_bytes"]))
                    file["file_size_in_bytes"] = sizes[name]
            self._write_avro(path, *avro[path])
        for path in lists:
            for manifest in avro[path][2]:
                with contextlib.suppress(FileNotFoundError):  # expired before the table was recorded
                    manifest["manifest_length"] = self._here(manifest["manifest_path"]).stat().st_size
            self._write_avro(path, *avro[path])
        for path in metadata:
            text = json.dumps(self._moved(read_json(path)), separators=(",", ":")).encode()
            zipped = path.read_bytes()[:2] == b"\x1f\x8b"
            _replace(path, gzip.compress(text, mtime=0) if zipped else text)

    def _avro_files(self) -> Iterator[tuple[Path, tuple[Any, Any, Any]]]:
        for path in (self.root / "metadata").glob("*.avro"):
            with contextlib.suppress(ValueError, EOFError, IndexError):  # planted files are no Avro
                reader = fastavro.reader(io.BytesIO(path.read_bytes()))
                yield path, (reader.writer_schema, reader.metadata, list(reader))

    def _write_avro(self, path: Path, schema: Any, metadata: Any, records: list[Any]) -> None:
        user = {k: v for k, v in metadata.items() if not k.startswith("avro.")}
        out, codec = io.BytesIO(), metadata.get("avro.codec", "null")
        fastavro.writer(out, schema, self._moved(records), codec=codec, metadata=user)
        _replace(path, out.getvalue())

    def _delete_file(self, path: Path, recorded: int) -> int:
        if not path.exists():
            return recorded
        data = path.read_bytes()
        _replace(path, self._puffin(data) if data[:4] == b"PFA1" else _parquet(data, self._moved))
        return path.stat().st_size

    def _puffin(self, data: bytes) -> bytes:
        # A Puffin file ends with its footer JSON, the length of that, 4 bytes of flags, and the magic.
        start = len(data) - 12 - struct.unpack("<i", data[-12:-8])[0]
        footer = json.dumps(self._moved(json.loads(data[start:-12])), separators=(",", ":")).encode()
        return data[:start] + footer + struct.pack("<i", len(footer)) + data[-8:]

    def _here(self, path: str) -> Path:
        return Path(re.sub(r"^file:(//)?", "", self.prefix.sub(str(self.root), path)))

    def _moved(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.prefix.sub(lambda match: ("" if self.has_scheme else match[1] or "") + self.new, value)
        if isinstance(value, bytes):  # a bound of a file_path column is a path, too
            old = self.old.encode() + b"/"
            return self.new.encode() + b"/" + value.removeprefix(old) if value.startswith(old) else value
        if isinstance(value, list):
            return [self._moved(item) for item in value]
        return {k: self._moved(v) for k, v in value.items()} if isinstance(value, dict) else value


def _parquet(data: bytes, moved: Callable[[Any], Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, out = pq.read_table(io.BytesIO(data)), io.BytesIO()
    at = rows.schema.get_field_index("file_path")
    paths = pa.array([moved(path) for path in rows.column(at).to_pylist()])
    pq.write_table(rows.set_column(at, rows.schema.field(at), paths), out, compression="zstd", store_schema=False)
    return out.getvalue()


def _replace(path: Path, data: bytes) -> None:
    stat, sums = path.stat(), path.with_name(f".{path.name}.crc")
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if sums.exists():  # Hadoop's local file system: CRC-32 of each 512 bytes
        chunks = (data[i : i + 512] for i in range(0, len(data), 512))
        crcs = b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
        sums.write_bytes(b"crc\0" + struct.pack(">I", 512) + crcs)
