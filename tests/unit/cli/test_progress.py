from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.iceberg_tables import create_table

from lakemeta.cli.options import Common, moment, pairs
from lakemeta.cli.progress import ProgressExecutor
from lakemeta.errors import OptionError
from lakemeta.executor import LocalExecutor
from lakemeta.storage import LocalStorage


@pytest.mark.parametrize(("items", "batch"), [([1, 2, 3], 8), (list(range(20)), 3), (iter(range(20)), 3), ([], 1)])
def test_progress_changes_nothing(items: list[int], batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The results are the inner executor's, in order; nothing goes to stdout."""
    listed = list(items)
    executor = ProgressExecutor(LocalExecutor(1), "working")
    found = executor.map_batches(
        lambda batch: [n * 2 for n in batch], iter(listed) if batch == 3 else listed, batch_size=batch
    )
    assert list(found) == [n * 2 for n in listed]
    assert capsys.readouterr().out == ""


def test_times_without_offset_are_utc() -> None:
    """ISO 8601 in any offset; none means UTC; no time means the present."""
    aware = moment("2026-08-01T12:00:00+02:00")
    assert aware == moment("2026-08-01T10:00:00Z") == moment("2026-08-01T10:00:00")
    assert moment(None) is None


def test_pairs() -> None:
    """The value may hold more equals signs or nothing; the same twice is once."""
    assert pairs(["a=b=c", "d=", "a=b=c"], "--set") == {"a": "b=c", "d": ""}
    with pytest.raises(OptionError, match="--set a is given twice with different values"):
        pairs(["a=1", "a=2"], "--set")


def test_the_local_executor_takes_the_threads_asked_for() -> None:
    """``local`` is always there, with as many threads as the work wants."""
    executor = Common("local", {}, "text", quiet=True).executor("looking", 1)
    assert isinstance(executor, LocalExecutor)
    assert executor.threads == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize(("more", "shown"), [((), True), (("--quiet",), False), (("--output", "jsonl"), False)])
def test_a_rewrite_shows_groups_and_bytes_on_a_terminal(tmp_path: Path, more: tuple[str, ...], shown: bool) -> None:
    """Stderr on a terminal shows a bar, unless quiet or lines for a program were asked for."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    small.append([(1, "a", 0.5)], [(2, "a", 0.5)])
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "lakemeta", "rewrite-data-files", small.root, "--set", "rewrite-all=true", "--yes"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        done = subprocess.run([*command, *more], stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True)
        os.close(theirs)
        seen = b""
        try:
            while part := terminal.read(1 << 16):
                seen += part
        except OSError:  # Linux's way of saying that nobody holds the other end
            pass
    assert (b"rewriting" in seen and b"1/1 groups" in seen) == shown
    assert b"rewriting" not in done.stdout
    assert shown or not seen
