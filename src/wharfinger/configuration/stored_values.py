"""Values of the dynamic configuration as they lie in etcd, and which of them counts for an instance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import AccessDenied, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.fleet.state.fleet_reading import read as read_fleets
from wharfinger.framework.config.dynamic import DEFAULT, VALUES, digest, is_target, targets
from wharfinger.objects.model.texts import plain
from wharfinger.process.names import check_tenant
from wharfinger.process.records import ConfigStatusRecord

SHOWN = 12
"""Characters of a hash that people see."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value as it lies in etcd."""

    kind: str
    target: str
    value: Any
    revision: int
    readable: bool = True

    @property
    def digest(self) -> str:
        """SHA-256 of the value; empty when it is no JSON."""
        return digest(self.value) if self.readable else ""

    def mapping(self) -> dict[str, Any]:
        """For programs."""
        said = {"kind": self.kind, "target": self.target, "hash": self.digest, "resourceVersion": str(self.revision)}
        return {**said, "value": self.value}

    @property
    def shown(self) -> str:
        """The beginning of its digest, for people; `-` where it has none."""
        return self.digest[:SHOWN] or "-"


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that counts for an instance, and the one that it reports."""

    kind: str
    counts: StoredValue | None
    said: ConfigStatusRecord | None
    """None = no instance, or one that does not report it."""

    @property
    def problem(self) -> str:
        """The problems that the instance reports."""
        return self.said.problems.get(self.kind, "") if self.said is not None else ""

    @property
    def in_force(self) -> str:
        """`yes`, `as started`, another value's hash, or `?` when the instance reports none."""
        if self.said is None:
            return "?"
        said, wanted = self.said.in_force.get(self.kind, ""), self.counts.digest if self.counts is not None else ""
        if said == wanted:
            return "yes"
        return said[:SHOWN] or "as started"

    def mapping(self) -> dict[str, Any]:
        """For programs."""
        counts = self.counts.mapping() if self.counts is not None else None
        return {"kind": self.kind, "inForce": plain(self.in_force), "problem": plain(self.problem), "counts": counts}


async def read(store: Store) -> list[StoredValue]:
    """Every value, in the order of keys."""
    return [_stored(kv) async for kv in store.each(keys.CONFIG)]


async def effective(store: Store, values: Sequence[StoredValue], kind: str, whose: str) -> list[Effective]:
    """What counts for `TENANT/SLOT`. Raises `UsageError`."""
    if not is_target(instance_target(whose)):
        raise UsageError(f"{whose!r} is no TENANT/SLOT, such as common/0")
    tenant, _, slot = whose.partition("/")
    check_tenant(tenant)
    said = await _said(store, tenant, slot)
    own = said.own if said is not None else ()
    stored = {(value.kind, value.target): value for value in values}

    def counts(each: str) -> StoredValue | None:
        order = (*targets(tenant, slot), *(() if each in own else (DEFAULT,)))
        return next((stored[each, target] for target in order if (each, target) in stored), None)

    return [Effective(each, counts(each), said) for each in ([kind] if kind else VALUES)]


def instance_target(whose: str) -> str:
    """The target that `TENANT/SLOT` is."""
    return f"instance/{whose}"


async def absence_note(store: Store, target: str) -> str:
    """A note on a target that does not exist, perhaps not yet; empty when it exists, or fleets may not be read."""
    _, *of_whom = target.split("/")
    if not of_whom:
        return ""
    tenant, slot = of_whom[0], "".join(of_whom[1:])
    try:
        picture = (await read_fleets(store, tenant, templates=False)).fleet(tenant)
    except AccessDenied:  # a client that may only set values must not fail because of a note
        return ""
    if not picture.exists:  # workers that were started by hand have no slot
        return "" if picture.by_hand and not slot else f"note: there is no fleet {tenant} yet"
    if slot and int(slot) >= picture.replicas and int(slot) not in {life.slot for life in picture.lives}:
        return f"note: fleet {tenant} has no slot {slot} yet"
    return ""


async def _said(store: Store, tenant: str, slot: str) -> ConfigStatusRecord | None:
    """What the slot's newest life says."""
    newest: tuple[int, ConfigStatusRecord] | None = None
    async for (*_, life), record in keys.config_status.records(
        store, ConfigStatusRecord.model_validate_json, tenant, slot
    ):
        if life.isdecimal() and (newest is None or int(life) > newest[0]):
            newest = int(life), record
    return newest[1] if newest is not None else None


def _stored(kv: KeyValue) -> StoredValue:
    kind, _, target = kv.key.removeprefix(keys.CONFIG).partition("/")
    try:
        return StoredValue(kind, target, json.loads(kv.value), kv.mod_revision)
    except (ValueError, RecursionError):
        return StoredValue(kind, target, None, kv.mod_revision, readable=False)
