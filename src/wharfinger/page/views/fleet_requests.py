"""What may be asked of a fleet's rollout as it stands, and what was asked of it before: who, why, and what changed.

A fleet's object says only who wrote it last. Its earlier versions, which etcd keeps until it compacts them, say the
rest; each is read once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from wharfinger.client import fleet_summary
from wharfinger.client.committing import readable
from wharfinger.client.fleet_edits import not_promotable
from wharfinger.config.fleet import CHANGE_CAUSE, CHANGED_BY
from wharfinger.errors import Compacted, RevisionFuture
from wharfinger.observe.fleet_pictures import Picture
from wharfinger.page.follow.plain import text
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, Store

MOST_CHANGES = 20
"""Versions of a fleet's object that are told."""
MOST_KEPT = 100
"""Fleets whose versions are kept."""
_WALKING = ("Running", "CanaryWaiting", "Pending")


def applicable(picture: Picture) -> list[str]:
    """The verbs that mean something now, of pause, resume, promote, abort and undo."""
    if picture.deleting:
        return []
    paused = picture.spec.get("paused") is True
    is_open = picture.status is not None and bool(picture.status.status.generation)
    word = fleet_summary.rollout_word(picture)
    found = {
        "pause": not paused,
        "resume": paused or (is_open and word not in _WALKING),
        "promote": is_open and not not_promotable(picture.spec),
        "abort": is_open,
        "undo": _goes_back(picture),
    }
    return [verb for verb, applies in found.items() if applies]


def last_change(picture: Picture) -> dict[str, Any] | None:
    """Who wrote the object last, and why; None without an object."""
    return _signed(picture.written) | {"revision": picture.generation} if picture.kv is not None else None


class FleetChangeLog:
    """Reads the versions of fleets' objects, and remembers them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, list[tuple[int, Mapping[str, Any]]]] = OrderedDict()
        """By fleet, mod revision and object of each version, the newest first."""

    async def of(self, picture: Picture) -> list[dict[str, Any]]:
        """What changed in the object, the newest first: `revision`, `what`, `who`, `why`. Raises `StoreError`."""
        if picture.kv is None:
            return []
        versions = self._known.pop(picture.tenant, [])
        if versions and versions[0][0] > picture.generation:  # of another life of the store
            versions = []
        found: list[tuple[int, Mapping[str, Any]]] = [(picture.generation, picture.written)]
        oldest = versions[0][0] if versions else 0
        if oldest != picture.generation:
            found += await self._before(picture.tenant, picture.kv, oldest)
            versions = [*found, *versions][: MOST_CHANGES + 1]
        self._known[picture.tenant] = versions
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        told = []
        for place, (revision, obj) in enumerate(versions[:MOST_CHANGES]):
            earlier = versions[place + 1][1] if place + 1 < len(versions) else None
            told.append({"revision": revision, "what": _what(obj, earlier)} | _signed(obj))
        return told

    async def _before(self, tenant: str, newest: KeyValue, known: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Versions before the newest one and behind the one that is known."""
        found: list[tuple[int, Mapping[str, Any]]] = []
        revision = newest.mod_revision
        while len(found) < MOST_CHANGES and revision > newest.create_revision:
            try:
                kv = (await self._store.get(keys.fleet(tenant), revision=revision - 1)).kv
            except (Compacted, RevisionFuture):
                break
            if kv is None or kv.mod_revision <= known:
                break
            revision = kv.mod_revision
            found.append((revision, readable(kv.value) or {}))
        return found


def _what(obj: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> str:
    """What is another than in the version before, in a few words."""
    if _part(obj, "metadata").get("deletionTimestamp"):
        return "deleted"
    if earlier is None:
        return "written"
    now, before = _part(obj, "spec"), _part(earlier, "spec")
    said = []
    if (now.get("paused") is True) is not (before.get("paused") is True):
        said.append("paused" if now.get("paused") is True else "resumed")
    request = _part(now, "rollout")
    if request and request != before.get("rollout"):
        action = str(request.get("action"))
        said += [f"asked to {action}"] if f"{action}d" not in said else []
    if now.get("replicas", 1) != before.get("replicas", 1):
        said.append(f"scaled to {now.get('replicas', 1)}")
    if now.get("template") != before.get("template"):
        said.append("another template")
    if now.get("strategy") != before.get("strategy"):
        said.append("another strategy")
    return text(", ".join(said) or "written again")


def _signed(obj: Mapping[str, Any]) -> dict[str, str]:
    annotations = _part(_part(obj, "metadata"), "annotations")
    return {"who": text(str(annotations.get(CHANGED_BY) or "")), "why": text(str(annotations.get(CHANGE_CAUSE) or ""))}


def _goes_back(picture: Picture) -> bool:
    """Whether a completed revision has another template than the wanted one."""
    wanted = picture.revisions.get(picture.target)
    completed = [number for number, ended in picture.outcomes.items() if ended.outcome == "completed"]
    found = [picture.revisions[number] for number in completed if number in picture.revisions]
    return any(wanted is None or one.template != wanted.template for one in found)


def _part(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = obj.get(name)
    return value if isinstance(value, Mapping) else {}
