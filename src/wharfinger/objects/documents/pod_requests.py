"""What a pod counts of each resource: what its specification asks for, and what a resize in place makes of that.

Kubelets report the resources of every container that runs. Mostly these are as specified, and then the report means
nothing. `resize_of` finds the parts that mean something; copies of pods have those parts only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping, mappings, quantities, text
from wharfinger.objects.documents.spelling import CONTAINER_STATUS, RESOURCES
from wharfinger.objects.model.node import PODS
from wharfinger.objects.model.pod import Request
from wharfinger.objects.model.resources import Container, PodResources, Reported, pod_request

SPEC, STATUS = "spec.", "status."
_STATUSES_OF = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}
PARTS_OF_RESIZE = (*_STATUSES_OF.values(), "allocatedResources", "resources")
"""Fields of a pod's status that are read, beside the condition that calls a resize infeasible."""


def requests_of(spec: Mapping[str, Any]) -> tuple[Request, Request | None]:
    """What a pod counts where it is to be placed, and on its node; None = the same. Raises `InvalidObject`."""
    resources = _resources(spec, {}, infeasible=False)
    asked = _request(resources, bound=False)
    if resources.pod_requests is None:
        return asked, None
    counted = _request(resources, bound=True)
    return asked, None if counted == asked else counted


def resized_request(spec: Mapping[str, Any], resize: Mapping[str, Any], *, infeasible: bool) -> Request:
    """What a bound pod counts during a resize in place. Raises `InvalidObject`.

    `resize`: what `resize_of` found in its status; `infeasible`: whether the kubelet has refused the resize for good.
    """
    return _request(_resources(spec, resize, infeasible=infeasible), bound=True)


def _request(resources: PodResources, *, bound: bool) -> Request:
    try:
        return pod_request(resources, bound=bound)
    except ValueError as error:
        raise InvalidObject(f"spec: {error}") from None


def _resources(spec: Mapping[str, Any], status: Mapping[str, Any], *, infeasible: bool) -> PodResources:
    pod_level = mapping(spec, "resources", SPEC)
    pod_requests = quantities(pod_level, "requests", f"{SPEC}resources.")
    pod_limits = quantities(pod_level, "limits", f"{SPEC}resources.")
    return PodResources(
        _containers(spec, "containers", status),
        _containers(spec, "initContainers", status),
        quantities(spec, "overhead", SPEC),
        pod_requests if pod_requests or pod_limits else None,
        pod_limits,
        _reported(status, STATUS),
        infeasible,
    )


def resize_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a bound pod's status by which it may count otherwise than its specification says; mostly none.

    Raises `InvalidObject`.
    """
    found: dict[str, Any] = {}
    for part, statuses in _STATUSES_OF.items():
        if status.get(statuses):
            others = _other_than(spec, part, status, statuses)
            if others:
                found[statuses] = others
    pod_level = mapping(spec, "resources", SPEC)
    if pod_level and status.get("resources") is not None:
        reported = _excerpt(status, STATUS)
        if not _as_asked(pod_level, reported):
            found |= reported
    return found


def _containers(spec: Mapping[str, Any], part: str, status: Mapping[str, Any]) -> list[Container]:
    statuses = mappings(status, _STATUSES_OF[part], STATUS)
    reported = {each["name"]: _reported(each, f"{STATUS}{_STATUSES_OF[part]}.") for each in statuses}
    return [
        _container(entry, f"{SPEC}{part}[{index}].", reported.get(entry.get("name")) if reported else None)
        for index, entry in enumerate(mappings(spec, part, SPEC))
    ]


def _container(entry: Mapping[str, Any], where: str, reported: Reported | None) -> Container:
    """What a container asks for; a limit without a request counts as request, as the API server has it."""
    resources = mapping(entry, "resources", where)
    requests = quantities(resources, "requests", f"{where}resources.")
    limits = quantities(resources, "limits", f"{where}resources.")
    if limits:
        requests = {**limits, **requests}
    if PODS in requests:
        raise InvalidObject(f"{where}resources: a container cannot ask for {PODS!r}")
    return Container(requests, text(entry, "restartPolicy", where) == "Always", reported)


def _reported(excerpt: Mapping[str, Any], where: str) -> Reported | None:
    resources = excerpt.get("resources")
    if resources is None:
        return None
    return Reported(
        quantities(excerpt, "allocatedResources", where), quantities(resources, "requests", f"{where}resources.")
    )


def _other_than(spec: Mapping[str, Any], part: str, status: Mapping[str, Any], statuses: str) -> list[dict[str, Any]]:
    """Statuses that differ from what their containers ask for; of init containers those that keep running."""
    asked = {
        text(entry, "name", f"{SPEC}{part}."): mapping(entry, "resources", f"{SPEC}{part}.")
        for entry in mappings(spec, part, SPEC)
        if part == "containers" or entry.get("restartPolicy") == "Always"
    }
    found: list[dict[str, Any]] = []
    for index, entry in enumerate(mappings(status, statuses, STATUS)):
        where = f"{STATUS}{statuses}[{index}]."
        if not CONTAINER_STATUS.fits(entry):
            CONTAINER_STATUS.examine(entry, where)
        name = text(entry, "name", where)
        if entry.get("resources") is not None and name in asked:
            excerpt = _excerpt(entry, where)
            if not _as_asked(asked[name], excerpt):
                found.append({"name": name, **excerpt})
    return found


def _excerpt(reporting: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`allocatedResources`, and `resources` without limits."""
    resources = mapping(reporting, "resources", where)
    if not RESOURCES.fits(resources):
        RESOURCES.examine(resources, f"{where}resources.")
    return {
        "allocatedResources": mapping(reporting, "allocatedResources", where),
        "resources": {"requests": mapping(resources, "requests", f"{where}resources.")},
    }


def _as_asked(asked: Mapping[str, Any], excerpt: Mapping[str, Any]) -> bool:
    """Whether the resize is over, or never began: both amounts are those of the specification, in the same spelling."""
    requests = asked.get("requests") or {}
    allocated = excerpt["allocatedResources"]
    return bool(excerpt["resources"]["requests"] == requests and (not allocated or allocated == requests))
