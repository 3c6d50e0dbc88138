"""``docs/architecture.md`` says where things are: what it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
DECISIONS = re.findall(r"^\| ([^|]+) \| \[`(\w+)`\]\(\.\./([^)]+)\) \|$", PAGE, re.MULTILINE)
ROOMS = re.findall(r"^\| \[`([\w.]+)`\]\(\.\./([^)]+)\) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def defined(path: Path) -> set[str]:
    """What a module defines at its top."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    annotated = {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    assigned = {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    return named | annotated | assigned


@pytest.mark.parametrize(("what", "symbol", "file"), DECISIONS, ids=[symbol for _, symbol, _ in DECISIONS])
def test_where_it_is_decided(what: str, symbol: str, file: str) -> None:
    """Every line of the table names a definition that is there."""
    assert symbol in defined(ROOT / file), what


def test_every_line_of_the_table_is_read() -> None:
    """No line of the table escapes by its spelling."""
    table = PAGE.split("## Where is it decided")[1].split("## ")[0]
    assert len(DECISIONS) == len([line for line in table.splitlines() if line.startswith("| ")]) - 1 >= 30


def test_every_room_has_its_line() -> None:
    """The page lists every package of lakemeta with the first line of its docstring."""
    packages = {path.parent: path for path in (ROOT / "lakemeta").rglob("__init__.py")}
    del packages[ROOT / "lakemeta"]
    told = {ROOT / file: (name, line) for name, file, line in ROOMS}
    assert told.keys() == packages.keys()
    for folder, (name, line) in told.items():
        assert name == ".".join(folder.relative_to(ROOT).parts)
        assert line == (ast.get_docstring(ast.parse(packages[folder].read_text())) or "").split("\n")[0]


def test_links_lead_somewhere() -> None:
    """Every relative link in the documents is to a file that is there."""
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    lost = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in link and not link.startswith("mailto:") and not (page.parent / link).exists()
    ]
    assert not lost
