"""Rules at the heads of modules: numbered lists are well formed, and a rule that is cited is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for package in ("lakemeta", "lakemeta_spark") for path in (ROOT / package).rglob("*.py"))
CITED = re.compile(r"\((?:(?P<module>[a-z_./]+)(?:\.py)?, )?rules? (?P<numbers>\d+(?:(?:, | and | to )\d+)*)\)")


def rules(path: Path) -> list[str]:
    """The numbered rules at the head of a module, each as one line."""
    found: list[str] = []
    for line in (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines():
        if re.match(r"\d+\. ", line):
            found.append(line)
        elif found and line.startswith("   "):
            found[-1] += f" {line.strip()}"
    return found


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [path for path in MODULES if rules(path)], ids=ids)
def test_rules_are_numbered_one_by_one(path: Path) -> None:
    """Each rule begins its own line, with the next number; its further lines are indented below its text."""
    found = rules(path)
    assert [int(rule.split(".")[0]) for rule in found] == list(range(1, len(found) + 1))
    assert not [rule for rule in found if re.search(r"[.:;)] \d+\. [A-Z`]", rule)]
    lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("1. "))
    last = max(n for n, line in enumerate(lines) if re.match(r"\d+\. ", line))
    assert not [line for line in lines[first:last] if line and not re.match(r"\d+\. |   \S| {3,}", line)]


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_rules_that_are_cited_exist(path: Path) -> None:
    """``(rule N)`` is one of the module's own, ``(other, rule N)`` one of a module of that name."""
    for cited in CITED.finditer(path.read_text(encoding="utf-8")):
        name = cited["module"]
        where = [path] if name is None else [other for other in MODULES if other.stem == name.split("/")[-1]]
        numbers = [int(number) for number in re.findall(r"\d+", cited["numbers"])]
        assert any(max(numbers) <= len(rules(other)) for other in where), cited[0]
