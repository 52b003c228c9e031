"""How a fleet stands, as a value: counts, instances, conditions, and the sentences that `fleet status` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.fleet.model.fleet import Exit, FleetSpec
from wharfinger.fleet.model.rollout import Condition, Running
from wharfinger.fleet.reading import fleet_summary
from wharfinger.fleet.reading.fleet_summary import exit_words, phase
from wharfinger.fleet.state.fleet_pictures import Estate, LastChange, Picture, SlotIncarnation
from wharfinger.fleet.state.fleet_reading import existing, read
from wharfinger.objects.documents.times import duration, seconds_since
from wharfinger.objects.model.texts import counted

SILENT = 60.0
"""Seconds beyond a step's limit after which it is said that the actor is not heard of."""


@dataclass(frozen=True, slots=True)
class FleetInstance:
    """One incarnation of a slot."""

    slot: int
    incarnation: int
    phase: str
    """`granted`, `starting`, `ready`, `draining`, `withdrawn`, `ended`, `crashed`, `revoked` or `unknown`."""
    ready: bool
    revision: int | None
    """Of the template that it runs."""
    assigned_revision: int | None
    """Of the template that its slot should run."""
    host: str | None
    crashes: int
    """Ends in a row of the slot's instances."""
    pid: int | None
    health: str | None
    waiting_for: str | None
    """What `/readyz` misses."""
    problems: dict[str, str]
    """What it reports of its dynamic configuration, by kind."""
    exit: Exit | None
    unproven: bool = False
    """Whether it is the updated instance of a slot that the open rollout still observes."""


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """How a fleet stands, as of one revision of etcd."""

    tenant: str
    generation: int
    """Mod revision of the fleet's object; 0 = there is none any more."""
    replicas: int
    """Instances that are wanted."""
    ready: int
    updated: int
    """Ready instances on the wanted template."""
    outdated: int
    """Living instances of other templates."""
    revision: int
    """Number of the wanted template; 0 = none was taken yet."""
    completed: int
    """Number of the template that a rollout brought to every slot last; 0 = none."""
    rollout: str
    """`Running`, `Paused`, `CanaryWaiting`, `Completed`, `Pending`, ... or `-`."""
    phase: str
    """What the fleet's actor does now, in a sentence; empty when nothing."""
    observed: bool
    """Whether the actor has looked at the object as it is now."""
    conditions: tuple[Condition, ...]
    last_change: LastChange | None
    instances: tuple[FleetInstance, ...]
    waiting: tuple[str, ...]
    """A sentence for every step that is being taken."""
    hints: tuple[str, ...]
    """What an operator should know beside that."""
    estate: Estate = field(repr=False, compare=False)
    """The records that this was read from."""

    @property
    def picture(self) -> Picture:
        """The fleet's own records."""
        return self.estate.fleet(self.tenant)


async def look(store: Store, tenant: str, now: datetime) -> FleetStatus:
    """The status of one fleet as etcd has it now. Raises `NotFound`, and the store's errors."""
    estate = await read(store, tenant)
    return status_of(estate, existing(estate, tenant), now)


def status_of(estate: Estate, picture: Picture, now: datetime) -> FleetStatus:
    """The status of one fleet. Pure."""
    told = picture.status.status if picture.status is not None else None
    return FleetStatus(
        tenant=picture.tenant,
        generation=picture.generation,
        replicas=picture.replicas,
        ready=fleet_summary.ready_count(picture),
        updated=fleet_summary.updated(picture),
        outdated=fleet_summary.outdated(picture),
        revision=picture.target,
        completed=picture.last_completed,
        rollout=fleet_summary.rollout_word(picture),
        phase=told.phase if told is not None else "",
        observed=picture.observed,
        conditions=told.conditions if told is not None else (),
        last_change=picture.last_change,
        instances=tuple(_instance(picture, life) for life in picture.lives),
        waiting=tuple(waiting(picture, now)),
        hints=tuple(hints(estate, picture, now)),
        estate=estate,
    )


def _instance(picture: Picture, life: SlotIncarnation) -> FleetInstance:
    slot, grant, instance = picture.slots.get(life.slot), picture.grants.get(life), picture.instances.get(life)
    return FleetInstance(
        slot=life.slot,
        incarnation=life.incarnation,
        phase=fleet_summary.phase(picture, life),
        ready=picture.ready(life),
        revision=grant.revision if grant is not None else None,
        assigned_revision=slot.revision if slot is not None else None,
        host=grant.host if grant is not None else instance.host if instance is not None else None,
        crashes=fleet_summary.crashes(picture, life.slot),
        pid=instance.pid if instance is not None else None,
        health=instance.health if instance is not None else None,
        waiting_for=instance.waiting_for if instance is not None else None,
        problems=picture.problems(life),
        exit=picture.exits.get(life),
        unproven=fleet_summary.unproven(picture, life),
    )


# --- sentences -------------------------------------------------------------------------------------


def waiting(picture: Picture, now: datetime) -> list[str]:
    """A sentence for every step that is being taken, and for every incarnation that is on its way without one."""
    steps = picture.status.status.running if picture.status is not None else ()
    elapsed = _elapsed(picture, now)
    said = [_step(picture, step, elapsed) for step in steps if not _over(picture, step)]
    covered = {_life(picture, step) for step in steps}
    said += [
        f"slot {life.slot}: {why}"
        for life in picture.lives
        if life not in covered and not picture.ready(life) and (why := _state(picture, life))
    ]
    return said


def _elapsed(picture: Picture, now: datetime) -> float:
    """Seconds since the status was written."""
    return (seconds_since(picture.status.time, now) or 0.0) if picture.status is not None else 0.0


def _life(picture: Picture, step: Running) -> SlotIncarnation:
    """Whom a step is about: one that was begun without an incarnation, about the one that was granted since."""
    if step.incarnation or picture.status is None:
        return SlotIncarnation(step.slot, step.incarnation)
    told = {number for one in picture.status.status.slots if one.slot == step.slot for number, *_ in one.incarnations}
    new = [life for life in picture.grants if life.slot == step.slot and life.incarnation not in told]
    return max(new, default=SlotIncarnation(step.slot, 0))


def _over(picture: Picture, step: Running) -> bool:
    """Whether etcd shows the end of a step that the status does not know yet."""
    return (
        step.kind != "up"
        and bool(step.incarnation)
        and SlotIncarnation(step.slot, step.incarnation) not in picture.lives
    )


def _limit(picture: Picture, step: Running) -> float:
    """Seconds that a step may take, by the spec where the step has none yet; 0 = no limit."""
    if step.limit or step.kind != "up":
        return step.limit
    written = picture.spec.get("instanceDeadlineSeconds", FleetSpec().instance_deadline)
    return float(written) if isinstance(written, int | float) else 0.0


def _step(picture: Picture, step: Running, elapsed: float) -> str:
    life = _life(picture, step)
    why = _state(picture, life) if life.incarnation else ""
    about = f"slot {step.slot}: "
    sentence = about + why if why else step.sentence
    if not sentence.startswith(about):
        sentence = about + sentence
    return f"{sentence}, {_seconds(step.seen + elapsed, _limit(picture, step))}"


def _seconds(seen: float, limit: float) -> str:
    if not limit:
        return duration(seen) if seen >= 120 else f"{seen:.0f} s"
    return f"{seen:.0f} s of {limit:.0f}"


def _state(picture: Picture, life: SlotIncarnation) -> str:
    """What an incarnation waits for by its own records; empty when they do not show it."""
    grant, instance, exited = picture.grants.get(life), picture.instances.get(life), picture.exits.get(life)
    which = f"incarnation {life.incarnation}"
    if exited is not None:
        return f"{which} {exit_words(exited)}; its place is to be cleared"
    if grant is None:
        return f"{which} is fenced off, its process is to end" if instance is not None else ""
    on = f"{which} on {grant.host}"
    match phase(picture, life):
        case "starting":
            waits = instance.waiting_for if instance is not None else ""
            return f"/readyz says {waits}" if waits else f"{on} is starting"
        case "ready":
            return f"{on} is ready and must stay so for minReadySeconds"
        case "withdrawn":
            waits = instance.waiting_for if instance is not None else ""
            return f"{on} withdrew itself" + (f": {waits}" if waits else "")
        case "draining":
            return f"{on} drains" if instance is not None else f"{on} has drained, its process is to end"
        case "granted":
            return f"{on} is to be started and to register"
        case _:
            return f"{on} has no record: its process may be gone, or cannot reach etcd"


def hints(estate: Estate, picture: Picture, now: datetime) -> list[str]:
    """What an operator should know that neither a condition nor a step shows."""
    return [
        *_actor_hints(estate, picture, now),
        *_temporal_hint(picture),
        *_place_hints(estate, picture),
        *([f"{keys.fleet(picture.tenant)}: {picture.wrong_object}"] if picture.wrong_object else []),
        *picture.unreadable,
        *picture.unreadable_by_hand,
    ]


def crowding(estate: Estate) -> str:
    """What to know where all fleets together want more instances than the hosts with agents have CPUs; else empty.

    Also empty where a host does not say how many it has. `estate` has all fleets.
    """
    wanted = sum(picture.replicas for picture in estate.fleets.values())
    cpus = [host.cpus for host in estate.hosts.values()]
    if not cpus or 0 in cpus or wanted <= sum(cpus):
        return ""
    have = f"{sum(cpus)} CPU{'s' if sum(cpus) > 1 else ''}"
    return (
        f"all fleets together want {wanted} instances, and the hosts have {have}: "
        "each instance is a process that may use one; `agent --capacity N` bounds a host's"
    )


def _actor_hints(estate: Estate, picture: Picture, now: datetime) -> Iterator[str]:
    if not estate.controlled:
        yield "no live agent looks after fleets, so nothing is started or ended: run `wharfinger agent` on some host"
    elif picture.kv is not None and not picture.observed:
        yield "the fleet's workflow has not looked at the present object yet: that takes seconds, and needs Temporal"
    elif picture.status is not None:
        elapsed = _elapsed(picture, now)
        for step in picture.status.status.running:
            limit = _limit(picture, step)
            if limit and step.seen + elapsed > limit + SILENT and not _over(picture, step):
                yield (
                    f"the status is {duration(elapsed)} old and a step is beyond its limit: "
                    "the workflow that acts on the fleet may be away; is Temporal up?"
                )
                return


def _temporal_hint(picture: Picture) -> Iterator[str]:
    away = [one for one in picture.instances.values() if one.state == "withdrawn" and "Temporal" in one.waiting_for]
    if away and len(away) == len(picture.instances):
        yield "no instance reaches Temporal: nothing is placed, and conditions are not followed, until it is back"


def _place_hints(estate: Estate, picture: Picture) -> Iterator[str]:
    hosts = {grant.host for life, grant in picture.grants.items() if life not in picture.exits}
    for host in sorted(hosts - set(estate.hosts)):
        yield (
            f"host {host} has no live agent: those of its instances that are ready go on serving, "
            "the state of the others is unknown"
        )
        if any(grant.host == host and grant.want == "drain" for grant in picture.grants.values()):
            yield (
                f"a draining instance on host {host} is given up when its lease has been gone for a minute, "
                "or drainTimeoutSeconds are over: no agent reports its end"
            )
    together = picture.status.status.lost_together if picture.status is not None else ()
    for host in sorted(set(together) - estate.hosts.keys() - estate.lost.keys()):
        yield (
            f"host {host} was lost with most others at once: one slot is repaired at a time until "
            f"you confirm that it is gone for good: `wharfinger host confirm-lost {host}`"
        )
    ready = [life for life in picture.grants if picture.ready(life) and life.slot < picture.replicas]
    used = {picture.grants[life].host for life in ready}
    if len({life.slot for life in ready}) > 1 and len(used) == 1 and len(estate.hosts) > 1:
        yield (
            f"all {len(ready)} ready instances are on host {used.pop()}, one of {len(estate.hosts)}, and would be "
            f"lost with it: `wharfinger fleet restart {picture.tenant}` spreads them"
        )
    identity = picture.kv.create_revision if picture.kv is not None else 0
    strangers = [life for life, grant in picture.grants.items() if identity and grant.identity not in (0, identity)]
    if strangers:
        count = len(strangers)
        yield f"{count} instance{'s' if count > 1 else ''} of an earlier fleet of this name must end first"
    if picture.by_hand:
        names = counted(sorted(picture.by_hand), 3)
        yield f"workers started by hand serve this tenant too, and are left alone: {names}"
