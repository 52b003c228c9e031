"""The queue in an order of one's own: pods are popped as the profile's QueueSort plugin says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clock import Clock
from tests.scheduling.state.queue.pods import pod
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.loops.queueing import order_by, shares_by
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue

USUAL = load_profiles()["default-scheduler"]


class Sorted:
    """QueueSort by a function of pod and arrival."""

    name = "Sorted"

    def __init__(self, key: Callable[[Pod, float], Any]) -> None:
        self._key = key

    def queue_key(self, pod: Pod, arrival: float) -> Any:
        return self._key(pod, arrival)


@pytest.mark.parametrize(
    ("key", "order"),
    [
        (lambda _pod, arrival: arrival, ["p1", "p2", "p3"]),
        (lambda pod, arrival: (-pod.priority, arrival), ["p3", "p2", "p1"]),
        (lambda pod, _arrival: pod.labels["rank"], ["p2", "p3", "p1"]),
    ],
    ids=["by time", "by priority", "by a label"],
)
def test_pods_are_popped_in_the_order_of_the_profile(key: Callable[[Pod, float], Any], order: list[str]) -> None:
    plugins = [plugin for plugin in USUAL.plugins if plugin.name != "PrioritySort"]
    profile = Profile(USUAL.name, Enabled.everywhere([Sorted(key), *plugins], {}), digest="sorted")
    clock = Clock()
    queue = SchedulingQueue(QueueRules(lambda _: "", order_by({USUAL.name: profile})), clock=clock)
    for number, rank in enumerate("cab", start=1):
        queue.put(pod(f"p{number}", priority=number, labels={"rank": rank}), None)
        clock.advance(1)

    popped = []
    while (entry := queue.pop()) is not None:
        popped.append(entry.pod.name)
    assert popped == order


def test_namespaces_take_turns_where_priority_sort_orders_the_queue() -> None:
    plugins = [plugin for plugin in USUAL.plugins if plugin.name != "PrioritySort"]
    own = Profile(USUAL.name, Enabled.everywhere([Sorted(lambda _pod, arrival: arrival), *plugins], {}), digest="own")
    one, other = pod("p", namespace="a", priority=3), pod("p", namespace="b", priority=3)
    for profile, shares in (USUAL, {(-3, "a"), (-3, "b")}), (own, {(0, "")}):
        share_of = shares_by({USUAL.name: profile})
        assert {share_of(one), share_of(other)} == shares
