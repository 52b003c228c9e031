"""What a member has, as KubeFleet's status tells it: its nodes, what they hold, what bound pods use, its namespaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.documents.fields import LIST_LIMIT
from wharfinger.objects.documents.formats import ObjectFormat
from wharfinger.objects.documents.nodes import capacity
from wharfinger.objects.model.node import CPU, PODS
from wharfinger.objects.model.pod import Pod
from wharfinger.placement.model.members import NODE_COUNT
from wharfinger.placement.spec.members import NAMESPACES_COLLECTED

FOLLOWED = (keys.NODES, keys.PODS, keys.NAMESPACES)


class MemberUsage:
    """Counts as the member's store changes; `status` says what it comes to."""

    def __init__(self, format_: ObjectFormat) -> None:
        self._format = format_
        self._nodes: dict[str, tuple[Mapping[str, int], Mapping[str, int]]] = {}
        """Name -> allocatable, and what it has in all as far as that is another amount."""
        self._pods: dict[str, tuple[str, Mapping[str, int]]] = {}
        """Key of a bound pod -> its node, and what it requests."""
        self._used: Counter[str] = Counter()
        self._namespaces: set[str] = set()
        self._synced: set[str] = set()

    @property
    def in_sync(self) -> bool:
        """Whether everything was listed."""
        return self._synced.issuperset(FOLLOWED)

    def listed(self, prefix: str, found: Sequence[KeyValue]) -> None:
        """A new list replaces what was there."""
        if prefix == keys.NODES:
            self._nodes.clear()
        elif prefix == keys.NAMESPACES:
            self._namespaces.clear()
        else:
            self._pods.clear()
            self._used.clear()
        for kv in found:
            self._take(prefix, kv.key, kv)
        self._synced.add(prefix)

    def changed(self, prefix: str, event: Event) -> None:
        """One change."""
        self._take(prefix, event.kv.key, None if event.deleted else event.kv)

    def status(self) -> dict[str, Any]:
        """`properties`, `resourceUsage`, `namespaces` and their condition, of a MemberCluster's status."""
        total: Counter[str] = Counter()
        in_all: Counter[str] = Counter()
        for allocatable, of_node in self._nodes.values():
            total.update(allocatable)
            in_all.update({**allocatable, **of_node})
        for counted in (total, in_all):
            counted.pop(PODS, None)
        available = {name: max(0, amount - self._used[name]) for name, amount in total.items()}
        told: dict[str, Any] = {
            "properties": {NODE_COUNT: {"value": str(len(self._nodes))}},
            "resourceUsage": {
                "capacity": _amounts(in_all),
                "allocatable": _amounts(total),
                "available": _amounts(available),
            },
        }
        if self._format.has_surroundings:
            names = sorted(self._namespaces)
            told["namespaces"] = dict.fromkeys(names[:LIST_LIMIT], "")
            left_out = len(names) - LIST_LIMIT
            message = {"message": f"{left_out} of {len(names)} namespaces are left out"} if left_out > 0 else {}
            told["conditions"] = [{"type": NAMESPACES_COLLECTED, "status": "True", **message}]
        return told

    def unknown(self) -> dict[str, Any]:
        """The same as long as nothing was listed: that no namespace is known, which refuses what needs one."""
        if not self._format.has_surroundings:
            return {}
        return {"conditions": [{"type": NAMESPACES_COLLECTED, "status": "False", "message": "not listed yet"}]}

    def _take(self, prefix: str, key: str, kv: KeyValue | None) -> None:
        if not is_utf8(key):  # nobody could be told of it
            return
        name = key.removeprefix(prefix)
        if prefix == keys.NAMESPACES:
            if kv is None:
                self._namespaces.discard(name)
            else:
                self._namespaces.add(name)
            return
        if prefix == keys.NODES:
            self._nodes.pop(name, None)
            if kv is not None:
                self._nodes[name] = self._amounts_of(kv.value, name)
            return
        _, requests = self._pods.pop(key, ("", {}))
        self._used.subtract(requests)
        pod = self._pod(name, kv)
        if pod is not None and pod.bound and not pod.finished:
            self._pods[key] = pod.node_name, pod.requests
            self._used.update(pod.requests)

    def _amounts_of(self, value: bytes, name: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Allocatable and capacity of a node; one that cannot be read has no room."""
        try:
            allocatable = self._format.decode_node(value, name=name).allocatable
        except InvalidObject:
            return {}, {}
        try:
            found = capacity(self._format.node_mapping(value, name=name))
        except InvalidObject:
            return allocatable, {}
        return allocatable, {one: amount for one, amount in found.items() if allocatable.get(one) != amount}

    def _pod(self, name: str, kv: KeyValue | None) -> Pod | None:
        namespace, _, own = name.partition("/")
        if kv is None or not own:
            return None
        try:
            return self._format.decode_pod(kv.value, namespace=namespace, name=own)
        except InvalidObject:
            return self._format.decode_occupant(kv.value, namespace=namespace, name=own)


def is_utf8(key: str) -> bool:
    """Whether a key is a text; one that has other bytes cannot be written down."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Quantities: cpu is counted in thousandths."""
    return {
        name: str(amount // 1000)
        if name == CPU and amount % 1000 == 0
        else f"{amount}m"
        if name == CPU
        else str(amount)
        for name, amount in sorted(amounts.items())
    }
