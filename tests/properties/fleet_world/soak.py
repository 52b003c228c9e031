"""Cases of the simulated world with new seeds until the time is up: the part of `make soak` that needs no servers.

    python -m tests.properties.fleet_world.soak --seconds 300 --seed 1

Prints one JSON line; exit code 1: a rule was broken, and the story of the seed is above it.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time

from tests.properties.fleet_world.run import play, told

BEYOND = 1_000_000
"""Seeds below are those of `make test`."""


def soak(seconds: float, seed: int) -> int:
    """Play cases until the time is up or a rule is broken; the exit code."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    began = time.monotonic()
    cases = plans = 0
    virtual = 0.0
    broken: dict[str, object] = {}
    while time.monotonic() - began < seconds and not broken:
        case = play(BEYOND + seed * BEYOND + cases)
        cases += 1
        plans += case.plans
        virtual += case.seconds
        if case.violations:
            print(told(case), file=sys.stderr)
            broken = {"seed": case.seed, "violations": list(case.violations)}
    totals = {"fleet_cases": cases, "plans": plans, "virtual_hours": round(virtual / 3600.0, 1)}
    print(json.dumps({"seconds": round(time.monotonic() - began), **totals, **broken}))
    return 1 if broken else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="fleet-soak", description="Simulated fleets, judged at every commit.")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long")
    parser.add_argument("--seed", type=int, default=None, help="where to begin; anywhere by default")
    given = parser.parse_args()
    return soak(given.seconds, given.seed if given.seed is not None else int(time.time()) % 1_000_000)


if __name__ == "__main__":
    sys.exit(main())
