"""A node of rk8s as the node of Kubernetes that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.node import COUNT_LABEL, GPU, unsigned_number
from wharfinger.objects.rk8s.fields import (
    check_head,
    cpu,
    mapping,
    mappings,
    memory,
    metadata,
    needed_text,
    one_of,
    refuse_foreign,
    text,
    text_map,
)
from wharfinger.objects.rk8s.pods import EFFECTS, TAINTS

ANY_NUMBER = 2**31 - 1
"""Pods on a node that names no limit; Kubernetes would let none in."""
_CONDITIONS = ("Ready", "DiskPressure", "MemoryPressure", "PIDPressure", "NetworkUnavailable")
_STATES = ("True", "False", "Unknown")


def node(obj: object, name: str = "") -> dict[str, Any]:
    """The mapping of a `v1.Node`; `name`: its key's, if asked. Raises `InvalidObject`."""
    given = check_head(obj, "Node", name)
    spec, status = mapping(given, "spec"), mapping(given, "status")
    refuse_foreign(spec, {"unschedulable": ""}, "spec.")
    needed_text(spec, "podCIDR", "spec.")
    head = metadata(mapping(given, "metadata"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": head,
        "spec": {"taints": [_taint(entry, path) for path, entry in mappings(spec, "taints", "spec.")]},
        "status": {
            "allocatable": _amounts(status, "allocatable", head["labels"]),
            **_capacity(status, head["labels"]),
            "conditions": [_condition(entry, path) for path, entry in mappings(status, "conditions", "status.")],
        },
    }


def _taint(entry: Mapping[str, Any], where: str) -> dict[str, str]:
    found = {
        "key": one_of(entry, "key", where, TAINTS),
        "value": text(entry, "value", where) or "",
        "effect": one_of(entry, "effect", where, EFFECTS),
    }
    for field in ("key", "effect"):
        if not found[field]:
            raise InvalidObject(f"{where}{field} is missing")
    return found


def _condition(entry: Mapping[str, Any], where: str) -> dict[str, str]:
    return {
        "type": one_of(entry, "type", where, _CONDITIONS),
        "status": one_of(entry, "status", where, _STATES),
    }


def _capacity(status: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """It must be there; no decision reads it, so one that is malformed makes no node unreadable."""
    if status.get("capacity") is None:
        raise InvalidObject("status.capacity is missing")
    try:
        return {"capacity": _amounts(status, "capacity", labels)}
    except InvalidObject:
        return {}


def _amounts(status: Mapping[str, Any], field: str, labels: Mapping[str, str]) -> dict[str, str]:
    if status.get(field) is None:
        raise InvalidObject(f"status.{field} is missing")
    offered, path = text_map(status, field, "status."), f"status.{field}."
    found = {"cpu": "0", "memory": "0", "pods": str(ANY_NUMBER)}
    if "cpu" in offered:
        found["cpu"] = cpu(offered["cpu"], f"{path}cpu")
    if "memory" in offered:
        found["memory"] = memory(offered["memory"], f"{path}memory")
    if "pods" in offered:
        if not (offered["pods"].isascii() and offered["pods"].isdigit() and len(offered["pods"]) < 10):
            raise InvalidObject(f"{path}pods {offered['pods'][:40]!r} is no number of pods")
        found["pods"] = offered["pods"]
    if cards := unsigned_number(labels.get(COUNT_LABEL, "")):
        found[GPU] = str(cards)
    return found
