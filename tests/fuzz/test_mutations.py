"""Damaged metadata ends in an error of ours or in a table that has lost nothing: never in a crash, a hang, a lost row.

Mutations of real tables of both formats and of our own, of bytes and of what they say. The suite does the first
``LAKEMETA_FUZZ_COUNT`` (400) of ``LAKEMETA_FUZZ_SEED`` (1), the same ones on every machine. What once went wrong is
kept in ``corpus`` and tried each time.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fuzz import runner, tables

pytestmark = pytest.mark.slow

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
COUNT = int(os.environ.get("LAKEMETA_FUZZ_COUNT", "400"))
SEED = int(os.environ.get("LAKEMETA_FUZZ_SEED", "1"))


@pytest.mark.slow
def test_every_table_passes_as_it_is() -> None:
    """What the mutations start from is in order: no operation goes wrong on it."""
    for table in tables.tables().values():
        assert not tables.run(table, table.files, moved=False).wrong, table.name


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_once_went_wrong(path: Path) -> None:
    """A kept mutation goes wrong no more."""
    assert not runner.replay(path).wrong


@pytest.mark.slow
def test_mutations() -> None:
    """Nothing goes wrong with new mutations; the seed and their number are told."""
    done, findings = runner.run_many(SEED, range(COUNT))
    print(f"{done} mutations of seed {SEED}")
    assert not findings, "\n".join(map(str, findings))
    assert done == COUNT
