"""What a pod asks of a node: Kubernetes' formula over its containers.

As in `k8s.io/component-helpers/resource` (PodRequests) and the scheduler's NodeInfo. Amounts going in
are nano-units (`model.quantities`); what comes out is milli-cpu and whole units, rounded up once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wharfinger.objects.model.node import CPU, MEMORY
from wharfinger.objects.model.pod import NOTHING, Request
from wharfinger.objects.model.quantities import LIMIT, NANO, NANO_PER_MILLI, round_up

DEFAULT_SCORING: Mapping[str, int] = {CPU: 100 * NANO_PER_MILLI, MEMORY: 200 * 1024 * 1024 * NANO}
"""Nano-units that a container without a request counts when nodes are scored: 100m and 200Mi."""


class Reported(NamedTuple):
    """What a kubelet reports of a container, or of a whole pod, that can be resized in place; nano-units."""

    allocated: Mapping[str, int]
    """What the kubelet has set aside (`allocatedResources`)."""
    actual: Mapping[str, int]
    """What the runtime has applied (`resources.requests`)."""


class Container(NamedTuple):
    """What one container asks for."""

    requests: Mapping[str, int]
    restartable: bool = False
    """An init container that keeps running (restartPolicy Always), a sidecar."""
    reported: Reported | None = None
    """None = the status has no `resources` of it."""


@dataclass(frozen=True, slots=True)
class PodResources:
    """All that a pod says about resources, in nano-units, limits already taken for missing requests."""

    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    overhead: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    pod_requests: Mapping[str, int] | None = None
    """`spec.resources.requests`; None when there are no pod-level resources."""
    pod_limits: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    reported: Reported | None = None
    """Of the pod-level resources."""
    infeasible: bool = False
    """Whether the kubelet has found that the resize can never happen."""


def pod_request(resources: PodResources, *, bound: bool = False) -> Request:
    """The request of a pod; `bound`: as it counts on its node, not where it is to be placed.

    Per resource max(sum of containers + sum of restartable init containers, max over the init
    containers i of (i + restartable ones before it)); pod-level cpu, memory and huge pages replace
    that; overhead is added. A container that can be resized in place counts the largest of what it asks for, has
    allocated and has in fact; one whose resize is infeasible, the larger of the latter two. The same holds for
    pod-level resources.

    For scoring, containers without a request count `DEFAULT_SCORING`. Pod-level requests count on the node only, and
    there containers count that only where the whole pod has no request (kube-scheduler 1.36's `CalculateResource`; its
    scorers of NodeResourcesFit leave `enablePodLevelResources` off). Raises `ValueError` when a total is beyond int64.
    """
    resources = _completed(resources)
    total = _total(resources, NOTHING)
    if bound and resources.pod_requests is not None:
        missing = {name: amount for name, amount in DEFAULT_SCORING.items() if name not in total}
        scoring = _total(resources, missing) if missing else total
    else:
        scored = resources if resources.pod_requests is None else replace(resources, pod_requests=None)
        scoring = _total(scored, DEFAULT_SCORING)
    return Request(
        {name: _whole(name, nanos) for name, nanos in total.items() if nanos},
        _whole(CPU, scoring.get(CPU, 0)),
        _whole(MEMORY, scoring.get(MEMORY, 0)),
    )


def total_of(resources: PodResources) -> dict[str, int]:
    """The request of a pod by the formula of `pod_request`, in nano-units and before it is rounded up."""
    return _total(_completed(resources), NOTHING)


def _completed(resources: PodResources) -> PodResources:
    """With the pod-level requests that an API server adds where there are limits: the containers', else the limits."""
    if resources.pod_requests is None or not resources.pod_limits:
        return resources
    containers = [container._replace(reported=None) for container in resources.containers]
    init_containers = [container._replace(reported=None) for container in resources.init_containers]
    asked = _total(PodResources(containers, init_containers), NOTHING)
    of_containers = {name: amount for name, amount in asked.items() if name in (CPU, MEMORY)}
    requests = {**resources.pod_limits, **of_containers, **resources.pod_requests}
    return replace(resources, pod_requests=requests, pod_limits=NOTHING)


def node_allocatable(amounts: Mapping[str, int]) -> Mapping[str, int]:
    """A node's allocatable from nano-units: milli-cpu, else units, rounded up as kube-scheduler does.

    Raises `ValueError` when an amount is beyond int64.
    """
    return {name: _whole(name, nanos) for name, nanos in amounts.items()}


def _whole(name: str, nanos: int) -> int:
    """Milli-cpu, else units."""
    amount = round_up(nanos, NANO_PER_MILLI if name == CPU else NANO)
    if amount > LIMIT:
        raise ValueError(f"the total of {name} is beyond the range of a quantity")
    return amount


def _total(resources: PodResources, missing: Mapping[str, int]) -> dict[str, int]:
    """Nano-units; each container counts `missing` for resources of which it says nothing."""
    total: dict[str, int] = {}
    for container in resources.containers:
        _add(total, _counted(container.requests, container.reported, resources.infeasible), missing)
    if resources.init_containers:
        _initialise(total, resources, missing)
    if resources.pod_requests is not None:
        counted = _counted(resources.pod_requests, resources.reported, resources.infeasible)
        total.update({name: counted.get(name, 0) for name in resources.pod_requests if _pod_level(name)})
    for name, amount in resources.overhead.items():
        total[name] = total.get(name, 0) + amount
    return total


def _counted(asked: Mapping[str, int], reported: Reported | None, infeasible: bool) -> Mapping[str, int]:
    """What counts of a request during a resize in place (component-helpers, `determineEffectiveRequests`)."""
    if reported is None:
        return asked
    found = {} if infeasible else dict(asked)
    for amounts in reported:
        for name, amount in amounts.items():
            found[name] = max(found.get(name, amount), amount)
    return found


def _initialise(total: dict[str, int], resources: PodResources, missing: Mapping[str, int]) -> None:
    """Raise `total` to what start-up needs: init containers run one by one, restartable ones stay."""
    staying: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in resources.init_containers:
        if container.restartable:
            counted = _counted(container.requests, container.reported, resources.infeasible)
            _add(total, counted, missing)
            _add(staying, counted, missing)
            now = staying
        else:
            now = dict(staying)
            _add(now, container.requests, missing)
        for name, amount in now.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)


def _pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _add(total: dict[str, int], requests: Mapping[str, int], missing: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        total[name] = total.get(name, 0) + amount
    for name, amount in missing.items():
        if name not in requests:
            total[name] = total.get(name, 0) + amount
