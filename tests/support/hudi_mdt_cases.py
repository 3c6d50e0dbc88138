"""Recorded tables with a metadata table: unpacks them and cleans them the way a clean does.

A case is a directory with ``before/.hoodie`` (the table just before real Hudi cleaned it), ``added`` (what real Hudi
added to it) and ``case.json``: the clean's instant and plan, the sizes of the data files before and after, and the
content of the metadata table before and after as real Hudi reads it.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from lakemeta.hudi.metadata_table.table import MetadataTable
from lakemeta.hudi.metadata_table.update import CleanedPartition
from lakemeta.hudi.timeline.loading import load_config, load_timeline
from lakemeta.storage import LocalStorage, Storage
from support.hudi_mdt_records import listing, records_of

DATA = Path(__file__).parents[1] / "golden" / "data" / "hudi_mdt"
CASES = sorted(path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz"))
NOW_MS = 1_800_000_000_000


@attrs.frozen
class MdtCase:
    """One unpacked case: its directory, the data table's root and what ``case.json`` says."""

    directory: Path
    facts: dict[str, Any]

    @property
    def root(self) -> str:
        return str(self.directory / "before")

    @property
    def instant(self) -> str:
        return str(self.facts["instant"])

    @property
    def version(self) -> int:
        return load_config(LocalStorage(), self.root).version

    def open(self, storage: Storage | None = None) -> MetadataTable:
        storage = storage or LocalStorage()
        config = load_config(storage, self.root)
        return MetadataTable.open(storage, self.root, config, load_timeline(storage, self.root, config))

    def listing(self, assume_completed: str | None = None) -> dict[str, dict[str, int]]:
        """What the metadata table lists."""
        return listing(self.open(), assume_completed)

    def add_what_hudi_added(self) -> None:
        shutil.copytree(self.directory / "added" / ".hoodie", Path(self.root) / ".hoodie", dirs_exist_ok=True)

    def cleaned(self) -> list[CleanedPartition]:
        dropped = self.facts["dropped"]
        files = self.facts["cleaned"]
        return [CleanedPartition(p, files.get(p, ()), p in dropped) for p in sorted({*files, *dropped})]

    @property
    def timeline_directory(self) -> Path:
        return Path(self.root) / ".hoodie" / ("timeline" if self.version >= 8 else "")

    def request(self) -> None:
        """Put the clean's requested and inflight files where a clean has them while it works."""
        for name in ("clean.requested", "clean.inflight"):
            (self.timeline_directory / f"{self.instant}.{name}").write_bytes(b"plan")

    def complete(self) -> None:
        """Complete the clean on the data table."""
        completion = self.facts["completion"]
        done = f"{self.instant}_{int(completion) + 1}.clean" if completion else f"{self.instant}.clean"
        (self.timeline_directory / done).write_bytes(b"done")

    def clean(self, storage: Storage | None = None) -> None:
        """Tell the metadata table of the clean."""
        table = self.open(storage)
        prepared = table.prepare_clean(self.instant, self.cleaned(), NOW_MS)
        table.commit_clean(prepared, self.facts["completion"])


def unpack_case(name: str, into: Path) -> MdtCase:
    """Unpack a recorded case below a directory."""
    for path, data, modified in _members(name):
        if data is None:
            (into / path).mkdir(parents=True, exist_ok=True)
        else:
            (into / path).write_bytes(data)
            os.utime(into / path, (modified, modified))
    directory = into / name
    return MdtCase(directory, json.loads((directory / "case.json").read_text()))


@cache
def _members(name: str) -> tuple[tuple[str, bytes | None, float], ...]:
    """Path, content (none of a directory) and time of modification (seconds) of all that a case holds."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        found = ((member, archive.extractfile(member)) for member in archive)
        return tuple((member.name, file and file.read(), float(member.mtime)) for member, file in found)


def lay_out(name: str, into: Path) -> MdtCase:
    """Unpack a case and put its data files where the metadata table says, with their sizes."""
    case = unpack_case(name, into)
    for partition, files in case.facts["listing_before"].items():
        folder = Path(case.root) / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_bytes(b"")
        for file, size in files.items():
            (folder / file).write_bytes(b"x" * size)
    return case


def content(table: MetadataTable) -> dict[str, Any]:
    """The content of a metadata table in the form of the recordings."""
    found: dict[str, Any] = {"column_stats": [], "partition_stats": [], "record_index": 0, "other": {}}
    for partition in table.partitions:
        records = records_of(table, partition)
        if partition == "files":
            found["files"] = {k: _only(r, "type", "filesystemMetadata") for k, r in records.items()}
        elif partition in ("column_stats", "partition_stats"):
            stats = (record["ColumnStatsMetadata"] for record in records.values())
            found[partition] = sorted([s["fileName"], s["columnName"], s["isDeleted"]] for s in stats)
        elif partition == "record_index":
            found[partition] = len(records)
        else:
            found["other"][partition] = records
    return found


def without_hudis_slips(case: MdtCase, expected: dict[str, Any], cleaned: bool) -> dict[str, Any]:
    """Hudi 0.15.0 cuts the names of cleaned files, so its tombstones miss: put them where they were meant."""
    if not (cleaned and case.directory.name.startswith("0.15.0") and expected["column_stats"]):
        return expected
    gone = {name for names in case.facts["cleaned"].values() for name in names}
    before = case.facts["mdt_before"]["column_stats"]
    earlier_tombstones = [row for row in before if row[2]]
    live = [[name, column, name in gone] for name, column, deleted in before if not deleted]
    return {**expected, "column_stats": sorted(live + earlier_tombstones)}


def _only(record: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: record[name] for name in names}
