"""How a fleet stands, as a value: counts, instances, conditions, and the sentences that `fleet status` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from wharfinger.etcd.store import Store
from wharfinger.fleet.model.fleet import Exit
from wharfinger.fleet.model.rollout import Condition
from wharfinger.fleet.reading import fleet_summary
from wharfinger.fleet.reading.fleet_sentences import hints, waiting
from wharfinger.fleet.state.fleet_pictures import Estate, LastChange, Picture, SlotIncarnation
from wharfinger.fleet.state.fleet_reading import existing, read


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
