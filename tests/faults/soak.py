"""Rounds of faults on servers with new seeds: a storm, or now and then a story of its own (`tests.soak` plays them)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.faults import ruled, stopped
from tests.faults.judge import Judge
from tests.faults.recorder import read_back
from tests.faults.round import Result, plan_for_soak
from tests.faults.round import play as play_storm
from tests.faults.stopped import Company
from tests.faults.timeline import Timeline
from tests.rk8s import rk8s_round

LOG = "history.jsonl, struck.json, schedule.txt, result.json and the logs of all processes"

STOPPED = 5
"""Last digit of the seeds whose round stops a worker in the middle of a bind."""
RULED = 8
"""Last digit of the seeds whose round kills workers and etcd while ruled pods are bound."""
RK8S = 2
"""Last digit of the seeds whose round kills a worker, Temporal and etcd while pods of rk8s are bound."""
SLOW = 20.0
"""Seconds to settle that are worth a line of explanation."""

TOLD = 12
"""Violations of a round that are printed; all of them are in its result.json."""


def play_seed(seed: int, folder: Path, say: Callable[[str], object]) -> Result:
    """The round of a seed."""
    try:
        if seed % 10 == STOPPED:
            say("a worker is stopped in the middle of a bind")
            company = list(Company)[seed // 20 % len(Company)]
            return stopped.play(folder, seconds=60, answer=seed % 20 == STOPPED, company=company, seed=seed)
        if seed % 10 == RULED:
            say("workers are killed while they bind pods with rules across nodes")
            return ruled.play(folder, seed=seed, seconds=30)
        if seed % 10 == RK8S:
            say("a worker, Temporal and etcd are killed while they bind pods of rk8s")
            return rk8s_round.play(folder, cohorts=seed % 20 == RK8S, seed=seed)
        return play_storm(plan_for_soak(seed), folder, say)
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


@dataclass(frozen=True, slots=True)
class Played:
    """A row of the soak's table."""

    part: str
    seed: int
    """Where it began."""
    cases: int
    seconds: float
    broken: str = ""
    """The first rule that was broken, with the seed of its case; empty: none was."""
    text: str = ""
    """What was played, where the number of cases says too little."""


def play(seconds: float, seed: int, folder: Path, *, rounds: int | None = None, keep: bool = False) -> Played:
    """Play rounds until the time is up or a rule is broken. Folders of sound rounds are removed."""
    console = Console(stderr=True)
    say = partial(console.print, highlight=False, soft_wrap=True)
    began = time.monotonic()
    played: list[Result] = []
    broken = ""
    while not broken and time.monotonic() - began < seconds and (rounds is None or len(played) < rounds):
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
            broken = f"{number}: {result.violations[0]}"
        elif not keep:
            shutil.rmtree(here)
    faults, binds = sum(one.faults for one in played), sum(one.binds for one in played)
    text = f"{len(played)} rounds, {faults} faults, {binds} binds"
    return Played("rounds on servers", seed, len(played), time.monotonic() - began, broken, text)


def judge_again(folder: Path) -> int:
    """Judge what a round left behind."""
    timeline = Timeline([(begin, end) for begin, end in json.loads((folder / "struck.json").read_text())])
    judge = Judge(timeline.known_since).take_all(read_back(folder / "history.jsonl"))
    for violation in judge.violations:
        print(violation)
    print(f"{judge.binds} binds, {judge.excused} excused, {len(judge.violations)} violations")
    return 1 if judge.violations else 0
