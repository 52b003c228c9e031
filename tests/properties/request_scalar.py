"""Kubernetes' rules for what a bound pod counts, written plainly, container by container and resource by resource.

After `k8s.io/component-helpers/resource` 1.36 (`PodRequests` with the resources of the status) and the scheduler's
`CalculateResource`. It reads manifests whose quantities are plain: `250m` of cpu, units of everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Amounts = dict[str, int]
SILENT: Amounts = {"cpu": 100, "memory": 200 << 20}
"""Milli-cpu and bytes of a container without a request, for scoring."""


def counted(pod: Mapping[str, Any]) -> tuple[Amounts, int, int]:
    """Requests without those of zero, and the cpu and memory for scoring."""
    requests = _sum(pod, {})
    missing = SILENT
    if _level(pod):
        missing = {name: amount for name, amount in SILENT.items() if name not in requests}
    scoring = _sum(pod, missing)
    return (
        {name: amount for name, amount in requests.items() if amount},
        scoring.get("cpu", 0),
        scoring.get("memory", 0),
    )


def _sum(pod: Mapping[str, Any], missing: Amounts) -> Amounts:
    spec, status = pod["spec"], pod["status"]
    running = [_container(pod, container, missing) for container in spec.get("containers", ())]
    peaks: list[Amounts] = []
    sidecars: list[Amounts] = []
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            sidecars.append(_container(pod, container, missing))
            peaks.append(_added(sidecars))
        else:
            peaks.append(_added([*sidecars, _filled(_amounts(container["resources"]["requests"]), missing)]))
    total = _highest([_added([*running, *sidecars]), *peaks])
    level = _level(pod)
    if level:
        counts = level
        if status.get("resources") is not None:
            counts = _effective(pod, level, status)
        total |= {name: counts.get(name, 0) for name in level}
    return _added([total, _amounts(spec.get("overhead", {}))])


def _level(pod: Mapping[str, Any]) -> Amounts:
    return _amounts(pod["spec"].get("resources", {}).get("requests", {}))


def _container(pod: Mapping[str, Any], container: Mapping[str, Any], missing: Amounts) -> Amounts:
    requests = _amounts(container["resources"]["requests"])
    status = pod["status"]
    for reported in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
        if reported["name"] == container["name"] and reported.get("resources") is not None:
            requests = _effective(pod, requests, reported)
    return _filled(requests, missing)


def _effective(pod: Mapping[str, Any], asked: Amounts, reported: Mapping[str, Any]) -> Amounts:
    actual = _amounts(reported["resources"].get("requests", {}))
    allocated = _amounts(reported.get("allocatedResources", {}))
    pending = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodResizePending"]
    infeasible = bool(pending) and pending[0].get("reason") == "Infeasible"
    return _highest([actual, allocated] if infeasible else [asked, actual, allocated])


def _filled(requests: Amounts, missing: Amounts) -> Amounts:
    return {**missing, **requests}


def _added(parts: list[Amounts]) -> Amounts:
    names = {name for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


def _highest(parts: list[Amounts]) -> Amounts:
    names = {name for part in parts for name in part}
    return {name: max(part[name] for part in parts if name in part) for name in names}


def _amounts(written: Mapping[str, str]) -> Amounts:
    return {name: int(amount.removesuffix("m")) for name, amount in written.items()}
