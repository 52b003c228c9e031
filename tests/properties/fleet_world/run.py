"""A case from its seed: a world, some acts, the end of all faults, and how it must come to rest.

    python -m tests.properties.fleet_world.run 4711          tells the story of a seed

A case fails by a violated rule, by not coming to rest within `PATIENCE` virtual seconds, or by turning in circles.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tests.properties.fleet_world.story import Story
from tests.properties.fleet_world.world import World

PATIENCE = 1500.0
"""Virtual seconds after the last fault within which everything is as the user wants it."""
QUIET = 15.0
"""Virtual seconds for which nothing more may happen then."""
MANY = 60_000
"""Events of a case that mean circles."""


@dataclass(frozen=True, slots=True)
class Case:
    """How a seed went."""

    seed: int
    violations: tuple[str, ...]
    story: tuple[tuple[float, str], ...]
    """What happened, each with its virtual second."""
    plans: int
    seconds: float
    """Virtual."""


def play(seed: int, *, broken: frozenset[str] = frozenset()) -> Case:
    """The case of a seed."""
    world = World(seed, broken=broken)
    rng = world.rng
    for number in range(rng.choice((1, 2, 2, 3))):
        world.add_machine(f"host-{number}")
    world.controlled_elsewhere = rng.random() < 0.5
    tenants = ["common", "blue"][: 1 + (rng.random() < 0.05)]
    story = Story(world, tenants)
    for tenant in tenants:
        story.begin(tenant, settled=rng.random() < 0.8)
    if rng.random() < 0.5:
        odds = world.odds
        odds.stall, odds.lost, odds.slow, odds.dropped, odds.doubled = 0.02, 0.03, 0.1, 0.05, 0.05
    world.apart = rng.choice((1.0, 3.0, 6.0))
    moment = rng.uniform(0.0, 20.0)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 5))):
        world.timeline.after(moment, story.act, rng.choice(tenants))
        moment += rng.choice((0.1, 1.0, 3.0, 10.0, 20.0, 60.0)) * rng.uniform(0.5, 1.5)
    problems = _live(world, story, tenants, moment, patient=rng.random() < 0.5)
    case = Case(seed, tuple(world.judge.violations + problems), tuple(world.story), world.plans, world.timeline.now)
    world.end()
    return case


def _live(world: World, story: Story, tenants: list[str], moment: float, *, patient: bool) -> list[str]:
    """`patient`: nothing is mended before the agents that are away come back by themselves."""
    timeline = world.timeline
    circles = ["circles: too much happens"]
    if not timeline.run(moment, events=MANY):
        return circles
    moment = max(moment, story.hosts.lasts_until) if patient else moment
    if not timeline.run(moment, events=MANY):
        return circles
    story.heal()
    if not timeline.run(moment + 32.0, events=MANY):
        return circles
    world.etcd.down = False
    for tenant in tenants:
        story.settle(tenant)
    began = timeline.now
    while timeline.now < began + PATIENCE:
        if not timeline.run(timeline.now + 5.0, events=MANY):
            return circles
        if world.judge.violations:
            return []
        if not any(unrest(world, tenant) for tenant in tenants):
            return _stays(world, tenants)
        if timeline.now < began + PATIENCE / 2:
            for tenant in tenants:
                story.go_on(tenant)
    return [f"unrest: {tenant}: {why}" for tenant in tenants if (why := unrest(world, tenant))]


def _stays(world: World, tenants: list[str]) -> list[str]:
    """Whether nothing is done any more once nothing is to be done."""
    before = {tenant: world.judge.acts(tenant) for tenant in tenants}
    world.timeline.run(world.timeline.now + QUIET, events=MANY)
    return [
        f"restless: {tenant}: {before[tenant]} acts became {acts}"
        for tenant in tenants
        if (acts := world.judge.acts(tenant)) != before[tenant]
    ]


def unrest(world: World, tenant: str) -> str:
    """Why a fleet is not as its user wants it; empty when it is."""
    shelf = world.etcd.shelf(tenant)
    workflows = world.tenant(tenant)
    fleet = shelf.fleet
    if fleet is None or fleet.deleting:
        return "" if shelf.empty and workflows.fleet is None else f"deleted, and left are {shelf}"
    if fleet.spec is None:
        return "the spec is invalid"
    if workflows.fleet is None or workflows.rollout is not None:
        return "a rollout is open" if workflows.rollout is not None else "no Fleet"
    if workflows.fleet.tasks:
        return f"busy with {[task.step for task in workflows.fleet.tasks.values()]}"
    if shelf.exits:
        return f"exits {sorted(shelf.exits)}"
    target = shelf.actor.target if shelf.actor is not None else 0
    newest = max(shelf.revisions, default=0)
    reverted = shelf.outcomes.get(newest) == "failed" and shelf.revisions[newest] == fleet.template
    if shelf.revisions.get(target) != fleet.template and not reverted:
        return f"target {target} is not {fleet.template}"
    if shelf.outcomes.get(target) not in ("completed", "aborted", "failed"):
        return f"target {target} has no outcome"
    lives = sorted(shelf.grants)
    if [slot for slot, _ in lives] != list(range(fleet.spec.replicas)) or sorted(shelf.instances) != lives:
        return f"grants {lives}, instances {sorted(shelf.instances)}, replicas {fleet.spec.replicas}"
    for life in lives:
        if shelf.instances[life].state != "ready" or shelf.grants[life].want != "run":
            return f"{life} is {shelf.instances[life].state}"
        if world.process(tenant, life) is None:
            return f"{life} is registered, and dead"
        if shelf.grants[life].identity != fleet.create_revision:
            return f"{life} is of a former fleet of the name"
        decided = shelf.actor.decisions if shelf.actor is not None else None
        frozen = decided is not None and decided.frozen == target
        if frozen and shelf.outcomes.get(shelf.grants[life].revision) == "superseded":
            continue  # it serves where its rollout was given up between two templates, and no other instance does
        reached = shelf.outcomes[target] == "completed" and not frozen  # who goes back to it may give up on the way
        wanted = target if reached else shelf.slots[life[0]].revision
        if not shelf.alike(shelf.grants[life].revision, wanted):
            return f"{life} is of revision {shelf.grants[life].revision}, wanted is {wanted}"
    return ""


def told(case: Case, lines: int = 400) -> str:
    """A failed case for people."""
    story = (f"{when:8.2f}  {what}" for when, what in case.story[-lines:])
    return "\n".join((f"seed {case.seed}", *story, *case.violations))


if __name__ == "__main__":
    for seed in map(int, sys.argv[1:]):
        print(told(play(seed), 10_000))
