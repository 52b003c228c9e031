"""The strategies and weights of libscheduler: the default profile of the format, and the examples that are shipped.

The golden values are libscheduler's. `docs/rk8s-decisions.md` lists where a score differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_documents import document, node, pod
from wharfinger.framework.profiles import load_configuration
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.settings import DispatchSettings
from wharfinger.whatif.simulator.simulator import Simulator

EXAMPLES = Path(__file__).parents[2] / "examples/rk8s"
MOST, RATIO = EXAMPLES / "most-allocated.yaml", EXAMPLES / "requested-to-capacity-ratio.yaml"
FIT, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"
IN_TURN = DispatchSettings(hold=0.1, in_flight=1, cohorts=False)

Document = Mapping[str, Any]

HALF_USED = [node("n1", "4", "8Gi"), node("n2", "4", "8Gi")]
USES_HALF = [pod("on-1", "2", "2Gi", node_name="n1"), pod("on-2", "2", "2Gi", node_name="n2")]
THREE = [node(name, "100", "100000") for name in ("n1", "n2", "n3")]
USES_OF_THREE = [pod("on-1", "50", "10000", node_name="n1"), pod("on-2", "10", "50000", node_name="n2")]
OF_THREE_SIZES = [node("n1", "4", "2048"), node("n2", "2", "1024"), node("n3", "8", "4096")]


def decide(config: Any, nodes: Sequence[Document], bound: Sequence[Document], asked: Document) -> Any:
    """The decision on one pod."""
    simulator = Simulator(config, format="rk8s")
    for one in (*nodes, *bound, asked):
        simulator.add(document(one))
    return simulator.decide(("default", asked["metadata"]["name"]))


def scores_of(decision: Any, plugin: str) -> list[int]:
    return [decision.scores[name][plugin] for name in sorted(decision.scores)]


@pytest.mark.parametrize("config", [None, MOST, RATIO], ids=["default", "most", "ratio"])
def test_plugins_and_weights_are_those_of_libscheduler(config: Path | None) -> None:
    configured = load_configuration(config, format_=ClusterFormat.RK8S)
    [completed], [profile] = configured.configuration.profiles, configured.profiles.values()
    assert {name: completed.weights[name] for name in profile.at["score"]} == {
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "GpuMemory": 1,  # NodeGpuResourcesFit there
        "NodeResourcesBalancedAllocation": 1,
        "TaintToleration": 3,
        "InterPodAffinity": 2,
    }


@pytest.mark.parametrize("config", [None, MOST, RATIO], ids=["default", "most", "ratio"])
def test_what_libscheduler_does_not_have_takes_no_part(config: Path | None) -> None:
    """No preemption, no spreading, no host ports, no images: nothing else than these plugins may decide."""
    [profile] = load_configuration(config, format_=ClusterFormat.RK8S).profiles.values()
    assert {plugin.name for plugin in profile.plugins} == {
        "SchedulingGates",
        "PrioritySort",
        "UnsupportedFeatures",
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "GpuMemory",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "DefaultBinder",
    }


@pytest.mark.parametrize(
    ("config", "one", "three", "sizes"),
    [
        pytest.param(None, 43, [60, 60, 90], [75, 50, 87], id="least"),  # 44 there: the mean is cut, not its rest
        pytest.param(MOST, 56, [40, 40, 10], [25, 50, 12], id="most"),
        pytest.param(RATIO, 56, [40, 40, 10], [25, 50, 12], id="ratio"),
    ],
)
def test_scores_of_the_fit_are_the_golden_ones(config: Any, one: int, three: list[int], sizes: list[int]) -> None:
    assert scores_of(decide(config, HALF_USED, USES_HALF, pod("p", "1", "1Gi")), FIT) == [one, one]
    assert scores_of(decide(config, THREE, USES_OF_THREE, pod("p", "10", "10000")), FIT) == three
    assert scores_of(decide(config, OF_THREE_SIZES, [], pod("p", "1", "512")), FIT) == sizes


def test_least_allocated_takes_the_node_of_the_golden_totals() -> None:
    assert decide(None, THREE, USES_OF_THREE, pod("p", "10", "10000")).node == "n3"


@pytest.mark.parametrize("config", [MOST, RATIO], ids=["most", "ratio"])
def test_most_allocated_takes_the_smallest_node_that_fits(config: Path) -> None:
    assert decide(config, OF_THREE_SIZES, [], pod("p", "1", "512")).node == "n2"


def test_balance_is_that_gained_by_the_pod() -> None:
    """libscheduler: the balance with the pod, 81 here. Kubernetes 1.36: 75, and half of what the pod changes."""
    assert scores_of(decide(None, HALF_USED, USES_HALF, pod("p", "1", "1Gi")), BALANCED) == [72, 72]


def test_small_differences_of_nearly_full_nodes_are_not_stretched() -> None:
    """libscheduler stretches 10 and 5 to 100 and 50, and takes n1; Kubernetes adds them as they are, and takes n2."""
    nodes = [node("n1", "10", "100000"), node("n2", "10", "3333")]
    bound = [pod("on-1", "10", "79000", node_name="n1"), pod("on-2", "9500m", "2166", node_name="n2")]
    decision = decide(None, nodes, bound, pod("p", "0", "1000"))
    assert scores_of(decision, FIT) == [10, 5]
    assert scores_of(decision, BALANCED) == [75, 82]
    assert decision.node == "n2"


@pytest.mark.parametrize("config", [MOST, RATIO], ids=["most", "ratio"])
async def test_basic_assign(rk8s: Rk8sCluster, config: Path) -> None:
    """`basic_assign` of libscheduler's `tests/test_scheduler.rs`."""
    await rk8s.put(node("node1", "4", "2048"), node("node2", "2", "1024"), node("node3", "8", "4096"))
    await rk8s.put(pod("p1", "2", "1024", priority=10), pod("p2", "1", "512", priority=20))
    await rk8s.put(pod("p3", "3", "2048", priority=5))
    await rk8s.worker(config=config, dispatching=IN_TURN)
    assert await rk8s.bound("p1", "p2", "p3") == {"p1": "node1", "p2": "node2", "p3": "node3"}


@pytest.mark.parametrize(
    ("config", "chosen"), [(None, "node2"), (MOST, "node1"), (RATIO, "node1")], ids=["least", "most", "ratio"]
)
async def test_scoring_strategies(rk8s: Rk8sCluster, config: Path | None, chosen: str) -> None:
    """`scoring_strategies` of libscheduler's `tests/test_scheduler.rs`."""
    await rk8s.put(node("node1", "10", "10000"), node("node2", "10", "10000"))
    await rk8s.put(pod("large", "8", "8000", node_name="node1"), pod("small", "2", "2000", node_name="node2"))
    await rk8s.put(pod("p", "1", "1000"))
    await rk8s.worker(config=config)
    assert await rk8s.bound("p") == {"p": chosen}
