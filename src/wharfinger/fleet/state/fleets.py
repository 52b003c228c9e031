"""What the planner takes of a fleet's records: facts of `model.fleet`, with templates completed by the running code.

An absent record means *unknown*, and so does one that cannot be read: it is left out, so that it ends no instance.
Where it says what may live, the whole view is `blind`, and nothing is decided until it is mended.

Neighbours: `fleet_reading` reads, `deciding.planner` decides, `effects.planning` asks.
"""

from __future__ import annotations

from wharfinger.errors import ConfigurationError, InvalidConfiguration, InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.fleet.contracts.fleet_records import RevisionRecord
from wharfinger.fleet.model.fleet import Desired, Host, Instance, Observed, Revision
from wharfinger.fleet.spec.fleet import is_deleting, read_fleet, read_template
from wharfinger.fleet.state.fleet_pictures import Estate, Picture
from wharfinger.fleet.state.fleet_reading import number_in_key, read_to_decide
from wharfinger.framework.catalog import Catalog
from wharfinger.process.names import COMMON

NAMES_KEPT = 1000
"""Completed templates remembered; a fleet has a dozen revisions."""


class FleetView:
    """Reads fleets. Templates are completed by the running code, each once."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._names: dict[tuple[str, int], tuple[RevisionRecord, tuple[str, str]]] = {}
        """By key and mod revision."""
        self._desired: dict[str, tuple[bytes, Desired]] = {}
        """As it was read last, by tenant: what was written, for an etcd that was restored gives its revisions twice."""

    async def observe(self, tenant: str) -> Observed:
        """One fleet, of one linearizable read. Raises the store's errors."""
        return self.observed(await read_to_decide(self._store, tenant), tenant)

    def observed(self, estate: Estate, tenant: str) -> Observed:
        """One fleet of what `read_to_decide` read."""
        picture = estate.fleet(tenant)
        return Observed(
            read_at=estate.read_at,
            desired=self._wanted(picture),
            actor=picture.actor,
            revisions=self._revisions(picture),
            slots=tuple(slot for _, slot in sorted(picture.slots.items())),
            grants=tuple(grant for _, grant in sorted(picture.grants.items())),
            instances=_instances(picture),
            exits=tuple(ended for _, ended in sorted(picture.exits.items())),
            hosts=tuple(
                Host(name, host.installs, host.capacity, estate.granted.get(name, 0))
                for name, host in sorted(estate.hosts.items())
            ),
            cordons=tuple(cordon for _, cordon in sorted(estate.cordons.items())),
            lost=tuple(sorted(estate.lost)),
            tenant_present=picture.tenant_present and tenant != COMMON,
            # Of a status that cannot be read there is no digest, so it is written anew.
            status=picture.status.digest if picture.status is not None else "",
            unreadable=(*picture.unreadable, *estate.unreadable),
            blind=picture.blind,
        )

    def _wanted(self, picture: Picture) -> Desired | None:
        """The desired state; completed anew only when the object was written."""
        tenant, kv = picture.tenant, picture.kv
        if kv is None:
            self._desired.pop(tenant, None)
            return None
        value, known = self._desired.get(tenant, (b"", None))
        seen = (kv.create_revision, kv.mod_revision, kv.value)
        if known is None or (known.identity, known.generation, value) != seen:
            known = self._completed(picture, *seen[:2])
            self._desired[tenant] = kv.value, known
        return known

    def _completed(self, picture: Picture, identity: int, generation: int) -> Desired:
        try:
            if picture.wrong_object:
                raise InvalidObject(picture.wrong_object)
            fleet = read_fleet(picture.written, self._catalog, name=picture.tenant)
        except (InvalidObject, ConfigurationError) as error:
            problems = error.problems if isinstance(error, InvalidConfiguration) else (str(error),)
            return Desired(identity, generation, None, deleting=is_deleting(picture.written), problems=problems)
        return Desired(
            identity,
            generation,
            fleet.spec,
            template=fleet.template_name,
            version=fleet.template.version,
            deleting=fleet.deleting,
        )

    def _revisions(self, picture: Picture) -> tuple[Revision, ...]:
        found = []
        for number, record in sorted(picture.revisions.items()):
            key = keys.revision(picture.tenant, number)
            name, version = self._name(key, picture.mod_revisions[key], record)
            ended = picture.outcomes.get(number)
            found.append(Revision(number, name, ended.outcome if ended is not None else None, version))
        return tuple(found)

    def _name(self, key: str, mod_revision: int, record: RevisionRecord) -> tuple[str, str]:
        """The completed template's name and its version; of one that this release cannot complete, names of its own."""
        known = self._names.get((key, mod_revision))
        if known is not None and known[0] == record:  # an etcd that was restored gives its revisions twice
            return known[1]
        if len(self._names) >= NAMES_KEPT:
            self._names.clear()
        try:
            template, name = read_template(record.template, self._catalog)
            named = name, template.version
        except ConfigurationError:
            named = f"as written in {key}", str(record.template.get("version", ""))
        self._names[key, mod_revision] = record, named
        return named


def _instances(picture: Picture) -> tuple[Instance, ...]:
    """Registrations of granted workers; those of workers started by hand are left out."""
    return tuple(
        Instance(
            *life,
            state=record.state,
            host=record.host,
            revision=number_in_key(record.revision) or 0,
            mod_revision=picture.mod_revisions[keys.instance(picture.tenant, str(life.slot), life.incarnation)],
            waiting_for=record.waiting_for,
        )
        for life, record in sorted(picture.instances.items())
    )
