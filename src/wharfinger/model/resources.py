"""What a pod asks of a node: Kubernetes' formula over its containers.

As in `k8s.io/component-helpers/resource` (PodRequests) and the scheduler's NodeInfo. Amounts going in
are nano-units (`model.quantities`); what comes out is milli-cpu and whole units, rounded up once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wharfinger.model.node import CPU, MEMORY
from wharfinger.model.pod import NOTHING
from wharfinger.model.quantities import LIMIT, NANO, NANO_PER_MILLI, round_up

DEFAULT_SCORING: Mapping[str, int] = {CPU: 100 * NANO_PER_MILLI, MEMORY: 200 * 1024 * 1024 * NANO}
"""Nano-units that a container without a request counts when nodes are scored: 100m and 200Mi."""


class Container(NamedTuple):
    """What one container asks for."""

    requests: Mapping[str, int]
    restartable: bool = False
    """An init container that keeps running (restartPolicy Always), a sidecar."""


@dataclass(frozen=True, slots=True)
class PodResources:
    """All that a pod says about resources, in nano-units, limits already taken for missing requests."""

    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    overhead: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    pod_requests: Mapping[str, int] | None = None
    """`spec.resources.requests`; None when there are no pod-level resources."""
    pod_limits: Mapping[str, int] = field(default_factory=lambda: NOTHING)


class Request(NamedTuple):
    """A pod's whole request, and the amounts it counts with when nodes are scored."""

    requests: Mapping[str, int]
    """Milli-cpu, else units; resources of which nothing is asked are left out."""
    scoring_cpu: int
    scoring_memory: int


def pod_request(resources: PodResources) -> Request:
    """The request of a pod.

    Per resource max(sum of containers + sum of restartable init containers, max over the init
    containers i of (i + restartable ones before it)); pod-level cpu, memory and huge pages replace
    that; overhead is added. Raises `ValueError` when a total is beyond int64.
    """
    total = total_of(resources)
    missing = DEFAULT_SCORING
    if resources.pod_requests is not None:
        missing = {name: amount for name, amount in DEFAULT_SCORING.items() if name not in total}
    scoring = _total(resources, missing) if missing else total
    return Request(
        {name: _whole(name, nanos) for name, nanos in total.items() if nanos},
        _whole(CPU, scoring.get(CPU, 0)),
        _whole(MEMORY, scoring.get(MEMORY, 0)),
    )


def total_of(resources: PodResources) -> dict[str, int]:
    """The request of a pod by the formula of `pod_request`, in nano-units and before it is rounded up."""
    return _total(resources, NOTHING)


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
        _add(total, container.requests, missing)
    if resources.init_containers:
        _initialise(total, resources.init_containers, missing)
    if resources.pod_requests is not None:
        _replace(total, resources.pod_requests, resources.pod_limits)
    for name, amount in resources.overhead.items():
        total[name] = total.get(name, 0) + amount
    return total


def _initialise(total: dict[str, int], init_containers: Sequence[Container], missing: Mapping[str, int]) -> None:
    """Raise `total` to what start-up needs: init containers run one by one, restartable ones stay."""
    staying: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        if container.restartable:
            _add(total, container.requests, missing)
            _add(staying, container.requests, missing)
            now = staying
        else:
            now = dict(staying)
            _add(now, container.requests, missing)
        for name, amount in now.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)


def _replace(total: dict[str, int], requests: Mapping[str, int], limits: Mapping[str, int]) -> None:
    """Pod-level resources over the containers' sums; a limit counts where there is no request."""
    total.update({name: amount for name, amount in requests.items() if _pod_level(name)})
    for name, amount in limits.items():
        if _pod_level(name) and name not in requests and (name not in total or name.startswith("hugepages-")):
            total[name] = amount


def _pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _add(total: dict[str, int], requests: Mapping[str, int], missing: Mapping[str, int]) -> None:
    for name, amount in requests.items():
        total[name] = total.get(name, 0) + amount
    for name, amount in missing.items():
        if name not in requests:
            total[name] = total.get(name, 0) + amount
