from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
import zipfile
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

import pytest

from lakemeta import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Sent:
    """What a broadcast is to a task."""

    def __init__(self, value: Any) -> None:
        self.value = value


def imports(batch: Sequence[str]) -> list[str]:
    return [importlib.import_module(name).__name__ for name in batch]


def test_a_task_leaves_no_zip_file_to_look_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reads the directory of every zip file that it knows of before each task; imports find them again."""
    from lakemeta_spark.worker import Task

    path = str(tmp_path / "shipped.zip")
    with zipfile.ZipFile(path, "w") as shipped:
        shipped.writestr("shipped_one.py", "")
        shipped.writestr("shipped_two.py", "")
    monkeypatch.syspath_prepend(path)
    task = Task(Sent(imports), __version__, 1)
    for name in ("shipped_one", "shipped_two"):
        (answer,) = task([[pickle.dumps([name])]])
        assert pickle.loads(answer)[2] == [name]
        assert not any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
        monkeypatch.delitem(sys.modules, name)
