"""The arrows between modules (CONTRIBUTING.md): walked from the sources, so that a wrong import fails a test."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
PACKAGES = ("lakemeta", "lakemeta_spark")

# From the bottom up: a module imports its own room and those before it. Modules of a format that are in no room are
# rooms of their own.
ROOMS = {
    "lakemeta.hudi": (
        "files",
        "options",
        "plan_origin",
        "timeline",
        "view",
        "metadata_table",
        "rollback",
        "clean",
        "doctor",
        "table",
        "async_clean",
        "sample",
    ),
    "lakemeta.iceberg": (
        "spec",
        "manifests",
        "filters",
        "scan",
        "rows",
        "write",
        "catalogs",
        "commit",
        "rewrite",
        "why",
        "doctor",
        "table",
        "sample",
    ),
}
TOUCH_THE_WORLD = (
    *(
        "os",
        "time",
        "random",
        "uuid",
        "threading",
        "concurrent",
        "subprocess",
        "tempfile",
        "shutil",
        "socket",
        "logging",
    ),
    *("fsspec", "pyarrow.fs"),
)


@cache
def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str, *, typing: bool = False, at_top: bool = False) -> frozenset[str]:
    """The absolute names a module imports; those for type checkers only if ``typing``, no lazy ones if ``at_top``."""
    whole = tree(module)
    found: set[str] = set()
    blocks = () if typing else filter(_is_type_checking, ast.walk(whole))
    skipped = {id(n) for block in blocks for n in ast.walk(block)}
    for node in whole.body if at_top else ast.walk(whole):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def starts(name: str, prefixes: Iterable[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def imported_modules(module: str, *, typing: bool = False, at_top: bool = False) -> set[str]:
    """The modules of ours that a module imports; packages only where something is taken from the package itself."""
    names = imports(module, typing=typing, at_top=at_top)
    ours = {name for name in names if name in modules()}
    return {name for name in ours if not any(other.startswith(f"{name}.") for other in ours)} - {module}


def says_io(module: str) -> bool:
    """True if the first paragraph of a module's docstring, or of its package's, says ``(I/O``."""
    whole = [".".join(module.split(".")[:end]) for end in range(2, module.count(".") + 2)]
    return any("(I/O" in (ast.get_docstring(tree(name)) or "").split("\n\n")[0] for name in whole)


def is_pure(module: str) -> bool:
    path = modules()[module]
    return module.startswith("lakemeta.") and path.name not in ("__init__.py", "__main__.py") and not says_io(module)


def room(module: str) -> tuple[str, str] | None:
    """The format and the room of a module of a format."""
    for package in ROOMS:
        if module.startswith(f"{package}."):
            return package, module.removeprefix(f"{package}.").split(".")[0]
    return None


@pytest.mark.parametrize("module", [m for m in modules() if room(m)])
def test_arrows_between_rooms_run_one_way(module: str) -> None:
    """A module imports its own room and rooms below it, also for type checkers."""
    package, own = room(module) or ("", "")
    order = ROOMS[package]
    above = order[order.index(own) + 1 :]
    assert not [name for name in imports(module, typing=True) if starts(name, [f"{package}.{up}" for up in above])]


def test_the_rooms_are_there() -> None:
    """The lists above name every room and every module outside of rooms, and nothing else."""
    for package, order in ROOMS.items():
        assert {found[1] for found in map(room, modules()) if found and found[0] == package} == set(order)


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("lakemeta.") and not room(m)])
def test_shared_modules_know_no_format(module: str) -> None:
    """What both formats use knows neither; the command line and its start know both."""
    if not starts(module, [*ROOMS, "lakemeta.cli", "lakemeta.__main__"]):
        assert not [name for name in imports(module, typing=True) if starts(name, [*ROOMS, "lakemeta.cli"])]


def test_no_module_imports_itself_by_others() -> None:
    """Imports have no circle, also for type checkers and inside of functions."""
    left = {module: imported_modules(module, typing=True) for module in modules()}
    while ready := [module for module, needs in left.items() if not needs & left.keys()]:
        for module in ready:
            del left[module]
    assert not left


@pytest.mark.parametrize("module", modules())
def test_formats_never_meet(module: str) -> None:
    """Hudi and Iceberg import neither each other nor the command line; they meet in Plan and Report."""
    for own, other in (("lakemeta.hudi", "lakemeta.iceberg"), ("lakemeta.iceberg", "lakemeta.hudi")):
        if starts(module, [own]):
            assert not [n for n in imports(module, typing=True) if starts(n, [other, "lakemeta.cli"])]


@pytest.mark.parametrize("module", [m for m in modules() if is_pure(m)])
def test_pure_modules_touch_nothing(module: str) -> None:
    """A module that does not say "(I/O)" at its head is a function of its inputs.

    No storage, clock, randomness, threads or logging, and no module that says it does such things.
    """
    assert not [name for name in imports(module) if starts(name, TOUCH_THE_WORLD)]
    assert not [name for name in imported_modules(module) if says_io(name)]


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("lakemeta.") or m == "lakemeta"])
def test_core_knows_no_spark(module: str) -> None:
    """lakemeta imports neither its Spark adapter nor pyspark."""
    assert not [n for n in imports(module) if starts(n, ["lakemeta_spark", "pyspark"])]


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("lakemeta_spark")])
def test_spark_adapter_knows_no_format(module: str) -> None:
    """The Spark adapter imports the executor contract and the errors, nothing else of lakemeta."""
    allowed = ["lakemeta.executor", "lakemeta.errors", "lakemeta_spark"]
    used = [n for n in imports(module) if starts(n, ["lakemeta"])]
    assert not [n for n in used if not starts(n, allowed) and n not in ("lakemeta", "lakemeta.__version__")]


@pytest.mark.parametrize("module", [m for m in modules() if not m.startswith("lakemeta.cli")])
def test_nothing_imports_the_command_line(module: str) -> None:
    """The command line is the outermost layer."""
    names = imports(module)
    assert module == "lakemeta.__main__" or not [n for n in names if starts(n, ["lakemeta.cli"])]


def test_only_the_remote_storage_imports_fsspec() -> None:
    """fsspec is known in one place."""
    users = {m for m in modules() if [n for n in imports(m) if starts(n, ["fsspec"])]}
    assert users <= {"lakemeta.storage.remote", "lakemeta.storage.s3"}


def test_importing_lakemeta_is_light() -> None:
    """``import lakemeta`` loads neither pyarrow nor fsspec nor rich, and opening a Hudi table needs no pyarrow."""
    code = "import sys, lakemeta; print([m for m in ('pyarrow','fsspec','rich','fastavro') if m in sys.modules])"
    hudi = "import sys, lakemeta.hudi; print([m for m in ('pyarrow','fsspec','rich') if m in sys.modules])"
    for program in (code, hudi):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout.strip() == "[]"
