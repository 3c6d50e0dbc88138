"""Records base files of the metadata table's ``files`` partition that have several blocks, as real Hudi writes them.

    python tests/generate/hudi_mdt_blocks.py tests/golden/data/hudi_mdt_blocks

A table of 14 000 files is fabricated, and the engine builds its metadata table with one more commit. Kept are the base
file and, from storage, what must be listed: partition -> number of files and SHA-256 of the lines ``name bytes``.
Needs Java and PySpark 3.5; the engines are fetched from Maven Central.
"""

import json
import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from fabricate_hudi import Shape
from hudi_clean import RELEASES
from hudi_metadata_clean import with_metadata_table


def record(release: str, table_version: int, into: Path) -> None:
    """Make one table, and keep of it ``RELEASE.hfile`` and ``RELEASE.json``."""
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch, "table")
        with_metadata_table(release, Path(scratch), table, Shape(70, 50, 4, table_version))
        (base,) = table.glob(".hoodie/metadata/files/*.hfile")
        shutil.copy(base, into / f"{release}.hfile")
        listed = {folder.name: digest(folder) for folder in sorted(table.glob("p*"))}  # its own commit is in a log
    (into / f"{release}.json").write_text(json.dumps(listed, indent=1) + "\n")


def digest(partition: Path) -> list[object]:
    """Number of data files, and a hash of their names and sizes."""
    lines = sorted(f"{file.name} {file.stat().st_size}\n" for file in partition.glob("*.parquet"))
    return [len(lines), sha256("".join(lines).encode()).hexdigest()]


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for number, name in RELEASES.items():
        record(name, number, out)
