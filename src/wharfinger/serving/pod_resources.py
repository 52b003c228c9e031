"""`/metrics/resources`: what every pod asks for, a series for each pod and resource, as kube-scheduler has them.

Pages of pods are written one after the other, because a large cluster has hundreds of thousands of series. They are
read from etcd (`stored_amounts`), because workers do not keep the limits of pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents.fields import mapping, mappings, quantities, text
from wharfinger.objects.documents.formats import ObjectFormat, format_of
from wharfinger.objects.documents.metadata import METADATA
from wharfinger.objects.model.node import CPU
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER
from wharfinger.objects.model.resources import Container, PodResources, pod_request
from wharfinger.serving.content import PodAmounts

REQUEST, LIMIT = "kube_pod_resource_request", "kube_pod_resource_limit"
HELP = {
    REQUEST: "Resources requested by workloads on the cluster, broken down by pod.",
    LIMIT: "Resources limit for workloads on the cluster, broken down by pod.",
}
UNITS = {CPU: "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
TOGETHER = 100
"""Pods that are read without letting other tasks run: a few milliseconds."""
SPEC, CONTAINERS = "spec.", "spec.containers."


async def stored_amounts(store: Store) -> AsyncGenerator[Sequence[PodAmounts], None]:
    """All pods in etcd that have not ended, some at a time, at one revision; unreadable ones are left out.

    Raises `StoreError`.
    """
    format_ = format_of(store.format)
    async for page in store.list(keys.PODS):
        for first in range(0, len(page.items), TOGETHER):
            found = (_decoded(kv, format_) for kv in page.items[first : first + TOGETHER])
            yield [amounts for amounts in found if amounts is not None]
            await asyncio.sleep(0)


def _decoded(kv: KeyValue, format_: ObjectFormat) -> PodAmounts | None:
    namespace, _, name = kv.key.removeprefix(keys.PODS).partition("/")
    try:
        return amounts_of(format_.pod_mapping(kv.value, namespace=namespace, name=name), namespace)
    except InvalidObject:
        return None


def amounts_of(obj: Mapping[str, Any], namespace: str = "default") -> PodAmounts | None:
    """What a `v1.Pod` asks for; None when it has ended. Raises `InvalidObject`.

    Only this is read: decoding all of a pod takes three times as long.
    """
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    node = text(spec, "nodeName", SPEC)
    if node and text(status, "phase", "status.") in ("Succeeded", "Failed"):
        return None
    requests, limits = _resources(spec)
    try:
        asked, limited = pod_request(requests).requests, pod_request(limits).requests
    except ValueError as error:
        raise InvalidObject(f"spec: {error}") from None
    name, where = text(metadata, "name", METADATA), text(metadata, "namespace", METADATA) or namespace
    scheduler = text(spec, "schedulerName", SPEC) or DEFAULT_SCHEDULER
    return PodAmounts(where, name, node, scheduler, spec.get("priority"), asked, limited)


def _resources(spec: Mapping[str, Any]) -> tuple[PodResources, PodResources]:
    """Requests, where a limit counts in the place of a missing one, and limits.

    Both go by the same formula; overhead counts as limit only where there is one (component-helpers, PodLimits).
    """
    containers = [_container(entry) for entry in mappings(spec, "containers", SPEC)]
    starting = [_container(entry) for entry in mappings(spec, "initContainers", SPEC)]
    requested, limited = _amounts(spec, SPEC)
    overhead = quantities(spec, "overhead", SPEC)
    amounts = [limited, *(limits.requests for _, limits in (*containers, *starting))]
    names = {name for each in amounts for name, amount in each.items() if amount}
    return (
        PodResources(
            [asked for asked, _ in containers],
            [asked for asked, _ in starting],
            overhead,
            requested if requested or limited else None,
            limited,
        ),
        PodResources(
            [limits for _, limits in containers],
            [limits for _, limits in starting],
            {name: nanos for name, nanos in overhead.items() if name in names},
            limited or None,
        ),
    )


def _container(entry: Mapping[str, Any]) -> tuple[Container, Container]:
    """What one container requests, and its limits."""
    requests, limits = _amounts(entry, CONTAINERS)
    restartable = text(entry, "restartPolicy", CONTAINERS) == "Always"
    return Container({**limits, **requests} if limits else requests, restartable), Container(limits, restartable)


def _amounts(owner: Mapping[str, Any], where: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Requests and limits in nano-units."""
    resources, path = mapping(owner, "resources", where), f"{where}resources."
    return quantities(resources, "requests", path), quantities(resources, "limits", path)


def heading(name: str) -> str:
    """The lines before the series of a metric."""
    return f"# HELP {name} [STABLE] {HELP[name]}\n# TYPE {name} gauge\n"


def series(name: str, pods: Iterable[PodAmounts]) -> str:
    """The lines of one metric for these pods."""
    return "".join(line for each in pods for line in _lines(name, each))


def _lines(name: str, amounts: PodAmounts) -> Iterator[str]:
    priority = "" if amounts.priority is None else str(amounts.priority)
    head = (
        f'{name}{{namespace="{_escaped(amounts.namespace)}",pod="{_escaped(amounts.name)}",'
        f'node="{_escaped(amounts.node)}",scheduler="{_escaped(amounts.scheduler)}",priority="{priority}"'
    )
    for resource, amount in (amounts.requests if name == REQUEST else amounts.limits).items():
        if amount:
            value = amount / 1000 if resource == CPU else amount
            yield f'{head},resource="{_escaped(resource)}",unit="{_unit(resource)}"}} {value}\n'


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else UNITS.get(resource, "")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
