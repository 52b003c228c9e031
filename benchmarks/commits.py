"""Two commits under the same benchmark, in turns on this machine: the medians of each, and of their ratios.

Whatever follows `--` is a benchmark of this folder with its options; it is run by the interpreter of each checkout, so
on that checkout's code. Each must print JSON lines. Lines are the same measurement if their texts, and the figures that
name what was measured (`--by`), are equal. The exit code is 1 if a ratio misses a bar.

    python benchmarks/commits.py ../before --turns 3 -- throughput.py --pods 3000
    python benchmarks/commits.py ../before -- throughput.py --pods 3000 --workload spread affinity anti-affinity
    python benchmarks/commits.py ../before --most cpu_ms=1.0 p99_ms=1.0 -- throughput.py --rate 20 50 100 200
    python benchmarks/commits.py ../before --theirs -- contention.py --workers 4

A checkout of another commit: `git worktree add ../before COMMIT && make -C ../before setup`. With `--theirs` each runs
its own version of the benchmark, for those that use the package's inside.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from report import Bar, compared, judged, say

HERE = Path(__file__).resolve().parent
BY = ("rate", "urgent", "margin", "workers", "nodes", "pods")
LEAST = {"pods_per_s": 0.97}
"""Of the ratio of a figure, where no other is wanted."""


def figures_of(lines: Sequence[str], by: Sequence[str]) -> dict[str, float]:
    """`<what was measured> <figure>` -> value; the median where a benchmark measures the same several times."""
    found: dict[str, list[float]] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        given = json.loads(line)
        names = [str(value) for key, value in given.items() if isinstance(value, str)]
        names += [f"{key}={value:g}" for key, value in given.items() if key in by]
        for figure, value in _numbers(given):
            if figure not in (*by, "turn"):
                found.setdefault(" ".join([*names, figure]), []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def _numbers(given: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """All numbers, with the path to each."""
    found: list[tuple[str, float]] = []
    for key, value in given.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((prefix + key, float(value)))
    return found


def measure(checkout: Path, script: Path, options: Sequence[str], by: Sequence[str]) -> dict[str, float]:
    """One turn of a checkout."""
    command = [str(checkout / ".venv" / "bin" / "python"), str(script), *options]
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: {script.name} has ended with exit code {done.returncode}")
    for line in done.stdout.splitlines():
        say(f"{checkout.name}: {line}")
    return figures_of(done.stdout.splitlines(), by)


def main() -> int:
    """Take turns, compare, print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout of the other commit, with its .venv")
    parser.add_argument("--turns", type=int, default=3, help="turns of each (3)")
    parser.add_argument("--by", nargs="+", default=BY, metavar="NAME", help=f"({' '.join(BY)})")
    parser.add_argument("--least", nargs="*", type=_named, metavar="FIGURE=RATIO", help="(pods_per_s=0.97)")
    parser.add_argument("--most", nargs="*", type=_named, default=[], metavar="FIGURE=RATIO", help="(none)")
    parser.add_argument("--theirs", action="store_true", help="each runs its own version of the benchmark")
    parser.add_argument("benchmark", nargs="+", help="with its options, after --")
    given = parser.parse_args()
    bars = {name: Bar(bound, most=False) for name, bound in dict(given.least or LEAST.items()).items()}
    bars |= {name: Bar(bound, most=True) for name, bound in given.most}
    before, after = given.before.resolve(), HERE.parent
    turns = []
    for turn in range(given.turns):
        found: dict[str, dict[str, float]] = {}
        for checkout in (before, after) if turn % 2 == 0 else (after, before):
            script = (checkout / "benchmarks" if given.theirs else HERE) / given.benchmark[0]
            side = "before" if checkout == before else "after"
            found[side] = measure(checkout, script, given.benchmark[1:], given.by)
        turns.append(found)
    wanted = {figure: bars[last] for figure in turns[0]["after"] if (last := figure.rpartition(" ")[2]) in bars}
    rows = compared(turns, "before", "after", wanted)
    print(judged(rows, "before", "after"), flush=True)
    return int(any(row.verdict == "missed" for row in rows))


def _named(text: str) -> tuple[str, float]:
    name, _, bound = text.partition("=")
    return name, float(bound)


if __name__ == "__main__":
    sys.exit(main())
