"""Everything of one fleet as etcd has it at one revision: what agents decide on, and what the CLI shows.

::

    schedulerfleets · actors · fleetstatus · tenants           one key each
    revisions · outcomes · slots · grants · instances · exits  of the tenant
    grants of all fleets · hosts · cordons · lost hosts        of everybody

An absent record means *unknown*, and so does one that nobody can read: it is named in `Observed.unreadable` and
otherwise left out, so that it ends nobody. Where it says what may live (a grant, a slot's counter, a revision), leaving
it out could start what must not be: then the whole view is `blind`, and nothing is decided until it is mended. A cordon
that cannot be read still keeps instances off.

Neighbours: `model.fleet` is what comes out, `fleet.planner` decides on it, `engine.fleets.planning` asks for it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

from wharfinger.config.fleet import is_deleting, read_fleet, read_template
from wharfinger.contracts.fleet_records import (
    ActorRecord,
    CordonRecord,
    ExitRecord,
    FleetStatusRecord,
    GrantRecord,
    HostRecord,
    LostHostRecord,
    OutcomeRecord,
    RevisionRecord,
    SlotRecord,
)
from wharfinger.contracts.names import COMMON
from wharfinger.contracts.records import InstanceRecord, Record
from wharfinger.errors import Compacted, ConfigurationError, InvalidConfiguration, InvalidObject
from wharfinger.framework.catalog import Catalog
from wharfinger.manifests import documents
from wharfinger.model.fleet import (
    Actor,
    Cordon,
    Desired,
    Exit,
    Grant,
    Host,
    Instance,
    Observed,
    OutcomeName,
    Revision,
    Slot,
)
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, Store

READS = 5
"""Times that a read is begun again because etcd compacted what it was reading."""
REASON_LIMIT = 200
"""Characters of why a record cannot be read."""
DIGITS = 18
"""Of a number in a key, at most."""
NAMES_KEPT = 1000
"""Completed templates remembered; a fleet has a dozen revisions."""

R = TypeVar("R", bound=Record)


class FleetView:
    """Reads fleets. Templates are completed by the running code, each once."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._names: dict[tuple[str, int, bytes], tuple[str, str]] = {}
        self._desired: dict[str, tuple[bytes, Desired]] = {}
        """As it was read last, by tenant: what was written, for an etcd that was restored gives its revisions twice."""

    async def observe(self, tenant: str) -> Observed:
        """One fleet, of one linearizable read. Raises the store's errors."""
        for left in reversed(range(READS)):
            try:
                return await self._read(tenant)
            except Compacted:
                if not left:
                    raise
        raise AssertionError("not reached")

    async def _read(self, tenant: str) -> Observed:
        found = await self._store.get(keys.fleet(tenant))
        at = found.revision

        async def one(key: str) -> KeyValue | None:
            return (await self._store.get(key, revision=at)).kv

        async def all_of(prefix: str) -> list[KeyValue]:
            return [kv async for page in self._store.list(prefix, revision=at) for kv in page.items]

        singles = asyncio.gather(*(one(key(tenant)) for key in (keys.actor, keys.fleet_status, keys.tenant)))
        of_tenant = (keys.REVISIONS, keys.OUTCOMES, keys.SLOTS, keys.INSTANCES, keys.EXITS)
        prefixes = [f"{prefix}{tenant}/" for prefix in of_tenant]
        prefixes += [keys.GRANTS, keys.HOSTS, keys.CORDONS, keys.LOST_HOSTS]
        actor, status, present = await singles
        revisions, outcomes, slots, instances, exits, grants, hosts, cordons, lost = await asyncio.gather(
            *(all_of(prefix) for prefix in prefixes)
        )
        reading = _Reading(tenant)
        return Observed(
            read_at=at,
            desired=self._wanted(tenant, found.kv),
            actor=reading.actor(actor),
            revisions=self._revisions(reading, revisions, outcomes),
            slots=reading.slots(slots),
            grants=reading.grants([kv for kv in grants if kv.key.startswith(f"{keys.GRANTS}{tenant}/")]),
            instances=reading.instances(instances),
            exits=reading.exits(exits),
            hosts=reading.hosts(hosts, instances_by_host(grants)),
            cordons=reading.cordons(cordons),
            lost=reading.lost(lost),
            tenant_present=present is not None and tenant != COMMON,
            status=reading.status(status),
            unreadable=tuple(reading.unreadable),
            blind=reading.blind,
        )

    def _wanted(self, tenant: str, kv: KeyValue | None) -> Desired | None:
        """The desired state; completed anew only when the object was written."""
        if kv is None:
            self._desired.pop(tenant, None)
            return None
        value, known = self._desired.get(tenant, (b"", None))
        seen = (kv.create_revision, kv.mod_revision, kv.value)
        if known is None or (known.identity, known.generation, value) != seen:
            known = self._completed(tenant, kv)
            self._desired[tenant] = kv.value, known
        return known

    def _completed(self, tenant: str, kv: KeyValue) -> Desired:
        written: Any = {}
        try:
            written = documents.parse(kv.value)
            if not isinstance(written, Mapping):
                written = {}
                raise InvalidObject("is no object")
            fleet = read_fleet(written, self._catalog, name=tenant)
        except (InvalidObject, ConfigurationError) as error:
            problems = error.problems if isinstance(error, InvalidConfiguration) else (str(error),)
            return Desired(
                kv.create_revision, kv.mod_revision, None, deleting=is_deleting(written), problems=tuple(problems)
            )
        return Desired(
            kv.create_revision,
            kv.mod_revision,
            fleet.spec,
            template=fleet.template_name,
            version=fleet.template.version,
            deleting=fleet.deleting,
        )

    def _revisions(
        self, reading: _Reading, revisions: list[KeyValue], outcomes: list[KeyValue]
    ) -> tuple[Revision, ...]:
        ends: dict[int, OutcomeName] = {}
        for kv in outcomes:
            ending, number = reading.record(kv, OutcomeRecord, vital=True), reading.number(kv)
            if ending is not None and number is not None:
                ends[number] = ending.outcome
        found = []
        for kv in revisions:
            record, number = reading.record(kv, RevisionRecord, vital=True), reading.number(kv)
            if record is not None and number is not None:
                name, version = self._name(kv, record)
                found.append(Revision(number, name, ends.get(number), version))
        return tuple(sorted(found, key=lambda one: one.number))

    def _name(self, kv: KeyValue, record: RevisionRecord) -> tuple[str, str]:
        """The completed template's name and its version; of one that this release cannot complete, names of its own."""
        known = (kv.key, kv.mod_revision, hashlib.sha256(kv.value).digest())
        if known not in self._names:
            if len(self._names) >= NAMES_KEPT:
                self._names.clear()
            try:
                template, name = read_template(record.template, self._catalog)
                self._names[known] = name, template.version
            except ConfigurationError:
                self._names[known] = f"as written in {kv.key}", str(record.template.get("version", ""))
        return self._names[known]


class _Reading:
    """Turns the records of one fleet into facts, and keeps what it could not read."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self.unreadable: list[str] = []
        self.blind = False

    def actor(self, kv: KeyValue | None) -> Actor | None:
        record = self.record(kv, ActorRecord, vital=True) if kv is not None else None
        if kv is None or record is None:
            return None
        return Actor(record.epoch, record.workflow_id, record.run_id, record.target, kv.mod_revision, record.decisions)

    def slots(self, stored: list[KeyValue]) -> tuple[Slot, ...]:
        found = []
        for kv in stored:
            record, number = self.record(kv, SlotRecord, vital=True), self.number(kv)
            if record is not None and number is not None:
                found.append(Slot(number, record.incarnation, record.revision, kv.mod_revision, record.crashes))
        return tuple(sorted(found, key=lambda one: one.number))

    def grants(self, stored: list[KeyValue]) -> tuple[Grant, ...]:
        found = []
        for kv in stored:
            record, life = self.record(kv, GrantRecord, vital=True), self.life(kv, vital=True)
            if record is not None and life is not None:
                found.append(
                    Grant(
                        *life,
                        revision=record.revision,
                        host=record.host,
                        want=record.want,
                        identity=record.identity,
                        mod_revision=kv.mod_revision,
                        settle=record.settle > 0,
                    )
                )
        return tuple(sorted(found, key=lambda one: (one.slot, one.incarnation)))

    def instances(self, stored: list[KeyValue]) -> tuple[Instance, ...]:
        """Registrations of granted workers; those of workers started by hand are nobody's business here."""
        found = []
        for kv in stored:
            slot = kv.key.split("/")[-2]
            if _number(slot) is None:
                continue
            record, life = self.record(kv, InstanceRecord), self.life(kv)
            if record is None or life is None:
                continue
            found.append(
                Instance(
                    *life,
                    state=record.state,
                    host=record.host,
                    revision=_number(record.revision) or 0,
                    mod_revision=kv.mod_revision,
                    waiting_for=record.waiting_for,
                )
            )
        return tuple(sorted(found, key=lambda one: (one.slot, one.incarnation)))

    def exits(self, stored: list[KeyValue]) -> tuple[Exit, ...]:
        found = []
        for kv in stored:
            record, life = self.record(kv, ExitRecord), self.life(kv)
            if record is not None and life is not None:
                found.append(
                    Exit(*life, record.how, record.detail, record.lived, record.planned, record.host_restarted)
                )
        return tuple(sorted(found, key=lambda one: (one.slot, one.incarnation)))

    def hosts(self, stored: list[KeyValue], counts: Mapping[str, int]) -> tuple[Host, ...]:
        found = []
        for kv in stored:
            name, record = kv.key.removeprefix(keys.HOSTS), self.record(kv, HostRecord)
            if record is not None:
                found.append(Host(name, record.installs, record.capacity, counts.get(name, 0)))
        return tuple(sorted(found, key=lambda one: one.name))

    def cordons(self, stored: list[KeyValue]) -> tuple[Cordon, ...]:
        found = []
        for kv in stored:
            record = self.record(kv, CordonRecord)
            action = record.action if record is not None else "cordon"
            found.append(Cordon(kv.key.removeprefix(keys.CORDONS), action))
        return tuple(sorted(found, key=lambda one: one.host))

    def lost(self, stored: list[KeyValue]) -> tuple[str, ...]:
        """Hosts that are gone for good; what cannot be read says nothing."""
        said = (kv.key.removeprefix(keys.LOST_HOSTS) for kv in stored if self.record(kv, LostHostRecord) is not None)
        return tuple(sorted(said))

    def status(self, kv: KeyValue | None) -> str:
        """The digest; of one that cannot be read, none, so that it is written anew."""
        record = self.record(kv, FleetStatusRecord) if kv is not None else None
        return record.digest if record is not None else ""

    def record(self, kv: KeyValue, kind: type[R], *, vital: bool = False) -> R | None:
        """The record in a key; None where nobody can read it."""
        try:
            return kind.model_validate_json(kv.value)
        except ValueError as error:
            self._refuse(kv, " ".join(str(error).split())[:REASON_LIMIT], vital)
            return None

    def number(self, kv: KeyValue) -> int | None:
        """The number that ends a key of a slot or a revision."""
        number = _number(kv.key.split("/")[-1])
        if number is None:
            self._refuse(kv, "its name is no number", vital=True)
        return number

    def life(self, kv: KeyValue, *, vital: bool = False) -> tuple[int, int] | None:
        """Slot and incarnation that end a key."""
        parts = kv.key.split(f"/{self._tenant}/", 1)[-1].split("/")
        numbers = [_number(part) for part in parts]
        if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
            self._refuse(kv, "its name is no slot and incarnation", vital)
            return None
        return numbers[0], numbers[1]

    def _refuse(self, kv: KeyValue, why: str, vital: bool) -> None:
        self.unreadable.append(f"{kv.key}: {why}")
        self.blind |= vital


def instances_by_host(grants: list[KeyValue]) -> dict[str, int]:
    """How many incarnations, of all fleets, may live on each host."""
    counts: dict[str, int] = {}
    for kv in grants:
        try:
            host = GrantRecord.model_validate_json(kv.value).host
        except ValueError:
            continue
        counts[host] = counts.get(host, 0) + 1
    return counts


def _number(text: str) -> int | None:
    """A number as our keys write it: no sign, no leading zero."""
    digits = text.isascii() and text.isdigit() and len(text) <= DIGITS
    return int(text) if digits and str(int(text)) == text else None
