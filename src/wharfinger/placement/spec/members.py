"""MemberCluster objects of KubeFleet (`cluster.kubernetes-fleet.io`, `v1` and `v1beta1`), read for deciding."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import checked_text, mapping, mappings, text, text_map
from wharfinger.objects.documents.selectors import taints
from wharfinger.placement.model.members import AgentCondition, Member, MemberAgent, ResourceUsage

MEMBER_AGENT = "MemberAgent"
NAMESPACES_COLLECTED = "NamespaceCollectionSucceeded"
"""The condition of a member that tells its namespaces, whatever its status."""


def member_from_mapping(obj: Mapping[str, Any], identity: int) -> Member:
    """A member. `identity` is the create revision of its object. Raises InvalidObject, naming the field."""
    metadata, status = mapping(obj, "metadata"), mapping(obj, "status")
    name = text(metadata, "name", "metadata.")
    if not name:
        raise InvalidObject("metadata.name is missing")
    usage = mapping(status, "resourceUsage", "status.")
    where = "status.resourceUsage."
    conditions = mappings(status, "conditions", "status.")
    return Member(
        name=name,
        identity=identity,
        labels=text_map(metadata, "labels", "metadata."),
        taints=taints(mapping(obj, "spec")),
        leaving=metadata.get("deletionTimestamp") is not None,
        agent=_agent(status),
        properties=_properties(status),
        usage=ResourceUsage(
            capacity=_amounts(usage, "capacity", where),
            allocatable=_amounts(usage, "allocatable", where),
            available=_amounts(usage, "available", where),
        ),
        collects_namespaces=any(one.get("type") == NAMESPACES_COLLECTED for one in conditions),
        namespaces=_namespaces(status),
    )


def agent_status(*, joined: bool | None = True, healthy: bool = True, why: str = "") -> dict[str, Any]:
    """What the agent of a member says: a field of a MemberCluster's status.

    `joined`: None = it could not try yet. `why`: what keeps it from either.
    """
    otherwise = "MemberClusterJoinConflict" if joined is not None else "MemberClusterJoinStateUnknown"
    conditions = [
        _reported("Joined", joined, "MemberClusterJoined", otherwise, why),
        _reported("Healthy", healthy, "MemberClusterHealthy", "MemberClusterUnhealthy", why),
    ]
    return {"agentStatus": [{"type": MEMBER_AGENT, "conditions": conditions}]}


def _reported(kind: str, holds: bool | None, reason: str, otherwise: str, why: str) -> dict[str, str]:
    status = "Unknown" if holds is None else str(holds)
    condition = {"type": kind, "status": status, "reason": reason if holds else otherwise}
    return {**condition, "message": "" if holds else why}


def with_labels(obj: Mapping[str, Any], labels: Mapping[str, str | None]) -> dict[str, Any]:
    """The member with these labels besides its own; None takes one away."""
    metadata = obj.get("metadata") or {}
    changed = {**(metadata.get("labels") or {}), **labels}
    kept = {key: value for key, value in changed.items() if value is not None}
    return {**obj, "metadata": {**metadata, "labels": kept}}


def with_taints(obj: Mapping[str, Any], taints: Mapping[str, str | None]) -> dict[str, Any]:
    """The member with these taints (key and value) besides its own; None takes one away."""
    spec = obj.get("spec") or {}
    kept = [one for one in spec.get("taints") or () if one.get("key") not in taints]
    added = [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in taints.items() if value is not None]
    return {**obj, "spec": {**spec, "taints": [*kept, *added]}}


def moment(obj: Mapping[str, Any], key: str, where: str) -> float | None:
    """A time in seconds since the epoch; None when absent."""
    stamp = text(obj, key, where)
    if not stamp:
        return None
    try:
        then = datetime.fromisoformat(stamp)
    except ValueError:
        raise InvalidObject(f"{where}{key} is no time") from None
    if then.tzinfo is None:
        raise InvalidObject(f"{where}{key} has no time zone")
    return then.timestamp()


def _agent(status: Mapping[str, Any]) -> MemberAgent | None:
    for index, entry in enumerate(mappings(status, "agentStatus", "status.")):
        if entry.get("type") == MEMBER_AGENT:
            where = f"status.agentStatus[{index}]."
            conditions = mappings(entry, "conditions", where)
            return MemberAgent(
                heartbeat=moment(entry, "lastReceivedHeartbeat", where),
                joined=_condition(conditions, "Joined", where),
                healthy=_condition(conditions, "Healthy", where),
            )
    return None


def _condition(conditions: Any, kind: str, where: str) -> AgentCondition | None:
    for index, entry in enumerate(conditions):
        if entry.get("type") == kind:
            path = f"{where}conditions[{index}]."
            return AgentCondition(text(entry, "status", path), moment(entry, "lastTransitionTime", path))
    return None


def _properties(status: Mapping[str, Any]) -> Mapping[str, str]:
    where = "status.properties."
    found = mapping(status, "properties", "status.")
    return {
        checked_text(name, "status.properties"): text(mapping(found, name, where), "value", f"{where}{name}.")
        for name in found
    }


def _amounts(usage: Mapping[str, Any], key: str, where: str) -> Mapping[str, str]:
    """A resource list as written: numbers are allowed, too."""
    return {
        checked_text(name, f"{where}{key}"): value if isinstance(value, str) else _number(value, f"{where}{key}.{name}")
        for name, value in mapping(usage, key, where).items()
    }


def _number(value: object, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidObject(f"{path} is no quantity")
    return repr(value)


def _namespaces(status: Mapping[str, Any]) -> frozenset[str] | None:
    if status.get("namespaces") is None:
        return None
    return frozenset(text_map(status, "namespaces", "status."))
