"""Mutations of what parsers read: of bytes, of numbers in them, of what Avro, JSON and properties say, and of text.

``python -m fuzz.inputs --count 1000000 --seed 7`` runs many; input ``i`` of seed ``s`` is always the same one. What
goes wrong is kept in ``inputs_corpus`` once it is mended.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import os
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import attrs
from fuzz import mutate, runner
from fuzz.outcomes import _where
from fuzz.parsers import Parser, parsers

from lakemeta.errors import LakemetaError

LONGEST_MESSAGE = 5000
_TOKENS = (
    b"\x00", b"\xff", b"\xff" * 8, b"\x80" * 10, b"9" * 30, b"9" * 5000, b"-1", b"0", b"1e999", b"NaN", b"Infinity",
    b"\xd9\xa1\xd9\xa2", b"\xc2\xb2", b"\xed\xa0\x80", b"\xf0\x9f\xa6\x86", b"\xe2\x80\xa8", b"..", b"/", b"//", b"../",
    b"'", b'"', b"`", b"\\", b"\\u0000", b"\\ud800", b"\n", b"\r", b"\t", b"", b" ", b"=", b",", b";", b":", b"(", b")",
    b"inf", b"[", b"]", b"file:", b"s3://", b"%2e",
    b"{", b"}", b"*", b"+", b"{9999999999}", b"(" * 300, b"[" * 300, b"not " * 300, b"null", b"true", b"-0001-01-01",
    b"+999999-12-31", b"9999-12-31T23:59:59.999999999Z", b"24:00", b"America", b"Europe/Berlin", b"x" * 300,
)  # fmt: skip
_WIDTHS = (1, 2, 4, 8)


@attrs.frozen
class Finding:
    """An input with which a parser goes wrong."""

    parser: str
    index: int
    data: bytes = attrs.field(repr=False)
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"[{self.index}] {self.parser}: {'; '.join(self.wrong)}  with {self.data[:80]!r} ({len(self.data)} bytes)"
        )

    def tell(self, folder: Path | None, seed: int) -> Finding:
        """Print it, and write it as a case of the corpus."""
        print(self, flush=True)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"\W+", "-", self.parser).strip("-")
            text = {"parser": self.parser, "wrong": self.wrong, "data": base64.b64encode(self.data).decode()}
            (folder / f"{name}-{seed}-{self.index}.json").write_text(json.dumps(text, indent=1) + "\n")
        return self


@attrs.frozen
class Input:
    """A mutated input of a parser."""

    parser: Parser
    index: int
    data: bytes = attrs.field(repr=False)

    def run(self) -> Sequence[str]:
        """What goes wrong when it is parsed."""
        try:
            self.parser.parse(self.data)
        except LakemetaError as error:
            text = str(error)
            return [f"a message that is no sentence: {text[:200]!r}"] if _is_none(text) else []
        except self.parser.raises:
            return []
        except Exception as error:
            return [f"{type(error).__name__} at {_where(error)}: {str(error)[:120]}"]
        return []

    def found(self, *wrong: str) -> Finding:
        """That it goes wrong."""
        return Finding(self.parser.name, self.index, self.data, wrong)


def make(seed: int, names: Sequence[str], index: int) -> Input:
    """The input of a number."""
    random = Random(f"{seed}/{index}")
    parser = parsers()[names[index % len(names)]]
    data = random.choice(parser.seeds)
    if parser.inner:
        data = gzip.decompress(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = _mutated(data, parser, random)
    if parser.inner:
        data = gzip.compress(data, 1, mtime=0)
    if parser.mend and random.random() < 0.8:
        data = parser.mend(data)
    return Input(parser, index, data)


def replay(path: Path) -> Sequence[str]:
    """What goes wrong with a kept input."""
    kept = json.loads(path.read_text())
    return Input(parsers()[kept["parser"]], 0, base64.b64decode(kept["data"])).run()


def _mutated(data: bytes, parser: Parser, random: Random) -> bytes:
    kind = random.random()
    if kind < 0.35:
        name = "x.properties" if "propert" in parser.name else "x"
        files = {name: data, "other": random.choice(parser.seeds)}
        change = mutate.by_structure if kind < 0.2 else mutate.by_bytes
        change(files, name, ["other"], random)
        return files[name]
    at = random.randrange(len(data) + 1)
    if kind < 0.55:
        width = random.choice(_WIDTHS)
        number = random.choice(mutate.NUMBERS) & ((1 << 8 * width) - 1)
        return data[:at] + number.to_bytes(width, random.choice(("big", "little"))) + data[at + width :]
    if kind < 0.7:
        return _other_number(data, random)
    return data[:at] + random.choice(_TOKENS) + data[at + random.choice((0, 0, 1, 4)) :]


def _other_number(data: bytes, random: Random) -> bytes:
    """Another number in the place of one in digits, or of a word."""
    found = list(re.finditer(rb"\d+|[A-Za-z_]+", data[:20_000]))
    if not found:
        return data + random.choice(_TOKENS)
    word = random.choice(found)
    new = random.choice((*_TOKENS, word[0] * 2, str(random.choice(mutate.NUMBERS)).encode()))
    return data[: word.start()] + new + data[word.end() :]


def _is_none(text: str) -> bool:
    return "\n" in text or not text or len(text) > LONGEST_MESSAGE


def run_many(
    seed: int,
    indexes: range,
    *,
    workers: int = 2,
    only: str = "",
    seconds: float = float("inf"),
    keep: Path | None = None,
) -> tuple[int, list[Any]]:
    """Mutate what parsers read; how many inputs there were, and what went wrong."""
    names = sorted(name for name in parsers() if only in name)
    subject = runner.Subject(seed, partial(make, seed, names))
    return runner.run_subject(subject, indexes, workers=workers, seconds=seconds, keep=keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    told = parser.parse_args()
    begun = time.monotonic()
    indexes = range(told.start, told.start + told.count)
    done, findings = run_many(told.seed, indexes, workers=told.workers, only=told.only, keep=told.keep)
    took = time.monotonic() - begun
    print(f"{done} inputs of seed {told.seed}, {len(findings)} findings, {took:.0f} s, {done / took:.0f} a second")
    os._exit(1 if findings else 0)


if __name__ == "__main__":
    main()
