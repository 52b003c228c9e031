"""Workloads as the pods that their controllers would make: of a template, as many as are missing.

Counted as there already are the pods that a workload controls, over its ReplicaSets or Jobs too; ReplicaSets and
ReplicationControllers also adopt pods without a controller that they select. A Deployment's roll-out is not played:
pods of an older template count like others. DaemonSets depend on nodes: see `daemons`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.documents.fields import mapping, mappings, text, text_map
from wharfinger.objects.documents.surroundings import pod_collection
from wharfinger.whatif.claims import CLAIM, of_templates
from wharfinger.whatif.inventory import HASH_LABEL, Inventory, Obj, Ref, controller, ended, labels_of, positive

KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "CronJob")
"""Workloads that count as their pods, whatever the nodes."""
LIMIT = 200_000
"""Pods that all workloads together may stand for."""
_NAME_LIMIT = 230
"""Characters of a workload's name that go into its pods' names; a name has 253."""
_REVISION = "deployment.kubernetes.io/revision"
_JOB_CONTROLLER = "kubernetes.io/job-controller"
_FIELDS = {"CronJob": "spec.jobTemplate.spec.template"}


class Idle(StrEnum):
    """Why a workload makes no pods."""

    SUSPENDED = "suspended"
    FINISHED = "finished"
    PAUSED = "paused"
    MANAGED = "managed by another controller"
    NO_REPLICAS = "scaled to 0"


class MissingPods:
    """Makes what the controllers of the given workloads would make."""

    def __init__(self, inventory: Inventory, given: Iterable[Ref], *, limit: int = LIMIT) -> None:
        """Counts the pods that the workloads have. Raises `InvalidObject`."""
        asked = [ref for ref in given if ref.kind in KINDS]
        self._inventory = inventory
        self._census = _Census(inventory, asked) if asked else None
        self._limit = limit
        self._made = 0
        self.idle: dict[Ref, Idle] = {}
        """Why a workload stands for no pod at all."""

    def of(self, ref: Ref) -> Iterator[Obj]:
        """The pods that one of the workloads lacks, one by one; before them a Deployment's ReplicaSet, and before each
        pod of a StatefulSet its claims.

        Raises `InvalidObject`, naming the workload, and `UsageError` beyond the limit.
        """
        obj = self._inventory.get(ref)
        if obj is None or self._census is None or _belongs_to_another(self._inventory, ref, obj):
            return
        try:
            template_of(ref, obj)
            idle = _idle(ref, obj) or self._held(ref, obj)
            if idle is not None:
                self.idle[ref] = idle
                return
            for made in _made(self._inventory, self._census, ref, obj):
                self._made += made.get("kind") == "Pod"
                if self._made > self._limit:
                    raise _too_many(self._limit)
                yield made
        except InvalidObject as error:
            raise InvalidObject(f"{ref}: {error}") from None

    def _held(self, ref: Ref, obj: Obj) -> Idle | None:
        """A paused Deployment gets no ReplicaSet; one that has a ReplicaSet is scaled all the same."""
        if ref.kind != "Deployment" or mapping(obj, "spec").get("paused") is not True:
            return None
        has = any(controller(of, found) == ref for of, found in self._inventory.of_kind("ReplicaSet"))
        return None if has else Idle.PAUSED


def _too_many(limit: int) -> UsageError:
    return UsageError(f"the workloads stand for more than {limit:,} pods")


def template_of(ref: Ref, obj: Obj) -> Mapping[str, Any]:
    """The pod template of a workload or DaemonSet. Raises `InvalidObject` when there is none."""
    template = mapping(_job_spec(ref, obj), "template", "spec.")
    if not mapping(template, "spec"):
        raise InvalidObject(f"{_FIELDS.get(ref.kind, 'spec.template')}.spec is missing")
    return template


def by_template(ref: Ref, error: InvalidObject) -> str:
    """What is wrong with a pod that the workload makes, by the field of the workload's template."""
    said = str(error)
    field = _FIELDS.get(ref.kind, "spec.template")
    return f"{field}.{said}" if said.startswith(("spec.", "metadata.")) else said


def example(inventory: Inventory, ref: Ref, obj: Obj) -> list[Obj]:
    """One pod of a workload, whatever it has; before it what `MissingPods` makes with it, if that is new.

    Raises `InvalidObject`.
    """
    apart = Inventory()
    for _, replica_set in inventory.of_kind("ReplicaSet"):
        apart.put(replica_set)
    try:
        return list(_made(apart, _Census(apart, [ref]), ref, _of_one(ref, obj)))
    except InvalidObject as error:
        raise InvalidObject(f"{ref}: {error}") from None


def pod_from(
    ref: Ref, template: Obj, name: str, *, labels: Mapping[str, str] | None = None, owner: Ref | None = None
) -> dict[str, Any]:
    """A pod as the workload's controller makes it. `labels`: beside the template's own; `owner`: else the workload."""
    by = owner or ref
    metadata = mapping(template, "metadata")
    about = {
        "namespace": ref.namespace,
        "name": name,
        "labels": {**text_map(metadata, "labels", "spec.template.metadata."), **(labels or {})},
        "ownerReferences": [{"kind": by.kind, "name": by.name, "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": dict(mapping(template, "spec"))}


class _Census:
    """Which pods the workloads have already."""

    def __init__(self, inventory: Inventory, workloads: list[Ref]) -> None:
        self._asked = set(workloads)
        self.alive: Counter[Ref] = Counter()
        self.succeeded: Counter[Ref] = Counter()
        orphans: list[tuple[Ref, Obj]] = []
        for ref, pod in inventory.of_kind("Pod"):
            if controller(ref, pod) is None:
                orphans.append((ref, pod))
                continue
            count = self.succeeded if mapping(pod, "status").get("phase") == "Succeeded" else self.alive
            if count is self.succeeded or not ended(pod):
                count.update(self._asked.intersection(inventory.controllers(ref, pod)))
        self._adopt(inventory, orphans)

    def _adopt(self, inventory: Inventory, orphans: list[tuple[Ref, Obj]]) -> None:
        for workload in self._asked:
            obj = inventory.get(workload)
            if obj is None or workload.kind not in ("ReplicaSet", "ReplicationController"):
                continue
            selects = pod_collection(obj, workload.kind, workload.namespace)
            for ref, pod in orphans if selects is not None else ():
                here = ref.namespace == workload.namespace and not ended(pod)
                if here and selects is not None and selects.selector.matches(labels_of(pod)):
                    self.alive[workload] += 1


def _belongs_to_another(inventory: Inventory, ref: Ref, obj: Obj) -> bool:
    """Whether a known workload makes pods through this one: then that one is counted."""
    owner = controller(ref, obj)
    return owner is not None and owner in inventory and owner.kind in KINDS


def _made(inventory: Inventory, census: _Census, ref: Ref, obj: Obj) -> Iterator[Obj]:
    template = template_of(ref, obj)
    runs = ref.kind in ("Job", "CronJob")
    wanted = _wanted_of_job(ref, obj, census) if runs else _count(mapping(obj, "spec"), "replicas", 1)
    if wanted > LIMIT:
        raise _too_many(LIMIT)  # before the first is made
    if ref.kind == "StatefulSet":
        yield from _stateful(inventory, ref, obj, template, wanted)
        return
    count = max(0, wanted - census.alive[ref])
    labels: Mapping[str, str] = {}
    owner = ref
    if ref.kind == "Deployment" and count:
        replica_set, is_new = _replica_set(inventory, ref, obj, template)
        labels = {HASH_LABEL: labels_of(replica_set)[HASH_LABEL]}
        owner = Ref("ReplicaSet", ref.namespace, text(mapping(replica_set, "metadata"), "name"))
        if is_new:
            yield replica_set
    elif runs:
        labels = {"job-name": ref.name, "batch.kubernetes.io/job-name": ref.name}
    names = inventory.free_names("Pod", ref.namespace, ref.name[:_NAME_LIMIT])
    for _ in range(count):
        yield pod_from(ref, template, next(names), labels=labels, owner=owner)


def _wanted_of_job(ref: Ref, obj: Obj, census: _Census) -> int:
    """Pods that run at a time; of a CronJob, those of one run."""
    if _idle(ref, obj) is not None:
        return 0
    spec, status = _job_spec(ref, obj), mapping(obj, "status")
    at_a_time = _count(spec, "parallelism", 1)
    if spec.get("completions") is None:
        return at_a_time
    done = max(_count(status, "succeeded", 0), census.succeeded[ref])
    return max(0, min(at_a_time, _count(spec, "completions", 1) - done))


def _idle(ref: Ref, obj: Obj) -> Idle | None:
    """Why the workload wants no pods, whatever it has; None where it wants some."""
    spec = mapping(obj, "spec")
    if ref.kind not in ("Job", "CronJob"):
        return Idle.NO_REPLICAS if spec.get("replicas") == 0 else None
    of_job = _job_spec(ref, obj)
    if of_job.get("suspend") is True or spec.get("suspend") is True:
        return Idle.SUSPENDED
    if of_job.get("managedBy") not in (None, _JOB_CONTROLLER):
        return Idle.MANAGED
    for condition in mappings(mapping(obj, "status"), "conditions", "status."):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return Idle.FINISHED
    return Idle.NO_REPLICAS if 0 in (of_job.get("parallelism"), of_job.get("completions")) else None


def _job_spec(ref: Ref, obj: Obj) -> Obj:
    spec = mapping(obj, "spec")
    return (
        mapping(mapping(spec, "jobTemplate", "spec."), "spec", "spec.jobTemplate.") if ref.kind == "CronJob" else spec
    )


def _of_one(ref: Ref, obj: Obj) -> Obj:
    """The workload as if it was new and wanted one pod."""
    one: dict[str, Any] = {"replicas": 1, "suspend": False}
    if ref.kind in ("Job", "CronJob"):
        one = {"parallelism": 1, "completions": None, "suspend": False}
    spec = {**_job_spec(ref, obj), **one}
    return {**obj, "status": {}, "spec": {"jobTemplate": {"spec": spec}} if ref.kind == "CronJob" else spec}


def _count(spec: Obj, key: str, default: int) -> int:
    value = spec.get(key)
    return default if value is None else positive(value, key)


def _stateful(inventory: Inventory, ref: Ref, obj: Obj, template: Obj, wanted: int) -> Iterator[Obj]:
    """Its pods have numbers; those whose names are free are missing. Each comes after those of its claims that lack."""
    first = _count(mapping(mapping(obj, "spec"), "ordinals", "spec."), "start", 0)
    for number in range(first, first + wanted):
        name = f"{ref.name}-{number}"
        if Ref("Pod", ref.namespace, name) in inventory:
            continue
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
        pod = pod_from(ref, template, name, labels=labels)
        claims = of_templates(ref, obj, name)
        for claim in claims.values():
            if Ref(CLAIM, ref.namespace, claim["metadata"]["name"]) not in inventory:
                yield claim
        if claims:
            pod["spec"]["volumes"] = with_claims(pod, claims)
        yield pod


def with_claims(pod: Obj, claims: Mapping[str, Obj]) -> list[Obj]:
    """The volumes of a StatefulSet's pod: those of its claims, in the place of others of their names."""
    own = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for volume, claim in claims.items()
    ]
    volumes = mappings(mapping(pod, "spec"), "volumes", "spec.")
    return [*(volume for volume in volumes if volume.get("name") not in claims), *own]


def _replica_set(inventory: Inventory, ref: Ref, obj: Obj, template: Obj) -> tuple[Obj, bool]:
    """The ReplicaSet that a Deployment makes pods through: the newest, if it is of this template, else a new one."""
    owned = [found for of, found in inventory.of_kind("ReplicaSet") if controller(of, found) == ref]
    labels = dict(text_map(mapping(template, "metadata"), "labels", "spec.template.metadata."))
    for found in sorted(owned, key=_revision, reverse=True)[:1]:
        theirs = mapping(mapping(found, "spec"), "template", "spec.")
        made_for = dict(text_map(mapping(theirs, "metadata"), "labels", "spec.template.metadata."))
        has_hash = made_for.pop(HASH_LABEL, None) is not None and HASH_LABEL in labels_of(found)
        if has_hash and made_for == labels and mapping(theirs, "spec") == mapping(template, "spec"):
            return found, False
    digest = hashlib.sha256(json.dumps(template, sort_keys=True, default=str).encode()).hexdigest()[:10]
    selector = mapping(mapping(obj, "spec"), "selector", "spec.")
    matched = {**(mapping(selector, "matchLabels", "spec.selector.") or labels), HASH_LABEL: digest}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": ref.namespace,
            "name": f"{ref.name[:_NAME_LIMIT]}-{digest}",
            "labels": {**labels, HASH_LABEL: digest},
            "ownerReferences": [{"kind": ref.kind, "name": ref.name, "controller": True}],
        },
        "spec": {"selector": {**selector, "matchLabels": matched}},
    }, True


def _revision(replica_set: Obj) -> int:
    noted = mapping(mapping(replica_set, "metadata"), "annotations").get(_REVISION, "")
    return int(noted) if isinstance(noted, str) and noted.isascii() and noted.isdigit() and len(noted) < 19 else 0
