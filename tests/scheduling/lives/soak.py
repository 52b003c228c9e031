"""Lives of workers with new seeds until the time is up, or one life again: a part of `make soak` that needs no servers.

    python -m tests.scheduling.lives.soak --seconds 300 --seed 1
    python -m tests.scheduling.lives.soak --life 4711

Prints one JSON line; exit code 1: a rule was broken, and the story of the life is above it.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time

from tests.scheduling.lives.life import play, told

BEYOND = 1_000_000
"""Lives below are those of `make test`."""


def soak(seconds: float, seed: int) -> int:
    """Play lives until the time is up or a rule is broken; the exit code."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    began, processor = time.monotonic(), time.process_time()
    lives = pods = 0
    virtual = 0.0
    broken: dict[str, object] = {}
    while time.monotonic() - began < seconds and not broken:
        life = play(BEYOND + seed * BEYOND + lives)
        lives += 1
        pods += life.pods
        virtual += life.seconds
        if life.violations:
            print(told(life), file=sys.stderr)
            broken = {"life": life.seed, "violations": list(life.violations)}
    totals = {
        "lives": lives,
        "a_second_of_processor": round(lives / (time.process_time() - processor), 1),
        "pods": pods,
    }
    print(json.dumps({**totals, "virtual_hours": round(virtual / 3600.0, 1), **broken}))
    return 1 if broken else 0


def again(seed: int) -> int:
    """Play one life, and tell it; the exit code."""
    life = play(seed)
    print(told(life))
    return 1 if life.violations else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="lives-soak", description="Simulated workers, judged at every moment.")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long")
    parser.add_argument("--seed", type=int, default=None, help="where to begin; anywhere by default")
    parser.add_argument("--life", type=int, default=None, help="tell the life of this seed, whatever comes of it")
    given = parser.parse_args()
    if given.life is not None:
        return again(given.life)
    return soak(given.seconds, given.seed if given.seed is not None else int(time.time()) % 1_000_000)


if __name__ == "__main__":
    sys.exit(main())
