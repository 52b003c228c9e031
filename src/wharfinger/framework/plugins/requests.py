"""What a pod asks for, resource by resource, as the resource plugins read it."""

from __future__ import annotations

from wharfinger.framework.columns import bounded
from wharfinger.framework.node_info import NodeInfo
from wharfinger.objects.model.node import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from wharfinger.objects.model.pod import Pod

STANDARD = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Looked at in this order, before all others; every pod is taken to use them."""


def wanted(pod: Pod) -> list[tuple[str, int]]:
    """What the pod requests more than nothing of, the standard resources first."""
    standard = [(resource, bounded(pod.requests.get(resource, 0))) for resource in STANDARD]
    others = [
        (resource, bounded(amount))
        for resource, amount in pod.requests.items()
        if resource not in STANDARD and resource != PODS
    ]
    return [(resource, amount) for resource, amount in standard + others if amount > 0]


def is_extended(resource: str) -> bool:
    """Whether the resource is one that Kubernetes itself does not know."""
    return "/" in resource and "kubernetes.io/" not in resource


def counts(resource: str, request: int) -> bool:
    """Whether scoring looks at the resource: scalar resources that the pod does not request drop out."""
    return request != 0 or resource in STANDARD


def real_request(pod: Pod, resource: str) -> int:
    """The pod's request."""
    return bounded(pod.requests.get(resource, 0))


def scoring_request(pod: Pod, resource: str) -> int:
    """The request, with 100 milli-cpu and 200 MiB for each container that names none."""
    if resource == CPU:
        return bounded(pod.scoring_cpu)
    if resource == MEMORY:
        return bounded(pod.scoring_memory)
    return real_request(pod, resource)


def scoring_use(node: NodeInfo, resource: str) -> int:
    """What the pods on the node count for in scoring."""
    if resource == CPU:
        return node.scoring_cpu
    if resource == MEMORY:
        return node.scoring_memory
    return node.requested.get(resource, 0)
