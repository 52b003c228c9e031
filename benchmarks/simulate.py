"""What a what-if question costs: the whole openb trace through `wharfinger simulate`, as a process of its own.

    python benchmarks/simulate.py [--pods 8152] [--format json|yaml]

One JSON line a format: wall and CPU seconds of the process, reading the file and starting Python included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from wharfinger.dev.demo import openb

FORMATS = ("json", "yaml")


def measure(path: Path) -> dict[str, object]:
    """Run the command once on the file."""
    command = [sys.executable, "-m", "wharfinger", "simulate", "-f", str(path), "-o", "json"]
    began, used = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, check=False)
    seconds, now = time.perf_counter() - began, os.times()
    if done.returncode not in (0, 1):  # 1: some do not fit, and they do not
        raise SystemExit(done.stderr.decode())
    summary = json.loads(done.stdout)["summary"]
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "pods": summary["pods"],
        "placed": summary["placed"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=openb.TOTAL)
    parser.add_argument("--format", choices=FORMATS, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for suffix in options.format or FORMATS:
            path = Path(folder) / f"openb.{suffix}"
            openb.write(path, options.pods)
            print(json.dumps({"format": suffix, **measure(path)}), flush=True)


if __name__ == "__main__":
    main()
