"""What a bound pod of rk8s holds on its node although its document is invalid: as much of it as can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import LIST_LIMIT, part
from wharfinger.objects.model.node import GPU
from wharfinger.objects.rk8s.edit import NODE_NAME
from wharfinger.objects.rk8s.fields import NAMESPACE, cpu, integer, memory, text
from wharfinger.objects.rk8s.tree import decoded, parse


def held_by(value: bytes, name: str) -> dict[str, Any] | None:
    """The mapping of a `v1.Pod` with its node and what it holds; None for what is no bound pod of this name."""
    with suppress(InvalidObject, RecursionError):
        given = part(parse(decoded(value)))
        spec = part(given, "spec")
        if given.get("kind") != "Pod" or text(part(given, "metadata"), "name") != name:
            return None
        node_name = text(spec, NODE_NAME)
        if not node_name:
            return None
        phase = part(given, "status").get("phase")
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {
                "nodeName": node_name,
                "containers": _containers(spec.get("containers")),
                "initContainers": _containers(spec.get("init_containers")),
            },
            "status": {"phase": str(phase) if isinstance(phase, str) else None},
        }
    return None


def _containers(written: object) -> list[dict[str, Any]]:
    entries = written[:LIST_LIMIT] if isinstance(written, list) else []
    limits = [part(entry, "resources", "limits") for entry in entries]
    return [{"name": "any", "image": "any", "resources": {"requests": _amounts(one)}} for one in limits]


def _amounts(limits: Mapping[str, Any]) -> dict[str, str]:
    readers: dict[str, Callable[[str, str], str]] = {"cpu": cpu, "memory": memory}
    found: dict[str, str] = {}
    for resource, read in readers.items():
        with suppress(InvalidObject):
            if (amount := text(limits, resource)) is not None:
                found[resource] = read(amount, resource)
    with suppress(InvalidObject):
        if cards := integer(limits, "gpu", low=0, high=2**32 - 1):
            found[GPU] = str(cards)
    return found
