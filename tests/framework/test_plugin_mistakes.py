"""A Local plugin that breaks its contract is named, whether one node changed or all are asked about."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from tests.framework.conftest import MakeProfile
from wharfinger.errors import ConfigurationError, PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Normalization, PreFilterResult
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod, snapshot

FIVE = snapshot(*(node(f"n{number}") for number in range(5)))
CROWDED = FIVE.place(pod("b"), "n1")


class Odd:
    """Scores 1, but something else where there are pods."""

    name = "Odd"
    answer: Any = 2

    def signature(self, pod: Pod) -> Hashable:
        return 0

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
        return self.answer if node.pods else 1


class OddAndNormalised(Odd):
    normalization: Any = Normalization.HIGHEST


@pytest.mark.parametrize("kind", [Odd, OddAndNormalised])
@pytest.mark.parametrize("answer", [2.5, 1 << 70, "5", None])
def test_a_score_must_be_a_whole_number(profile_of: MakeProfile, kind: type[Odd], answer: object) -> None:
    plugin = kind()
    plugin.answer = answer
    profile = profile_of(plugin)
    assert profile.evaluate(pod("a"), FIVE).node is not None
    for snapshot_, asked in ((CROWDED, profile), (CROWDED, profile_of(plugin))):
        with pytest.raises(PluginError, match="plugin Odd failed in Score"):
            asked.evaluate(pod("a"), snapshot_)
    assert profile.evaluate(pod("a"), FIVE).node is not None


def test_raw_scores_near_the_limit_are_normalised_exactly(profile_of: MakeProfile) -> None:
    plugin = OddAndNormalised()
    plugin.answer = 1 << 62
    assert profile_of(plugin).evaluate(pod("a"), CROWDED).decide(None).totals == {
        "n0": 0, "n1": 100, "n2": 0, "n3": 0, "n4": 0,
    }  # fmt: skip


def test_a_normalisation_must_be_one(profile_of: MakeProfile) -> None:
    plugin = OddAndNormalised()
    plugin.normalization = "highest"
    with pytest.raises(ConfigurationError, match="plugin Odd: normalization is 'highest'"):
        profile_of(plugin)


def test_the_one_whose_signature_cannot_be_hashed_is_named(profile_of: MakeProfile) -> None:
    class Listing(Odd):
        name = "Listing"

        def signature(self, pod: Pod) -> Any:
            return []

    with pytest.raises(PluginError, match="plugin Listing failed in signature: TypeError"):
        profile_of(Listing(), Odd()).evaluate(pod("a"), FIVE)


def test_what_pre_filter_noted_is_there_for_the_node_form(profile_of: MakeProfile) -> None:
    class Limit:
        name = "Limit"

        def signature(self, pod: Pod) -> Hashable:
            return pod.priority

        def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
            state.write(self.name, pod.priority)
            state.carry(self.name, {"limit": pod.priority})
            return PreFilterResult()

        def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            return unschedulable("full") if len(node.pods) >= state.read(self.name) else SUCCESS

    profile = profile_of(Limit())
    evaluation = profile.evaluate(pod("a", priority=1), CROWDED)
    assert evaluation.feasible == ("n0", "n2", "n3", "n4")
    assert [name for name, refused in evaluation.verdicts().items() if refused] == ["n1"]
    assert profile.verify(pod("a", priority=1), CROWDED, "n1").reasons == ("full",)
    assert profile.evaluate(pod("b", priority=2), CROWDED).feasible_count == 5
    for _ in range(2):
        assert profile.evaluate(pod("a", priority=1), CROWDED).state.baggage == {"Limit": {"limit": 1}}
