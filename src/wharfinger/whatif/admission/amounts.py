"""Requests and limits of a new pod, as admission plugins count them: exact, in nano-units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wharfinger.objects.documents.fields import mapping, mappings, quantities, text
from wharfinger.objects.model.node import CPU, MEMORY
from wharfinger.objects.model.pod import NOTHING
from wharfinger.objects.model.quantities import BINARY, NANO, NANO_PER_MILLI, round_up
from wharfinger.objects.model.resources import Container, PodResources, total_of

CONTAINERS = ("containers", "initContainers")
Amounts = Mapping[str, int]
_Reader = Callable[[Mapping[str, Any], str], Amounts]


def requests_of(resources: Mapping[str, Any], where: str) -> Amounts:
    """The requests of a container or pod; a limit counts where there is no request. Raises `InvalidObject`."""
    return {**limits_of(resources, where), **quantities(resources, "requests", where)}


def limits_of(resources: Mapping[str, Any], where: str) -> Amounts:
    """The limits of a container or pod. Raises `InvalidObject`."""
    return quantities(resources, "limits", where)


def each_container(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Amounts, Amounts]]:
    """Name, mapping, requests and limits of each container and init container. Raises `InvalidObject`."""
    for part in CONTAINERS:
        for index, entry in enumerate(mappings(spec, part, "spec.")):
            where = f"spec.{part}[{index}]."
            resources = mapping(entry, "resources", where)
            path = f"{where}resources."
            yield text(entry, "name", where), entry, requests_of(resources, path), limits_of(resources, path)


def pod_requests(spec: Mapping[str, Any], *, overhead: bool) -> Amounts:
    """The requests of the whole pod (`PodRequests` of `k8s.io/component-helpers/resource`). Raises `InvalidObject`."""
    pod_level = mapping(spec, "resources", "spec.")
    requests = quantities(pod_level, "requests", "spec.resources.")
    limits = quantities(pod_level, "limits", "spec.resources.")
    return total_of(
        PodResources(
            _containers(spec, "containers", requests_of),
            _containers(spec, "initContainers", requests_of),
            quantities(spec, "overhead", "spec.") if overhead else NOTHING,
            requests if requests or limits else None,
            limits,
        )
    )


def pod_limits(spec: Mapping[str, Any], *, overhead: bool) -> Amounts:
    """The limits of the whole pod (`PodLimits` of the same). Raises `InvalidObject`.

    Overhead counts only for resources that have a limit.
    """
    found = total_of(
        PodResources(
            _containers(spec, "containers", limits_of),
            _containers(spec, "initContainers", limits_of),
            pod_requests=limits_of(mapping(spec, "resources", "spec."), "spec.resources.") or None,
        )
    )
    if overhead:
        for name, amount in quantities(spec, "overhead", "spec.").items():
            if found.get(name):
                found[name] += amount
    return found


def _containers(
    spec: Mapping[str, Any], part: str, read: Callable[[Mapping[str, Any], str], Amounts]
) -> list[Container]:
    found = []
    for index, entry in enumerate(mappings(spec, part, "spec.")):
        where = f"spec.{part}[{index}]."
        amounts = read(mapping(entry, "resources", where), f"{where}resources.")
        found.append(Container(amounts, restartable=entry.get("restartPolicy") == "Always"))
    return found


def shown(resource: str, nanos: int) -> str:
    """An amount as Kubernetes writes it: `1500m`, `2`, `8Gi`."""
    if nanos % NANO:
        return f"{round_up(nanos, NANO_PER_MILLI)}m"
    whole = nanos // NANO
    if MEMORY in resource or "storage" in resource or "hugepages-" in resource:
        for suffix in sorted(BINARY, key=lambda one: -BINARY[one]):
            if whole and whole % (1 << BINARY[suffix]) == 0:
                return f"{whole >> BINARY[suffix]}{suffix}"
    return str(whole)


def is_native(resource: str) -> bool:
    """Whether a resource is Kubernetes' own; all others are extended ones."""
    return "/" not in resource or "kubernetes.io/" in resource


def best_effort(spec: Mapping[str, Any]) -> bool:
    """Whether the pod asks for no cpu and no memory at all, its QoS class BestEffort. Raises `InvalidObject`."""
    pod_level = mapping(spec, "resources", "spec.")
    if pod_level:
        return not any(requests_of(pod_level, "spec.resources.").get(name) for name in (CPU, MEMORY))
    return not any(
        amounts.get(name)
        for _, _, requests, limits in each_container(spec)
        for amounts in (requests, limits)
        for name in (CPU, MEMORY)
    )
