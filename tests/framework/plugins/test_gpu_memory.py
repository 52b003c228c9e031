"""GpuMemory against a plain model in which each card is one entry of a list; its words, notes and hints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.framework.config.dynamic import ProfileValue, read_value
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.names import GPU_MEMORY as NAME
from wharfinger.framework.plugins.names import NODE_RESOURCES_FIT
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_configuration, load_profiles, overlay_configuration
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code
from wharfinger.objects.model.events import ClusterEvent, assigned_pod_event, node_event, unscheduled_pod_event
from wharfinger.objects.model.node import (
    COUNT_LABEL,
    GIB_LABEL,
    GPU,
    GPU_MEMORY,
    MIB_LABEL,
    Node,
    card_memory,
    unsigned_number,
)
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import GIB, node, pod, snapshot

ENABLED = {"plugins": {"multiPoint": {"enabled": [{"name": NAME}]}}}
ONE_FILTER = {"filter": {"disabled": [{"name": "*"}], "enabled": [{"name": NAME}]}}


def profile_of(*profiles: dict[str, Any]) -> Profile:
    return load_profiles({"profiles": list(profiles)})["default-scheduler"]


PROFILE = profile_of(ENABLED)
ONLY = profile_of({"plugins": ENABLED["plugins"] | ONE_FILTER})
"""Where no other filter refuses first."""
DEFAULT = load_profiles()["default-scheduler"]


def wanting(name: str = "p1", cards: int = 1, memory: int = 0, **fields: Any) -> Pod:
    """A pod that asks for cards; `memory` in GiB."""
    extended = {GPU: cards} if cards else {}
    return pod(name, extended=extended | ({GPU_MEMORY: memory * GIB} if memory else {}), **fields)


def offering(name: str = "n1", cards: int = 8, memory: int = 80, **fields: Any) -> Node:
    """A node with cards; `memory` in GiB."""
    labels = {COUNT_LABEL: str(cards), GIB_LABEL: str(memory)} if cards else {}
    return node(name, labels=labels | fields.pop("labels", {}), extended={GPU: cards} if cards else {}, **fields)


# --- filter and score -----------------------------------------------------------------------------


class Cards:
    """The plain model: each of a node's cards is in use or free, and has its memory."""

    def __init__(self, info: NodeInfo) -> None:
        self.memory = [int(info.node.labels.get(GIB_LABEL, "0")) * GIB] * info.node.allocatable.get(GPU, 0)
        self.used = [False] * len(self.memory)
        for each in info.pods.values():
            for card in self.first_fit(each)[: each.requests.get(GPU, 0)]:
                self.used[card] = True

    def first_fit(self, asking: Pod) -> list[int]:
        """The free cards that are large enough, the lowest first."""
        least = asking.requests.get(GPU_MEMORY, 0)
        return [card for card, memory in enumerate(self.memory) if not self.used[card] and memory >= least]

    def fits(self, asking: Pod) -> bool:
        return len(self.first_fit(asking)) >= asking.requests.get(GPU, 0)

    def score(self, asking: Pod) -> int:
        if not asking.requests.get(GPU, 0):
            return 0
        return 100 * (self.used.count(False) - asking.requests[GPU]) // len(self.used)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    infos = []
    for number_of_node in range(draw(st.integers(1, 5))):
        there = offering(f"n{number_of_node}", draw(st.integers(0, 6)), draw(st.sampled_from([0, 24, 40, 80])))
        info = NodeInfo.of(there)
        for each in range(draw(st.integers(0, 4))):
            asking = wanting(f"{there.name}-{each}", draw(st.integers(0, 3)), draw(st.sampled_from([0, 24, 80])))
            if Cards(info).fits(asking):
                info = info.with_pod(replace(asking, node_name=there.name))
        infos.append(info)
    return Snapshot.of(infos)


@settings(max_examples=200)
@given(clusters(), st.integers(0, 4), st.sampled_from([0, 24, 40, 80, 96]))
def test_nodes_and_scores_are_those_of_the_plain_model(around: Snapshot, cards: int, memory: int) -> None:
    asking = wanting("asking", cards, memory if cards else 0)
    evaluation = ONLY.evaluate(asking, around, preempt=False)
    plain = {info.node.name: Cards(info) for info in around.rows}
    fitting = {name: model for name, model in plain.items() if model.fits(asking)}

    assert set(evaluation.feasible) == set(fitting)
    for name, scores in evaluation.decide(None).scores.items():
        assert scores.get(NAME, 0) == fitting[name].score(asking)
    for info in around.rows:
        assert PROFILE.verify(asking, around, info.node.name).ok == (info.node.name in fitting)
    if evaluation.node is not None and cards:
        assert ONLY.reserve(evaluation.state, asking, evaluation.node).ok
        chosen = fitting[evaluation.node].first_fit(asking)[:cards]
        first, last = chosen[0], chosen[-1]
        assert evaluation.state.carried(NAME) == {"cards": str(first) if cards == 1 else f"{first}-{last}"}


@pytest.mark.parametrize(
    ("asking", "there", "reason", "code"),
    [
        (wanting(), offering(cards=0), "node(s) had no GPU cards", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (wanting(cards=9), offering(), "node(s) had too few GPU cards", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (
            wanting(memory=96),
            offering(),
            "node(s) had GPU cards with too little memory",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        ),
        (
            wanting(memory=1),
            offering(labels={GIB_LABEL: "much"}),
            "node(s) had no label with the memory of their GPU cards",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        ),
        (wanting(cards=6), offering(), "node(s) had too few free GPU cards", Code.UNSCHEDULABLE),
    ],
)
def test_refusals_name_what_is_missing(asking: Pod, there: Node, reason: str, code: Code) -> None:
    around = snapshot(there, n1=[wanting("other", 3)])

    status = ONLY.verify(asking, around, "n1")
    assert (status.code, status.reasons, status.plugin) == (code, (reason,), NAME)


def test_a_pod_without_cards_is_none_of_its_business() -> None:
    around = snapshot(offering(cards=0), offering("n2"))
    evaluation = PROFILE.evaluate(pod(), around)

    assert set(evaluation.feasible) == {"n1", "n2"}
    assert NAME not in evaluation.decide(None).scores["n2"]
    assert NAME in evaluation.state.skipped_filters
    assert PROFILE.reserve(evaluation.state, pod(), "n2").ok
    assert evaluation.state.baggage == {}


def test_memory_comes_from_either_label() -> None:
    assert card_memory({GIB_LABEL: "80", MIB_LABEL: "1"}) == 80 * GIB
    assert card_memory({MIB_LABEL: "81920"}) == 80 * GIB
    assert card_memory({GIB_LABEL: "-1", MIB_LABEL: "1e3"}) == card_memory({}) == 0
    assert [unsigned_number(text) for text in ("4294967295", "4294967296", "07", "٣", "")] == [2**32 - 1, 0, 7, 0, 0]


# --- beside NodeResourcesFit ----------------------------------------------------------------------


def test_memory_is_left_to_the_plugin_and_cards_are_not() -> None:
    around = snapshot(offering(), n1=[wanting("other", 7)])

    assert PROFILE.verify(wanting(memory=80), around, "n1").ok
    assert PROFILE.verify(wanting(cards=2), around, "n1").plugin == NODE_RESOURCES_FIT
    assert load_profiles({"profiles": [ENABLED]})["default-scheduler"].digest == PROFILE.digest != DEFAULT.digest


@pytest.mark.parametrize("disabled", [{}, {"filter": {"disabled": [{"name": NAME}]}}], ids=["absent", "at filter"])
def test_without_its_filter_a_pod_with_memory_a_card_is_refused(disabled: dict[str, Any]) -> None:
    enabled = {"multiPoint": {"enabled": [{"name": NAME}]}} if disabled else {}
    found = profile_of({"plugins": enabled | disabled}).verify(wanting(memory=1), snapshot(offering()), "n1")

    assert (found.plugin, found.reasons) == (NODE_RESOURCES_FIT, (f"Insufficient {GPU_MEMORY}",))


def test_the_default_profile_has_no_part_of_it() -> None:
    assert all(plugin.name != NAME for plugin in DEFAULT.plugins)
    everything = load_configuration({}, all_plugins=True).profiles["default-scheduler"]
    assert everything.digest == DEFAULT.digest


@pytest.mark.parametrize("changed", [NODE_RESOURCES_FIT, "InterPodAffinity"])
def test_memory_stays_left_to_it_when_arguments_change_while_workers_run(changed: str) -> None:
    base = load_configuration({"profiles": [ENABLED]})
    args = {"ignoredResources": ["example.com/fpga"]} if changed == NODE_RESOURCES_FIT else {"hardPodAffinityWeight": 9}
    value = read_value(
        ProfileValue, {"profiles": {"default-scheduler": {"pluginConfig": [{"name": changed, "args": args}]}}}
    )
    found = overlay_configuration(base, value, base).profiles["default-scheduler"]

    assert found.digest != base.profiles["default-scheduler"].digest
    assert found.verify(wanting(memory=80), snapshot(offering()), "n1").ok


def test_room_is_made_by_evicting_where_cards_are_large_enough() -> None:
    low = [wanting(f"low{number}", 4, create_revision=number + 1, node_name="n1") for number in range(2)]
    around = snapshot(offering(), offering("n2", 8, 24), n1=low, n2=[wanting("small", 8, node_name="n2")])
    evaluation = PROFILE.evaluate(wanting("high", 4, 80, priority=10), around)

    assert (evaluation.nominated_node, len(evaluation.victims)) == ("n1", 1)


# --- hints ----------------------------------------------------------------------------------------

ASKING = wanting(cards=4, memory=40)
BOUND = wanting("bound", 2, node_name="n1")


def helps(event: ClusterEvent | None, asking: Pod = ASKING) -> bool:
    assert event is not None
    return PROFILE.may_help(event, asking, (NAME,)) is not None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, offering(), True),
        (None, offering(cards=0), False),
        (None, offering(cards=2), False),
        (None, offering(memory=24), False),
        (offering(memory=24), offering(memory=40), True),
        (offering(memory=40), offering(memory=80), False),
        (offering(memory=80), offering(memory=24), False),
        (offering(cards=2), offering(cards=4), True),
        (offering(cards=4), offering(cards=8), True),
        (offering(cards=8), offering(cards=4), False),
        (offering(labels={"zone": "a"}), offering(labels={"zone": "b"}), False),
    ],
)
def test_a_node_helps_that_suits_now_and_did_not_or_has_more_cards(old: Node | None, new: Node, expected: bool) -> None:
    assert helps(node_event(old, new, 1)) == expected


def test_pods_help_that_free_cards() -> None:
    assert helps(assigned_pod_event(BOUND, None, 1))
    assert not helps(assigned_pod_event(pod("plain", cpu=100, node_name="n1"), None, 1))
    assert helps(assigned_pod_event(BOUND, wanting("bound", 1, node_name="n1"), 1))
    less = wanting("bound", 2, cpu=100, node_name="n1")
    assert not helps(assigned_pod_event(replace(less, requests={**less.requests, "cpu": 200}), less, 1))
    assert not helps(assigned_pod_event(None, BOUND, 1))


def test_the_pod_itself_helps_that_asks_for_less() -> None:
    assert helps(unscheduled_pod_event(ASKING, wanting(cards=4, memory=24), 1))
    assert not helps(unscheduled_pod_event(ASKING, replace(ASKING, labels={"a": "b"}), 1))


def test_a_pod_that_asks_for_memory_alone_is_refused_by_itself() -> None:
    """[NodeResourcesFit leaves the memory to this plugin, so no filter would look at it]"""
    evaluation = PROFILE.evaluate(wanting(cards=0, memory=40), snapshot(offering(cards=0)))

    assert evaluation.node is None
    assert list(evaluation.rejectors) == [NAME]
    assert "pod asks for memory of GPU cards, and for no card" in evaluation.message
