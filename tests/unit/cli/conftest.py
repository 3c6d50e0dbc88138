"""What the tests of the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, tree
from support.commands import runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.commands import Result


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Call with the arguments of ``lakemeta``."""
    return runner(monkeypatch, capsys)


@pytest.fixture
def table(tmp_path: Path) -> TableFiles:
    """Three versions of group a, of which a clean deletes one, and a dropped partition with one file."""
    table = TableFiles(tmp_path / "t")
    table.insert({"p1": "a", "p2": "c"})
    table.commit({"p1": "a"})
    table.delete_partition("p2")
    table.commit({"p1": "a"})
    return table


@pytest.fixture
def refused(run: Callable[..., Result], table: TableFiles) -> Callable[..., str]:
    """Run a command that must say no in one sentence with this exit code, changing nothing."""

    def call(code: int, *arguments: object) -> str:
        before = tree(table.root)
        result = run(*arguments)
        assert result.code == code
        if "json" not in arguments:
            assert result.out == ""
        assert tree(table.root) == before
        return result.sentence

    return call
