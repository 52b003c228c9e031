"""Examples and corners of the resource plugins; the formulas themselves are checked in tests/properties."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.framework.plugins.arguments import ShapePoint
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.plugins.node_resources_fit import score_at
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import Code
from wharfinger.testing.builders import GIB, node, pod, snapshot

GPU = "example.com/gpu"


def profile(**args: Any) -> Any:
    config = [{"name": name, "args": value} for name, value in args.items()]
    return load_profiles({"profiles": [{"pluginConfig": config}]}, catalog=catalog())["default-scheduler"]


def test_the_worked_example_of_kube_scheduler() -> None:
    """An empty node of 4 cpu and 32 GiB, a pod of 100m and 500Mi: 97 for fit, 74 for balance."""
    nodes = snapshot(node("a", memory=32 * GIB), node("b", memory=32 * GIB))
    scores = profile().evaluate(pod(cpu=100, memory=500 << 20), nodes).decide().scores["a"]
    assert scores == {"TaintToleration": 300, "NodeResourcesFit": 97, "NodeResourcesBalancedAllocation": 74}


def test_all_that_is_short_is_named_and_a_full_node_first() -> None:
    status = profile().verify(pod(cpu=5000, memory=1, extended={GPU: 1}), snapshot(node("a", pods=0)), "a")
    assert status.reasons == ("Too many pods", "Insufficient cpu", "Insufficient example.com/gpu")


def test_a_request_larger_than_the_node_cannot_be_helped_by_evicting() -> None:
    nodes = snapshot(node("a"), a=[pod("other", cpu=3000)])
    assert profile().verify(pod(cpu=2000), nodes, "a").code is Code.UNSCHEDULABLE
    assert profile().verify(pod(cpu=5000), nodes, "a").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_pod_that_asks_for_nothing_fits_an_overcommitted_node() -> None:
    nodes = snapshot(node("a"), a=[pod("other", cpu=9000)])
    assert profile().verify(pod(), nodes, "a").ok


def test_a_node_without_allocatable_has_room_for_nothing() -> None:
    assert profile().verify(pod(), snapshot(node("a", allocatable={})), "a").reasons == ("Too many pods",)


@pytest.mark.parametrize("args", [{"ignoredResources": [GPU]}, {"ignoredResourceGroups": ["example.com"]}], ids=str)
def test_ignored_extended_resources_are_not_looked_at(args: dict[str, Any]) -> None:
    wanting = pod(extended={GPU: 1})
    assert not profile().verify(wanting, snapshot(node("a")), "a").ok
    assert profile(NodeResourcesFit=args).verify(wanting, snapshot(node("a")), "a").ok


def test_standard_resources_cannot_be_ignored() -> None:
    assert (
        not profile(NodeResourcesFit={"ignoredResources": ["cpu"]}).verify(pod(cpu=5000), snapshot(node("a")), "a").ok
    )


def test_a_pod_may_lack_more_resources_than_a_code_has_bits() -> None:
    many = {f"example.com/r{number:03}": 1 for number in range(100)}
    room = node("a", extended=dict.fromkeys(list(many)[:-1], 1))
    assert profile().verify(pod(extended=many), snapshot(room), "a").reasons == ("Insufficient example.com/r099",)
    status = profile().verify(pod(extended=many), snapshot(node("b")), "b")
    assert len(status.reasons) == 100


def test_amounts_beyond_64_bits_are_refused_and_break_nothing() -> None:
    nodes = snapshot(node("a"), node("b"), a=[pod("other", cpu=2**80)])
    message = profile().evaluate(pod(cpu=2**80), nodes).message
    assert message.startswith("0/2 nodes are available: 2 Insufficient cpu. preemption: ")
    assert profile().evaluate(pod(cpu=1), nodes).node == "b"


@pytest.mark.parametrize("memory", [2**57, 2**62 + 5, 2**63 - 1])
@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
def test_scores_are_exact_on_absurdly_large_nodes(kind: str, memory: int) -> None:
    """There kube-scheduler's int64 would wrap around; one such node must not fail every pod."""
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    strategy = {"type": kind, "resources": [{"name": "memory"}], "requestedToCapacityRatio": {"shape": shape}}
    nodes = snapshot(node("a", memory=memory), node("b", memory=memory), a=[pod("other", memory=memory // 4)])
    deciding = profile(NodeResourcesFit={"scoringStrategy": strategy})
    scores = deciding.evaluate(pod(memory=memory // 2), nodes).decide().scores
    fit = {name: plugins["NodeResourcesFit"] for name, plugins in scores.items()}
    used = {"a": memory // 4 + memory // 2, "b": memory // 2}
    wanted = {name: memory - use if kind == "LeastAllocated" else use for name, use in used.items()}
    assert fit == {name: part * 100 // memory for name, part in wanted.items()}
    assert 50 <= scores["a"]["NodeResourcesBalancedAllocation"] <= 100


@pytest.mark.parametrize(("asked", "fits"), [(2**62, True), (2**62 + 1, False)])
def test_room_is_exact_up_to_int64(asked: int, fits: bool) -> None:
    nodes = snapshot(node("a", memory=2**63 - 1), a=[pod("other", memory=2**62 - 1)])
    assert profile().verify(pod(memory=asked), nodes, "a").ok is fits


def test_sums_beyond_int64_leave_no_room() -> None:
    others = [pod(f"p{number}", memory=2**63 - 1) for number in range(3)]
    nodes = snapshot(node("a", memory=2**63 - 1), a=others)
    assert profile().verify(pod(memory=1), nodes, "a").reasons == ("Insufficient memory",)
    assert profile().verify(pod(), nodes, "a").ok


def test_a_falling_shape_truncates_toward_zero() -> None:
    shape = (ShapePoint(utilization=0, score=10), ShapePoint(utilization=99, score=0))
    # 100 - 100 * 1 / 99 = 100 - 1 (Go), not 100 - 2 (flooring a negative quotient).
    assert score_at(shape, 1) == 99
    assert [score_at(shape, percent) for percent in (0, 50, 99, 100)] == [100, 50, 0, 0]


def test_balance_is_left_out_for_a_pod_without_requests() -> None:
    scores = profile().evaluate(pod(), snapshot(node("a"), node("b"))).decide().scores["a"]
    assert "NodeResourcesBalancedAllocation" not in scores
