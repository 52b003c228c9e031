"""rk8s' documents as one of the formats of a cluster's pods and nodes (`documents.formats`).

A bind sets `node_name` and changes no other byte. Nothing else is written into a pod.
"""

# ruff: noqa: ARG002 - what other formats write into a pod is given, and not written

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import decode
from wharfinger.objects.documents.occupants import occupant
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, Revisions
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClasses
from wharfinger.objects.rk8s import documents, edit
from wharfinger.objects.rk8s.fields import NAMESPACE
from wharfinger.objects.rk8s.occupants import held_by


class Rk8sFormat:
    """rk8s' documents: a bind sets `node_name` and changes no other byte."""

    name = ClusterFormat.RK8S
    marks_pods = False
    has_surroundings = False
    pod_key = "<name>"

    def pod_mapping(self, value: bytes, *, namespace: str = "", name: str = "") -> Mapping[str, Any]:
        """What the document stands for."""
        return documents.parse_pod(value, name)

    def node_mapping(self, value: bytes, *, name: str = "") -> Mapping[str, Any]:
        """What the document stands for."""
        return documents.parse_node(value, name)

    def decode_pod(
        self,
        value: bytes,
        *,
        namespace: str = "",
        name: str = "",
        classes: PriorityClasses = NO_CLASSES,
        **revisions: Unpack[Revisions],
    ) -> Pod:
        """A pod whose uid is made of its create revision: rk8s gives another one to a document without a uid at each
        reading.
        """
        obj = documents.parse_pod(value, name)
        return decode.recurring_pod(obj, default_namespace=NAMESPACE, classes=classes, **revisions)

    def decode_occupant(self, value: bytes, *, namespace: str, name: str, **revisions: Unpack[Revisions]) -> Pod | None:
        """What can be read of what an invalid pod holds."""
        held = held_by(value, name)
        return None if held is None else occupant(held, namespace=NAMESPACE, name=name, **revisions)

    def decode_node(self, value: bytes, *, name: str = "", **revisions: Unpack[Revisions]) -> Node:
        """A node."""
        return decode.node_from_mapping(documents.parse_node(value, name), **revisions)

    def attempt_of(self, value: bytes) -> str:
        """The pod does not say it: its `boundby` record does."""
        return ""

    def bind_pod(self, raw: bytes, *, node_name: str, attempt: str, now: str) -> bytes:
        """The document with `node_name` alone changed."""
        return documents.bind_pod(raw, node_name)

    def refuse_pod(
        self, raw: bytes, *, reason: str, message: str, now: str, nominated_node_name: str | None = None
    ) -> bytes | None:
        """Nothing: the attempt record has it all."""
        return None

    def evict_pod(
        self, raw: bytes, *, message: str, now: str, deletion: tuple[str, int] | None = None, reason: str = ""
    ) -> bytes:
        """Pods are not marked: they are deleted at once."""
        raise InvalidObject("a pod of rk8s has no place for the mark of an eviction")

    def clear_nomination(self, raw: bytes, node_name: str) -> bytes | None:
        """Nothing: the attempt record has the nomination."""
        return None

    def scheduled_since(self, raw: bytes) -> str:
        """The pod does not say it."""
        return ""

    def made_anew(self, raw: bytes, *, uid: str, now: str) -> bytes | None:
        """The document unbound, with an empty status; None for a pod that its controller replaces."""
        return edit.made_anew(raw, uid=uid, now=now)


RK8S = Rk8sFormat()
