"""Stored nodes with what the bound pods use of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event
from wharfinger.objects.documents.kinds import NODE, POD, Reference
from wharfinger.objects.model.node import PODS
from wharfinger.objects.model.pod import NOTHING, Pod, PodKey
from wharfinger.process.stored_objects import Stored, StoredObjects, key_of, prefix_of, read
from wharfinger.scheduling.reading.stored_pods import every_pod


@dataclass(slots=True)
class Usage:
    """What the bound pods use of each node."""

    booked: dict[str, dict[str, int]] = field(default_factory=dict)
    """Node -> resource (and `pods`) -> amount."""
    _counted: dict[PodKey, Pod] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Usage:
        """The usage by these pods."""
        usage = cls()
        for pod in pods:
            usage.set_pod(pod.key, pod)
        return usage

    def set_pod(self, key: PodKey, pod: Pod | None) -> tuple[str, ...]:
        """Take a pod's new state (None = gone); answers the nodes whose usage changed."""
        old = self._counted.pop(key, None)
        if old is not None:
            self._add(old, -1)
        if pod is not None and pod.bound and not pod.finished:
            self._counted[key] = pod
            self._add(pod, 1)
        now = self._counted.get(key)
        if old is not None and now is not None and (old.node_name, old.requests) == (now.node_name, now.requests):
            return ()
        return tuple(dict.fromkeys(found.node_name for found in (old, now) if found is not None))

    def on(self, node_name: str) -> Mapping[str, int]:
        """What is used on a node."""
        return self.booked.get(node_name, NOTHING)

    def _add(self, pod: Pod, sign: int) -> None:
        node = self.booked.setdefault(pod.node_name, {})
        node[PODS] = node.get(PODS, 0) + sign
        for name, amount in pod.requests.items():
            node[name] = node.get(name, 0) + sign * amount


class StoredNodes(StoredObjects):
    """A node changes, too, when what its pods use does."""

    _usage = Usage()

    async def completed(self, found: list[Stored]) -> list[Stored]:
        """The same with what is used of each."""
        await self._count()
        return [self._with_usage(entry) for entry in found]

    async def follow(self, name: str = "") -> tuple[str, int]:
        """Nodes and pods are watched in one stream, in order."""
        _, revision = await super().follow(name)
        self._set(await self.completed(list(self.known.values())))
        return keys.ROOT, revision

    async def _count(self) -> None:
        _, pods = await every_pod(self._store)
        self._usage = Usage.of(stored.pod for stored in pods if stored.pod is not None)

    def _with_usage(self, entry: Stored) -> Stored:
        return replace(entry, used=dict(self._usage.on(entry.name)))

    def _taken(self, event: Event) -> Stored:
        return self._with_usage(super()._taken(event))

    def _beside(self, event: Event) -> Iterator[Stored]:
        if not event.kv.key.startswith(prefix_of(POD)):
            return
        pod = read(POD, event.kv, self.format)
        for node in self._usage.set_pod(PodKey(pod.namespace, pod.name), None if event.deleted else pod.pod):
            key = key_of(Reference(NODE, "", node))
            if (entry := self.known.get(key)) is not None:
                self.known[key] = self._with_usage(entry)
                yield self.known[key]
