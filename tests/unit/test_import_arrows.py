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
    from collections.abc import Callable, Iterable

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
        "duties",
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
        "service",
        "rewrite",
        "manifest_rewrite",
        "orphans",
        "delete_rewrite",
        "expire",
        "statistics",
        "why",
        "doctor",
        "services",
        "duties",
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
def importing(module: str) -> tuple[tuple[frozenset[str], bool, bool], ...]:
    """What each import of a module names, whether it is for type checkers only, and whether it stands at the top."""
    whole = tree(module)
    found: list[tuple[frozenset[str], bool, bool]] = []
    pending = [(node, False, True) for node in whole.body]
    while pending:
        node, typing, at_top = pending.pop()
        if names := _named(node):
            found.append((names, typing, at_top))
        typing = typing or _is_type_checking(node)
        pending += [(child, typing, False) for child in ast.iter_child_nodes(node)]
    return tuple(found)


def _named(node: ast.AST) -> frozenset[str]:
    if isinstance(node, ast.Import):
        return frozenset(alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        return frozenset((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return frozenset({node.value.partition(":")[0]} & modules().keys())  # imported by name when it is called
    return frozenset()


@cache
def imports(module: str, *, typing: bool = False, at_top: bool = False) -> frozenset[str]:
    """The absolute names a module imports; those for type checkers only if ``typing``, no lazy ones if ``at_top``."""
    found = (names for names, of_types, top in importing(module) if typing >= of_types and top >= at_top)
    return frozenset(name for names in found for name in names)


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


def arrows(
    wrong: Callable[[str], Iterable[str]], *, typing: bool = False, of: Callable[[str], object] = bool
) -> dict[str, list[str]]:
    """By module, what it imports of what ``wrong`` gives for it; only modules ``of`` which something is asked."""
    found = {m: [n for n in sorted(imports(m, typing=typing)) if starts(n, wrong(m))] for m in modules() if of(m)}
    return {module: names for module, names in found.items() if names}


def test_arrows_between_rooms_run_one_way() -> None:
    """A module imports its own room and rooms below it, also for type checkers."""

    def above(module: str) -> list[str]:
        package, own = room(module) or ("", "")
        order = ROOMS[package]
        return [f"{package}.{up}" for up in order[order.index(own) + 1 :]]

    assert not arrows(above, typing=True, of=room)


def test_the_rooms_are_there() -> None:
    """The lists above name every room and every module outside of rooms, and nothing else."""
    for package, order in ROOMS.items():
        assert {found[1] for found in map(room, modules()) if found and found[0] == package} == set(order)


def test_shared_modules_know_no_format() -> None:
    """What both formats use knows neither; the command line and its start know both."""

    def shared(module: str) -> bool:
        return module.startswith("lakemeta.") and not starts(module, [*ROOMS, "lakemeta.cli", "lakemeta.__main__"])

    assert not arrows(lambda _: [*ROOMS, "lakemeta.cli"], typing=True, of=shared)


def test_no_module_imports_itself_by_others() -> None:
    """Imports have no circle, also for type checkers and inside of functions."""
    left = {module: imported_modules(module, typing=True) for module in modules()}
    while ready := [module for module, needs in left.items() if not needs & left.keys()]:
        for module in ready:
            del left[module]
    assert not left


@pytest.mark.parametrize(
    ("own", "other"), [("lakemeta.hudi", "lakemeta.iceberg"), ("lakemeta.iceberg", "lakemeta.hudi")]
)
def test_formats_never_meet(own: str, other: str) -> None:
    """Hudi and Iceberg import neither each other nor the command line; they meet in Plan and Report."""
    assert not arrows(lambda _: [other, "lakemeta.cli"], typing=True, of=lambda module: starts(module, [own]))


def test_pure_modules_touch_nothing() -> None:
    """A module that does not say "(I/O)" at its head is a function of its inputs.

    No storage, clock, randomness, threads or logging, and no module that says it does such things.
    """
    assert not arrows(lambda _: TOUCH_THE_WORLD, of=is_pure)
    impure = {m: [name for name in imported_modules(m) if says_io(name)] for m in modules() if is_pure(m)}
    assert not {module: names for module, names in impure.items() if names}


def test_core_knows_no_spark() -> None:
    """lakemeta imports neither its Spark adapter nor pyspark."""
    assert not arrows(lambda _: ["lakemeta_spark", "pyspark"], of=lambda module: starts(module, ["lakemeta"]))


def test_spark_adapter_knows_no_format() -> None:
    """The Spark adapter imports the executor contract and the errors, nothing else of lakemeta."""
    allowed = ["lakemeta.executor", "lakemeta.errors", "lakemeta_spark"]
    found = arrows(lambda _: ["lakemeta"], of=lambda module: starts(module, ["lakemeta_spark"]))
    used = {name for names in found.values() for name in names if not starts(name, allowed)}
    assert used <= {"lakemeta", "lakemeta.version", "lakemeta.version.__version__"}


def test_nothing_imports_the_command_line() -> None:
    """The command line is the outermost layer."""
    found = arrows(lambda _: ["lakemeta.cli"], of=lambda module: not starts(module, ["lakemeta.cli"]))
    assert found.keys() <= {"lakemeta.__main__"}


def test_only_the_command_line_imports_the_fleet() -> None:
    """Runs over many tables lie above everything that maintains one."""
    found = arrows(
        lambda _: ["lakemeta.fleet"], typing=True, of=lambda m: not starts(m, ["lakemeta.cli", "lakemeta.fleet"])
    )
    assert not found


def test_only_the_remote_storage_imports_fsspec() -> None:
    """fsspec is known in one place."""
    users = {m for m in modules() if [n for n in imports(m) if starts(n, ["fsspec"])]}
    assert users == {"lakemeta.storage.remote"}


def test_importing_lakemeta_is_light() -> None:
    """``import lakemeta`` loads neither pyarrow nor fsspec nor rich, and opening a Hudi table needs no pyarrow."""
    code = "import sys, lakemeta; print([m for m in ('pyarrow','fsspec','rich','fastavro') if m in sys.modules])"
    hudi = "import sys, lakemeta.hudi; print([m for m in ('pyarrow','fsspec','rich') if m in sys.modules])"
    for program in (code, hudi):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout.strip() == "[]"
