"""What parsers read of strangers ends in a value or an error of ours: in no traceback, no hang, no blow-up of memory.

The fast suite does ``LAKEMETA_INPUTS`` (2000) inputs of ``LAKEMETA_FUZZ_SEED`` (1), the slow one ten times as many.
What once went wrong is kept in ``inputs_corpus`` and tried each time.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fuzz import inputs
from fuzz.parsers import parsers

pytestmark = pytest.mark.slow

CORPUS = sorted((Path(__file__).parent / "inputs_corpus").glob("*.json"))
COUNT = int(os.environ.get("LAKEMETA_INPUTS", "2000"))
SEED = int(os.environ.get("LAKEMETA_FUZZ_SEED", "1"))


def test_what_the_inputs_start_from() -> None:
    """Every parser has something to start from, and reads or refuses it as it should."""
    for parser in parsers().values():
        assert parser.seeds, parser.name
        for data in parser.seeds:
            whole = parser.mend(data) if parser.mend else data
            assert not inputs.Input(parser, 0, whole).run(), parser.name


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_once_went_wrong(path: Path) -> None:
    """A kept input goes wrong no more, and soon."""
    assert not inputs.replay(path)


def test_inputs() -> None:
    """Nothing goes wrong with new inputs; the seed and their number are told."""
    done, findings = inputs.run_many(SEED, range(COUNT))
    print(f"{done} inputs of seed {SEED}")
    assert not findings, "\n".join(map(str, findings))
    assert done == COUNT


@pytest.mark.slow
def test_many_inputs() -> None:
    """The same with ten times as many others."""
    done, findings = inputs.run_many(SEED, range(COUNT, 11 * COUNT))
    assert not findings, "\n".join(map(str, findings))
    assert done == 10 * COUNT
