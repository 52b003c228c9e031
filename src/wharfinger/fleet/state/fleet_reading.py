"""Reads every record of a fleet at one revision of etcd, or waits for its next change. The only reader of fleets.

::

    the planner ◄── fleets ◄─┐
                             ├── read() ──► Estate(fleets: Picture, hosts), `fleet_pictures`
    commands, client ◄───────┘

A record that cannot be read is named in `Picture.unreadable` and hides nothing else. Where it says what may live (a
grant, a slot's counter, a revision), the picture is `blind`: who decides may start nothing. A cordon that cannot be
read keeps instances off all the same. Reads etcd alone, so commands tell all they can while Temporal is down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from wharfinger.errors import Compacted, InvalidObject, NotFound
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Page, Store
from wharfinger.fleet.contracts.fleet_records import (
    Fact,
    FleetStatusRecord,
    HostRecord,
    LostHostRecord,
    OutcomeRecord,
    RevisionRecord,
    read_value,
)
from wharfinger.fleet.model.fleet import Actor, Cordon, Exit, Grant, Slot
from wharfinger.fleet.state.fleet_pictures import Estate, Picture, SlotIncarnation
from wharfinger.objects.documents import documents
from wharfinger.process.following import KeyWatch, watching
from wharfinger.process.records import ConfigStatusRecord, InstanceRecord, Record

_READS = 5
"""Times that a read is begun again because etcd compacted what it was reading."""
_MODELS: Mapping[str, type[Record | Fact]] = {
    keys.REVISIONS: RevisionRecord,
    keys.OUTCOMES: OutcomeRecord,
    keys.ACTORS: Actor,
    keys.FLEET_STATUS: FleetStatusRecord,
    keys.SLOTS: Slot,
    keys.GRANTS: Grant,
    keys.INSTANCES: InstanceRecord,
    keys.CONFIG_STATUS: ConfigStatusRecord,
    keys.EXITS: Exit,
    keys.HOSTS: HostRecord,
    keys.CORDONS: Cordon,
    keys.LOST_HOSTS: LostHostRecord,
}
_OF_ONE = (keys.FLEETS, keys.ACTORS, keys.FLEET_STATUS)
"""Kinds with one key a tenant."""
_OF_MANY = (keys.REVISIONS, keys.OUTCOMES, keys.SLOTS, keys.GRANTS, keys.INSTANCES, keys.CONFIG_STATUS, keys.EXITS)
"""Kinds with keys below the tenant's name."""
_HOSTS = (keys.HOSTS, keys.CORDONS, keys.LOST_HOSTS)
OF_FLEETS = tuple(kind for kind in (keys.FLEETS, *_MODELS) if kind not in (keys.INSTANCES, keys.CONFIG_STATUS))
"""Prefixes of what fleets are made of; instances are the workers' own."""
_VITAL = frozenset({keys.ACTORS, keys.REVISIONS, keys.OUTCOMES, keys.SLOTS, keys.GRANTS})
"""Kinds that say what may live."""
_REASON_LIMIT = 200
"""Characters of why a record cannot be read."""
_DIGITS = 18
"""Of a number in a key, at most."""


async def read(store: Store, tenant: str = "", *, templates: bool = True) -> Estate:
    """All fleets (or one), hosts and cordons, at one revision.

    `templates=False` leaves the revisions out, which are by far the most bytes. Raises the store's errors.
    """
    kinds = [kind for kind in _OF_MANY if templates or kind != keys.REVISIONS]
    if tenant:
        ones, prefixes = [f"{kind}{tenant}" for kind in _OF_ONE], [f"{kind}{tenant}/" for kind in kinds]
    else:
        ones, prefixes = [], [*_OF_ONE, *kinds]
    return await _read(store, tenant, ones, [*_HOSTS, *prefixes])


async def read_to_decide(store: Store, tenant: str) -> Estate:
    """One fleet, and the grants of all fleets on the hosts, at one revision. Raises the store's errors."""
    ones = [f"{kind}{tenant}" for kind in (*_OF_ONE, keys.TENANTS)]
    kinds = (kind for kind in _OF_MANY if kind not in (keys.GRANTS, keys.CONFIG_STATUS))
    return await _read(store, tenant, ones, [*_HOSTS, keys.GRANTS, *(f"{kind}{tenant}/" for kind in kinds)])


async def _read(store: Store, tenant: str, ones: Sequence[str], prefixes: Sequence[str]) -> Estate:
    """`ones`: keys; `prefixes`: all keys below each."""
    for left in reversed(range(_READS)):
        revision = (await store.get(keys.INSTALLATION)).revision
        try:
            found = await asyncio.gather(
                *(_one(store, key, revision) for key in ones),
                *(store.whole(prefix, revision=revision) for prefix in prefixes),
            )
        except Compacted:
            if not left:
                raise
            continue
        estate = estate_of((kv for part in found for kv in part.items), revision)
        if tenant:  # grants may be those of all fleets
            estate.fleets = {tenant: estate.fleet(tenant)}
        return estate
    raise AssertionError("not reached")


def existing(estate: Estate, tenant: str) -> Picture:
    """The picture of a fleet that must be there; raises `NotFound`."""
    picture = estate.fleet(tenant)
    if not picture.exists:
        raise NotFound(f"there is no fleet {tenant}")
    return picture


async def _one(store: Store, key: str, revision: int) -> Page:
    kv = (await store.get(key, revision=revision)).kv
    return Page((kv,) if kv is not None else (), revision)


def estate_of(stored: Iterable[KeyValue], read_at: int) -> Estate:
    """Sort what was read by fleet."""
    estate = Estate(read_at, {})
    for kv in stored:
        kind, parts = _taken_apart(kv.key)
        if kind in _HOSTS:
            _take_host(estate, kind, parts, kv)
            continue
        picture = estate.fleets.setdefault(parts[0], Picture(parts[0], read_at))
        if kind == keys.FLEETS:
            _take_object(picture, kv)
        elif kind == keys.TENANTS:
            picture.tenant_present = True
        elif kind in _MODELS:
            _take(estate, picture, kind, parts[1:], kv)
    estate.fleets = {name: picture for name, picture in sorted(estate.fleets.items()) if _worth(picture)}
    return estate


def _worth(picture: Picture) -> bool:
    left = picture.outcomes or picture.exits or picture.instances or picture.by_hand
    return picture.exists or bool(left or picture.unreadable or picture.unreadable_by_hand or picture.tenant_present)


def _taken_apart(key: str) -> tuple[str, tuple[str, ...]]:
    end = key.find("/", len(keys.OURS)) + 1
    return key[:end], tuple(key[end:].split("/"))


def _take_object(picture: Picture, kv: KeyValue) -> None:
    picture.kv = kv
    try:
        obj = documents.parse(kv.value)
    except InvalidObject as error:
        picture.wrong_object = str(error)
        return
    if isinstance(obj, dict):
        picture.written = obj
    else:
        picture.wrong_object = "is no object"


def _take(estate: Estate, picture: Picture, kind: str, parts: tuple[str, ...], kv: KeyValue) -> None:
    """One record of a fleet into its place."""
    numbers = [number_in_key(part) for part in parts]
    by_hand = kind == keys.INSTANCES and numbers[:1] == [None]
    try:
        record = read_value(_MODELS[kind], kv.value)
    except ValueError as error:
        if by_hand:
            picture.unreadable_by_hand.append(f"{kv.key}: {_first_line(error)}")
        else:
            _refuse(picture, kind, kv, _first_line(error))
        return
    if isinstance(record, Grant):
        estate.granted[record.host] = estate.granted.get(record.host, 0) + 1
    at = kv.mod_revision
    match record, numbers:
        case Actor(), []:
            picture.actor = replace(record, mod_revision=at)
        case FleetStatusRecord(), []:
            picture.status = record
        case RevisionRecord(), [int(number)]:
            picture.revisions[number] = record
        case OutcomeRecord(), [int(number)]:
            picture.outcomes[number] = record
        case Slot(), [int(number)]:
            picture.slots[number] = replace(record, number=number, mod_revision=at)
        case Grant(), [int(slot), int(incarnation)]:
            life = SlotIncarnation(slot, incarnation)
            picture.grants[life] = replace(record, **life._asdict(), mod_revision=at)
        case InstanceRecord(), [int(slot), int(incarnation)]:
            picture.instances[SlotIncarnation(slot, incarnation)] = record
        case InstanceRecord(), _ if by_hand:
            picture.by_hand["/".join(parts)] = record
        case ConfigStatusRecord(), [int(slot), int(incarnation)]:
            picture.configs[SlotIncarnation(slot, incarnation)] = record
        case ConfigStatusRecord(), _:
            return  # of a worker that no fleet manages
        case Exit(), [int(slot), int(incarnation)]:
            life = SlotIncarnation(slot, incarnation)
            picture.exits[life] = replace(record, **life._asdict())
        case _:
            _refuse(picture, kind, kv, "its name is no key of its kind")
            return
    picture.mod_revisions[kv.key] = kv.mod_revision


def _refuse(picture: Picture, kind: str, kv: KeyValue, why: str) -> None:
    picture.unreadable.append(f"{kv.key}: {why}")
    picture.blind |= kind in _VITAL


def _take_host(estate: Estate, kind: str, parts: tuple[str, ...], kv: KeyValue) -> None:
    name = "/".join(parts)
    try:
        match read_value(_MODELS[kind], kv.value):
            case HostRecord() as host:
                estate.hosts[name] = host
            case Cordon() as cordon:
                estate.cordons[name] = replace(cordon, host=name)
            case LostHostRecord() as lost:
                estate.lost[name] = lost
    except ValueError as error:
        estate.unreadable.append(f"{kv.key}: {_first_line(error)}")
        if kind == keys.CORDONS:
            estate.cordons[name] = Cordon(name, action="cordon", why="its record cannot be read")


def _first_line(error: ValueError) -> str:
    return " ".join(str(error).split())[:_REASON_LIMIT]


def number_in_key(text: str) -> int | None:
    """A number as our keys write it: no sign, no leading zero."""
    digits = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return int(text) if digits and str(int(text)) == text else None


def changes(store: Store, tenant: str) -> AbstractAsyncContextManager[KeyWatch]:
    """Watch everything that `read` reads of one fleet.

    A watch an own kind, not one over all: binds write beside them by the thousand.
    """
    wanted = [*(f"{kind}{tenant}" for kind in _OF_ONE), *(f"{kind}{tenant}/" for kind in _OF_MANY), *_HOSTS]
    return watching(store, wanted)


async def fleet_at(store: Store, tenant: str, revision: int) -> KeyValue | None:
    """A fleet's object as it was at a revision; None where there was none. Raises `Compacted`, `RevisionFuture`."""
    return (await store.get(keys.fleet(tenant), revision=revision)).kv
