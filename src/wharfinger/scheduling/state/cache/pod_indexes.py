"""What the cache keeps of pods beside their rows: their stored objects, the members of each gang, unanswered binds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from wharfinger.objects.model.gang import GangKey, gang_key
from wharfinger.objects.model.pod import Pod, PodKey

PLAIN = 32 * 1024 * 1024
"""Bytes of objects kept as they are; those that come when so many are held already are packed."""
TEMPLATES = 4096
"""Objects that others are packed against, at most."""
TEMPLATE_SIZE = 8 * 1024
"""Bytes of a template that are used."""


class _Packed(NamedTuple):
    template: bytes
    deflated: bytes


class RawPods:
    """The objects of pending pods as etcd holds them, so that a bind writes every unknown field back without reading.

    A deep backlog is kept packed: what one controller makes differs in names, so against the first of its pods the
    others take a tenth of their room, for a few microseconds each. A short one is kept as it is.
    """

    def __init__(self, plain: int = PLAIN) -> None:
        """`plain`: bytes that are kept as they are."""
        self._limit = plain
        self._plain: dict[PodKey, bytes] = {}
        self._packed: dict[PodKey, _Packed] = {}
        self._size = 0
        """Bytes in `_plain`."""
        self._templates: dict[tuple[str, tuple[str, str] | None], bytes] = {}

    def put(self, pod: Pod, raw: bytes) -> None:
        """Keep the pod's object, in the place of an older one."""
        self.discard(pod.key)
        if self._size + len(raw) <= self._limit:
            self._plain[pod.key] = raw
            self._size += len(raw)
        else:
            self._packed[pod.key] = self._pack(pod, raw)

    def get(self, key: PodKey) -> bytes | None:
        """The pod's object; None when it is not kept."""
        raw = self._plain.get(key)
        packed = self._packed.get(key) if raw is None else None
        if packed is None:
            return raw
        return zlib.decompressobj(zdict=packed.template).decompress(packed.deflated)

    def discard(self, key: PodKey) -> None:
        """Keep it no more."""
        raw = self._plain.pop(key, None)
        if raw is not None:
            self._size -= len(raw)
        elif self._packed.pop(key, None) is not None and not self._packed:
            self._templates.clear()

    def _pack(self, pod: Pod, raw: bytes) -> _Packed:
        maker = pod.namespace, pod.controller
        template = self._templates.get(maker)
        if template is None:
            template = raw[:TEMPLATE_SIZE]
            if len(self._templates) < TEMPLATES:
                self._templates[maker] = template
            else:
                template = next(iter(self._templates.values()))
        packing = zlib.compressobj(level=1, zdict=template)
        return _Packed(template, packing.compress(raw) + packing.flush())


class GangMembers:
    """Pods by gang, in the order in which they were seen first; those without a group cost nothing."""

    def __init__(self, pods: Mapping[PodKey, Pod]) -> None:
        """`pods`: the cache's (a live view)."""
        self._pods = pods
        self._members: dict[GangKey, dict[PodKey, None]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[GangKey]:
        return iter(self._members)

    def of(self, key: GangKey) -> Iterator[Pod]:
        """Every pod that names the gang, as it is now: bound, pending, finished or leaving."""
        for member in self._members.get(key, ()):
            yield self._pods[member]

    def moved(self, old: Pod | None, new: Pod | None) -> None:
        """A pod is another one now, came, or went."""
        before = gang_key(old) if old is not None else None
        after = gang_key(new) if new is not None else None
        if before == after:
            return
        if before is not None and old is not None:
            members = self._members[before]
            del members[old.key]
            if not members:
                del self._members[before]
        if after is not None and new is not None:
            self._members.setdefault(after, {})[new.key] = None


Report = Callable[[Collection[PodKey]], None]


class UnansweredBinds:
    """Pods whose binds a Kubernetes API has not answered or shown yet, though etcd may show them bound.

    Those that the API has bound are in until their copies show it: they come with new pods, which start together then.
    Lives on one event loop.
    """

    def __init__(self) -> None:
        self._pods: set[PodKey] = set()
        self._report: Report = lambda _pods: None

    def __contains__(self, key: PodKey) -> bool:
        return key in self._pods

    def on_answer(self, report: Report) -> None:
        """Call `report` with pods of each bind that ends from now on, but for those whose copies are to show it."""
        self._report = report

    @contextmanager
    def of(self, pods: Collection[PodKey], promised: Container[PodKey] | None = ()) -> Iterator[set[PodKey]]:
        """Contain these pods inside the block, which ends with the answers, or with the try to get them.

        Pods that the block adds to the set are bound in the API. Those of them that are `promised` stay until `shown`.
        None = there is no such API, and nothing is waited for.
        """
        if promised is None:
            yield set()
            return
        self._pods.update(pods)
        bound: set[PodKey] = set()
        try:
            yield bound
        finally:
            ended = [pod for pod in pods if pod not in bound or pod not in promised]
            self._pods.difference_update(ended)
            self._report(ended)

    def shown(self, pod: PodKey) -> None:
        """Etcd has no promise of the pod any more."""
        self._pods.discard(pod)
