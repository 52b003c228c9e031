"""`make soak SECONDS=n SEED=n`: rounds of faults with new seeds, until the time is up or an invariant is broken.

    python -m tests.faults.soak --seconds 3600 --seed 1
    python -m tests.faults.soak --judge FOLDER          judge a kept round again

Prints a line a round and one JSON line at the end; exit code 1 names the seed, the invariant and the folder.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.faults import ruled, stopped
from tests.faults.judge import Judge
from tests.faults.recorder import read_back
from tests.faults.round import Result, plan_for_soak, play
from tests.faults.stopped import Company
from tests.faults.timeline import Timeline

LOG = "history.jsonl, struck.json, schedule.txt, result.json and the logs of all processes"

STOPPED = 5
"""Last digit of the seeds whose round stops a worker in the middle of a bind."""
RULED = 8
"""Last digit of the seeds whose round kills workers and etcd while ruled pods are bound."""
SLOW = 20.0
"""Seconds to settle that are worth a line of explanation."""

TOLD = 12
"""Violations of a round that are printed; all of them are in its result.json."""


def play_seed(seed: int, folder: Path, say: Callable[[str], object]) -> Result:
    """The round of a seed: a storm, or now and then a worker stopped in the middle of a bind, or a flood of rules."""
    try:
        if seed % 10 == STOPPED:
            say("a worker is stopped in the middle of a bind")
            company = list(Company)[seed // 20 % len(Company)]
            return stopped.play(folder, seconds=60, answer=seed % 20 == STOPPED, company=company, seed=seed)
        if seed % 10 == RULED:
            say("workers are killed while they bind pods with rules across nodes")
            return ruled.play(folder, seed=seed, seconds=30)
        return play(plan_for_soak(seed), folder, say)
    except AssertionError as error:  # something was not up, or did not happen in time
        return Result(seed, violations=[f"story: {error}"])


def told(result: Result) -> str:
    """A round in a line."""
    colour = "red" if result.violations else "green"
    return (
        f"seed {result.seed}: {result.seconds:.0f} s, {result.faults} faults, {result.binds} binds,"
        f" {result.evictions} evictions, {result.revisions} revisions, {result.compactions} compactions,"
        f" {result.excused} excused, settled in {result.settled:.0f} s,"
        f" [{colour}]{len(result.violations)} violations[/]"
    )


def soak(seconds: float, seed: int, folder: Path, *, rounds: int | None = None, keep: bool = False) -> int:
    """Play rounds until the time is up; the exit code. Folders of sound rounds are removed."""
    console = Console(stderr=True)
    say = partial(console.print, highlight=False, soft_wrap=True)
    began = time.monotonic()
    played: list[Result] = []
    while time.monotonic() - began < seconds and (rounds is None or len(played) < rounds):
        number = seed + len(played)
        here = folder / f"seed-{number}"
        here.mkdir(parents=True)
        with console.status(here.name) as status:
            result = play_seed(number, here, status.update)
        played.append(result)
        say(told(result))
        for breakdown in result.breakdowns:
            say(f"  {breakdown}", style="yellow", markup=False)
        if result.strays:
            some = ", ".join(result.strays[:3])
            say(f"  {len(result.strays)} open chains that no pod needs: {some}", style="yellow", markup=False)
        for violation in result.violations[:TOLD]:
            say(f"  {violation}", style="red", markup=False)
        if result.settled > SLOW:
            say(f"  at last: {'; '.join(result.last[:3])}", style="yellow", markup=False)
        if result.violations:
            say(f"kept in {here}: {LOG}")
            break
        if not keep:
            shutil.rmtree(here)
    failed = played[-1] if played and played[-1].violations else None
    broken = {"seed": failed.seed, "invariant": failed.violations[0], "data": str(here)} if failed is not None else {}
    totals = {
        "seconds": round(time.monotonic() - began),
        "rounds": len(played),
        "faults": sum(result.faults for result in played),
        "binds": sum(result.binds for result in played),
        "revisions": sum(result.revisions for result in played),
        "violations": sum(len(result.violations) for result in played),
    }
    print(json.dumps(totals | broken))
    return 0 if failed is None else 1


def judge_again(folder: Path) -> int:
    """Judge what a round left behind."""
    timeline = Timeline([(begin, end) for begin, end in json.loads((folder / "struck.json").read_text())])
    judge = Judge(timeline.known_since).take_all(read_back(folder / "history.jsonl"))
    for violation in judge.violations:
        print(violation)
    print(f"{judge.binds} binds, {judge.excused} excused, {len(judge.violations)} violations")
    return 1 if judge.violations else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="soak", description="Faults without end, judged by etcd's history.")
    parser.add_argument("--seconds", type=float, default=600.0, help="for how long; a round that has begun is ended")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; any by default")
    parser.add_argument("--rounds", type=int, default=None, help="at most so many")
    parser.add_argument("--folder", type=Path, default=None, help="where rounds leave their data; any by default")
    parser.add_argument("--keep", action="store_true", help="keep the data of sound rounds too")
    parser.add_argument("--judge", type=Path, default=None, metavar="FOLDER", help="only judge this kept round again")
    given = parser.parse_args()
    if given.judge is not None:
        return judge_again(given.judge)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="wharfinger-soak-"))
    seed = given.seed if given.seed is not None else int(time.time()) % 1_000_000
    return soak(given.seconds, seed, folder, rounds=given.rounds, keep=given.keep)


if __name__ == "__main__":
    sys.exit(main())
