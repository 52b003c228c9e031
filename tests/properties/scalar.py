"""A plain reading of kube-scheduler's formulas, one node and one number at a time: what the columns must equal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from wharfinger.framework.node_info import NodeInfo
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import Taint, Toleration, tolerates

STANDARD = ("cpu", "memory", "ephemeral-storage")


def divide(dividend: int, divisor: int) -> int:
    """Go's integer division."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def round_half_away(dividend: int, divisor: int) -> int:
    return math.floor(dividend / divisor + 0.5)


def refusal(pod: Pod, info: NodeInfo) -> tuple[str, tuple[str, ...]] | None:
    """The first plugin that refuses, in profile order, and its reasons."""
    node = info.node
    if node.unschedulable and not tolerates(
        pod.tolerations, Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    ):
        return "NodeUnschedulable", ("node(s) were unschedulable",)
    if pod.node_name and pod.node_name != node.name:
        return "NodeName", ("node(s) didn't match the requested node name",)
    for taint in node.taints:
        if taint.effect != "PreferNoSchedule" and not tolerates(pod.tolerations, taint):
            return "TaintToleration", ("node(s) had untolerated taint(s)",)
    selected = all(node.labels.get(key) == value for key, value in pod.node_selector.items())
    required = pod.required_node_terms
    if not selected or (required is not None and not any(term.matches(node.name, node.labels) for term in required)):
        return "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",)
    for wanted in pod.host_ports:
        for other in info.pods.values():
            if any(wanted.conflicts(port) for port in other.host_ports):
                return "NodePorts", ("node(s) didn't have free ports for the requested pod ports",)
    short = insufficient(pod, info)
    return ("NodeResourcesFit", short) if short else None


def insufficient(pod: Pod, info: NodeInfo) -> tuple[str, ...]:
    reasons = []
    if len(info.pods) + 1 > info.node.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for resource in (*STANDARD, *(name for name in pod.requests if name not in STANDARD)):
        request = pod.requests.get(resource, 0)
        used = sum(other.requests.get(resource, 0) for other in info.pods.values())
        if request > 0 and request > info.node.allocatable.get(resource, 0) - used:
            reasons.append(f"Insufficient {resource}")
    return tuple(reasons)


def _looked_at(pod: Pod, info: NodeInfo, resource: str) -> bool:
    if info.node.allocatable.get(resource, 0) == 0:
        return False
    return resource in STANDARD or pod.requests.get(resource, 0) != 0


def _scoring(pod: Pod, resource: str) -> int:
    return {"cpu": pod.scoring_cpu, "memory": pod.scoring_memory}.get(resource, pod.requests.get(resource, 0))


def least_allocated(pod: Pod, info: NodeInfo, weights: Mapping[str, int]) -> int:
    return _mean(pod, info, weights, lambda use, capacity: 0 if use > capacity else (capacity - use) * 100 // capacity)


def most_allocated(pod: Pod, info: NodeInfo, weights: Mapping[str, int]) -> int:
    return _mean(pod, info, weights, lambda use, capacity: min(use, capacity) * 100 // capacity)


def _mean(pod: Pod, info: NodeInfo, weights: Mapping[str, int], score) -> int:  # type: ignore[no-untyped-def]
    total = divisor = 0
    for resource, weight in weights.items():
        if _looked_at(pod, info, resource):
            use = sum(_scoring(other, resource) for other in info.pods.values()) + _scoring(pod, resource)
            total += score(use, info.node.allocatable[resource]) * weight
            divisor += weight
    return total // divisor if divisor else 0


def requested_to_capacity_ratio(
    pod: Pod, info: NodeInfo, weights: Mapping[str, int], shape: Sequence[tuple[int, int]]
) -> int:
    total = divisor = 0
    for resource, weight in weights.items():
        if not _looked_at(pod, info, resource):
            continue
        capacity = info.node.allocatable[resource]
        use = sum(_scoring(other, resource) for other in info.pods.values()) + _scoring(pod, resource)
        score = shape_score(shape, 100 if use > capacity else use * 100 // capacity)
        if score > 0:
            total += score * weight
            divisor += weight
    return round_half_away(total, divisor) if divisor else 0


def shape_score(shape: Sequence[tuple[int, int]], percent: int) -> int:
    points = [(utilization, score * 10) for utilization, score in shape]
    for number, (utilization, score) in enumerate(points):
        if percent <= utilization:
            if number == 0:
                return score
            before, start = points[number - 1]
            return start + divide((score - start) * (percent - before), utilization - before)
    return points[-1][1]


def balanced(pod: Pod, info: NodeInfo, resources: Sequence[str]) -> int:
    def balance(with_pod: bool) -> int:
        fractions = []
        for resource in resources:
            if _looked_at(pod, info, resource):
                use = sum(other.requests.get(resource, 0) for other in info.pods.values())
                use += pod.requests.get(resource, 0) if with_pod else 0
                fractions.append(min(1.0, use / info.node.allocatable[resource]))
        deviation = 0.0
        if len(fractions) == 2:
            deviation = abs((fractions[0] - fractions[1]) / 2)
        elif len(fractions) > 2:
            total = 0.0
            for fraction in fractions:
                total += fraction
            mean = total / len(fractions)
            squares = 0.0
            for fraction in fractions:
                squares += (fraction - mean) * (fraction - mean)
            deviation = math.sqrt(squares / len(fractions))
        return int((1 - deviation) * 100)

    return 50 + (50 + balance(True) - balance(False)) // 2


def preferred_taints(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> int:
    fitting = tuple(each for each in tolerations if each.effect in ("", "PreferNoSchedule"))
    return sum(1 for taint in taints if taint.effect == "PreferNoSchedule" and not tolerates(fitting, taint))


def preferred_terms(pod: Pod, info: NodeInfo) -> int:
    node = info.node
    return sum(each.weight for each in pod.preferred_node_terms if each.term.matches(node.name, node.labels))


def normalized(raw: Sequence[int], *, reverse: bool) -> list[int]:
    highest = max(raw)
    if highest == 0:
        return [100 if reverse else 0 for _ in raw]
    scaled = [100 * value // highest for value in raw]
    return [100 - value for value in scaled] if reverse else scaled
