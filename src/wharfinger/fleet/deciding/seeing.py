"""From what etcd shows and what was remembered to the view of one look, and the memory that goes with it.

Memory is rebuilt at each look from what is there: it holds at most an entry for every incarnation, slot and host in
sight, so it cannot grow beyond the fleet.
"""

from __future__ import annotations

from dataclasses import replace

from wharfinger.fleet.deciding.hosts import Hosts, known_hosts
from wharfinger.fleet.deciding.lives import Asked, Life, Look
from wharfinger.fleet.model.fleet import HOST_LOST, FleetSpec, Observed, altered
from wharfinger.fleet.model.rollout import (
    EPSILON,
    STEADY,
    AwaitedIncarnation,
    Busy,
    Crashed,
    HostMissing,
    Memory,
    ReadySince,
    Vanished,
)

SILENCE_FORGOTTEN = 5 * HOST_LOST
"""Seconds after which a host whose queue was silent, and whose record is there, is tried like the others."""

Key = tuple[int, int]
"""Slot and incarnation."""


def see(observed: Observed, memory: Memory, asked: Asked, spec: FleetSpec) -> Look:
    """The view, with its memory: what was ready since when, what is waited for, what vanished, which hosts miss."""
    lives = _found(observed, memory, asked)
    ready, waiting = [], []
    lost: list[int] = []
    known = {(entry.slot, entry.incarnation): entry for entry in memory.ready}
    awaited = {(entry.slot, entry.incarnation): entry for entry in memory.waiting}
    for life in lives:
        if not life.runs or life.grant is None:
            continue
        key = life.slot, life.incarnation
        since = _ready_since(life, known.get(key), memory.clock)
        if not life.ready:
            _note_vanished(life, known, memory.clock, spec, lost)
        elif since is not None:
            life.counted = memory.clock - since.since >= spec.min_ready - EPSILON and not life.foreign
            life.ready_at = 0.0 if life.counted else since.since + spec.min_ready
        if since is not None:
            if life.counted and (since.lost or not since.counted_since):
                since = replace(since, lost=0.0, counted_since=since.counted_since or memory.clock)
            ready.append(since)
        if not life.counted and (key in awaited or key not in known):
            wait = awaited.get(key) or AwaitedIncarnation(*key, memory.clock)
            waiting.append(wait)
            life.newcomer, life.since, life.refused = True, wait.since, wait.refused
    available = {life.slot for life in lives if life.counted}
    vanished, careful = _carefulness(memory, asked, spec, lost, available)
    crashed = _crashes(memory, lives, spec)
    occupied = {life.host for life in lives if life.grant is not None and not life.ended}
    absent = sorted(occupied.difference((host.name for host in observed.hosts), ("",)))
    missing = {one.host: one.since for one in memory.hosts}
    memory = altered(
        memory,
        spec=spec,
        ready=tuple(ready),
        waiting=tuple(waiting),
        gone=tuple(sorted({(life.slot, life.incarnation) for life in lives if _end_is_known(life)})),
        crashed=crashed,
        looping=_looping(memory, asked, crashed),
        hosts=tuple(HostMissing(host, missing.get(host, memory.clock)) for host in absent),
        silent_hosts=_silent_hosts(observed, memory),
        known=known_hosts(observed, memory, occupied),
        vanished=vanished,
        careful=careful,
        fresh=_fresh(memory, observed, lives, spec),
        replicas=spec.replicas,
    )
    places: dict[int, list[Life]] = {}
    for life in lives:
        places.setdefault(life.slot, []).append(life)
    return Look(
        observed=observed,
        asked=asked,
        spec=spec,
        memory=memory,
        lives=tuple(lives),
        places={slot: tuple(those) for slot, those in places.items()},
        counting=frozenset(available),
        records={slot.number: slot for slot in observed.slots},
        hosts=Hosts(observed, memory, asked.host_lost),
    )


def broken(memory: Memory, clock: float) -> Memory:
    """Memory after a gap in the view that ended at a moment of the clock: what was seen since when begins anew."""
    return altered(
        memory,
        sight_since=max(memory.sight_since, clock),
        ready=tuple(
            replace(
                entry,
                since=max(entry.since, clock),
                lost=max(entry.lost, clock) if entry.lost else 0.0,
                counted_since=0.0,
            )
            for entry in memory.ready
        ),
        hosts=tuple(replace(entry, since=max(entry.since, clock)) for entry in memory.hosts),
    )


def _found(observed: Observed, memory: Memory, asked: Asked) -> list[Life]:
    """Every incarnation in etcd or in a running step."""
    grants = {(grant.slot, grant.incarnation): grant for grant in observed.grants}
    instances = {(record.slot, record.incarnation): record for record in observed.instances}
    exits = {(end.slot, end.incarnation): end for end in observed.exits}
    busy: dict[Key, Busy] = {(step.slot, step.incarnation): step for step in asked.busy}
    for step in asked.busy:
        if step.kind == "up" and step.incarnation == 0:
            known = {(entry.slot, entry.incarnation) for entry in memory.ready}
            known |= {(entry.slot, entry.incarnation) for entry in memory.waiting}
            new = max((key for key in grants if key[0] == step.slot and key not in known | busy.keys()), default=None)
            if new is not None:  # its grant is there before its answer is
                del busy[step.slot, 0]
                busy[new] = step
    gone = set(memory.gone)
    identity = observed.desired.identity if observed.desired is not None else 0
    return [
        Life(
            *key,
            grant=grants.get(key),
            instance=instances.get(key),
            exit=exits.get(key),
            busy=busy.get(key),
            foreign=identity != 0 and key in grants and grants[key].identity != identity,
            gone=key in gone and key in grants.keys() | instances.keys(),
        )
        for key in sorted(grants.keys() | instances.keys() | exits.keys() | busy.keys())
    ]


def _end_is_known(life: Life) -> bool:
    """Whether the end was judged, and counted, by this plan or before: while a step is open on it, that is put off.

    Whom a drop is about was counted when that was planned.
    """
    return life.ended and (life.gone or life.busy is None or life.busy.kind == "drop")


def _ready_since(life: Life, known: ReadySince | None, clock: float) -> ReadySince | None:
    if life.ready and life.instance is not None:
        if known is not None and known.mod_revision == life.instance.mod_revision:
            return known
        lost = known.lost if known is not None else 0.0
        return ReadySince(life.slot, life.incarnation, life.instance.mod_revision, clock, lost)
    if known is not None and known.mod_revision:
        return replace(known, mod_revision=0, since=clock, lost=known.lost or clock, counted_since=0.0)
    return known


def _note_vanished(life: Life, known: dict[Key, ReadySince], clock: float, spec: FleetSpec, lost: list[int]) -> None:
    """A slot vanished when what was counted is not ready any more, though its grant does not say drain.

    What has an exit record never comes here: a process that crashed, or a host that was started anew, leaves no doubt.
    """
    entry = known.get((life.slot, life.incarnation))
    if entry is not None and entry.mod_revision and clock - entry.since >= spec.min_ready - EPSILON:
        granted = life.grant is not None and life.grant.want == "run"
        if granted and (life.busy is None or life.busy.kind == "up"):
            lost.append(life.slot)


def _carefulness(
    memory: Memory, asked: Asked, spec: FleetSpec, lost: list[int], available: set[int]
) -> tuple[tuple[Vanished, ...], bool]:
    """What vanished within a lease time, and whether repairs go one at a time."""
    if not (lost or memory.vanished or memory.careful):
        return (), False
    recent = [
        entry for entry in memory.vanished if memory.clock - entry.at <= asked.lease_ttl and entry.slot not in lost
    ]
    vanished = (*recent, *(Vanished(slot, memory.clock) for slot in dict.fromkeys(lost)))
    allowed = max(spec.max_unavailable.of(spec.replicas, up=False), 1)
    many = memory.careful or len(vanished) > allowed
    return vanished, many and not available.issuperset(range(spec.replicas))


def _crashes(memory: Memory, lives: list[Life], spec: FleetSpec) -> tuple[Crashed, ...]:
    """Without those that are over: long ago, or of slots that are gone."""
    if not memory.crashed:
        return ()
    occupied = {life.slot for life in lives}
    return tuple(
        crash
        for crash in memory.crashed
        if memory.clock < crash.not_before + STEADY and (crash.slot < spec.replicas or crash.slot in occupied)
    )


def _looping(memory: Memory, asked: Asked, crashed: tuple[Crashed, ...]) -> tuple[int, ...]:
    """Revisions in a crash loop. A rollout replaces their instances, so while it is open none is forgotten."""
    found = {crash.revision for crash in crashed if crash.times > 1 and crash.revision}
    if asked.role == "rollout":
        found |= set(memory.looping)
    return tuple(sorted(found))


def _silent_hosts(observed: Observed, memory: Memory) -> tuple[HostMissing, ...]:
    """A host that returned, or whose silence is long past, is like any other."""
    if not memory.silent_hosts:
        return ()
    present = {host.name for host in observed.hosts}
    returned = {missing.host for missing in memory.hosts} & present
    return tuple(
        silent
        for silent in memory.silent_hosts
        if silent.host not in returned
        and (memory.clock - silent.since < SILENCE_FORGOTTEN or any(m.host == silent.host for m in memory.hosts))
    )


def _fresh(memory: Memory, observed: Observed, lives: list[Life], spec: FleetSpec) -> tuple[int, ...]:
    """Slots that scaling up brought, as far as they had no instance yet."""
    occupied = {life.slot for life in lives}
    recorded = {slot.number for slot in observed.slots}
    first = memory.replicas if memory.spec is not None else spec.replicas
    return tuple(
        slot
        for slot in range(spec.replicas)
        if slot not in occupied and (slot >= first or slot not in recorded or slot in memory.fresh)
    )
