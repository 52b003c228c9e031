"""LimitRanges: defaults for containers, and bounds for containers, pods and claims.

As in Kubernetes 1.36 (`plugin/pkg/admission/limitranger`; `SetDefaults_LimitRangeItem` for what an item leaves out).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.checks.resources import check_pod_resources
from wharfinger.objects.documents.fields import mapping, mappings, quantities, text
from wharfinger.objects.model.quantities import NANO
from wharfinger.whatif.admission import NotMade
from wharfinger.whatif.admission.amounts import (
    CONTAINERS,
    Amounts,
    each_container,
    pod_limits,
    pod_requests,
    requests_of,
    shown,
)

CONTAINER, POD, CLAIM = "Container", "Pod", "PersistentVolumeClaim"
_DEFAULTS = ("default", "defaultRequest")


@dataclass(frozen=True, slots=True)
class LimitRange:
    """A LimitRange."""

    name: str
    limits: Mapping[str, str]
    """Default limits of containers, as they are written."""
    requests: Mapping[str, str]
    """Default requests of containers, as they are written."""
    bounds: tuple[LimitBounds, ...]


@dataclass(frozen=True, slots=True)
class LimitBounds:
    """What one item demands of each object of its type."""

    type: str
    least: Amounts
    most: Amounts
    ratio: Amounts
    """Of limit to request, at most."""


def limit_range(obj: Mapping[str, Any]) -> LimitRange:
    """Read a LimitRange. Raises `InvalidObject`."""
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    bounds = []
    for index, entry in enumerate(mappings(mapping(obj, "spec"), "limits", "spec.")):
        where = f"spec.limits[{index}]."
        kind = text(entry, "type", where)
        least, most, ratio = (quantities(entry, name, where) for name in ("min", "max", "maxLimitRequestRatio"))
        bounds.append(LimitBounds(kind, least, most, ratio))
        for field in _DEFAULTS:
            quantities(entry, field, where)
        if kind == CONTAINER:
            default = {**mapping(entry, "max"), **mapping(entry, "default")}
            limits.update(default)
            requests.update({**mapping(entry, "min"), **default, **mapping(entry, "defaultRequest")})
    name = text(mapping(obj, "metadata"), "name", "metadata.")
    return LimitRange(name, limits, requests, tuple(bounds))


def with_defaults(spec: Mapping[str, Any], ranges: Iterable[LimitRange]) -> Mapping[str, Any]:
    """The pod's specification with the defaults of the LimitRanges, one after the other. Raises `InvalidObject`."""
    for one in ranges:
        if one.limits or one.requests:
            spec = {**spec, **{part: _completed(spec, part, one) for part in CONTAINERS if spec.get(part)}}
    return spec


def _completed(spec: Mapping[str, Any], part: str, one: LimitRange) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for index, entry in enumerate(mappings(spec, part, "spec.")):
        where = f"spec.{part}[{index}]."
        resources = mapping(entry, "resources", where)
        path = f"{where}resources."
        limits, requests = (mapping(resources, field, path) for field in ("limits", "requests"))
        completed = {
            **resources,
            "limits": {**one.limits, **limits},
            "requests": {**one.requests, **limits, **requests},  # a limit counts as request before any default does
        }
        found.append({**entry, "resources": completed})
    return found


def breach_of_defaults(spec: Mapping[str, Any]) -> NotMade | None:
    """What validation refuses once containers have the defaults of LimitRanges. Raises `InvalidObject`.

    A request above the limit of its container, and resources of the whole pod below those of its containers.
    """
    for name, _, requests, limits in each_container(spec):
        for resource, limit in limits.items():
            if requests[resource] > limit:
                asked, most = shown(resource, requests[resource]), shown(resource, limit)
                by = "by default of a LimitRange"
                return NotMade(f"container {name} requests {resource} {asked}, and its limit is {most} {by}")
    if requests_of(mapping(spec, "resources", "spec."), "spec.resources."):
        place = FieldPlace.whole({"spec": spec})["spec"]
        check_pod_resources(place["resources"], place)
        if place.problems:
            return NotMade(f"{place.problems[0]}, with the defaults of a LimitRange")
    return None


def breach_by_pod(spec: Mapping[str, Any], ranges: Sequence[LimitRange]) -> NotMade | None:
    """Why the pod breaks its namespace's LimitRanges; None when it does not. Raises `InvalidObject`."""
    for one in ranges:
        found = list(_breaches_by_pod(spec, one))
        if found:
            return NotMade(f"{'; '.join(dict.fromkeys(found))} (LimitRange {one.name})")
    return None


def _breaches_by_pod(spec: Mapping[str, Any], one: LimitRange) -> Iterator[str]:
    for bounds in one.bounds:
        if bounds.type == CONTAINER:
            for _, _, requests, limits in each_container(spec):
                yield from _breaches(bounds, requests, limits)
        elif bounds.type == POD:
            yield from _breaches(bounds, pod_requests(spec, overhead=False), pod_limits(spec, overhead=False))


def breach_by_claim(obj: Mapping[str, Any], ranges: Sequence[LimitRange]) -> NotMade | None:
    """Why a claim breaks its namespace's LimitRanges; None when it does not. Raises `InvalidObject`."""
    resources = mapping(mapping(obj, "spec"), "resources", "spec.")
    requests = quantities(resources, "requests", "spec.resources.")
    for one in ranges:
        bounds = [item for item in one.bounds if item.type == CLAIM]
        found = [said for item in bounds for said in (*_below(item, requests, {}), *_above(item, requests))]
        if found:
            return NotMade(f"{'; '.join(found)} (LimitRange {one.name})")
    return None


def _breaches(bounds: LimitBounds, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _below(bounds, requests, limits)
    yield from _above(bounds, requests, limits)
    yield from _too_far_apart(bounds, requests, limits)


def _below(bounds: LimitBounds, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in bounds.least.items():
        said = f"minimum {name} usage per {bounds.type} is {shown(name, least)}"
        if name not in requests:
            yield f"{said}, and no request is specified"
        elif requests[name] < least:
            yield f"{said}, but request is {shown(name, requests[name])}"
        elif name in limits and limits[name] < least:
            yield f"{said}, but limit is {shown(name, limits[name])}"


def _above(bounds: LimitBounds, requests: Amounts, limits: Amounts | None = None) -> Iterator[str]:
    """`limits`: None for claims, which have requests only."""
    what, bounded = ("request", requests) if limits is None else ("limit", limits)
    for name, most in bounds.most.items():
        said = f"maximum {name} usage per {bounds.type} is {shown(name, most)}"
        if name not in bounded:
            yield f"{said}, and no {what} is specified"
        elif bounded[name] > most:
            yield f"{said}, but {what} is {shown(name, bounded[name])}"
        elif requests.get(name, 0) > most:
            yield f"{said}, but request is {shown(name, requests[name])}"


def _too_far_apart(bounds: LimitBounds, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, ratio in bounds.ratio.items():
        said = f"{name} max limit to request ratio per {bounds.type} is {shown('', ratio)}"
        if not requests.get(name):
            yield f"{said}, but no request is specified or request is 0"
        elif not limits.get(name):
            yield f"{said}, but no limit is specified or limit is 0"
        elif limits[name] * NANO > ratio * requests[name]:
            yield f"{said}, but provided ratio is {limits[name] / requests[name]:f}"
