"""`make soak SECONDS=n SEED=n`: random faults until the time is up or a rule is broken; one table at the end.

    python -m tests.soak --seconds 3600 --seed 1
    python -m tests.soak --life 4711            tells one life of workers again
    python -m tests.soak --judge FOLDER         judges a kept round on servers again

Rounds on servers (`tests.faults.soak`) mostly wait. Beside them one process simulates fleets, then workers, each for a
fifth of the time. The same seed strikes the same blows. Exit code 1: a rule was broken; its story is above the table.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.faults import soak as rounds
from tests.faults.soak import Played
from tests.properties.fleet_world import run as fleets
from tests.scheduling.lives import life as lives

BEYOND = 1_000_000
"""Seeds of simulated cases below are those of `make test`."""
SIMULATED: dict[str, Any] = {"simulated fleets": fleets, "simulated workers": lives}
"""Part -> the module that plays one case by its seed, and tells its story."""
SHARE = 5
"""Each of them gets this part of the time."""


def simulate(part: str, seconds: float, seed: int) -> Played:
    """Play cases until the time is up or a rule is broken."""
    os.nice(10)  # the rounds on servers look at the clock
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    world, began, cases = SIMULATED[part], time.monotonic(), 0
    while time.monotonic() - began < seconds:
        case = world.play(BEYOND + seed * BEYOND + cases)
        cases += 1
        if case.violations:
            print(world.told(case), file=sys.stderr, flush=True)
            return Played(part, seed, cases, time.monotonic() - began, f"{case.seed}: {case.violations[0]}")
    return Played(part, seed, cases, time.monotonic() - began)


def soak(seconds: float, seed: int, on_servers: Callable[[], Played]) -> int:
    """Play everything, and print the table; the exit code."""
    Console(stderr=True).print(f"soak: seed {seed}", highlight=False)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as beside:
        simulated = [beside.submit(simulate, part, seconds / SHARE, seed) for part in SIMULATED]
        played = [on_servers(), *(one.result() for one in simulated)]
    table = Table("part", "seed", "played", "seconds", "first broken rule")
    for one in played:
        table.add_row(one.part, str(one.seed), one.text or str(one.cases), f"{one.seconds:.0f}", one.broken)
    Console(width=160).print(table)
    return int(any(one.broken for one in played))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="soak", description="Faults without end, judged at every commit.")
    parser.add_argument("--seconds", type=float, default=600.0, help="for how long; a round that has begun is ended")
    parser.add_argument("--seed", type=int, default=None, help="where to begin; anywhere by default")
    parser.add_argument("--rounds", type=int, default=None, help="at most so many on servers")
    parser.add_argument("--folder", type=Path, default=None, help="where rounds leave their data; any by default")
    parser.add_argument("--keep", action="store_true", help="keep the data of sound rounds too")
    parser.add_argument("--judge", type=Path, default=None, metavar="FOLDER", help="only judge this kept round again")
    parser.add_argument("--life", type=int, default=None, help="only tell the simulated life of workers of this seed")
    given = parser.parse_args()
    if given.judge is not None:
        return rounds.judge_again(given.judge)
    if given.life is not None:
        life = lives.play(given.life)
        print(lives.told(life))
        return int(bool(life.violations))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="wharfinger-soak-"))
    seed = given.seed if given.seed is not None else int(time.time()) % BEYOND
    return soak(
        given.seconds, seed, lambda: rounds.play(given.seconds, seed, folder, rounds=given.rounds, keep=given.keep)
    )


if __name__ == "__main__":
    sys.exit(main())
