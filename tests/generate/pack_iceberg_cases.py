"""Packs recorded Iceberg cases into the archives that the golden tests read.

    python tests/generate/pack_iceberg_cases.py CASES_DIR OUT_DIR [PREFIX]
    python tests/generate/pack_iceberg_cases.py --actions CASES_DIR OUT_DIR [PREFIX]
    python tests/generate/pack_iceberg_cases.py --files CASES_DIR OUT_DIR [PREFIX]
    python tests/generate/pack_iceberg_cases.py --whole CASES_DIR OUT_DIR [PREFIX]
    python tests/generate/pack_iceberg_cases.py --expire CASES_DIR OUT_DIR [PREFIX]

A case is a folder as ``iceberg_cases.py`` records it. No plan depends on what is inside data files, so only the newest
metadata, its manifest list and its manifests are kept. Run the tests on another folder of archives than their own with
``ICEBERG_CASES=OUT_DIR pytest tests/golden/test_iceberg_plans.py``.

With ``--actions`` cases of services are packed that read metadata alone: the lists and manifests of all snapshots, and
of each call of a procedure what the tests compare. With ``--whole`` the table is packed with all its files, with
``--files`` also with their modification times, and what became of files is compared; ``--expire`` is for
calls of expire_snapshots.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import fastavro

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.iceberg_cases import metadata_files, read_json


def pack(cases: Path, out: Path, prefix: str) -> int:
    """Write an archive of each case whose name starts with ``prefix``; the number of cases."""
    out.mkdir(parents=True, exist_ok=True)
    found = sorted(path.parent for path in cases.glob(f"{prefix}*/plans.json"))
    for case in found:
        with tarfile.open(out / f"{case.name}.tar.xz", "w:xz", preset=9) as archive:
            for name in ("case.json", "plans.json"):
                _add(archive, name, (case / name).read_bytes())
            for name, content in _needed(case / "before"):
                _add(archive, f"before/metadata/{name}", content)
    return len(found)


def pack_actions(cases: Path, out: Path, prefix: str) -> int:
    """Write an archive of each case whose name starts with ``prefix``, without data files; the number of cases."""
    out.mkdir(parents=True, exist_ok=True)
    found = sorted(path.parent for path in cases.glob(f"{prefix}*/case.json"))
    for case in found:
        with tarfile.open(out / f"{case.name}.tar.xz", "w:xz", preset=9) as archive:
            for path in sorted((case / "actions").glob("*/expected.json")):
                expected = read_json(path)
                if expected["action"].get("api") != "core":
                    _add(archive, str(path.relative_to(case)), json.dumps(_compared(expected)).encode())
            lengths = {
                m["manifest_path"]: m["manifest_length"] for m in read_json(case / "before_state.json")["manifests"]
            }
            _add(archive, "manifest_lengths.json", json.dumps(lengths).encode())
            kept = [metadata_files(case / "before")[-1]]
            for pattern in ("*.avro", "partition-stats-*", "*hint.text"):
                kept += (case / "before/metadata").glob(pattern)
            for path in sorted(kept):
                _add(archive, str(path.relative_to(case)), path.read_bytes())
    return len(found)


def pack_files(cases: Path, out: Path, prefix: str) -> int:
    """Write an archive of each case whose name starts with ``prefix``, with all files as they lie; how many cases."""
    out.mkdir(parents=True, exist_ok=True)
    found = sorted(path.parent for path in cases.glob(f"{prefix}*/case.json"))
    for case in found:
        with tarfile.open(out / f"{case.name}.tar.xz", "w:xz", preset=9) as archive:
            info = {"table_root_in_metadata": read_json(case / "case.json")["table_root_in_metadata"]}
            _add(archive, "case.json", json.dumps(info).encode())
            for path in sorted((case / "actions").glob("*/expected.json")):
                _add(archive, str(path.relative_to(case)), json.dumps(_files_compared(read_json(path))).encode())
            archive.add(case / "before", "before")
    return len(found)


def _files_compared(expected: dict[str, Any]) -> dict[str, Any]:
    compared = ("action", "action_time_ms", "result", "error", "note", "file_list_view_rows")
    kept = {key: expected[key] for key in compared if key in expected}
    return {**kept, "fs_deleted": expected["diff"].get("fs_deleted", [])}


def pack_whole(cases: Path, out: Path, prefix: str) -> int:
    """Write an archive of each case whose name starts with ``prefix``, with all files; the number of cases."""
    out.mkdir(parents=True, exist_ok=True)
    found = sorted(path.parent for path in cases.glob(f"{prefix}*/case.json"))
    for case in found:
        state = read_json(case / "before_state.json")
        with tarfile.open(out / f"{case.name}.tar.xz", "w:xz", preset=9) as archive:
            for path in sorted((case / "actions").glob("*/expected.json")):
                _add(archive, str(path.relative_to(case)), json.dumps(_compared(read_json(path))).encode())
            _add(archive, "deleted_positions.json", json.dumps(state.get("deleted_positions", {})).encode())
            for path in sorted(path for path in (case / "before").rglob("*") if path.is_file()):
                _add(archive, str(path.relative_to(case)), path.read_bytes())
    return len(found)


_COMPARED = ("case", "action", "action_time_ms", "result", "error", "manifests_detail")
_COMPARED_OF_STATISTICS = ("partition_stats_rows", "partition_stats_schema", "partition_statistics")
_COMPARED_OF_DELETES = ("engine_defect", "deleted_positions_after", "delete_rows_added")
_COMPARED_DIFF = (
    *("new_snapshots", "removed_snapshot_ids", "next_row_id", "last_sequence_number"),
    *("delete_files_removed", "delete_files_added"),
)
_LEFT_OUT_OF_FILES = ("metrics", "raw", "manifest")


def _compared(expected: dict[str, Any]) -> dict[str, Any]:
    kinds = (*_COMPARED, *_COMPARED_OF_STATISTICS, *_COMPARED_OF_DELETES)
    kept = {key: expected[key] for key in kinds if key in expected}
    kept["diff"] = {key: expected["diff"][key] for key in _COMPARED_DIFF if key in expected["diff"]}
    for file in kept["diff"].get("delete_files_added", []):
        for key in _LEFT_OUT_OF_FILES:
            file.pop(key, None)
    return kept


def _needed(table: Path) -> list[tuple[str, bytes]]:
    """The metadata that planning on the current snapshot reads, as if there had never been another."""
    newest = metadata_files(table)[-1]
    metadata: dict[str, Any] = read_json(newest)
    current = next(s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
    current.pop("parent-snapshot-id", None)
    metadata |= {"snapshots": [current], "snapshot-log": [], "metadata-log": []}
    listed = table / current["manifest-list"].removeprefix(f"{metadata['location']}/")
    manifests = [m["manifest_path"] for m in fastavro.reader(io.BytesIO(listed.read_bytes()))]
    others = [listed, *(table / path.removeprefix(f"{metadata['location']}/") for path in sorted(manifests))]
    return [(newest.name, json.dumps(metadata).encode()), *((path.name, path.read_bytes()) for path in others)]


_OF_CALL = ("action", "action_time_ms", "result", "error")
_OF_DIFF = ("removed_snapshot_ids", "fs_deleted", "fs_added")
_OF_METADATA = ("refs", "schemas", "partition-specs", "statistics", "partition-statistics", "snapshot-log")


def pack_expire(cases: Path, out: Path, prefix: str) -> int:
    """Write an archive of each case whose name starts with ``prefix``, with all files; the number of cases."""
    out.mkdir(parents=True, exist_ok=True)
    found = sorted(path.parent for path in cases.glob(f"{prefix}*/case.json"))
    for case in found:
        with tarfile.open(out / f"{case.name}.tar.xz", "w:xz", preset=9) as archive:
            for path in sorted((case / "actions").glob("*/expected.json")):
                if "expire_snapshots" in path.parent.name:
                    _add(archive, str(path.relative_to(case)), json.dumps(_of_expire(read_json(path))).encode())
            # Files of a kind share most of their bytes with each other.
            files = (p for p in (case / "before").rglob("*") if p.is_file() and p.suffix != ".crc")
            for path in sorted(files, key=lambda p: (p.suffix, p.name)):
                _add(archive, str(path.relative_to(case)), path.read_bytes())
    return len(found)


def _of_expire(expected: dict[str, Any]) -> dict[str, Any]:
    changed = expected["diff"]["metadata_diff"]["changed"]
    diff = {key: expected["diff"][key] for key in _OF_DIFF}
    diff["metadata"] = {key: changed[key] for key in _OF_METADATA if key in changed}
    rows = (expected.get("integrity") or {}).get("rows_at_refs")
    return {**{key: expected[key] for key in _OF_CALL if key in expected}, "rows_at_refs": rows, "diff": diff}


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    ways = {"--actions": pack_actions, "--whole": pack_whole, "--files": pack_files, "--expire": pack_expire}
    arguments = [name for name in sys.argv[1:] if name not in ways]
    work = next((ways[name] for name in sys.argv[1:] if name in ways), pack)
    print(work(Path(arguments[0]), Path(arguments[1]), (arguments[2:] or [""])[0]), "cases")
