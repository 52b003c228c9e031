"""A plain reading of topology spread, pod by pod and node by node: what the kept counts must equal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

from wharfinger.framework.node_info import NodeInfo
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import SpreadConstraint, tolerates
from wharfinger.objects.model.surroundings import PodCollection

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SYSTEM = (SpreadConstraint(3, HOSTNAME, False), SpreadConstraint(5, ZONE, False))


class Constraint:
    """A constraint and whom it selects for one pod."""

    def __init__(self, written: SpreadConstraint, pod: Pod, owners: Sequence[PodCollection] | None) -> None:
        self.written = written
        self.key = written.topology_key
        self.pod = pod
        self.owners = owners
        self.empty = owners is None and written.selector is not None and not written.selector.requirements
        if owners is None and any(key in pod.labels for key in written.match_label_keys):
            self.empty = False

    def selects(self, labels: Mapping[str, str]) -> bool:
        if self.owners is not None:
            return all(owner.selector.matches(labels) for owner in self.owners)
        if self.written.selector is None or not self.written.selector.matches(labels):
            return False
        mine = self.pod.labels
        return all(labels.get(key) == mine[key] for key in self.written.match_label_keys if key in mine)

    def on(self, info: NodeInfo) -> int:
        if self.empty:
            return 0
        found = 0
        for other in info.pods.values():
            if other.namespace == self.pod.namespace and other.deletion_timestamp == "" and self.selects(other.labels):
                found += 1
        return found

    def includes(self, node: Node) -> bool:
        if self.written.honor_node_affinity:
            if any(node.labels.get(key) != value for key, value in self.pod.node_selector.items()):
                return False
            terms = self.pod.required_node_terms
            if terms is not None and not any(term.matches(node.name, node.labels) for term in terms):
                return False
        if self.written.honor_node_taints:
            for taint in node.taints:
                if taint.effect != "PreferNoSchedule" and not tolerates(self.pod.tolerations, taint):
                    return False
        return True


def constraints(
    pod: Pod, collections: Sequence[PodCollection], defaults: Sequence[SpreadConstraint], *, hard: bool
) -> list[Constraint]:
    if pod.spread_constraints:
        return [Constraint(each, pod, None) for each in pod.spread_constraints if each.hard == hard]
    owners = [each for each in collections if each.namespace == pod.namespace and each.selector.matches(pod.labels)]
    return [Constraint(each, pod, owners) for each in defaults if each.hard == hard] if owners else []


def refusal(constraints: Sequence[Constraint], info: NodeInfo, infos: Sequence[NodeInfo]) -> str:
    for constraint in constraints:
        if constraint.key not in info.node.labels:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        counts: dict[str, int] = {}
        for other in infos:
            labels = other.node.labels
            if all(each.key in labels for each in constraints) and constraint.includes(other.node):
                value = labels[constraint.key]
                counts[value] = counts.get(value, 0) + constraint.on(other)
        least = min(counts.values()) if len(counts) >= constraint.written.min_domains else 0
        own = 1 if constraint.selects(constraint.pod.labels) else 0
        if counts.get(info.node.labels[constraint.key], 0) + own - least > constraint.written.max_skew:
            return "node(s) didn't match pod topology spread constraints"
    return ""


def scores(
    constraints: Sequence[Constraint], feasible: Sequence[NodeInfo], infos: Sequence[NodeInfo], *, every_key: bool
) -> list[int]:
    def complete(info: NodeInfo) -> bool:
        return not every_key or all(each.key in info.node.labels for each in constraints)

    kept = [info for info in feasible if complete(info)]
    costs: dict[str, int] = {}
    for info in kept:
        cost = 0.0
        for constraint in constraints:
            if constraint.key not in info.node.labels:
                continue
            if constraint.key == HOSTNAME:
                size, count = len(kept), constraint.on(info)
            else:
                size = len({each.node.labels.get(constraint.key, "") for each in kept})
                count = sum(
                    constraint.on(other)
                    for other in infos
                    if complete(other)
                    and constraint.includes(other.node)
                    and other.node.labels.get(constraint.key, "") == info.node.labels[constraint.key]
                )
            cost += count * math.log(size + 2) + (constraint.written.max_skew - 1)
        costs[info.node.name] = int(Decimal(cost).quantize(Decimal(1), ROUND_HALF_UP))
    highest, lowest = max(costs.values(), default=0), min(costs.values(), default=0)
    found = []
    for info in feasible:
        if info.node.name not in costs:
            found.append(0)
        elif highest == 0:
            found.append(100)
        else:
            found.append(100 * (highest + lowest - costs[info.node.name]) // highest)
    return found
