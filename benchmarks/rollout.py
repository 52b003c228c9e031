"""How many instance-seconds a change costs, and how long no instance serves: for the original and for wharfinger.

    python benchmarks/rollout.py --runs 100

Both live the same random scenarios in virtual time: `original_fleet.py` models the original, planner and actors are
the real ones in the tests' simulated world. An instance takes about 5 s to be ready and 1 s to end. One JSON line a
scenario: `*_lost`, instance-seconds missing from what must serve (mean of the runs), and `*_outage_s`, seconds in which
no instance served (mean). After a change of the number the lower one must serve; after `GRACE` seconds the new one.
Ours is watched for longer, because its rollouts take longer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the simulated world belongs to the tests

from benchmarks.original_fleet import BACK, Original
from tests.properties.fleet_world.process import Behaviour
from tests.properties.fleet_world.run import unrest
from tests.properties.fleet_world.timeline import Timeline
from tests.properties.fleet_world.world import World
from wharfinger.fleet.model.fleet import FleetSpec

WATCHED = 240.0
"""Seconds from the first change for which the original is watched."""
WATCHED_OURS = 600.0
"""The same of ours, whose rollouts observe each slot for 30 s: twelve slots are replaced within it."""
GRACE = 60.0
"""Seconds after which a larger number must serve."""
TICK = 0.1
SICK = 40.0
"""Seconds that a member is below health."""
FLEET = "common"


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens to both."""

    at: float
    kind: str
    version: str = ""
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, and from where to where the number goes."""

    replicas: int
    acts: tuple[Act, ...]
    bad: tuple[str, ...] = ()
    sick: bool = False

    def must_serve(self, when: float) -> int:
        """Instances at a moment."""
        last = next((act.replicas for act in reversed(self.acts) if act.replicas), self.replicas)
        wanted = last if when >= GRACE else min(last, self.replicas)
        return wanted - (self.sick and when < SICK)


def _change(*acts: Act, replicas: int = 3, bad: tuple[str, ...] = (), sick: bool = False) -> Scenario:
    return Scenario(replicas, acts, bad, sick)


def scenario(kind: str, rng: Random) -> Scenario:
    """One of a kind."""
    n = rng.choice((2, 3, 3, 4, 5))
    soon = rng.uniform(3.0, 25.0)
    match kind:
        case "template, rolling":
            return _change(Act(0, "change", "v2"), replicas=n)
        case "template, one member sub-health":
            return _change(Act(0, "sicken"), Act(0.5, "change", "v2"), replicas=n, sick=True)
        case "template, single replica":
            return _change(Act(0, "change", "v2"), replicas=1)
        case "template, twelve replicas":
            return _change(Act(0, "change", "v2"), replicas=12)
        case "scale up":
            return _change(Act(0, "change", "v1", n + 1), replicas=n)
        case "scale down":
            return _change(Act(0, "change", "v1", n - 1), replicas=n)
        case "template and number":
            return _change(Act(0, "change", "v2", n + 1), replicas=n)
        case "superseded":
            return _change(Act(0, "change", "v2"), Act(soon, "change", "v3"), replicas=n)
        case "superseded thrice":
            acts = (Act(soon * number, "change", f"v{number + 2}") for number in range(4))
            return _change(*acts, replicas=n)
        case "bad template, rolled back":
            return _change(Act(0, "change", "v2"), Act(20.0 + soon, "change", "v1"), replicas=n, bad=("v2",))
        case "controller restart, changed template":
            return _change(Act(0, "change", "v2"), Act(soon, "restart", "v3"), replicas=n)
        case "controller restart":
            return _change(Act(0, "change", "v2"), Act(soon, "restart"), replicas=n)
        case "an instance crashes meanwhile":
            return _change(Act(0, "change", "v2"), Act(soon, "lose"), replicas=n)
    raise ValueError(kind)


KINDS = (
    "template, rolling",
    "template, one member sub-health",
    "template, single replica",
    "template, twelve replicas",
    "scale up",
    "scale down",
    "template and number",
    "superseded",
    "superseded thrice",
    "bad template, rolled back",
    "controller restart",
    "controller restart, changed template",
    "an instance crashes meanwhile",
)


def measure(timeline: Timeline, serving: Callable[[], int], what: Scenario, seconds: float) -> tuple[float, float]:
    """(instance-seconds lost, seconds without an instance)"""
    began = timeline.now
    lost = outage = 0.0
    for tick in range(int(seconds / TICK)):
        timeline.run(began + (tick + 1) * TICK)
        present = serving()
        lost += max(0, what.must_serve((tick + 1) * TICK) - present) * TICK
        outage += TICK * (present == 0)
    return lost, outage


def play_original(what: Scenario, seed: int) -> tuple[float, float]:
    """One run of the original."""
    rng, timeline = Random(seed), Timeline()
    original = Original(
        timeline,
        rng,
        what.replicas,
        start=lambda: rng.uniform(4.0, 6.0),
        leave=lambda: rng.uniform(0.5, 1.5),
    )
    original.broken = set(what.bad)

    def act(one: Act) -> None:
        match one.kind:
            case "change":
                original.configure(one.version, one.replicas or original.count)
            case "restart":
                original.crash(one.version)
            case "sicken":
                original.sicken(SICK)
            case "lose":
                original.lose()

    for one in what.acts:
        timeline.after(one.at, act, one)
    return measure(timeline, lambda: original.serving, what, WATCHED)


def play_ours(what: Scenario, seed: int) -> tuple[float, float]:
    """One run of ours."""
    world = World(seed)
    for number in range(3):
        world.add_machine(f"host-{number}")
    for version in ("v1", "v2", "v3", "v4", "v5"):
        kind = "crashes" if version in what.bad else "good"
        world.templates[version] = Behaviour(kind, start=3.0, sync=2.0, drain=1.0)  # type: ignore[arg-type]
    world.put_settled(FLEET, FleetSpec(replicas=what.replicas, min_ready=5.0), "v1")
    world.timeline.run(30.0)

    def act(one: Act) -> None:
        fleet = world.etcd.shelf(FLEET).fleet
        assert fleet is not None
        assert fleet.spec is not None
        running = [process for machine in world.machines.values() for process in machine.running.values()]
        match one.kind:
            case "change":
                spec = replace(fleet.spec, replicas=one.replicas or fleet.spec.replicas)
                world.apply(FLEET, spec, one.version)
            case "restart":
                for machine in world.machines.values():
                    machine.stop_agent()
                    world.timeline.after(BACK, machine.start_agent)
                if one.version:
                    world.timeline.after(BACK, world.apply, FLEET, fleet.spec, one.version)
            case "sicken":
                sick = world.rng.choice(running)
                sick.withdraw(SICK)
            case "lose":
                world.rng.choice(running).die("crashed", "signal")

    def serving() -> int:
        return len(
            {
                process.life[0]
                for machine in world.machines.values()
                for process in machine.running.values()
                if process.state == "ready"
            }
        )

    for one in what.acts:
        world.timeline.after(one.at, act, one)
    result = measure(world.timeline, serving, what, WATCHED_OURS)
    assert world.judge.violations == [], world.judge.violations
    assert unrest(world, FLEET) == "", unrest(world, FLEET)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for kind in KINDS:
        lives = []
        for number in range(given.runs):
            seed = given.seed * 1_000_003 + number
            what = scenario(kind, Random(f"{kind}/{seed}"))
            lives.append((*play_original(what, seed), *play_ours(what, seed)))
        original, outage, ours, our_outage = (round(statistics.fmean(column), 1) for column in zip(*lives, strict=True))
        row = {"scenario": kind, "runs": given.runs, "original_lost": original, "ours_lost": ours}
        print(json.dumps(row | {"original_outage_s": outage, "ours_outage_s": our_outage}), flush=True)


if __name__ == "__main__":
    main()
