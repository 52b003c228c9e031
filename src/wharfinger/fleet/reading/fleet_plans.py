"""What would happen to a fleet, step by step, planned by the code that plans live fleets.

The fleet is read as its actor reads it, a manifest is laid over the object as `apply` would, and the planner runs
against a world where every step succeeds (`deciding.preview`). Nothing is written, and Temporal is not asked. How long
leases last and when a host is given up is read from the records of the agents that look after fleets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wharfinger.errors import InvalidConfiguration, NotFound, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.deciding.preview import Line, preview
from wharfinger.fleet.model.fleet import HOST_LOST, Desired, Observed
from wharfinger.fleet.reading.fleet_manifests import applied, note_on
from wharfinger.fleet.spec.fleet import is_deleting, read_fleet
from wharfinger.fleet.state.fleet_reading import read_to_decide
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.framework.catalog import Catalog
from wharfinger.objects.documents import documents
from wharfinger.settings import LeaseSettings


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What would happen from here on, if every step succeeded."""

    lines: tuple[Line, ...]
    """Each with the seconds from now on that must pass at least; empty = nothing would happen."""
    note: str = ""
    """What is to be noted of the template, such as variables that hosts keep back; mostly empty."""


async def plan(store: Store, tenant: str, manifest: Mapping[str, Any] | None, catalog: Catalog) -> FleetPlan:
    """The steps if the manifest were applied now; without one, from here on.

    Raises `NotFound`, `InvalidConfiguration`, `UsageError` and the store's errors.
    """
    estate = await read_to_decide(store, tenant)
    observed = FleetView(store, catalog).observed(estate, tenant)
    stored = (await store.get(keys.fleet(tenant), revision=observed.read_at)).kv
    if manifest is not None:
        observed = supposed(observed, manifest, _object(stored), catalog, tenant)
    elif observed.desired is None and not observed.grants:
        raise NotFound(f"there is no fleet {tenant}")
    if observed.blind:
        raise InvalidConfiguration(observed.unreadable)
    desired = observed.desired
    if desired is not None and desired.spec is None and not desired.deleting:
        raise InvalidConfiguration(desired.problems)
    ends = desired is None or desired.deleting
    note = "" if ends else await note_on(store, manifest if manifest is not None else _object(stored))
    lease_ttl, host_lost = waits(estate.hosts.values())
    return FleetPlan(tuple(preview(observed, lease_ttl=lease_ttl, host_lost=host_lost, tenant=tenant)), note)


def waits(hosts: Iterable[HostRecord]) -> tuple[float, float]:
    """Seconds of an instance's lease, and those after which a host without an agent is given up.

    Any agent with a control part may plan next, so the longest of theirs counts; the defaults where none is recorded.
    """
    planning = [host for host in hosts if host.control]
    leases = [host.lease_ttl for host in planning if host.lease_ttl is not None]
    losses = [host.host_lost for host in planning if host.host_lost is not None]
    return max(leases, default=LeaseSettings().ttl), max(losses, default=HOST_LOST)


def _object(stored: KeyValue | None) -> Mapping[str, Any]:
    """What is stored; nothing when that is no object. Raises `InvalidObject` for what cannot be read."""
    found = documents.parse(stored.value) if stored is not None else {}
    return found if isinstance(found, dict) else {}


def supposed(
    observed: Observed, manifest: Mapping[str, Any], before: Mapping[str, Any], catalog: Catalog, tenant: str
) -> Observed:
    """The fleet as it is, with its object as applying the manifest would leave it.

    Raises `InvalidConfiguration`, and `UsageError` for a fleet that is being deleted.
    """
    if is_deleting(before):
        raise UsageError(f"fleet {tenant} is being deleted: nothing can be applied to it")
    obj = applied(manifest, before, tenant)
    found = read_fleet(obj, catalog, name=tenant, offered=True)
    at = observed.read_at + 1
    now = observed.desired
    changed = obj != before
    desired = Desired(
        identity=now.identity if now is not None else at,
        generation=now.generation if now is not None and not changed else at,
        spec=found.spec,
        template=found.template_name,
        version=found.template.version,
    )
    return replace(observed, read_at=at, desired=desired)
