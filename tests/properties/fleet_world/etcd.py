"""A tiny etcd that knows a fleet's keys: every write a revision, every key its create and mod revision.

Values are the model's own dataclasses, so that a look costs microseconds. Transactions are plain Python between two
events of the timeline, which nothing interrupts; who writes asks `Etcd.next` for the revision first. Neighbours:
`control` (activities), `machines` and `process` write; `judge` reads along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from wharfinger.fleet.model.fleet import Actor, Cordon, Exit, FleetSpec, Grant, Host, Instance, OutcomeName, Slot
from wharfinger.fleet.model.rollout import RolloutStatus

Life = tuple[int, int]
"""(slot, incarnation)"""


class Away(Exception):
    """etcd does not answer."""


@dataclass(slots=True)
class Fleet:
    """A fleet's object: as written, and by which revisions."""

    spec: FleetSpec | None
    template: str
    """As written; what it completes to is the reader's business."""
    create_revision: int
    mod_revision: int
    deleting: bool = False


@dataclass(slots=True)
class Shelf:
    """All keys of one tenant."""

    tenant: str
    fleet: Fleet | None = None
    revisions: dict[int, str] = field(default_factory=dict)
    """Number -> template as written."""
    outcomes: dict[int, OutcomeName] = field(default_factory=dict)
    actor: Actor | None = None
    slots: dict[int, Slot] = field(default_factory=dict)
    grants: dict[Life, Grant] = field(default_factory=dict)
    tokens: dict[Life, object] = field(default_factory=dict)
    """Which activity put the grant."""
    born: dict[Life, int] = field(default_factory=dict)
    """Create revisions of grants."""
    instances: dict[Life, Instance] = field(default_factory=dict)
    since: dict[Life, float] = field(default_factory=dict)
    """When the instance's record was last written."""
    owners: dict[Life, object] = field(default_factory=dict)
    """Under whose lease it lies."""
    exits: dict[Life, Exit] = field(default_factory=dict)
    exited: dict[Life, int] = field(default_factory=dict)
    """Create revisions of exits."""
    present: bool = False
    """Whether `tenants/<tenant>` is there."""
    status: RolloutStatus | None = None

    def alike(self, one: int, other: int) -> bool:
        """Whether two revisions have the same template: no instance of one has to leave for the other."""
        return one == other or None is not self.revisions.get(one) == self.revisions.get(other)

    @property
    def empty(self) -> bool:
        """Whether no key is left of it."""
        return not (
            self.fleet
            or self.revisions
            or self.outcomes
            or self.actor
            or self.slots
            or self.grants
            or self.instances
            or self.exits
            or self.present
            or self.status
        )


class Etcd:
    """All keys, one counter."""

    def __init__(self) -> None:
        self.revision = 1
        self.down = False
        self.shelves: dict[str, Shelf] = {}
        self.hosts: dict[str, Host] = {}
        self.cordons: dict[str, Cordon] = {}
        self.lost: set[str] = set()
        """Hosts of which a person says that they are gone for good."""
        self._lives: dict[tuple[str, int, int], list[Callable[[], object]]] = {}
        self.on_change: Callable[[str], object] = lambda tenant: None
        """What the control parts see: a change of a tenant's keys; of all tenants for an empty name."""
        self.on_record: Callable[[Shelf, Life], object] = lambda shelf, life: None
        """Called before an instance's record is overwritten or removed."""

    def check(self) -> None:
        """Raise `Away` during an outage."""
        if self.down:
            raise Away

    def next(self) -> int:
        """The revision of the write that follows."""
        if self.down:
            raise Away
        self.revision += 1
        return self.revision

    def shelf(self, tenant: str) -> Shelf:
        """A tenant's keys."""
        found = self.shelves.get(tenant)
        if found is None:
            found = self.shelves[tenant] = Shelf(tenant)
        return found

    # --- watches ------------------------------------------------------------------------------

    def watch(self, tenant: str, life: Life, told: Callable[[], object]) -> None:
        """Call at every change of a life's grant, record or exit."""
        self._lives.setdefault((tenant, *life), []).append(told)

    def unwatch(self, tenant: str, life: Life, told: Callable[[], object]) -> None:
        """No more."""
        watching = self._lives.get((tenant, *life))
        if watching is not None and told in watching:
            watching.remove(told)

    def changed(self, tenant: str, life: Life) -> None:
        """Tell those who watch a life."""
        watching = self._lives.get((tenant, *life))
        if watching:
            for told in tuple(watching):
                told()

    # --- the keys that more than one kind of program writes -----------------------------------

    def put_instance(self, tenant: str, life: Life, instance: Instance, now: float, owner: object) -> None:
        """A worker's record."""
        shelf = self.shelf(tenant)
        if life in shelf.instances:
            self.on_record(shelf, life)
        shelf.instances[life] = replace(instance, mod_revision=self.next())
        shelf.since[life] = now
        shelf.owners[life] = owner
        self.changed(tenant, life)
        self.on_change(tenant)

    def remove_instance(self, tenant: str, life: Life, owner: object) -> None:
        """Its lease is over, or given back."""
        shelf = self.shelf(tenant)
        if shelf.owners.get(life) is owner:
            self.next()
            self.on_record(shelf, life)
            del shelf.instances[life], shelf.since[life], shelf.owners[life]
            self.changed(tenant, life)
            self.on_change(tenant)

    def put_exit(self, tenant: str, life: Life, ended: Exit) -> bool:
        """An agent's word, while the grant is there, once."""
        shelf = self.shelf(tenant)
        if life not in shelf.grants or life in shelf.exits:
            return False
        shelf.exited[life] = self.next()
        shelf.exits[life] = ended
        self.changed(tenant, life)
        self.on_change(tenant)
        return True

    def remove_grant(self, tenant: str, life: Life) -> None:
        """The fence; its exit record goes with it."""
        shelf = self.shelf(tenant)
        self.next()
        del shelf.grants[life], shelf.tokens[life], shelf.born[life]
        shelf.exits.pop(life, None)
        shelf.exited.pop(life, None)
        self.changed(tenant, life)
        self.on_change(tenant)

    def put_host(self, host: Host | None, name: str) -> None:
        """An agent's record, or its end."""
        self.next()
        if host is None:
            self.hosts.pop(name, None)
        else:
            self.hosts[name] = host
            self.lost.discard(name)
        self.on_change("")

    def confirm_lost(self, name: str) -> None:
        """What a person wrote of a host that has no agent."""
        self.next()
        if name not in self.hosts:
            self.lost.add(name)
        self.on_change("")

    def put_cordon(self, cordon: Cordon | None, host: str) -> None:
        """What a person wrote."""
        self.next()
        if cordon is None:
            self.cordons.pop(host, None)
        else:
            self.cordons[host] = cordon
        self.on_change("")
