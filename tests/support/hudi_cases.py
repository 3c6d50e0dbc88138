"""Recorded Hudi tables: what real Hudi had before it, planned and did; unpacked where a test wants them.

``tests/generate`` makes such cases with the real engine and packs them. Data files are recreated with their recorded
sizes and times but without content, on which no decision depends.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import fastavro

DATA = Path(__file__).parents[1] / "golden" / "data" / "hudi"


@attrs.frozen
class HudiCase:
    """One recorded operation of the engine on one table."""

    name: str
    expected: dict[str, Any] = attrs.field(repr=False)
    files: dict[str, tuple[int, int]] = attrs.field(repr=False)
    hoodie: dict[str, bytes] = attrs.field(repr=False)

    @property
    def options(self) -> dict[str, str]:
        """The options of the clean; those that decide about failed writes come from the writer's."""
        failed = ("hoodie.cleaner.policy.failed.writes", "hoodie.client.heartbeat.interval_in_ms")
        writer = {k: v for k, v in self.expected["options"].items() if k in failed}
        return {**writer, **self.expected["clean_options"]}

    @property
    def now(self) -> datetime:
        """When the engine was asked."""
        return datetime.fromtimestamp(self.expected["wall_clock_start_epoch_ms"] / 1000, UTC)

    @property
    def has_metadata_table(self) -> bool:
        """True if a metadata table serves the table."""
        lines = self.hoodie[".hoodie/hoodie.properties"].splitlines()
        return any(line.startswith(b"hoodie.table.metadata.partitions=") and not line.endswith(b"=") for line in lines)

    @property
    def base(self) -> str:
        """Where the table lay: what recorded paths begin with."""
        base: str = self.expected["base_path_at_generation"]
        return base

    def planned_files(self) -> set[str]:
        """The files of the engine's plan, relative to the table."""
        plan = self.expected["clean_plan"] or {"filePathsToBeDeletedPerPartition": {}}
        listed = plan["filePathsToBeDeletedPerPartition"].values()
        return {relative_path(file["filePath"], self.base) for files in listed for file in files}

    def planned_partitions(self) -> set[str]:
        """The partitions that the engine's plan drops."""
        return set((self.expected["clean_plan"] or {}).get("partitionsToBeDeleted") or ())

    def planned_earliest(self) -> str | None:
        """The earliest commit to retain of the engine's plan."""
        earliest = (self.expected["clean_plan"] or {}).get("earliestInstantToRetain")
        return earliest["timestamp"] if earliest else None

    def left_files(self) -> set[str]:
        """The data files after the engine's operation."""
        added = {a["path"] if isinstance(a, dict) else a for a in self.expected["added_data_files"]}
        return set(self.expected["kept_data_files"]) | added

    def unpack(self, root: Path) -> str:
        """Lay the table under ``root`` as it was before the operation, paths in pending plans moved with it."""
        for name, content in self.hoodie.items():
            _write(root / name, _moved(content, name, self.base, str(root)))
        for name, (size, modified_ms) in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.truncate(size)
            os.utime(path, (modified_ms / 1000, modified_ms / 1000))
        return str(root)


@cache
def load_cases() -> dict[str, HudiCase]:
    """All recorded cases by name."""
    found: dict[str, dict[str, bytes]] = {}
    for archive in sorted(DATA.glob("*.tar.xz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                case, _, name = member.name.partition("/")
                content = tar.extractfile(member)
                assert content is not None
                found.setdefault(case, {})[name] = content.read()
    return {name: _case(name, contents) for name, contents in sorted(found.items())}


def data_files(root: str | Path) -> set[str]:
    """All files of a table outside ``.hoodie``, relative to its root."""
    names = (path.relative_to(root).as_posix() for path in Path(root).rglob("*") if path.is_file())
    return {name for name in names if not name.startswith(".hoodie/")}


def read_avro(content: bytes) -> dict[str, Any]:
    """The one record of an Avro container, read without lakemeta."""
    (record,) = fastavro.reader(io.BytesIO(content))
    assert isinstance(record, dict)
    return record


def relative_path(path: str, base: str) -> str:
    """A recorded path without scheme and table root."""
    plain = path.removeprefix("file:")
    assert plain.startswith(f"{base}/"), (path, base)
    return plain[len(base) + 1 :]


def _case(name: str, contents: dict[str, bytes]) -> HudiCase:
    record = json.loads(contents.pop("case.json"))
    return HudiCase(name, record["expected"], {k: tuple(v) for k, v in record["files"].items()}, contents)


def _moved(content: bytes, name: str, old: str, new: str) -> bytes:
    if not name.endswith((".clean.requested", ".clean.inflight", ".rollback.requested")) or not content:
        return content
    reader = fastavro.reader(io.BytesIO(content))
    records = [_replace(record, old, new) for record in reader]
    out = io.BytesIO()
    assert reader.writer_schema is not None
    fastavro.writer(out, reader.writer_schema, records)
    return out.getvalue()


def _replace(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [_replace(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _replace(item, old, new) for key, item in value.items()}
    return value


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
