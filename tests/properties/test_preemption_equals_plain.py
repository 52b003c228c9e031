"""Preemption on one node after another against a plain reading, with everything at play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.whole_clusters import World
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code
from wharfinger.objects.model.pod import Pod

CATALOG = catalog()


class Plain:
    """Tries out each node with a new profile, on a snapshot made from nothing."""

    def __init__(self, pod: Pod, snapshot: Snapshot) -> None:
        self.pod = pod
        self.snapshot = snapshot

    def fits(self, name: str, pods: Sequence[Pod]) -> bool:
        """Whether the pod may go there if just these pods were on the node."""
        infos = [
            NodeInfo.of(info.node, pods) if info.node.name == name else NodeInfo.of(info.node, info.pods.values())
            for info in self.snapshot.rows
        ]
        there = Snapshot.of(infos, surroundings=self.snapshot.surroundings)
        return new().verify(self.pod, there, name).ok

    def victims(self, name: str) -> tuple[list[Pod], int] | None:
        """Who would leave, and how many of them a budget protects."""
        held = list(self.snapshot.info(name).pods.values())
        lower = sorted((each for each in held if each.priority < self.pod.priority), key=importance)
        stay = [each for each in held if each not in lower]
        if not lower or not self.fits(name, stay):
            return None
        protected = self.protected(lower)
        gone: list[Pod] = []
        for each in [*protected, *(other for other in lower if other not in protected)]:
            if self.fits(name, [*stay, each]):
                stay.append(each)
            else:
                gone.append(each)
        return (sorted(gone, key=importance), sum(each in protected for each in gone)) if gone else None

    def protected(self, lower: Sequence[Pod]) -> list[Pod]:
        """Those for whom some budget has nothing left when they leave in this order."""
        found = []
        budgets = self.snapshot.surroundings.budgets
        counted = {id(each): each.disruptions_allowed for space in budgets.values() for each in space}
        for pod in lower:
            for budget in budgets.get(pod.namespace, ()):
                selector = budget.selector
                if selector and selector.requirements and pod.labels and selector.matches(pod.labels):
                    counted[id(budget)] -= 1
                    if counted[id(budget)] < 0 and pod not in found:
                        found.append(pod)
        return found


def importance(pod: Pod) -> tuple[int, float, int]:
    return -pod.priority, seconds(pod), pod.create_revision


def seconds(pod: Pod) -> float:
    try:
        return datetime.fromisoformat(pod.start_time).astimezone(UTC).timestamp()
    except ValueError:
        return float("inf")


def new() -> Profile:
    return load_profiles(catalog=CATALOG)["default-scheduler"]


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_the_cheapest_victims_are_found_whatever_was_asked_before(seed: int) -> None:
    world = World(seed)
    history = [world.snapshot().at(1, nominated={})]
    for _ in range(3):
        history.append(world.changed(world.rng.choice(history)).at(1, nominated={}))
    pods = [replace(world.pod(), priority=priority, preemption_policy="") for priority in (7, 20)]
    kept = new()
    for snapshot in history:
        pod = world.rng.choice(pods)
        found = kept.evaluate(pod, snapshot)
        if found.node is not None or not len(snapshot):
            continue
        plain = Plain(pod, snapshot)
        candidates = {}
        for name, refused in found.verdicts().items():
            hopeless = any(each.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for each in refused.values())
            victims = None if hopeless else plain.victims(name)
            if victims is not None:
                candidates[name] = victims
        assert (found.nominated_node is None) == (not candidates)
        if found.nominated_node is not None:
            costs = {name: cost(*each) for name, each in candidates.items()}
            assert costs[found.nominated_node] == min(costs.values())
            assert list(found.victims) == candidates[found.nominated_node][0]


def cost(victims: Sequence[Pod], violations: int) -> tuple[int, int, int, int, float]:
    highest = max(each.priority for each in victims)
    total = sum(each.priority + 2**31 for each in victims)
    first = min(seconds(each) for each in victims if each.priority == highest)
    return violations, highest, total, len(victims), -first
