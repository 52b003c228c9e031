"""Fleets of scheduler instances, for programs: the checks and the words of `wharfinger fleet`.

Changes are compare-and-sets on the fleet's object in etcd, and work while Temporal is down. Looks show what the fleet's
actor and the instances wrote. The commands are written on this class; they parse, print and choose exit codes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.fleet.reading import fleet_changes as changes
from wharfinger.fleet.reading import fleet_manifests as manifests
from wharfinger.fleet.reading.fleet_changes import Edit
from wharfinger.fleet.reading.fleet_goals import Goal, wait
from wharfinger.fleet.reading.fleet_manifests import WantedFleet
from wharfinger.fleet.reading.fleet_plans import FleetPlan, plan
from wharfinger.fleet.reading.fleet_status import FleetStatus, look
from wharfinger.fleet.reading.fleet_templates import Names, known_plugins
from wharfinger.fleet.state.fleet_reading import existing, read
from wharfinger.framework.catalog import Catalog
from wharfinger.process.committing import Author, Committed, author
from wharfinger.process.names import check_tenant
from wharfinger.process.waiting import Verdict, opened
from wharfinger.settings import EtcdSettings


@dataclass(frozen=True, slots=True)
class FleetChange:
    """What became of a change."""

    tenant: str
    written: bool
    """False: the fleet was as wanted already."""
    sentence: str
    """One line, as the command prints it."""
    mod_revision: int = 0
    """Of the fleet's object as it is now; 0 = it was deleted."""
    revision: int = 0
    """Of `undo`: number of the template that the fleet goes back to."""


class Fleets:
    """Changes fleets, and reports how they stand.

    Every method raises the store's errors, and `UsageError` for a name that no fleet can have. Those that change a
    fleet raise `NotFound` when it does not exist, `InvalidConfiguration` (with `problems`, a line each) when the result
    would be invalid, `InvalidObject` while it is being deleted, and `DoesNotApply` for a request that means nothing
    now.
    """

    def __init__(self, store: Store, *, catalog: Catalog | None = None, who: str = "") -> None:
        """`catalog`: the plugins that templates may name, default all installed ones; `who`: the author of changes,
        default this process's user and machine.
        """
        self._store = store
        self._known = catalog
        self._who = who

    @classmethod
    @asynccontextmanager
    async def connect(cls, etcd: EtcdSettings | None = None, *, who: str = "") -> AsyncIterator[Fleets]:
        """Open a connection to etcd alone (default 127.0.0.1:2379), and close it behind the block.

        `Wharfinger.fleets` needs none of its own. Raises `Unavailable`, `AccessDenied`.
        """
        store = await EtcdStore.connect(etcd or EtcdSettings())
        try:
            yield cls(store, who=who)
        finally:
            await store.close("the client is closed: use it inside `async with Fleets.connect()`")

    @property
    def _catalog(self) -> Catalog:
        self._known = self._known or known_plugins()
        return self._known

    # --- change -------------------------------------------------------------------------------

    async def check(self, fleets: Sequence[Mapping[str, Any] | WantedFleet]) -> list[str]:
        """Raise `InvalidConfiguration` with all that is wrong with these manifests, and write nothing.

        Returns a note for each, mostly empty: which variables of the template hosts would not pass on.
        """
        found = [one if isinstance(one, WantedFleet) else manifests.wanted(one) for one in fleets]
        return await manifests.check(self._store, manifests.each_once(found), self._catalog)

    async def apply(self, manifest: Mapping[str, Any], *, tenant: str = "", reason: str = "") -> FleetChange:
        """Create a fleet, or change what it should be. `tenant`: apply it to this fleet, whatever the manifest's name.

        Replicas and paused, when the manifest leaves them out, stay as they are.
        """
        [one] = manifests.for_tenants(manifest, [tenant]) if tenant else [manifests.wanted(manifest)]
        by = self._author(reason)
        changed = await changes.apply(self._store, one.tenant, one.manifest, by, catalog=self._catalog)
        return _told(one.tenant, changed, changed.result, changed.result)

    async def scale(self, tenant: str, replicas: int, *, reason: str = "") -> FleetChange:
        """Set how many instances a fleet has."""
        return await self._edit(
            tenant, partial(changes.scale, replicas=replicas), reason, f"scaled to {replicas}", "unchanged"
        )

    async def restart(self, tenant: str, *, reason: str = "") -> FleetChange:
        """Replace every instance, by a rollout like any other."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return await self._edit(tenant, partial(changes.restart, now=now), reason, "restarts", "restarts")

    async def pause(self, tenant: str, *, reason: str = "") -> FleetChange:
        """Stop updating a fleet where it is."""
        return await self._edit(tenant, changes.pause, reason, "paused", "is paused already")

    async def resume(self, tenant: str, *, reason: str = "") -> FleetChange:
        """Go on with a rollout that was paused, or that stands still: its deadline passed, or slots failed."""
        return await self._edit(tenant, changes.resume, reason, "resumed", "is resumed already")

    async def promote(self, tenant: str, *, reason: str = "") -> FleetChange:
        """Let a rollout go on from its canary to all slots."""
        return await self._edit(tenant, changes.promote, reason, "promoted", "is promoted already")

    async def abort(self, tenant: str, *, reason: str = "") -> FleetChange:
        """End a rollout where it is; `undo` goes back."""
        return await self._edit(tenant, changes.abort, reason, "aborted", "is aborted already")

    async def undo(self, tenant: str, *, revision: int = 0, reason: str = "") -> FleetChange:
        """Go back to the template of an earlier revision; 0 = the one that was completed last, and differs."""
        check_tenant(tenant)
        picture = existing(await read(self._store, tenant), tenant)
        chosen: list[int] = []
        name = Names(self._catalog)
        edit = partial(changes.undo, picture=picture, number=revision, name=name, chose=chosen.append)
        changed = await changes.change(self._store, tenant, edit, self._author(reason), catalog=self._catalog)
        return _told(
            tenant,
            changed,
            f"goes back to the template of revision {chosen[-1]}",
            f"unchanged: its template is that of revision {chosen[-1]}",
            revision=chosen[-1],
        )

    async def delete(self, tenant: str, *, reason: str = "") -> FleetChange:
        """Mark a fleet as deleting: its pods go to the common pool, then its instances are drained."""
        check_tenant(tenant)
        done = await changes.mark(self._store, tenant, self._author(reason))
        return FleetChange(tenant, done.written, done.sentence)

    # --- look ---------------------------------------------------------------------------------

    async def plan(self, tenant: str, manifest: Mapping[str, Any] | None = None) -> FleetPlan:
        """What would happen step by step if the manifest were applied now; without one, from here on."""
        check_tenant(tenant)
        return await plan(self._store, tenant, manifest, self._catalog)

    async def status(self, tenant: str) -> FleetStatus:
        """How a fleet stands. Needs etcd alone. Raises `NotFound`."""
        check_tenant(tenant)
        return await look(self._store, tenant, datetime.now(UTC))

    async def wait(
        self,
        tenant: str,
        goal: Goal | str = Goal.COMPLETE,
        *,
        timeout: float,
        say: Callable[[str], None] = lambda _: None,
    ) -> Verdict:
        """Wait until a fleet is as it should be, at most `timeout` seconds.

        Returns `reached`, `failed` (it cannot be so any more) or `waiting` (the time is over), with a sentence. `say`
        gets what is waited for. Raises `NotFound` when there is no such fleet, except for the goal `deleted`.
        """
        check_tenant(tenant)
        if goal not in set(Goal):
            raise UsageError(f"{goal!r} is no goal; known are {', '.join(Goal)}")
        name = Names(self._catalog)
        return await wait(opened(self._store), tenant, Goal(goal), timeout, name=name, say=say)

    # --- parts --------------------------------------------------------------------------------

    def _author(self, reason: str) -> Author:
        return author(reason, who=self._who)

    async def _edit(self, tenant: str, edit: Edit, reason: str, done: str, otherwise: str) -> FleetChange:
        changed = await changes.change(self._store, tenant, edit, self._author(reason), catalog=self._catalog)
        return _told(tenant, changed, done, otherwise)


def _told(tenant: str, changed: Committed, done: str, otherwise: str, *, revision: int = 0) -> FleetChange:
    words = done if changed.written else otherwise
    return FleetChange(tenant, changed.written, f"schedulerfleet/{tenant} {words}", changed.mod_revision, revision)
