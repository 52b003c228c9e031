"""Writes one manifest by compare-and-set, also while other clients write the object.

What is written is `manifests.merge`'s affair, where it lies `registry.keys`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.cli.files import Manifest
from wharfinger.cli.objects.stored import priority_classes
from wharfinger.client.committing import commit, readable, same
from wharfinger.errors import (
    ConfigurationError,
    InvalidConfiguration,
    InvalidObject,
    RequestTooLarge,
)
from wharfinger.manifests import decode, documents, merge
from wharfinger.manifests.kinds import (
    DECIDING,
    DELIVERING,
    ENVELOPES,
    FLEET,
    NODE,
    OVERRIDES,
    POD,
    PRIORITY_CLASS,
    Reference,
)
from wharfinger.manifests.rk8s.applying import written_over
from wharfinger.manifests.rk8s.given import GivenDocument
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, Read, Store

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one manifest."""

    object: str
    """`pod/default/web`, or the file when no object could be read from it."""
    result: str
    """`created`, `configured`, `unchanged` or `refused`."""
    problems: tuple[str, ...] = ()
    """Why it was refused, a line each."""
    notes: tuple[str, ...] = ()
    """What of it has no effect, a line each."""

    def mapping(self) -> dict[str, str]:
        """As printed for programs; the reason only where there is one."""
        shown = {"object": self.object, "result": self.result}
        return {**shown, "reason": "; ".join(self.problems)} if self.problems else shown


def key_of(about: Reference) -> str:
    """Where an object lies in etcd."""
    return keys.stored(about.kind.folder, about.namespace, about.name)


async def write(store: Store, manifest: Manifest, *, uid: str, now: str, read: Read | None = None) -> Applied:
    """Write one object; what is wrong with it is a result, not an error.

    `uid` and `now` (RFC 3339, UTC) are given to a new object that has none. `read`: what was read of its key already.
    Raises `Unavailable`.
    """
    if manifest.about is None or manifest.obj is None:
        return Applied(manifest.source, REFUSED, (manifest.problem,))
    if manifest.about.kind is FLEET:
        return await _write_fleet(store, manifest.about, manifest.obj)
    if manifest.document is not None:
        return await _write_rk8s(store, manifest.about, manifest.document, read, uid=uid, now=now)
    default = (await priority_classes(store)).default if manifest.about.kind is PRIORITY_CLASS else None
    if manifest.about.kind in OVERRIDES:
        taken = await _overridden_elsewhere(store, manifest.about, manifest.obj)
        if taken:
            return Applied(str(manifest.about), REFUSED, taken)
    draft = _Draft(manifest.about, dict(manifest.obj), uid, now, default.name if default is not None else "")
    key = key_of(manifest.about)
    try:
        await commit(store, key, draft.over, str(manifest.about), read=read)
        notes = (*draft.notes, *await _notes_on_kinds(store, manifest.obj))
        return Applied(str(manifest.about), draft.result, notes=notes)
    except InvalidConfiguration as error:
        return Applied(str(manifest.about), REFUSED, error.problems)
    except (InvalidObject, RequestTooLarge) as error:
        return Applied(str(manifest.about), REFUSED, (str(error),))


async def _notes_on_kinds(store: Store, obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Kinds that an object of placement names and no joined member takes."""
    from wharfinger.engine.placements.placed_kinds import names_kinds, untaken_kinds

    return await untaken_kinds(store, obj) if names_kinds(obj) else ()


async def _overridden_elsewhere(store: Store, about: Reference, obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Which objects another override of the kind selects already, a line each: only one may, as in KubeFleet."""
    from wharfinger.config.placement import overridden

    own = overridden(obj)
    problems: list[str] = []
    prefix = keys.stored_prefix(about.kind.folder, about.namespace)
    async for kv in store.each(prefix):
        name, other = kv.key.removeprefix(prefix), readable(kv.value)
        shared = own.keys() & overridden(other).keys() if other is not None and name != about.name else ()
        problems += [f"{own[one]}: {'/'.join(filter(None, one))} is overridden by {name} already" for one in shared]
    return tuple(sorted(problems))


async def _write_rk8s(
    store: Store, about: Reference, document: GivenDocument, read: Read | None, *, uid: str, now: str
) -> Applied:
    result = ""

    def over(stored: KeyValue | None) -> bytes | None:
        nonlocal result
        value = written_over(stored.value if stored is not None else None, document, uid=uid, now=now)
        result = "unchanged" if value is None else "created" if stored is None else "configured"
        return value

    try:
        await commit(store, key_of(about), over, str(about), read=read)
    except (InvalidObject, RequestTooLarge) as error:
        return Applied(str(about), REFUSED, (str(error),))
    return Applied(str(about), result)


async def _write_fleet(store: Store, about: Reference, manifest: Mapping[str, Any]) -> Applied:
    from wharfinger.client import fleet_changes
    from wharfinger.client.committing import author
    from wharfinger.client.fleet_templates import known_plugins

    by, catalog = author(), known_plugins()
    try:
        changed = await fleet_changes.apply(store, about.name, manifest, by, catalog=catalog)
    except InvalidConfiguration as error:
        return Applied(str(about), REFUSED, error.problems)
    except (ConfigurationError, InvalidObject, RequestTooLarge) as error:
        return Applied(str(about), REFUSED, (str(error),))
    return Applied(str(about), changed.result)


@dataclass(slots=True)
class _Draft:
    """A manifest to be laid over whatever is stored; remembers what that made of the object."""

    about: Reference
    manifest: dict[str, Any]
    uid: str
    now: str
    default: str = ""
    """Of a PriorityClass: the stored class that is the global default; empty = none is."""
    result: str = "unchanged"
    notes: tuple[str, ...] = ()

    def over(self, stored: KeyValue | None) -> bytes | None:
        """The value to store, or None when the stored one is equal.

        Raises `InvalidObject`; for an object of placement `InvalidConfiguration`, which names all that is wrong.
        """
        before = readable(stored.value) if stored is not None else None
        if before is None:  # nothing there, or bytes that are no object: nothing to keep
            obj = merge.created(self.manifest, self.about, uid=self.uid, now=self.now)
            self._check_placement(obj, None)
        else:
            obj = merge.updated(before, self.manifest, self.about)
            self._check_placement(obj, before)
            if same(obj, before):
                return None
        _check(obj, self.about)
        if self.default not in ("", self.about.name) and obj.get("globalDefault") is True:
            raise InvalidObject(
                f"globalDefault: PriorityClass {self.default} is the default, of which there is one only"
            )
        self.result = "created" if stored is None else "configured"
        return documents.to_json(obj)

    def _check_placement(self, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        self.notes = ()
        if self.about.kind not in (*DECIDING, *DELIVERING):
            return
        from wharfinger.config.placement import check_placement_change, notes_on
        from wharfinger.engine.placements.placed_kinds import check_with_kinds

        check_with_kinds(obj)
        if self.about.kind in ENVELOPES:
            return
        if before is not None:
            check_placement_change(before, obj)
        self.notes = notes_on(self.manifest)


def unreadable(manifest: Manifest) -> tuple[str, ...]:
    """Why the scheduler could not read a manifest as it stands; empty when it can."""
    try:
        if manifest.about is not None and manifest.obj is not None:
            _check(dict(manifest.obj), manifest.about)
    except InvalidObject as error:
        return (str(error),)
    return ()


def _check(obj: dict[str, Any], about: Reference) -> None:
    """Refuse a pod, node or priority class that the scheduler could not read. Raises `InvalidObject`."""
    if about.kind is POD:
        decode.pod_from_mapping(obj)
    elif about.kind is NODE:
        decode.node_from_mapping(obj)
    elif about.kind is PRIORITY_CLASS:
        decode.surrounding_from_mapping(obj, about.kind.name)
