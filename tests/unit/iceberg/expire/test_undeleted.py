"""Files that an expire could not delete stay in sight: the report, ``doctor`` and ``why`` name what takes them up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.iceberg_expire import apply, build, files, opened, plan

from lakemeta.report import Outcome
from lakemeta.storage import LocalStorage


@pytest.mark.parametrize("kind", [".parquet", "-m0.avro"])
def test_what_could_not_be_deleted_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """By the doctor with its bytes and the command, by ``why``, and taken up by that command."""
    build(tmp_path / "t")
    made = plan(tmp_path / "t")
    stubborn = next(f"{tmp_path}/t/{op.path}" for op in made.deletes() if op.path.endswith(kind))
    really = LocalStorage.delete_many

    def refuse(self: LocalStorage, paths: Sequence[str]) -> list[Outcome]:
        fates = {outcome.path: outcome for outcome in really(self, [path for path in paths if path != stubborn])}
        return [fates.get(path, Outcome(path, "failed", "busy")) for path in paths]

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "delete_many", refuse)
        report = apply(tmp_path / "t", made)
    assert [outcome.path for outcome in report.failed] == [stubborn]
    command = f"lakemeta expire-snapshots {tmp_path}/t"
    assert report.notes[-1] == f"what could not be deleted is taken up again by: {command}"
    (found,) = (f for f in opened(tmp_path / "t").doctor() if f.severity == "wrong")
    assert found.kind == "failed_deletions"
    assert command in found.sentence
    assert command in opened(tmp_path / "t").why(stubborn)
    apply(tmp_path / "t", plan(tmp_path / "t"), later=60)
    assert stubborn not in files(tmp_path / "t")
    assert not [f for f in opened(tmp_path / "t").doctor() if f.severity == "wrong"]
