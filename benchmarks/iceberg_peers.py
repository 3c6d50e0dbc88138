"""Other ways to compact an Iceberg table, each as a process of its own: ``python iceberg_peers.py WAY ROOT``.

ROOT is the directory of a Hadoop table; its newest metadata is registered in a SQLite catalog next to it, which
takes no part in the time. Prints the seconds that the rewrite alone took, imports and catalog apart. Runs with any
Python that has the peers installed and imports nothing of lakemeta.
"""

from __future__ import annotations

import argparse
import glob
import http.server
import json
import os
import threading
import time

THREADS = 2
NAME = "db.t"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=sorted(WAYS))
    parser.add_argument("root", type=os.path.abspath)
    given = parser.parse_args()
    run = WAYS[given.way](given.root)
    started = time.perf_counter()
    run()
    print(json.dumps({"seconds": time.perf_counter() - started}))


def catalog(root):
    """A pyiceberg catalog that knows the table."""
    from pyiceberg.catalog.sql import SqlCatalog

    found = SqlCatalog("local", uri=f"sqlite:///{root}.db", warehouse=os.path.dirname(root))
    found.create_namespace_if_not_exists("db")
    newest = max(glob.glob(f"{root}/metadata/v*.metadata.json"), key=lambda p: int(p.split("/v")[-1].split(".")[0]))
    if not found.table_exists(NAME):
        found.register_table(NAME, newest)
    return found


def polars(root):
    """No Iceberg at all: what reading and writing the same rows costs a fast engine."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl

    rows = pl.scan_parquet(f"{root}/data/*.parquet")
    return lambda: rows.sink_parquet(f"{root}/data/out", compression="zstd", compression_level=3)


def duckdb(root):
    """As polars."""
    import duckdb as db

    connection = db.connect(config={"threads": THREADS})
    copy = f"COPY (FROM '{root}/data/*.parquet') TO '{root}/data/out' (FORMAT parquet, COMPRESSION zstd)"
    return lambda: connection.execute(copy)


def pyiceberg(root):
    """What one does by hand with pyiceberg: read the table, overwrite it. Everything is in memory."""
    table = catalog(root).load_table(NAME)
    return lambda: table.overwrite(table.scan().to_arrow())


def zamboni(root, **config):
    """iceberg-zamboni: DuckDB reads, pyiceberg commits."""
    from zamboni import CatalogSession, CompactionConfig, TableCompactor

    session = CatalogSession.from_catalog(catalog(root), threads=THREADS)
    return lambda: TableCompactor(session, NAME, CompactionConfig(rewrite_all=True, **config)).execute()


def zamboni_in_memory(root):
    """iceberg-zamboni in its fastest mode."""
    from zamboni import MemoryMode

    return zamboni(root, memory_mode=MemoryMode.IN_MEMORY)


def iceberg_compaction(root):
    """iceberg-compaction: Rust, through a REST catalog on this machine. Writes Snappy whatever the table says."""
    from iceberg_compaction import Compaction, CompactionConfig, RestCatalog

    rest = RestCatalog("rest", uri=serve(catalog(root)))
    config = CompactionConfig(
        strategy="full",
        target_file_size_bytes=512 * 1024 * 1024,
        max_input_parallelism=THREADS,
        max_output_parallelism=THREADS,
    )
    return lambda: Compaction(rest, NAME, config).run()


def serve(backing):
    """The few requests of the REST catalog that a compaction makes, answered from another catalog."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/v1/config"):
                return self.answer({"defaults": {}, "overrides": {}})
            return self.answer(self.table())

        def do_POST(self):
            from pyiceberg.table import CommitTableRequest

            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = CommitTableRequest.model_validate_json(body)
            backing.commit_table(backing.load_table(NAME), request.requirements, request.updates)
            return self.answer(self.table())

        def table(self):
            table = backing.load_table(NAME)
            metadata = json.loads(table.metadata.model_dump_json())
            return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}

        def answer(self, value):
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


WAYS = {
    f.__name__.replace("_", "-"): f for f in (polars, duckdb, pyiceberg, zamboni, zamboni_in_memory, iceberg_compaction)
}

if __name__ == "__main__":
    main()
