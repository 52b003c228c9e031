"""A plugin that says which pods it concerns is asked about no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.framework.conftest import MakeProfile
from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import PreFilterResult
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, unresolvable, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod, snapshot

ONE = snapshot(node("n1"))


class Picky:
    """Refuses every node to the pods that it concerns."""

    def __init__(self, name: str, concerns: Callable[[Pod], Any]) -> None:
        self.name = name
        self.concerns = concerns
        self.asked: list[str] = []

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        self.asked.append(pod.name)
        return PreFilterResult(unresolvable("never") if "never" in pod.labels else PreFilterResult().status)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return unschedulable("no")


def labelled(pod: Pod) -> bool:
    return bool(pod.labels)


def test_only_pods_that_it_concerns_reach_it(profile_of: MakeProfile) -> None:
    picky = Picky("Picky", labelled)
    profile = profile_of(picky)

    nodes = [
        profile.evaluate(each, ONE).node
        for each in (pod("plain"), pod("marked", labels={"a": "b"}), pod("plain-too"), pod("again", labels={"a": "b"}))
    ]

    assert nodes == ["n1", None, "n1", None]
    assert picky.asked == ["marked", "again"]
    assert profile.verify(pod("plain"), ONE, "n1").ok
    assert not profile.verify(pod("marked", labels={"a": "b"}), ONE, "n1").ok


def test_its_refusals_count_as_any(profile_of: MakeProfile) -> None:
    evaluation = profile_of(Picky("Picky", labelled)).evaluate(pod("p", labels={"never": ""}), ONE)

    assert (evaluation.node, evaluation.rejectors) == (None, ("Picky",))


def test_a_function_that_plugins_share_is_called_once_a_decision(profile_of: MakeProfile) -> None:
    calls: list[str] = []

    def concerns(pod: Pod) -> bool:
        calls.append(pod.name)
        return False

    profile = profile_of(Picky("One", concerns), Picky("Two", concerns))
    profile.evaluate(pod("first"), ONE)
    calls.clear()

    profile.evaluate(pod("second"), ONE)

    assert calls == ["second"]


@pytest.mark.parametrize("answer", [[], {}], ids=["a list", "a mapping"])
def test_an_answer_that_is_no_truth_value_is_a_mistake(profile_of: MakeProfile, answer: object) -> None:
    with pytest.raises(PluginError, match="plugin Picky failed"):
        profile_of(Picky("Picky", lambda _pod: answer)).evaluate(pod("p"), ONE)


def test_one_that_raises_is_named(profile_of: MakeProfile) -> None:
    def concerns(pod: Pod) -> bool:
        raise ValueError("out of order")

    with pytest.raises(PluginError, match="plugin Picky failed in concerns: ValueError: out of order"):
        profile_of(Picky("Picky", concerns)).evaluate(pod("p"), ONE)
