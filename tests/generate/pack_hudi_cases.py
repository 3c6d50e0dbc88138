"""Packs recorded Hudi cases into the archive that the golden tests read.

    python tests/generate/pack_hudi_cases.py CASES_DIR OUT.tar.xz [PREFIX]

A case is a folder with ``before/`` (the table) and ``expected.json`` (what the engine decided), as ``hudi_cases.py``
records it. No decision depends on what is inside data files, so only their names, sizes and times are kept; the
``.hoodie`` folder is kept byte for byte, without the metadata table.
"""

import io
import json
import sys
import tarfile
from pathlib import Path

KEPT = [
    "case",
    "hudi_version",
    "table_version",
    "action",
    "error",
    "options",
    "clean_options",
    "base_path_at_generation",
    "wall_clock_start_epoch_ms",
    "clean_instant",
    "clean_plan",
    "clean_metadata",
    "kept_data_files",
    "added_data_files",
    "hoodie_removed",
]


def pack(cases: Path, out: Path, prefix: str) -> int:
    """Write the archive of all cases whose names start with ``prefix``; the number of cases."""
    found = sorted(p.parent for p in cases.glob(f"{prefix}*/expected.json"))
    with tarfile.open(out, "w:xz", preset=9) as archive:
        for case in found:
            _pack_case(case, archive)
    return len(found)


def _pack_case(case: Path, archive: tarfile.TarFile) -> None:
    table = case / "before"
    expected = json.loads((case / "expected.json").read_text())
    files = {}
    for path in sorted(p for p in table.rglob("*") if p.is_file()):
        name = path.relative_to(table).as_posix()
        if name.startswith(".hoodie/metadata/"):
            continue
        modified = path.stat().st_mtime_ns // 1_000_000
        if name.startswith(".hoodie/"):
            _add(archive, f"{case.name}/{name}", path.read_bytes())
            if name.startswith(".hoodie/.heartbeat/"):
                files[name] = [0, modified]
        else:
            files[name] = [path.stat().st_size, modified]
    record = {"expected": {key: expected[key] for key in KEPT}, "files": files}
    _add(archive, f"{case.name}/case.json", json.dumps(record, sort_keys=True).encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), Path(sys.argv[2]), (sys.argv[3:] or [""])[0]), "cases")
