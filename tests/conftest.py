"""What every test shares: hypothesis finds the same examples on every run."""

from __future__ import annotations

import gc
import os
import re
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from hypothesis import HealthCheck, settings
from support import parquet_checker
from support.examples import examples
from support.iceberg_cases import Cases

from lakemeta.iceberg.rewrite.group_rewriter import RewrittenGroup
from lakemeta.iceberg.rewrite.group_runs import GroupRuns
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.parquet.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from contract.hdfs_server import HdfsServer

    from lakemeta.iceberg.rewrite.group_runs import Failure
    from lakemeta.parquet.footer import FileStats

pytest.register_assert_rewrite("contract.storage_contract", "contract.executor_contract")

settings.register_profile(
    "repeatable",
    max_examples=examples(50),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


_MEMORY_DISK = "/dev/shm"
_ROOM = 8 * 2**30  # bytes that have to be free there


def pytest_configure(config: pytest.Config) -> None:
    """Temporary directories lie in memory where there is room: disks take long to forget a hundred thousand files."""
    with suppress(OSError):
        disk = os.statvfs(_MEMORY_DISK)
        if disk.f_bavail * disk.f_frsize >= _ROOM and os.access(_MEMORY_DISK, os.W_OK):
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY_DISK)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays: to look through it for garbage again and again takes a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files whose mark for all their tests is deselected are not read: they are long, and import much.

    A file that is named on the command line is read whatever its mark.
    """
    if collection_path.suffix != ".py":
        return None
    left_out = re.findall(r"not (\w+)", config.option.markexpr)
    mark = re.search(r"^pytestmark = \[?pytest\.mark\.(\w+)", collection_path.read_text("utf-8"), re.MULTILINE)
    return True if mark is not None and mark[1] in left_out else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile`` tests of one Hudi release go to one process, whatever their file: JVMs start slowly."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            release = re.search(r"^tests/interop/test_hudi\w+\.py::.*\[(?:.*-)?(\d+\.\d+\.\d+)\b", nodeid)
            return f"hudi {release[1]}" if release else super()._split_scope(nodeid)

    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def nobody_waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged timelines are read again a few times; only tables that a real engine writes get better by waiting."""
    if "engine" in request.keywords:
        return
    monkeypatch.setattr("lakemeta.hudi.timeline.loading._WAITS", (0.0,), raising=False)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A NameNode and a DataNode, once a process."""
    from contract.hdfs_server import hdfs_server
    from interop.engine_process import EngineUnavailableError

    try:
        with hdfs_server(tmp_path_factory.mktemp("hdfs")) as server:
            yield server
    except EngineUnavailableError as error:
        pytest.skip(str(error))


class Recorded:
    """A sink that remembers what is written to it."""

    def __init__(self, sink: BinaryIO) -> None:
        self.sink, self.data = sink, bytearray()

    def write(self, data: Any) -> int:
        self.data += data
        return self.sink.write(data)


@pytest.fixture(autouse=True, scope="session")
def every_parquet_file_is_checked() -> Iterator[None]:
    """Whatever Parquet file a test writes through our writer is laid out as parquet-java needs it.

    Files that come from workers in other processes are read before their groups are committed.
    """
    start, close, account = ParquetWriter.__init__, ParquetWriter.close, GroupRuns.accounted

    def started(self: ParquetWriter, sink: BinaryIO, *arguments: Any, **named: Any) -> None:
        start(self, Recorded(sink), *arguments, **named)

    def closed(self: ParquetWriter) -> FileStats:
        stats = close(self)
        data = bytes(self._sink.data)
        assert parquet_checker.check(data, stats.split_offsets) == stats.rows
        assert len(data) == stats.size
        return stats

    def accounted(self: GroupRuns, *arguments: Any) -> RewrittenGroup | Failure:
        result, storage = account(self, *arguments), self.work.storage
        for file in result.files if self.ships and isinstance(result, RewrittenGroup) else ():
            data = storage.read(store_path(storage.scheme, file.file_path))
            assert parquet_checker.check(data, file.split_offsets) == file.record_count
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ParquetWriter, "__init__", started)
        patch.setattr(ParquetWriter, "close", closed)
        patch.setattr(GroupRuns, "accounted", accounted)
        yield


@pytest.fixture(scope="session")
def iceberg_cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """The recorded Iceberg tables, each unpacked once in a process."""
    return Cases(tmp_path_factory.mktemp("iceberg_cases"))


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C is heard: a shell switches it off for what it starts in the background, and PySpark puts its own there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.SIG_DFL)
