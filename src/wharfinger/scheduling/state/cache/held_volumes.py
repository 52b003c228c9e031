"""Volumes that decisions count as taken before etcd shows it, such as those of the pods that are assumed.

Each pod has a plan (`objects.model.volume_matching`). The storage that decisions see is the facts with all plans on
top; it is kept in step entry by entry, because plans come and go with every pod that has claims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from wharfinger.objects.model.pod import PodIdentity
from wharfinger.objects.model.storage import ClaimKey, PersistentVolume, PersistentVolumeClaim, StorageObject
from wharfinger.objects.model.storage_index import Storage, place_of
from wharfinger.objects.model.surroundings import Surroundings
from wharfinger.objects.model.volume_matching import VolumePlan, with_plan
from wharfinger.scheduling.model.promises import VolumeStep

_Place = tuple[type[StorageObject], str, str]


class HeldVolumes:
    """The plans, by pod, and what they make of the storage."""

    def __init__(self) -> None:
        self.plans: dict[PodIdentity, VolumePlan] = {}
        """By pod. Read only."""
        self._touching: dict[_Place, list[PodIdentity]] = {}
        self._facts: Surroundings | None = None
        self._seen: Surroundings | None = None
        """Those facts with all plans on top; the same object as long as neither changes. None without plans."""

    def hold(self, identity: PodIdentity, plan: VolumePlan | None) -> None:
        """The pod's volumes are taken from now on; no plan, or one with nothing to do, takes none."""
        self.release(identity)
        if plan is None or plan.all_bound:
            return
        self.plans[identity] = plan
        for place in _places(plan):
            self._touching.setdefault(place, []).append(identity)
        if self._seen is not None:
            self._seen = self._seen.with_storage(with_plan(self._seen.storage, plan))

    def release(self, identity: PodIdentity) -> None:
        """The pod holds no volume any more."""
        plan = self.plans.pop(identity, None)
        if plan is None:
            return
        if not self.plans:
            self._touching.clear()
            self._facts = self._seen = None
            return
        for place in _places(plan):
            holders = self._touching[place]
            holders.remove(identity)
            if not holders:
                del self._touching[place]
        self._restore(_places(plan))

    def seen(self, facts: Surroundings) -> Surroundings:
        """The surroundings with all plans on top."""
        if not self.plans:
            return facts
        if self._facts is not facts or self._seen is None:
            known = self._facts is not None and self._seen is not None and self._facts.storage is facts.storage
            storage = self._seen.storage if known and self._seen is not None else self._planned(facts.storage)
            self._facts, self._seen = facts, facts.with_storage(storage)
        return self._seen

    def change(
        self, old: Surroundings, new: Surroundings, what: type[StorageObject], namespace: str, name: str
    ) -> None:
        """The facts were `old` and are `new`, by a change of this one object about storage."""
        if self._facts is old and self._seen is not None:
            self._facts = new
            self._restore([(what, namespace, name)])

    def without(self, facts: Surroundings, identities: Collection[PodIdentity]) -> Surroundings:
        """The surroundings as if these pods held nothing."""
        seen = self.seen(facts)
        gone = {identity for identity in identities if identity in self.plans}
        places = [place for identity in gone for place in _places(self.plans[identity])]
        return seen.with_storage(self._restored(seen.storage, facts.storage, places, gone)) if gone else seen

    def _planned(self, storage: Storage) -> Storage:
        for plan in self.plans.values():
            storage = with_plan(storage, plan)
        return storage

    def _restore(self, places: Iterable[_Place]) -> None:
        if self._seen is not None and self._facts is not None:
            restored = self._restored(self._seen.storage, self._facts.storage, places)
            self._seen = self._seen.with_storage(restored)

    def _restored(
        self, seen: Storage, facts: Storage, places: Iterable[_Place], gone: Collection[PodIdentity] = ()
    ) -> Storage:
        """With these objects as the facts have them, and what the plans of the others make of them."""
        for place in places:
            what, namespace, name = place
            fact = facts.get(what, namespace, name)
            seen = seen.without(what, namespace, name) if fact is None else seen.with_object(fact)
            for identity in self._touching.get(place, ()):
                if identity not in gone:
                    seen = _with_part(seen, self.plans[identity], place)
        return seen


def promised_plan(node_name: str, namespace: str, steps: Sequence[VolumeStep], storage: Storage) -> VolumePlan:
    """The plan of a bound pod whose volumes are still being prepared; what the storage does not have is left out."""
    claims = {step: storage.claims.get(ClaimKey(namespace, step.claim)) for step in steps}
    static = [(claim, storage.volumes.get(step.volume)) for step, claim in claims.items() if step.volume]
    return VolumePlan(
        node_name,
        tuple((claim, volume) for claim, volume in static if claim is not None and volume is not None),
        tuple(claim for step, claim in claims.items() if claim is not None and not step.volume),
    )


def _places(plan: VolumePlan) -> Iterator[_Place]:
    """The objects that a plan changes."""
    for _, volume in plan.static:
        yield PersistentVolume, "", volume.name
    for claim in plan.provision:
        yield PersistentVolumeClaim, claim.namespace, claim.name


def _with_part(seen: Storage, plan: VolumePlan, place: _Place) -> Storage:
    """With what the plan does to one object."""
    part = VolumePlan(
        plan.node,
        tuple(pair for pair in plan.static if (PersistentVolume, "", pair[1].name) == place),
        tuple(claim for claim in plan.provision if (PersistentVolumeClaim, *place_of(claim)) == place),
    )
    return with_plan(seen, part)
