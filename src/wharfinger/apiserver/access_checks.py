"""What wharfinger must be allowed to do in the cluster: one table, for the check at the start and for the manifests.

`needed_access` is the table. `review` asks the API server for each row (SelfSubjectAccessReview, which every
authenticated user may create); `cluster_role_rules` and `role_rules` make the RBAC rules that grant the rows. A test
compares these with the manifests in `deploy/kubernetes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from wharfinger.apiserver import client
from wharfinger.apiserver.client import ApiClient, ApiResource
from wharfinger.errors import UpstreamUnavailable

REVIEW_DEADLINE = 15.0
"""Seconds for all reviews together; about 60 at the default pace of 50 requests/s."""
_AT_ONCE = 10
_READ = ("get", "list", "watch")
_KUBE_SYSTEM = "kube-system"

_CONFIG_MAPS = ApiResource("", "v1", "configmaps", namespaced=True)
_AUTHENTICATION = "extension-apiserver-authentication"


_LOST_WITHOUT = {
    "podgroups": "gangs stay pending",
    "deviceclasses": "pods that need devices of a class wait with another reason than that",
}
"""Of kinds that not every server has."""


@dataclass(frozen=True, slots=True)
class NeededAccess:
    """One verb on one resource."""

    verb: str
    resource: ApiResource
    lost: str
    """What does not work without it."""
    subresource: str = ""
    namespace: str = ""
    """Where; empty = in all namespaces."""
    name: str = ""
    """The one object; empty = all."""
    required: bool = False
    """Whether wharfinger must not start to schedule without it."""

    @property
    def target(self) -> str:
        """The resource as RBAC spells it: `pods/binding`."""
        return "/".join(part for part in (self.resource.plural, self.subresource) if part)

    def body(self) -> dict[str, Any]:
        """The SelfSubjectAccessReview that asks for it."""
        attributes = {
            "verb": self.verb,
            "group": self.resource.group,
            "resource": self.resource.plural,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {
            "apiVersion": f"{client.OWN_ACCESS_REVIEWS.group}/{client.OWN_ACCESS_REVIEWS.version}",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
        }


BIND_ACCESS = NeededAccess("create", client.PODS, "nothing can be bound", subresource="binding", required=True)
"""Asked again when the server forbids a bind: it tells a missing grant from a refusal of one pod."""
STATUS_ACCESS = NeededAccess(
    "patch", client.PODS, "no promise of a bind can be given up, and users do not see why a pod is pending", "status",
    required=True,
)  # fmt: skip
DELETE_ACCESS = NeededAccess("delete", client.PODS, "no pod can be preempted")


class LeaseName(NamedTuple):
    """The Lease by which schedulers elect the one that may bind."""

    namespace: str
    name: str


def needed_access(
    *, lease: LeaseName | None, optional: Sequence[ApiResource] = (), events: bool = True
) -> tuple[NeededAccess, ...]:
    """All that is needed.

    `lease` None = without leader election. `optional`: kinds that the server has; those that every server has do not
    count. `events` False = none are sent.
    """
    needs = [
        *_reads("nothing can be scheduled", client.PODS, client.NODES, client.NAMESPACES, required=True),
        *_reads("preemption cannot respect PodDisruptionBudgets", client.DISRUPTION_BUDGETS, required=True),
        *_reads(
            "pods are not spread by the services and controllers that own them",
            *(client.SERVICES, client.REPLICATION_CONTROLLERS, client.REPLICA_SETS, client.STATEFUL_SETS),
        ),
        *_reads("PriorityClasses are not shown", client.PRIORITY_CLASSES),
        *_reads("pods with volumes stay pending", *client.STORAGE),
        *(
            need
            for kind in optional
            if kind.plural in _LOST_WITHOUT
            for need in _reads(_LOST_WITHOUT[kind.plural], kind, verbs=("list", "watch"))
        ),
        BIND_ACCESS,
        STATUS_ACCESS,
        DELETE_ACCESS,
        *(
            NeededAccess("patch", of, "volumes cannot be bound to claims")
            for of in (client.PERSISTENT_VOLUMES, client.PERSISTENT_VOLUME_CLAIMS)
        ),
        *(
            NeededAccess("create", of, "callers of the secure port are not recognized by their tokens")
            for of in (client.TOKEN_REVIEWS, client.ACCESS_REVIEWS)
        ),
        NeededAccess(
            "get", _CONFIG_MAPS, "callers of the secure port are not recognized by client certificates",
            namespace=_KUBE_SYSTEM, name=_AUTHENTICATION,
        ),
    ]  # fmt: skip
    if events:
        needs.append(NeededAccess("create", client.EVENTS, "no events are written"))
        needs.append(NeededAccess("patch", client.EVENTS, "events that repeat are not counted"))
    if lease is not None:
        lost = "nothing can be bound, because the Lease cannot be held"
        needs.append(NeededAccess("create", client.LEASES, lost, namespace=lease.namespace, required=True))
        needs.extend(
            NeededAccess(verb, client.LEASES, lost, namespace=lease.namespace, name=lease.name, required=True)
            for verb in ("get", "update")
        )
    return tuple(needs)


def _reads(
    lost: str, *resources: ApiResource, verbs: Sequence[str] = _READ, required: bool = False
) -> list[NeededAccess]:
    return [NeededAccess(verb, of, lost, required=required) for of in resources for verb in verbs]


@dataclass(frozen=True, slots=True)
class AccessReport:
    """What the API server answered."""

    missing: tuple[NeededAccess, ...] = ()
    """Not allowed, in the order of the table."""
    unanswered: tuple[NeededAccess, ...] = ()
    """No answer in time: not known."""

    @property
    def schedulable(self) -> bool:
        """Whether nothing that is required is missing, as far as the server answered."""
        return not any(need.required for need in self.missing)

    def sentences(self) -> list[str]:
        """For people: one line for each resource that something is missing of, then one for what is not known."""
        lines = [
            f"may not {verbs} {where}: {need.lost}; grant it with the {role} in deploy/kubernetes"
            for need, verbs, where, role in _grouped(self.missing)
        ]
        if self.unanswered:
            of = ", ".join(f"{verbs} {where}" for _, verbs, where, _ in _grouped(self.unanswered))
            lines.append(f"the API server did not answer whether these are allowed: {of}")
        return lines


async def review(
    apiserver: ApiClient, needs: Iterable[NeededAccess], *, deadline: float = REVIEW_DEADLINE
) -> AccessReport:
    """Ask for every row, several at once, for at most `deadline` seconds.

    Raises `UpstreamDenied` when the server does not accept the credentials.
    """
    asked = tuple(needs)
    places = asyncio.Semaphore(_AT_ONCE)

    async def ask(need: NeededAccess) -> bool | None:
        async with places:
            return await is_allowed(apiserver, need)

    tasks = [asyncio.ensure_future(ask(need)) for need in asked]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=deadline, return_when=asyncio.FIRST_EXCEPTION)
        answers = [task.result() if task.done() else None for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return AccessReport(
        missing=tuple(need for need, answer in zip(asked, answers, strict=True) if answer is False),
        unanswered=tuple(need for need, answer in zip(asked, answers, strict=True) if answer is None),
    )


async def is_allowed(apiserver: ApiClient, need: NeededAccess) -> bool | None:
    """Whether we may do this; None when the server does not answer, or does not do such reviews.

    Raises `UpstreamDenied` when it does not accept the credentials.
    """
    try:
        answer = await apiserver.create(client.OWN_ACCESS_REVIEWS, need.body())
    except UpstreamUnavailable:
        return None
    if not answer.done or answer.object is None:
        return None
    return bool((answer.object.get("status") or {}).get("allowed"))


def cluster_role_rules(needs: Iterable[NeededAccess]) -> list[dict[str, Any]]:
    """Rules of the ClusterRole: the rows of all namespaces."""
    return _rules(need for need in needs if not need.namespace)


def role_rules(needs: Iterable[NeededAccess]) -> dict[str, list[dict[str, Any]]]:
    """Rules of the Roles, by their namespace: the rows of one namespace."""
    local = sorted((need for need in needs if need.namespace), key=lambda need: need.namespace)
    return {namespace: _rules(rows) for namespace, rows in groupby(local, key=lambda need: need.namespace)}


def _rules(needs: Iterable[NeededAccess]) -> list[dict[str, Any]]:
    """A rule for each API group, set of verbs and name, in the order of the table."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for need in needs:
        verbs.setdefault((need.resource.group, need.name, need.target), []).append(need.verb)
    targets: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, target), of in verbs.items():
        targets.setdefault((group, name, tuple(of)), []).append(target)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(of)} | ({"resourceNames": [name]} if name else {})
        for (group, name, of), resources in targets.items()
    ]


def _grouped(needs: Iterable[NeededAccess]) -> list[tuple[NeededAccess, str, str, str]]:
    """The first row, the verbs, the resource and the kind of the role, for rows that differ in the verb only."""
    rows: dict[tuple[ApiResource | str, ...], list[NeededAccess]] = {}
    for need in needs:
        rows.setdefault((need.resource, need.subresource, need.namespace, need.name, need.lost), []).append(need)
    return [
        (of[0], ", ".join(need.verb for need in of), _where(of[0]), "Role" if of[0].namespace else "ClusterRole")
        for of in rows.values()
    ]


def _where(need: NeededAccess) -> str:
    group = f".{need.resource.group}" if need.resource.group else ""
    text = f"{need.resource.plural}{group}" + (f"/{need.subresource}" if need.subresource else "")
    if need.name:
        text += f" {need.name!r}"
    return f"{text} in namespace {need.namespace}" if need.namespace else text
