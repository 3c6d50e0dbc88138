"""Base files of several blocks, as two writers of real Hudi left them, read piece by piece."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from lakemeta.hudi.metadata_table.files import FilesPartition
from lakemeta.storage import LocalStorage

RECORDED = sorted((Path(__file__).parent / "data/hudi_mdt_blocks").glob("*.hfile"))


@pytest.mark.parametrize("base", RECORDED, ids=lambda path: path.stem)
def test_pieces_of_real_base_files_list_what_was_on_storage(base: Path) -> None:
    """HBase's writer in 0.15.0 and Hudi's own in 1.2.0; all partitions, and some of them."""
    files = FilesPartition.open(LocalStorage(), str(base), ())
    expected = json.loads(base.with_suffix(".json").read_text())
    pieces = list(files.pieces(files.partitions, 1))
    assert len({piece.blocks for piece in pieces}) > 1
    listed = dict(item for piece in pieces for item in files.reader.read(piece))
    assert {partition: digest(names) for partition, names in listed.items()} == expected
    some = ["p00000", "p00033", "p00069"]
    assert dict(files.listed(some)) == {partition: listed[partition] for partition in some}


def digest(names: dict[str, int]) -> list[object]:
    lines = sorted(f"{name} {size}\n" for name, size in names.items())
    return [len(lines), sha256("".join(lines).encode()).hexdigest()]
