"""Kills many jobs, and says which went wrong: ``python -m faults.many_kills --count 1000 --seed 7``.

In a module of its own, for processes that are forked import the main module anew.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from faults.kills import strikes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="")
    told = parser.parse_args()
    began, ends, findings = time.monotonic(), Counter[str](), 0
    for index, where, fate in strikes(told.seed, range(told.start, told.start + told.count), told.only):
        ends[f"{where} {'killed' if fate.killed else 'ended before'}"] += 1
        findings += bool(fate.wrong)
        if fate.wrong:
            print(f"[{told.seed}/{index}] {where}: {fate}", flush=True)
        if ends.total() % 50 == 0:
            print(f"{ends.total()} runs, {time.monotonic() - began:.0f} s, {dict(ends)}", flush=True)
    print(f"{ends.total()} runs of seed {told.seed}, {findings} findings, {dict(ends)}")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
