"""How fast the metadata table's ``files`` partition is written and read, without a table or an engine.

    python benchmarks/hudi_metadata_table.py [--partitions 1000] [--files 200] [--repeat 3]
    python benchmarks/hudi_metadata_table.py --listing 100000 1000000

Best of ``--repeat`` runs. "write" encodes the records of a clean that deletes every file, as one log file;
"read" merges a base file of that many live files with that log on top; "list" is the base file alone.

With ``--listing`` cold processes read base files of so many files, 250 a partition, piece by piece as planning does, or
only cut them into pieces, as the driver of a cluster does: seconds, time a file beside that of the first size, and the
peak of memory above that of the bare process.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lakemeta.hudi.files.logs import LogBlock, read_blocks
from lakemeta.hudi.metadata_table.files import FilesPartition
from lakemeta.hudi.metadata_table.hfile_writer import write_hfile
from lakemeta.hudi.metadata_table.keys import ALL_PARTITIONS
from lakemeta.hudi.metadata_table.merge import log_layers
from lakemeta.hudi.metadata_table.records import RecordSchema, RecordType
from lakemeta.hudi.metadata_table.update import CleanedPartition, files_update
from lakemeta.storage.local import LocalStorage
from lakemeta.storage.remote import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Sequence

INSTANT = "20260101000000000"
SCHEMA = RecordSchema(
    '{"type":"record","name":"HoodieMetadataRecord","fields":[{"name":"key","type":"string"},'
    '{"name":"type","type":"int"},{"name":"filesystemMetadata","type":["null",{"type":"map","values":'
    '{"type":"record","name":"HoodieMetadataFileInfo","fields":[{"name":"size","type":"long"},'
    '{"name":"isDeleted","type":"boolean"}]}}]},'
    '{"name":"ColumnStatsMetadata","type":["null",{"type":"record","name":"S","fields":'
    '[{"name":"isTightBound","type":"boolean"}]}],"default":null}]}'
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--listing", type=int, nargs="+", metavar="FILES", help="read so many files in cold processes")
    parser.add_argument("--base-file", help=argparse.SUPPRESS)
    parser.add_argument("--cut", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.base_file is not None:
        list_base_file(options.base_file, only_cut=options.cut)
    elif options.listing:
        listings(options.listing, options.repeat)
    else:
        write_and_read(options)


def file_names(partitions: int, files: int) -> dict[str, list[str]]:
    """Names like Hudi's, by partition; file ids are as good as random, so they do not compress."""

    def name(p: int, f: int) -> str:
        digest = hashlib.md5(f"{p} {f}".encode(), usedforsecurity=False).hexdigest()
        return f"{digest[:8]}-{digest[8:12]}-4ad0-9f5a-{digest[12:24]}-0_{f}-{p}-{f}_{INSTANT}.parquet"

    return {f"region=eu/day={p:06d}": [name(p, f) for f in range(files)] for p in range(partitions)}


def listings(sizes: list[int], repeat: int) -> None:
    """One row for each size and way."""
    print("| files | base file MB | what | s | us a file | to the first size | peak MiB |\n| --- " + "| --- " * 6 + "|")
    first: dict[str, float] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "base.hfile")
            path.write_bytes(base_file(file_names(size // 250, 250)))
            megabytes = path.stat().st_size / 1e6
            for what, words in (("read", ()), ("cut", ("--cut",))):
                seconds, peak = cold(path, words, repeat)
                a_file = seconds / size * 1e6
                ratio = a_file / first.setdefault(what, a_file)
                row = (
                    size,
                    f"{megabytes:.0f}",
                    what,
                    f"{seconds:.2f}",
                    f"{a_file:.2f}",
                    f"{ratio:.2f}x",
                    f"{peak:.0f}",
                )
                print("| " + " | ".join(map(str, row)) + " |", flush=True)


def cold(path: Path, words: Sequence[str], repeat: int) -> tuple[float, float]:
    """The best of the seconds and the most of the MiB that processes tell."""
    command = [sys.executable, __file__, "--base-file", str(path), *words]
    told = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(repeat)]
    return min(float(line.split()[0]) for line in told), max(float(line.split()[1]) for line in told)


def list_base_file(path: str, *, only_cut: bool) -> None:
    """Read one base file, or only cut it; print the seconds and what the peak of memory grew by, in MiB."""
    before = peak_mib()
    started = perf_counter()
    files = FilesPartition.open(LocalStorage(), path, ())
    if only_cut:
        count = sum(len(piece.keys) for piece in files.pieces(files.partitions))
    else:
        read = (files.reader.read(piece) for piece in files.pieces(files.partitions))
        count = sum(bool(names) for listed in read for _, names in listed)
    seconds = perf_counter() - started
    assert count == len(files.live_keys) > 0
    print(seconds, peak_mib() - before)


def peak_mib() -> float:
    """The most memory that this process has held; what getrusage says includes the process it was forked from."""
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def write_and_read(options: argparse.Namespace) -> None:
    """Records of a clean that deletes every file, and what reading is with and without them."""
    names = file_names(options.partitions, options.files)
    cleaned = [CleanedPartition(path, files) for path, files in names.items()]
    base = base_file(names)

    def write() -> bytes:
        update = files_update(cleaned, SCHEMA)
        assert update is not None
        return update.encode(SCHEMA, INSTANT, 0)

    storage = MemoryStorage("memory")
    storage.replace("/base.hfile", base)

    def read(log: bytes | None) -> int:
        found = read_blocks(log, "log") if log else ()
        blocks = [("log", block) for block in found if isinstance(block, LogBlock)]
        files = FilesPartition.open(storage, "/base.hfile", log_layers(blocks))
        return sum(len(listed) for _, listed in files.listed(files.partitions))

    log = write()
    assert read(None) == options.partitions * options.files
    assert read(log) == 0
    print(f"{options.partitions * options.files} entries, base {len(base)} bytes, log {len(log)} bytes")
    for name, run in (("write", write), ("list", lambda: read(None)), ("read", lambda: read(log))):
        print(f"{name:6} {best(run, options.repeat):.3f} s")


def base_file(names: dict[str, list[str]]) -> bytes:
    listed = SCHEMA.encode_files(RecordType.ALL_PARTITIONS, [(path, 0, False) for path in names])
    values = {
        path: SCHEMA.encode_files(RecordType.FILES, [(name, 1000 + i, False) for i, name in enumerate(files)])
        for path, files in names.items()
    }
    entries = {ALL_PARTITIONS: listed, **values}
    return write_hfile(sorted((k.encode(), v) for k, v in entries.items()), SCHEMA.text, 0)


def best(run: object, repeat: int) -> float:
    assert callable(run)
    times = []
    for _ in range(repeat):
        started = perf_counter()
        run()
        times.append(perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    main()
