"""The archived timeline of recorded tables: what left the active timeline is in the archive."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from lakemeta.hudi.timeline.archive import (
    ArchivedTimeline,
    manifest_files,
    newest_manifest,
    read_archived_lsm,
    read_archived_v6,
)
from lakemeta.hudi.timeline.instants import parse_instant

DATA = Path(__file__).parent / "data" / "hudi_archive"
CASES = sorted(path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz"))


def read_archive(folder: Path) -> ArchivedTimeline:
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    if "_version_" not in files:
        return read_archived_v6(files.items())
    manifest = newest_manifest(files["_version_"], files, str(folder))
    assert manifest is not None
    live = manifest_files(files[manifest], manifest)
    return read_archived_lsm([(file, files[file.name]) for file in live])


@pytest.mark.parametrize("name", CASES)
def test_archived_instants_are_those_that_left(name: str, tmp_path: Path) -> None:
    """Each instant that Hudi archived is there once, completed, with the completion time its file had."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    timeline = read_archive(tmp_path / name / "archive")
    left = json.loads((tmp_path / name / "case.json").read_text())["removed"]
    instants = [i for i in map(parse_instant, left) if i is not None and i.completed]
    found = {(i.requested, i.action): i for i in timeline.completed()}
    assert instants
    for instant in instants:
        archived = found[instant.requested, instant.action]
        if instant.completion:
            assert archived.completion == instant.completion
    assert timeline.torn == ()
    assert len(found) == len(timeline.completion_times())
