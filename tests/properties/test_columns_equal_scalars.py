"""The vectorised plugins say what a plain reading of the formulas says, on random clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import scalar
from tests.properties.clusters import GPU, clusters, pods
from tests.properties.shares import in_quarters
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.plugins.node_affinity import pinned_nodes
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.pod import Pod

CATALOG = catalog()
DEFAULT = load_profiles(catalog=CATALOG)["default-scheduler"]
WEIGHTS = {"cpu": 3, "memory": 2, GPU: 5}
SHAPES = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=4, unique_by=lambda point: point[0]
).map(sorted)


def profile_with(**args: Any) -> Any:
    config = [{"name": name, "args": value} for name, value in args.items()]
    return load_profiles({"profiles": [{"pluginConfig": config}]}, catalog=CATALOG)["default-scheduler"]


def strategy(kind: str, **more: Any) -> dict[str, Any]:
    resources = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    return {"scoringStrategy": {"type": kind, "resources": resources, **more}}


LEAST = profile_with(NodeResourcesFit=strategy("LeastAllocated"))
MOST = profile_with(NodeResourcesFit=strategy("MostAllocated"))


def possible(pod: Pod, infos: Sequence[NodeInfo]) -> list[NodeInfo]:
    """The nodes that PreFilter leaves."""
    named = pinned_nodes(pod.required_node_terms) if pod.required_node_terms else None
    return [info for info in infos if named is None or info.node.name in named]


@in_quarters(80)
@given(clusters(), pods())
def test_column_and_scalar_filters_refuse_nodes_for_the_same_reasons(
    quarter: int, infos: list[NodeInfo], pod: Pod
) -> None:
    evaluation = DEFAULT.evaluate(pod, Snapshot.of(infos))
    expected: dict[str, dict[str, int]] = {}
    feasible = []
    for info in possible(pod, infos):
        refused = scalar.refusal(pod, info)
        if refused is None:
            feasible.append(info.node.name)
            continue
        for reason in refused[1]:
            counts = expected.setdefault(refused[0], {})
            counts[reason] = counts.get(reason, 0) + 1
    assert list(evaluation.feasible) == sorted(feasible)
    if evaluation.message.startswith(f"0/{len(infos)} nodes are available: pod affinity terms conflict"):
        assert possible(pod, infos) == []
        return
    found = {plugin: dict(reasons) for plugin, reasons in evaluation.refusals.items()}
    for reasons in found.values():
        reasons.pop("node(s) didn't satisfy plugin(s) [NodeAffinity]", None)
    assert {plugin: reasons for plugin, reasons in found.items() if reasons} == expected


@in_quarters(60)
@given(clusters(), pods())
def test_every_refusal_of_every_filter_is_returned_node_by_node(quarter: int, infos: list[NodeInfo], pod: Pod) -> None:
    snapshot = Snapshot.of(infos)
    evaluation = DEFAULT.evaluate(pod, snapshot)
    verdicts = evaluation.verdicts()
    assert {name for name in snapshot.names if not verdicts[name]} == set(evaluation.feasible)
    for info in infos:
        verified = DEFAULT.verify(pod, snapshot, info.node.name)
        assert verified.ok == (info.node.name in evaluation.feasible)
        fit = verdicts[info.node.name].get("NodeResourcesFit")
        if evaluation.rejectors != ("NodeAffinity",) or fit is not None:
            assert (fit.reasons if fit else ()) == scalar.insufficient(pod, info)


@in_quarters(80)
@given(clusters(), pods(), SHAPES)
def test_scores_are_those_of_the_formulas(
    quarter: int, infos: list[NodeInfo], pod: Pod, shape: list[tuple[int, int]]
) -> None:
    points = [{"utilization": utilization, "score": score} for utilization, score in shape]
    profiles = {
        "least": LEAST,
        "most": MOST,
        "ratio": profile_with(
            NodeResourcesFit=strategy("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": points}),
            NodeResourcesBalancedAllocation={"resources": [{"name": name} for name in WEIGHTS]},
        ),
    }
    snapshot = Snapshot.of(infos)
    for kind, profile in profiles.items():
        scores = profile.evaluate(pod, snapshot).decide(None).scores
        chosen = [info for info in infos if info.node.name in scores]
        if not chosen:
            continue
        taints = scalar.normalized(
            [scalar.preferred_taints(pod.tolerations, info.node.taints) for info in chosen], reverse=True
        )
        affinity = scalar.normalized([scalar.preferred_terms(pod, info) for info in chosen], reverse=False)
        resources = list(WEIGHTS) if kind == "ratio" else ["cpu", "memory"]
        for position, info in enumerate(chosen):
            found = scores[info.node.name]
            fit = {
                "least": lambda info=info: scalar.least_allocated(pod, info, WEIGHTS),
                "most": lambda info=info: scalar.most_allocated(pod, info, WEIGHTS),
                "ratio": lambda info=info: scalar.requested_to_capacity_ratio(pod, info, WEIGHTS, shape),
            }[kind]()
            assert found["NodeResourcesFit"] == fit
            assert found["TaintToleration"] == 3 * taints[position]
            assert found.get("NodeAffinity", 0) == 2 * affinity[position]
            if any(pod.requests.get(resource) for resource in resources):
                assert found["NodeResourcesBalancedAllocation"] == scalar.balanced(pod, info, resources)
            else:
                assert "NodeResourcesBalancedAllocation" not in found
