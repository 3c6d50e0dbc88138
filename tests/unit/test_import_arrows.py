"""The arrows between modules (CONTRIBUTING.md): walked from the sources, so that a wrong import fails a test."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE_ROOTS = ("lakemeta", "lakemeta.hudi", "lakemeta.iceberg")  # named on the way to their modules
PACKAGES = ("lakemeta", "lakemeta_spark")

# Modules that touch the world; every other module of lakemeta is pure.
SHARED_IO = (
    "lakemeta.storage",
    "lakemeta.executor",
    "lakemeta.deletion",
    "lakemeta.parquet.writer",
    "lakemeta.parquet.reader",
    "lakemeta.external_sort",
    "lakemeta.cli",
    "lakemeta.__main__",
)
HUDI_IO = [
    "apply",
    "async_clean",
    "commit",
    "doctor",
    "doors",
    "execute",
    "failed_deletions",
    "heartbeat",
    "inspect",
    "leftovers",
    "listing",
    "load",
    "lock",
    "metadata_check",
    "metadata_leftovers",
    "metadata_listing",
    "metadata_off",
    "metadata_sync",
    "metadata_table",
    "plan_check",
    "planning",
    "rollback_apply",
    "rollback_check",
    "rollback_planning",
    "rollback_run",
    "sample",
    "staleness",
    "table",
    "why",
]
ICEBERG_IO = [
    "apply",
    "catalog",
    "commit",
    "datafile_reader",
    "doctor",
    "footers",
    "doors",
    "group_deletes",
    "group_runs",
    "group_writer",
    "hadoop",
    "inspect",
    "interrupted",
    "opening",
    "plan_inputs",
    "planning",
    "pyiceberg_catalog",
    "rewrite_group",
    "sample",
    "scanning",
    "stored_manifests",
    "strays",
    "table",
    "why",
]
FORBIDDEN_IN_PURE = ("os", "time", "random", "uuid", "threading", "logging", "fsspec", "pyarrow.fs", "lakemeta.storage")


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, *, at_top: bool = False) -> set[str]:
    """The absolute names a module imports; imports for type checkers only are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    skipped = {id(n) for block in ast.walk(tree) if _is_type_checking(block) for n in ast.walk(block)}
    nodes = tree.body if at_top else ast.walk(tree)
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def starts(name: str, prefixes: tuple[str, ...] | list[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def is_pure(module: str) -> bool:
    if not module.startswith("lakemeta.") or starts(module, SHARED_IO):
        return False
    hudi = [f"lakemeta.hudi.{name}" for name in HUDI_IO]
    iceberg = [f"lakemeta.iceberg.{name}" for name in ICEBERG_IO]
    return module not in ("lakemeta.hudi", "lakemeta.iceberg") and not starts(module, [*hudi, *iceberg])


def test_what_touches_the_world_is_there() -> None:
    """The lists above name modules and packages, so that none of them is excused twice or under an old name."""
    named = [*SHARED_IO, *(f"lakemeta.hudi.{n}" for n in HUDI_IO), *(f"lakemeta.iceberg.{n}" for n in ICEBERG_IO)]
    assert not [name for name in named if not any(starts(module, [name]) for module in modules())]


@pytest.mark.parametrize("module", modules())
def test_formats_never_meet(module: str) -> None:
    """Hudi and Iceberg import neither each other nor the command line; they meet in Plan and Report."""
    names = imports(modules()[module])
    for own, other in (("lakemeta.hudi", "lakemeta.iceberg"), ("lakemeta.iceberg", "lakemeta.hudi")):
        if starts(module, [own]):
            assert not [n for n in names if starts(n, [other, "lakemeta.cli"])]


@pytest.mark.parametrize("module", [m for m in modules() if is_pure(m)])
def test_pure_modules_touch_nothing(module: str) -> None:
    """A pure module is a function of its inputs: no storage, clock, randomness, threads or logging."""
    names = imports(modules()[module])
    assert not [n for n in names if starts(n, list(FORBIDDEN_IN_PURE))]
    assert not [n for n in names if n in modules() and not is_pure(n) and n not in PURE_ROOTS]


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("lakemeta.") or m == "lakemeta"])
def test_core_knows_no_spark(module: str) -> None:
    """lakemeta imports neither its Spark adapter nor pyspark."""
    assert not [n for n in imports(modules()[module]) if starts(n, ["lakemeta_spark", "pyspark"])]


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("lakemeta_spark")])
def test_spark_adapter_knows_no_format(module: str) -> None:
    """The Spark adapter imports the executor contract and the errors, nothing else of lakemeta."""
    allowed = ["lakemeta.executor", "lakemeta.errors", "lakemeta_spark"]
    used = [n for n in imports(modules()[module]) if starts(n, ["lakemeta"])]
    assert not [n for n in used if not starts(n, allowed) and n not in ("lakemeta", "lakemeta.__version__")]


@pytest.mark.parametrize("module", [m for m in modules() if not m.startswith("lakemeta.cli")])
def test_nothing_imports_the_command_line(module: str) -> None:
    """The command line is the outermost layer."""
    names = imports(modules()[module])
    assert module == "lakemeta.__main__" or not [n for n in names if starts(n, ["lakemeta.cli"])]


def test_only_the_remote_storage_imports_fsspec() -> None:
    """fsspec is known in one place."""
    users = {m for m, path in modules().items() if [n for n in imports(path) if starts(n, ["fsspec"])]}
    assert users <= {"lakemeta.storage.remote", "lakemeta.storage.s3"}


def test_importing_lakemeta_is_light() -> None:
    """``import lakemeta`` loads neither pyarrow nor fsspec nor rich, and opening a Hudi table needs no pyarrow."""
    code = "import sys, lakemeta; print([m for m in ('pyarrow','fsspec','rich','fastavro') if m in sys.modules])"
    hudi = "import sys, lakemeta.hudi; print([m for m in ('pyarrow','fsspec','rich') if m in sys.modules])"
    for program in (code, hudi):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout.strip() == "[]"
