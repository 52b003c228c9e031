r"""What a bind compares and writes for the volumes of a pod.

Every volume that a bind chooses, and every claim that one pod has for itself, has a key under `volumes/`, which the
bind compares and rewrites. So of two binds that choose one volume, one fails, whoever sends them. What then happens to
the chosen volumes depends on the store:

===================  ==========================================================  ==================================
\                    a volume that exists is chosen for a claim                   a volume is to be made
===================  ==========================================================  ==================================
etcd itself          the bind writes volume and claim                             refused: whoever makes volumes there
                                                                                  writes the claim, and wakes the pod
a Kubernetes API     the promise says so, and is sent once its controllers have   likewise
                     bound the claim (`kubernetes.effects.preparing`)
===================  ==========================================================  ==================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, KeyValue, Operation, Put, Store
from wharfinger.framework.plugins.names import VOLUME_BINDING
from wharfinger.framework.status import Status, unschedulable
from wharfinger.objects.documents.edit import bound_claim, bound_volume
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.storage import READ_WRITE_ONCE_POD, ClaimKey
from wharfinger.objects.model.volume_matching import VolumePlan
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.model.promises import VolumeStep
from wharfinger.scheduling.state.cache.cache import Cache

_NAMED, _LONGEST = 3, 300
"""How many claims a refusal names, and characters of each."""
STORED = "persistentvolumes", "persistentvolumeclaims"


@dataclass(frozen=True, slots=True)
class VolumeWrites:
    """The part of a bind that is about volumes."""

    taken: tuple[str, ...] = ()
    """Keys that are compared and rewritten: of volumes that are chosen, and of claims that one pod has for itself."""
    steps: tuple[VolumeStep, ...] = ()
    """What is to be done before the pod can run; empty = its claims are bound."""
    stored: Mapping[str, KeyValue] = field(default_factory=dict)
    """The volumes and claims that the bind writes, by key, as they were read."""

    @property
    def compared(self) -> tuple[str, ...]:
        """All keys that the bind compares for it."""
        return (*self.taken, *self.stored)


NO_VOLUMES = VolumeWrites()


def needed(pod: Pod, node_name: str, cache: Cache) -> VolumeWrites | None:
    """What a bind of the pod to the node means for its volumes; None where it cannot have them there any more."""
    if not pod.claims:
        return NO_VOLUMES
    plan = cache.volume_plan(pod, node_name)
    if plan is None:
        return None
    taken = [keys.volume(volume.name) for _, volume in plan.static]
    taken += [keys.claim(pod.namespace, name) for name in own_claims(pod, cache)]
    return VolumeWrites(tuple(taken), _steps(plan))


def stored_keys(pod: Pod, steps: tuple[VolumeStep, ...]) -> list[str]:
    """The keys of the volumes and claims that are bound to each other where etcd itself is the store."""
    found: list[str] = []
    for step in steps:
        if step.volume:
            found += [keys.stored(STORED[0], "", step.volume), keys.stored(STORED[1], pod.namespace, step.claim)]
    return found


async def read(store: Store, cache: Cache, binds: Iterable[tuple[Pod, str]], limits: Limits) -> Mapping[str, KeyValue]:
    """Read the volumes and claims that these binds would write: only where etcd itself is the store.

    `binds`: each pod with its node. Raises `StoreError`.
    """
    wanted: dict[str, None] = {}
    for pod, node_name in binds if cache.kubernetes is None else ():
        writes = needed(pod, node_name, cache)
        if writes is not None:
            wanted.update(dict.fromkeys(stored_keys(pod, writes.steps)))
    return {kv.key: kv async for kv in store.existing([*wanted], limits.operations)}


def checked(pod: Pod, node_name: str, cache: Cache, stored: Mapping[str, KeyValue]) -> VolumeWrites | Status:
    """Work out again what the bind has to do about the pod's volumes, of which `stored` has been read."""
    writes = needed(pod, node_name, cache)
    if writes is None or cache.kubernetes is not None:
        return _moved(node_name) if writes is None else writes
    refused = refusal(writes.steps, node_name)
    if refused is not None:
        return refused
    wanted = stored_keys(pod, writes.steps)
    if not stored.keys() >= set(wanted):
        return _moved(node_name)
    return replace(writes, stored={key: stored[key] for key in wanted})


def _moved(node_name: str) -> Status:
    return unschedulable(f"the volumes that were found for node {node_name} are not there any more").by(VOLUME_BINDING)


def compares(writes: VolumeWrites, cache: Cache) -> list[Compare]:
    """The conditions of the bind's transaction."""
    known = [Compare(key, "mod", cache.volumes[key.removeprefix(keys.VOLUMES)]) for key in writes.taken]
    return [*known, *(Compare(key, "mod", kv.mod_revision) for key, kv in writes.stored.items())]


def puts(pod: Pod, writes: VolumeWrites, attempt: str, now: str) -> Iterator[Operation]:
    """What the bind's transaction writes. Raises `InvalidObject` for a volume or claim that cannot be written."""
    version = json.dumps({"attempt": attempt, "pod": f"{pod.namespace}/{pod.name}"}, separators=(",", ":")).encode()
    for key in writes.taken:
        yield Put(key, version)
    for step in writes.steps if writes.stored else ():
        if not step.volume:
            continue
        of_volume, of_claim = (
            keys.stored(STORED[0], "", step.volume),
            keys.stored(STORED[1], pod.namespace, step.claim),
        )
        volume, claim = writes.stored[of_volume].value, writes.stored[of_claim].value
        yield Put(of_volume, bound_volume(volume, claim, now=now))
        yield Put(of_claim, bound_claim(claim, volume))


def refusal(steps: tuple[VolumeStep, ...], node_name: str) -> Status | None:
    """Why the pod cannot be bound where nobody but the claims' owners makes volumes; None when it can."""
    waiting = [
        f"claim {step.claim} waits for a volume to be made for node {node_name}"[:_LONGEST]
        for step in steps
        if not step.volume
    ]
    if not waiting:
        return None
    more = [f"and {len(waiting) - _NAMED} more"] if len(waiting) > _NAMED else []
    return unschedulable(*waiting[:_NAMED], *more).by(VOLUME_BINDING)


def own_claims(pod: Pod, cache: Cache) -> Iterator[str]:
    """The pod's claims that no other pod may use."""
    claims = cache.surroundings.storage.claims
    for used in pod.claims:
        claim = claims.get(ClaimKey(pod.namespace, used.name))
        if claim is not None and READ_WRITE_ONCE_POD in claim.access_modes:
            yield used.name


def _steps(plan: VolumePlan) -> tuple[VolumeStep, ...]:
    static = [VolumeStep(claim.name, volume.name) for claim, volume in plan.static]
    return (*static, *(VolumeStep(claim.name) for claim in plan.provision))
