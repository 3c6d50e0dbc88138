"""How fast the metadata table's ``files`` partition is written and read, without a table or an engine.

    python benchmarks/hudi_metadata_table.py [--partitions 1000] [--files 200] [--repeat 3]

Best of ``--repeat`` runs. "write" encodes the records of a clean that deletes every file, as one log file;
"read" merges a base file of that many live files with that log on top; "list" is the base file alone.
"""

from __future__ import annotations

import argparse
from time import perf_counter

from lakemeta.hudi.logfile import LogBlock, read_blocks
from lakemeta.hudi.metadata_table.hfile_writer import write_hfile
from lakemeta.hudi.metadata_table.keys import ALL_PARTITIONS
from lakemeta.hudi.metadata_table.merge import file_listing, layers, merged_records
from lakemeta.hudi.metadata_table.records import RecordSchema, RecordType
from lakemeta.hudi.metadata_table.update import CleanedPartition, files_update

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
    options = parser.parse_args()
    names = {
        f"region=eu/day={p:06d}": [
            f"{p:08x}-4d3f-4ad0-9f5a-{f:012x}-0_{f}-{p}-{f}_{INSTANT}.parquet" for f in range(options.files)
        ]
        for p in range(options.partitions)
    }
    cleaned = [CleanedPartition(path, files) for path, files in names.items()]
    base = base_file(names)

    def write() -> bytes:
        update = files_update(cleaned, SCHEMA)
        assert update is not None
        return update.encode(SCHEMA, INSTANT, 0)

    def read(log: bytes | None) -> int:
        found = read_blocks(log, "log") if log else ()
        blocks = [("log", block) for block in found if isinstance(block, LogBlock)]
        listing = file_listing(merged_records(layers(("base", base), blocks)))
        return sum(len(files) for files in listing.values())

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
