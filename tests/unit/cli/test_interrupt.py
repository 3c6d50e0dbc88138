"""Ctrl-C: said at once, once; what was begun is cleaned up whatever comes after."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from support.builders import TableFiles, tree
from support.commands import Result
from support.iceberg_tables import create_table

from lakemeta.iceberg.commit import committer
from lakemeta.iceberg.rewrite import apply
from lakemeta.iceberg.rewrite.group_runs import GroupProgress
from lakemeta.storage import LocalStorage

Run = Callable[..., Result]
ONE = ("--set", "hoodie.clean.commits.retained=1")


@pytest.fixture
def rides(tmp_path: Path) -> Path:
    """Two small files in an Iceberg table."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    small.append([(1, "a", 0.5)])
    small.append([(2, "b", 0.5)])
    return tmp_path / "t"


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("ctrl_c")
def test_a_rewrite_leaves_neither_mark_nor_stray(run: Run, rides: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while files are written, and twice more while that is cleaned up: the table is as it was."""
    before = tree(rides)
    really = committer.remove_files

    def interrupted(self: GroupProgress, group: int) -> None:
        interrupt()

    def removing(*arguments: object) -> None:
        interrupt()
        really(*arguments)
        interrupt()

    monkeypatch.setattr(GroupProgress, "finished", interrupted)
    monkeypatch.setattr(apply, "remove_files", removing)
    command = ("rewrite-data-files", rides, "--set", "rewrite-all=true", "--yes", "-q")
    result = run(*command, "--set", "max-concurrent-file-group-rewrites=1")
    assert (result.code, result.sentence) == (130, "lakemeta: interrupted; run the same command again to go on")
    assert tree(rides) == before
    monkeypatch.undo()
    assert run(*command).code == 0


@pytest.mark.usefixtures("ctrl_c")
def test_in_the_middle_of_a_commit_the_mark_stays(run: Run, rides: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a snapshot names the new files is unknown then: they stay, and the mark says whose they are."""

    def interrupted(*_: object) -> None:
        interrupt()

    with monkeypatch.context() as patch:
        patch.setattr(committer, "_swap", interrupted)
        assert run("rewrite-data-files", rides, "--set", "rewrite-all=true", "--yes", "-q").code == 130
    assert list(rides.rglob(".lakemeta-rewrite-*.json"))


def test_a_group_under_way_gives_up_also_while_it_writes() -> None:
    """Each part of the rows that is written asks whether it is still wanted."""
    progress = GroupProgress((), None)
    progress.read(0, 0)
    progress.stop()
    with pytest.raises(Exception, match="the rewrite was interrupted"):
        progress.read(0, 0)


def test_ctrl_c_at_a_question(run: Run, table: TableFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was begun, so there is nothing to go on with: nothing was changed."""

    def hang_up(*_: object, **__: object) -> bool:
        raise click.Abort

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", hang_up)
    before = tree(table.root)
    result = run("clean", table.root, *ONE)
    assert (result.code, result.sentence) == (130, "lakemeta: nothing was changed")
    assert tree(table.root) == before
