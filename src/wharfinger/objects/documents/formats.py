"""The formats of a cluster's pods and nodes: how each is read, and what a bind, a refusal or an eviction writes.

A `Store` has the format of its cluster; `format_of` answers what reads and writes it. Everything above works on the
model's objects. A format that does not mark pods leaves them as their owner wrote them, but for the node: what
wharfinger has to record of a pod lies under keys of its own (`process.records`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, Unpack

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import decode, documents, edit
from wharfinger.objects.documents.metadata import attempt_of, check_key, checked_object
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, Revisions
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClasses


class ObjectFormat(Protocol):
    """Reads and writes the pods and nodes of one format. Every method raises `InvalidObject`."""

    name: ClusterFormat
    marks_pods: bool
    """Whether conditions, nominations and attempts are written into pods."""
    has_surroundings: bool
    """Whether decisions read more than pods and nodes: namespaces, services, owners, budgets, priority classes."""
    pod_key: str
    """What follows the prefix of a pod's key, for messages."""

    def pod_mapping(self, value: bytes, *, namespace: str = "", name: str = "") -> Mapping[str, Any]:
        """A stored pod as the mapping of a `v1.Pod`."""

    def node_mapping(self, value: bytes, *, name: str = "") -> Mapping[str, Any]:
        """A stored node as the mapping of a `v1.Node`."""

    def decode_pod(
        self,
        value: bytes,
        *,
        namespace: str = "",
        name: str = "",
        classes: PriorityClasses = NO_CLASSES,
        **revisions: Unpack[Revisions],
    ) -> Pod:
        """A stored pod; see `documents.decode.decode_pod`."""

    def decode_occupant(self, value: bytes, *, namespace: str, name: str, **revisions: Unpack[Revisions]) -> Pod | None:
        """What an unreadable pod still holds on its node; None when that is nothing. Never raises."""

    def decode_node(self, value: bytes, *, name: str = "", **revisions: Unpack[Revisions]) -> Node:
        """A stored node."""

    def attempt_of(self, value: bytes) -> str:
        """`<workflow id>@<run id>` of what bound a pod; empty where the pod does not say it."""

    def bind_pod(self, raw: bytes, *, node_name: str, attempt: str, now: str) -> bytes:
        """The pod on its node; see `documents.edit.bind_pod`."""

    def refuse_pod(
        self, raw: bytes, *, reason: str, message: str, now: str, nominated_node_name: str | None = None
    ) -> bytes | None:
        """The pod with its refusal; None when that changes nothing."""

    def evict_pod(
        self, raw: bytes, *, message: str, now: str, deletion: tuple[str, int] | None = None, reason: str = ""
    ) -> bytes:
        """The pod marked as a target of eviction. Only where pods are marked."""

    def clear_nomination(self, raw: bytes, node_name: str) -> bytes | None:
        """The pod without its nomination to that node; None when it has none."""

    def scheduled_since(self, raw: bytes) -> str:
        """When the pod was bound: RFC 3339; empty where it does not say so."""

    def made_anew(self, raw: bytes, *, uid: str, now: str) -> bytes | None:
        """The document of a new pod in the place of a bound one; None where it must not be made anew."""


def decode_made_anew(format_: ObjectFormat, value: bytes, *, namespace: str, name: str) -> Pod:
    """The pod that a `requeued` record holds. Raises `InvalidObject`, also for a pod that is bound."""
    pod = format_.decode_pod(value, namespace=namespace, name=name)
    if pod.bound:
        raise InvalidObject(f"it names node {pod.node_name}: a pod is made anew unbound")
    return pod


class KubernetesFormat:
    """`v1` objects, as Kubernetes keeps them."""

    name = ClusterFormat.KUBERNETES
    marks_pods = True
    has_surroundings = True
    pod_key = "<namespace>/<name>"

    decode_pod = staticmethod(decode.decode_pod)
    decode_occupant = staticmethod(decode.decode_occupant)
    decode_node = staticmethod(decode.decode_node)
    bind_pod = staticmethod(edit.bind_pod)
    refuse_pod = staticmethod(edit.refuse_pod)
    evict_pod = staticmethod(edit.evict_pod)
    clear_nomination = staticmethod(edit.clear_nomination)
    scheduled_since = staticmethod(edit.scheduled_since)
    made_anew = staticmethod(edit.made_anew)

    def pod_mapping(self, value: bytes, *, namespace: str = "", name: str = "") -> Mapping[str, Any]:
        """The object itself."""
        obj = checked_object(documents.parse(value))
        check_key(obj, namespace=namespace, name=name)
        return obj

    def node_mapping(self, value: bytes, *, name: str = "") -> Mapping[str, Any]:
        """The object itself."""
        return self.pod_mapping(value, name=name)

    def attempt_of(self, value: bytes) -> str:
        """Of its annotation."""
        return attempt_of(documents.parse(value))


KUBERNETES: ObjectFormat = KubernetesFormat()


@cache
def format_of(name: ClusterFormat) -> ObjectFormat:
    """What reads and writes the documents of a format."""
    if name is ClusterFormat.KUBERNETES:
        return KUBERNETES
    # Modules of their own, which a process of the other format does not load.
    from wharfinger.objects.rk8s.format import RK8S

    return RK8S
