"""How an installation on a Kubernetes API does: who copies, who may bind, what is promised, and what is not permitted.

Everything is read at one moment from etcd, and from the API as far as it answers. Neighbour: `reading.audit`
compares the copies themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wharfinger.apiserver.access_checks import AccessReport, LeaseName, needed_access, review
from wharfinger.apiserver.client import LEASES, ApiClient, ApiResource
from wharfinger.errors import UpstreamError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.kubernetes.effects.following import KindProgress
from wharfinger.objects.documents.copies import group_of
from wharfinger.objects.documents.times import seconds_since
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import InstallationRecord
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.promise_records import F
from wharfinger.scheduling.model.promises import Imported, Importer, MayBind, Promise
from wharfinger.scheduling.reading.promised_pods import promises_of

BEHIND_AFTER = 10.0
"""Seconds without a sign of the importer after which workers place nothing."""


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The Lease by which schedulers elect the one that may bind."""

    name: LeaseName
    holder: str = ""
    """Empty = it is not held, or does not exist."""
    ours: bool = False
    renewed: str = ""
    """RFC 3339, by the holder's clock."""
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class CopiedKindStatus:
    """How far the copies of one kind are."""

    plural: str
    """With the API group where several groups have the kind: `podgroups.scheduling.x-k8s.io`."""
    revision: int
    """The resourceVersion up to which everything is in the copies; 0 = never copied."""
    copies: int


@dataclass(frozen=True, slots=True)
class KubernetesStatus:
    """One moment of an installation."""

    server: str
    version: str
    """Of the API server; empty where it does not answer."""
    trouble: str
    """Why the API does not answer; empty where it does."""
    cluster_uid: str
    """Of the API's cluster; empty where it does not answer."""
    installation: InstallationRecord
    importer: Importer | None
    epoch: int
    imported: Imported
    imported_seconds: float | None
    """Since the importer's last sign; None = there never was one."""
    kinds: tuple[CopiedKindStatus, ...]
    active: MayBind | None
    lease: LeaseHolder
    promises: dict[PodKey, Promise] = field(default_factory=dict)
    oldest_seconds: float | None = None
    """Of the oldest promise; None = there is none."""
    access: AccessReport = field(default_factory=AccessReport)

    @property
    def hindered(self) -> str:
        """Why this installation does not bind though it wants to; empty where it may, and of a standby."""
        return self.imported.hindered if self.active is None else ""

    def warnings(self) -> list[str]:
        """What is wrong, a sentence each; none where all is well."""
        found = []
        if self.trouble:
            found.append(f"the API server does not answer: {self.trouble}")
        elif self.cluster_uid != self.installation.upstream:
            found.append(
                f"the API is of another cluster ({self.cluster_uid}) than the copies ({self.installation.upstream}): "
                "check --kubeconfig and --etcd"
            )
        if self.importer is None:
            found.append("no worker copies: is one running with --kubeconfig?")
        if self.imported_seconds is None:
            found.append("nothing has been copied yet: nothing is placed")
        elif self.imported_seconds > BEHIND_AFTER:
            found.append(f"the copies are {self.imported_seconds:.0f} s old: nothing is placed")
        if self.active is None and self.importer is not None:
            holder = f"{self.lease.holder} holds the Lease" if self.lease.holder else "the Lease is not held"
            found.append(f"nothing is bound: {self.hindered or holder}")
        given_up = [key for key, one in sorted(self.promises.items()) if one.withdrawn]
        found += [f"the promise of {key} is given up, and its room is held until the pod is fenced" for key in given_up]
        return found + self.access.sentences()


async def read_status(
    store: Store,
    api: ApiClient,
    installation: InstallationRecord,
    *,
    cluster_uid: str,
    trouble: str,
    kinds: Sequence[ApiResource],
    lease: LeaseName,
    now: datetime,
) -> KubernetesStatus:
    """The status. `trouble`: why the API did not answer before; then it is not asked again. Raises `StoreError`."""
    importer_kv = (await store.get(keys.IMPORTER)).kv
    imported = _record(Imported, (await store.get(keys.IMPORTED)).kv) or Imported()
    promises = await promises_of(store)
    ages = [age for one in promises.values() if (age := seconds_since(one.since, now)) is not None]
    version, held, access = "", LeaseHolder(lease), AccessReport()
    if not trouble:
        try:
            version = str(((await api.read("/version")).object or {}).get("gitVersion") or "")
            held = await _lease(api, lease, f"{installation.cluster}_{installation.id}")
            access = await review(api, needed_access(lease=lease, optional=kinds))
        except UpstreamError as error:
            trouble = str(error)
    return KubernetesStatus(
        server=api.server,
        version=version,
        trouble=trouble,
        cluster_uid=cluster_uid,
        installation=installation,
        importer=_record(Importer, importer_kv),
        epoch=importer_kv.mod_revision if importer_kv is not None else 0,
        imported=imported,
        imported_seconds=seconds_since(imported.time, now),
        kinds=tuple(await _kinds(store, imported, [KindProgress(kind).name for kind in kinds])),
        active=_record(MayBind, (await store.get(keys.ACTIVE)).kv),
        lease=held,
        promises=promises,
        oldest_seconds=max(ages, default=None),
        access=access,
    )


def to_plain(status: KubernetesStatus) -> dict[str, Any]:
    """As plain values."""
    lease, importer, active = status.lease, status.importer, status.active
    return {
        "server": status.server,
        "version": status.version,
        "answers": not status.trouble,
        "clusterUid": status.cluster_uid,
        "copiesOf": status.installation.upstream,
        "importer": {"holder": importer.holder, "since": importer.time, "epoch": status.epoch} if importer else None,
        "imported": {
            "seconds": None if status.imported_seconds is None else round(status.imported_seconds, 3),
            "generation": status.imported.generation,
            "kinds": {one.plural: {"revision": one.revision, "copies": one.copies} for one in status.kinds},
        },
        "lease": {
            "namespace": lease.name.namespace,
            "name": lease.name.name,
            "holder": lease.holder,
            "ours": lease.ours,
            "renewed": lease.renewed,
            "transitions": lease.transitions,
        },
        "active": {"holder": active.holder, "since": active.time} if active else None,
        "hindered": status.hindered,
        "promises": {
            "count": len(status.promises),
            "oldestSeconds": None if status.oldest_seconds is None else round(status.oldest_seconds, 3),
            "withdrawn": [
                {"pod": str(key), "node": one.node, "why": one.withdrawn, "since": one.since}
                for key, one in sorted(status.promises.items())
                if one.withdrawn
            ],
        },
        "missing": [
            {"verb": need.verb, "resource": need.target, "group": need.resource.group, "namespace": need.namespace}
            for need in status.access.missing
        ],
        "warnings": status.warnings(),
    }


async def _lease(api: ApiClient, name: LeaseName, identity: str) -> LeaseHolder:
    answer = await api.get(LEASES, name.name, namespace=name.namespace)
    spec = (answer.object or {}).get("spec") or {}
    holder = str(spec.get("holderIdentity") or "")
    renewed, transitions = str(spec.get("renewTime") or ""), int(spec.get("leaseTransitions") or 0)
    return LeaseHolder(name, holder, holder == identity, renewed, transitions)


async def _kinds(store: Store, imported: Imported, names: Sequence[str]) -> list[CopiedKindStatus]:
    found = []
    for name in dict.fromkeys([*names, *imported.revisions]):
        plural, _, group = name.partition(".")
        copies = 0
        async for kv in store.each(keys.stored_prefix(plural)):  # never all at once: they may be many
            copies += not group or group_of(kv.value) == group
        found.append(CopiedKindStatus(name, imported.revisions.get(name, 0), copies))
    return found


def _record(kind: type[F], kv: KeyValue | None) -> F | None:
    """A record; None for none, and for one that a newer release has written otherwise."""
    try:
        return promise_records.read_value(kind, kv.value) if kv is not None else None
    except ValueError:
        return None
