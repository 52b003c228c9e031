"""Changing a fleet's object by compare-and-set: who and why are noted, and nothing invalid is written.

::

    fleet scale, pause, promote, undo, ...  ──►  change(edit)     one object, as it lies in etcd
    apply, fleet apply                      ──►  apply(manifest)  laid over it (`objects.documents.merge`)
    delete, fleet delete                    ──►  mark             its actor drains the instances, then removes it

A request to a rollout (promote, abort, resume) is followed once for every state of the object, so a later write leaves
it out as soon as it was seen, and at once when the template changes: it was meant for another one. It names the rollout
that is open, by its generation, so that it cannot hit the next one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from wharfinger.errors import Compacted, DoesNotApply, InvalidObject, NotFound, RevisionFuture
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, KeyValue, Store
from wharfinger.fleet.contracts.fleet_records import FleetStatusRecord
from wharfinger.fleet.model.fleet import RolloutAction
from wharfinger.fleet.model.rollout import RolloutStatus
from wharfinger.fleet.spec.fleet import is_deleting, may_change_nothing, read_fleet
from wharfinger.fleet.spec.fleet_fields import CHANGE_CAUSE, CHANGED_BY
from wharfinger.framework.catalog import Catalog
from wharfinger.objects.documents import documents, merge
from wharfinger.objects.documents.fields import part
from wharfinger.objects.documents.kinds import FLEET, Reference
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.process.committing import Author, Committed, Deletion, commit, readable, same
from wharfinger.process.names import check_tenant

if TYPE_CHECKING:
    from wharfinger.fleet.reading.fleet_goals import Namer
    from wharfinger.fleet.state.fleet_pictures import Picture


@dataclass(frozen=True, slots=True)
class StatusAndObject:
    """The status that the fleet's actor wrote, and the object that it may not have seen yet."""

    tenant: str
    status: RolloutStatus | None
    mod_revision: int
    """Of the object."""
    template_seen: bool = True
    """Whether the actor has looked at the template as it is, whatever else it has not seen."""

    @property
    def seen(self) -> bool:
        """Whether the actor has looked at the object as it is."""
        return self.status is not None and self.status.observed_generation >= self.mod_revision

    @property
    def rollout(self) -> int:
        """The generation of the open rollout; 0 = none."""
        return self.status.generation if self.status is not None else 0


Edit = Callable[[dict[str, Any], StatusAndObject], bool | None]
"""Changes the object's spec (a copy of its own) in place; leaves it as it is when there is nothing to change.

True: it is to be written even if nothing differs, as what is asked for once more is.
"""

_UNKNOWN = object()
"""Instead of a template; like no other."""


async def read_status(store: Store, tenant: str) -> RolloutStatus | None:
    """The status that the fleet's actor wrote; None when there is none, or none that can be read."""
    kv = (await store.get(keys.fleet_status(tenant))).kv
    record = FleetStatusRecord.from_bytes(kv and kv.value)
    return record.status if record is not None else None


async def change(store: Store, tenant: str, edit: Edit, by: Author, *, catalog: Catalog) -> Committed:
    """Change a fleet's object.

    Raises `NotFound`, `InvalidConfiguration` when the result would be invalid, `InvalidObject` for a fleet that is
    being deleted, and what `edit` raises.
    """
    check_tenant(tenant)

    def edited(before: dict[str, Any] | None, standing: StatusAndObject) -> dict[str, Any]:
        if before is None:
            raise NotFound(f"there is no fleet {tenant}")
        spec = copy.deepcopy(dict(part(before, "spec")))
        draft.insists = bool(edit(spec, standing))
        return {**before, "spec": spec}

    status = await read_status(store, tenant)
    draft = _Draft(tenant, edited, by, catalog, status, await _seen_template(store, tenant, status), edits=True)
    return await _commit(store, draft)


async def _seen_template(store: Store, tenant: str, status: RolloutStatus | None) -> object:
    """The template that the fleet's actor looked at last, as it was written; `_UNKNOWN` when no record shows it."""
    if status is None:
        return _UNKNOWN
    try:
        kv = (await store.get(keys.fleet(tenant), revision=status.observed_generation)).kv
    except (Compacted, RevisionFuture):
        return _UNKNOWN
    seen = readable(kv.value) if kv is not None else None
    return _UNKNOWN if seen is None else part(seen, "spec").get("template")


async def apply(store: Store, tenant: str, manifest: Mapping[str, Any], by: Author, *, catalog: Catalog) -> Committed:
    """Lay a manifest over a fleet's object, or create it. Raises as `change` does."""
    return await _commit(store, _applied(tenant, manifest, by, catalog, await read_status(store, tenant)))


async def checked(store: Store, tenant: str, manifest: Mapping[str, Any], *, catalog: Catalog) -> None:
    """Whether `apply` would be refused, as of now. Raises as it does."""
    stored = (await store.get(keys.fleet(tenant))).kv
    _applied(tenant, manifest, Author(""), catalog, None).over(stored)


def _applied(
    tenant: str, manifest: Mapping[str, Any], by: Author, catalog: Catalog, status: RolloutStatus | None
) -> _Draft:
    about, uid = Reference(FLEET, "", tenant), str(uuid4())
    now = rfc3339_now()

    def laid_over(before: dict[str, Any] | None, _: StatusAndObject) -> dict[str, Any]:
        if before is None:
            return merge.created(manifest, about, uid=uid, now=now)
        return merge.updated(before, manifest, about)

    annotations = part(manifest, "metadata", "annotations")
    why = by.why or str(annotations.get(CHANGE_CAUSE) or "")
    return _Draft(tenant, laid_over, Author(by.who, why), catalog, status)


async def _commit(store: Store, draft: _Draft) -> Committed:
    return await commit(store, keys.fleet(draft.tenant), draft.over, f"fleet {draft.tenant}")


@dataclass(slots=True)
class _Draft:
    """A change to be made to whatever is stored."""

    tenant: str
    make: Callable[[dict[str, Any] | None, StatusAndObject], dict[str, Any]]
    by: Author
    catalog: Catalog
    status: RolloutStatus | None
    seen_template: object = None
    """What the actor looked at last; only for a request to a rollout."""
    edits: bool = False
    """Whether it changes a part of what is stored, and must leave the rest of it as it is."""
    insists: bool = False
    """Whether it is written even if nothing differs."""

    def over(self, stored: KeyValue | None) -> bytes | None:
        """The value to store, or None when nothing changes."""
        before = readable(stored.value) if stored is not None else None
        if stored is not None and before is None:
            raise InvalidObject(f"what is stored as {stored.key} is no object: delete it first")
        if is_deleting(before):
            raise InvalidObject(f"fleet {self.tenant} is being deleted: it can be made again when that is done")
        standing = self._standing(before, stored.mod_revision if stored is not None else 0)
        obj = self.make(before, standing)
        if before is not None and not self.insists and same(_without_author(obj), _without_author(before)):
            return None
        if before is not None and not self.insists:
            _drop_request(before, obj, standing)
        sign(obj, self.by)
        stands = before is not None and self.edits and may_change_nothing(before)
        read_fleet(obj, self.catalog, name=self.tenant, offered=not stands)
        return documents.to_json(obj)

    def _standing(self, before: dict[str, Any] | None, mod_revision: int) -> StatusAndObject:
        standing = StatusAndObject(self.tenant, self.status, mod_revision)
        template = part(before, "spec").get("template")
        return replace(standing, template_seen=standing.seen or template == self.seen_template)


def _drop_request(before: dict[str, Any], obj: dict[str, Any], standing: StatusAndObject) -> None:
    old, new = part(before, "spec"), obj.get("spec")
    if not isinstance(new, dict) or new.get("rollout") != old.get("rollout"):
        return
    if standing.seen or new.get("template") != old.get("template"):
        new.pop("rollout", None)


def sign(obj: dict[str, Any], by: Author) -> None:
    """Note who wrote the object last, and why."""
    metadata = obj["metadata"] = dict(part(obj, "metadata"))
    annotations = metadata["annotations"] = dict(part(metadata, "annotations"))
    annotations[CHANGED_BY] = by.who
    annotations.pop(CHANGE_CAUSE, None)
    if by.why:
        annotations[CHANGE_CAUSE] = by.why


def _without_author(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(part(obj, "metadata"))
    annotations = {k: v for k, v in part(metadata, "annotations").items() if k not in (CHANGED_BY, CHANGE_CAUSE)}
    metadata.pop("annotations", None)
    return {**obj, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


async def mark(store: Store, tenant: str, by: Author) -> Deletion:
    """Mark a fleet as deleting; remove one that no actor ever acted on.

    An object that cannot be read is overwritten: its instances are drained all the same. Raises `NotFound`, and the
    store's errors.
    """
    key = keys.fleet(tenant)
    now = rfc3339_now()

    def over(stored: KeyValue | None) -> bytes | None:
        if stored is None:
            raise NotFound(f"there is no fleet {tenant}")
        obj = readable(stored.value) or {}
        if is_deleting(obj):
            return None
        sign(obj, by)
        obj["metadata"]["deletionTimestamp"] = now
        return documents.to_json(obj)

    done = await commit(store, key, over, f"fleet {tenant}")
    alone = [Compare(key, "mod", done.mod_revision), Compare(keys.actor(tenant), "mod", 0)]
    if (await store.txn(alone, [Delete(key)])).succeeded:
        return Deletion(f"schedulerfleet/{tenant} deleted")
    already = "" if done.written else " already"
    return Deletion(f"schedulerfleet/{tenant} is being deleted{already}", done.written)


# --- edits: what the commands change, and what they refuse ------------------------------------------


def scale(spec: dict[str, Any], _: StatusAndObject, replicas: int) -> None:
    """Set how many instances there are."""
    if spec.get("replicas", 1) != replicas:
        spec["replicas"] = replicas


def restart(spec: dict[str, Any], _: StatusAndObject, now: str) -> None:
    """Replace every instance: the template's `restartedAt` changes."""
    spec["template"] = {**(spec.get("template") or {}), "restartedAt": now}


def pause(spec: dict[str, Any], _: StatusAndObject) -> None:
    """Stop updating where it is."""
    if spec.get("paused") is not True:
        spec["paused"] = True


def resume(spec: dict[str, Any], standing: StatusAndObject) -> bool:
    """Go on with a rollout that was paused, or that stands still: its deadline passed, or slots failed."""
    paused = spec.pop("paused", False)
    if standing.rollout and (standing.template_seen or not paused):
        return _ask(spec, standing, "resume")
    if not paused:
        raise _nothing_open(standing, "resume")
    return False


def promote(spec: dict[str, Any], standing: StatusAndObject) -> bool:
    """Let a rollout go on from its canary to all slots."""
    if not standing.rollout:
        raise _nothing_open(standing, "promote")
    if why := not_promotable(spec):
        raise DoesNotApply(f"the strategy of fleet {standing.tenant} {why}: there is nothing to promote")
    return _ask(spec, standing, "promote")


def abort(spec: dict[str, Any], standing: StatusAndObject) -> bool:
    """End a rollout where it is."""
    if not standing.rollout:
        raise _nothing_open(standing, "abort")
    return _ask(spec, standing, "abort")


def undo(
    spec: dict[str, Any], _: StatusAndObject, picture: Picture, number: int, name: Namer, chose: Callable[[int], None]
) -> None:
    """Put the template of a revision back (0: `last_other`); `chose` gets the revision's number."""
    present = spec.get("template") or {}
    chosen = number or last_other(picture, present, name)
    found = picture.revisions.get(chosen)
    if found is None:
        known = ", ".join(str(known) for known in sorted(picture.revisions)) or "none"
        raise NotFound(f"fleet {picture.tenant} has no revision {chosen} (known: {known})")
    chose(chosen)
    if name(found.template) != name(present):
        spec["template"] = found.template


def last_other(picture: Picture, template: Mapping[str, Any], name: Namer) -> int:
    """What was completed last, else the newest completed revision that differs. Raises `DoesNotApply`: none does."""
    present = name(template)
    completed = sorted(number for number, ended in picture.outcomes.items() if ended.outcome == "completed")
    for number in (picture.last_completed, *reversed(completed)):
        record = picture.revisions.get(number)
        if record is not None and name(record.template) != present:
            return number
    raise DoesNotApply(f"fleet {picture.tenant} has no completed revision that differs from its template")


def _ask(spec: dict[str, Any], standing: StatusAndObject, action: RolloutAction) -> bool:
    """Put the request; whether it is one that was followed already, and is made again.

    Raises `DoesNotApply` when it would be lost: the rollout takes up a newer template first, and ignores a request
    that was written before it had seen that template.
    """
    if not standing.template_seen:
        raise DoesNotApply(
            f"the fleet's latest template was not looked at yet, and to {action} would mean the one before: try again "
            "in a moment; `fleet pause` and `fleet undo` work at once"
        )
    wanted = {"generation": standing.rollout, "action": action}
    earlier = spec.get("rollout")
    waits = isinstance(earlier, Mapping) and earlier.get("generation") == standing.rollout and not standing.seen
    if waits and earlier != wanted and action != "abort":
        raise DoesNotApply("another request to this rollout was not looked at yet: try again in a moment")
    spec["rollout"] = wanted
    return earlier == wanted and standing.seen


def _nothing_open(standing: StatusAndObject, action: str) -> DoesNotApply:
    hint = "" if standing.seen else " (its latest change was not looked at yet: try again in a moment)"
    return DoesNotApply(f"fleet {standing.tenant} has no open rollout: there is nothing to {action}{hint}")


def not_promotable(spec: Mapping[str, Any]) -> str:
    """Why a rollout of a fleet with this spec has no canary that could be promoted; empty where it has one."""
    strategy = spec.get("strategy")
    rolling = strategy.get("rollingUpdate") if isinstance(strategy, Mapping) else None
    if not (isinstance(rolling, Mapping) and rolling.get("canary")):
        return "has no canary"
    partition, replicas = rolling.get("partition", 0), spec.get("replicas", 1)
    if isinstance(partition, int) and isinstance(replicas, int) and 0 < replicas <= partition:
        return f"keeps all {replicas} slots by its partition, those of the canary too"
    return ""
