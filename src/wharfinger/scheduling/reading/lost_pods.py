"""Pods that are bound to a node that does not exist, by what is stored."""

from __future__ import annotations

from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.reading.stored_pods import every_pod


async def lost_pods(store: Store, namespace: str = "") -> dict[str, list[Pod]]:
    """The lost pods by node.

    The nodes are listed after the pods: a node that appears in between is counted as existing.
    """
    _, found = await every_pod(store, namespace)
    nodes: dict[str, list[Pod]] = {}
    for entry in found:
        if entry.pod is not None and entry.pod.bound and not entry.pod.finished:
            nodes.setdefault(entry.pod.node_name, []).append(entry.pod)
    if nodes:
        async for (name,), _ in keys.node.rows(store):
            nodes.pop(name, None)
    return nodes


async def is_lost(store: Store, pod: Pod) -> bool:
    """Whether the pod is bound to a node that does not exist."""
    return pod.bound and not pod.finished and (await store.get(keys.node(pod.node_name))).kv is None
