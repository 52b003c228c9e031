"""What a hub has seen of one member, one placement, one decision, one eviction: facts that are made from stored values.

`state.hub_view` keeps all of them.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.fields import integer, mapping, texts
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.objects.model.placement_kinds import KUBEFLEET_FINALIZERS
from wharfinger.placement.contracts.placement_records import (
    DecisionRecord,
    EvictionRecord,
    MemberStatusRecord,
    inflated,
    verdict_pairs,
)
from wharfinger.placement.deciding.frozen_texts import policy_text
from wharfinger.placement.model.delivery import DeliverySpec
from wharfinger.placement.model.members import Ages, Member
from wharfinger.placement.model.placement import ChosenMember, Eviction, Placement, PlacementPolicy, PolicyCondition
from wharfinger.placement.spec.members import member_from_mapping
from wharfinger.placement.spec.placement_fields import stored_delivery
from wharfinger.placement.spec.placements import eviction_from_mapping, placement_from_mapping
from wharfinger.process.records import Record

HISTORY_LIMIT = 10
"""Policies that are kept where a placement does not say how many."""
OBJECT_LIMIT = 512 * 1024
"""Bytes of a placement: its policy goes through Temporal."""
TENTH = 10
"""Ages are in tenths of a second: what is recorded is exactly what was decided by."""
HEARD = Ages(0.0, None)
"""Of an agent that is there and well."""


def object_of(kv: KeyValue) -> Mapping[str, Any]:
    """The stored object. Raises `InvalidObject`."""
    obj = documents.parse(kv.value)
    if not isinstance(obj, Mapping):
        raise InvalidObject("is no object")
    return obj


def held(obj: Mapping[str, Any]) -> bool:
    """Whether a finalizer of another client keeps an object: KubeFleet's own, in manifests of its hub, do not."""
    found = texts(mapping(obj, "metadata"), "finalizers", "metadata.")
    return any(not one.startswith(KUBEFLEET_FINALIZERS) for one in found)


@dataclass(slots=True)
class SeenMember:
    """A member, as its object, its agent's lease and its agent's words show it."""

    name: str
    member: Member
    revision: int
    """Mod revision of its object."""
    obj: Mapping[str, Any]
    status: Mapping[str, Any] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    """Placements of which it has something, and that the hub does not know."""
    there: bool = False
    """Whether the agent's lease is there now."""
    heard: float | None = None
    """Clock seconds at which the lease was last there; None = this hub has never seen it."""
    unhealthy: float | None = None
    """Clock seconds since which it says that it is not healthy."""
    held: bool = False
    """Whether a finalizer keeps its object."""
    unreadable: str = ""
    recorded: Ages | None = None
    """What a decision recorded, where it is made again."""

    @property
    def reachable(self) -> bool:
        """Whether its agent is there, and gets answers from the member."""
        return self.there and self.unhealthy is None

    def ages(self, now: float) -> Ages:
        """How long ago it was heard, and has said that it is unhealthy: this hub's own time."""
        if self.recorded is not None:
            return self.recorded
        if self.there and self.unhealthy is None:
            return HEARD
        heartbeat = 0.0 if self.there else None if self.heard is None else now - self.heard
        return Ages(_tenths(heartbeat), _tenths(None if self.unhealthy is None else now - self.unhealthy))


def member_of(obj: Mapping[str, Any], identity: int, status: Mapping[str, Any], *, heard: bool) -> Member:
    """A member. `heard`: whether its agent was ever there. Raises `InvalidObject`."""
    member = member_from_mapping({**obj, "status": status}, identity)
    return member if heard else replace(member, agent=None, known={})


def status_of(value: bytes, name: str) -> MemberStatusRecord:
    """What a member's agent says, where all of it can be read. Raises `ValueError`, `InvalidObject`."""
    said = MemberStatusRecord.model_validate_json(value)
    member_of({"metadata": {"name": name}}, said.identity, said.status, heard=True)
    return said


@dataclass(slots=True)
class SeenPlacement:
    """A placement's object."""

    placement: Placement
    revision: int
    """Mod revision of its object."""
    policy: Mapping[str, Any]
    """As written."""
    digest: str
    """Of the policy without its number of members."""
    abandons: bool = False
    held: bool = False
    """Whether a finalizer keeps it."""
    history_limit: int = HISTORY_LIMIT
    delivery: DeliverySpec = field(default_factory=DeliverySpec)
    unreadable: str = ""


def placement_of(kv: KeyValue, reference: str) -> SeenPlacement:
    """The object that lies under the key of a placement. Raises `InvalidObject`."""
    if len(kv.value) > OBJECT_LIMIT:
        raise InvalidObject(f"is larger than {OBJECT_LIMIT // 1024} KiB")
    obj = object_of(kv)
    placement = placement_from_mapping(obj, kv.create_revision)
    if str(placement.ref) != reference or not is_dns_subdomain(placement.ref.name):
        raise InvalidObject(f"is called {str(placement.ref)[:80]!r}, and lies under the key of {reference[:80]!r}")
    spec = mapping(obj, "spec")
    delivery, abandons = stored_delivery(spec)
    return SeenPlacement(
        placement=placement,
        revision=kv.mod_revision,
        policy=mapping(spec, "policy", "spec."),
        digest=policy_digest(placement.policy),
        abandons=abandons,
        held=held(obj),
        history_limit=integer(spec, "revisionHistoryLimit", "spec.", low=1, high=1000) or HISTORY_LIMIT,
        delivery=delivery,
    )


def policy_digest(policy: PlacementPolicy) -> str:
    """A digest of a policy. Its number of members does not make it another one."""
    return hashlib.sha256(policy_text(policy).encode(errors="surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class SeenEviction:
    """An eviction's object."""

    eviction: Eviction
    revision: int
    """Mod revision of its object."""
    identity: int
    """Create revision of its object."""


def eviction_of(kv: KeyValue, name: str) -> SeenEviction:
    """Raises `InvalidObject`."""
    return SeenEviction(eviction_from_mapping(object_of(kv), name), kv.mod_revision, kv.create_revision)


def ended_identity(value: bytes) -> int:
    """Which eviction ended, by its record: the create revision of its object; 0 = any of that name."""
    record = EvictionRecord.from_bytes(value)
    return record.identity if record is not None else 0  # it is there, so something has ended


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(max(0.0, seconds) * TENTH) / TENTH


K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Record)


def keep(kept: set[K], key: K, *, there: bool) -> None:
    """Keep a key, or forget it."""
    (kept.add if there else kept.discard)(key)


def store(records: dict[str, R], name: str, value: bytes | None, kind: type[R]) -> None:
    """Keep a record, or forget it. Raises `ValidationError`, and keeps what there was."""
    put(records, name, kind.model_validate_json(value) if value is not None else None)


def put_below(kept: dict[str, dict[K, V]], name: str, key: K, value: V | None) -> None:
    """Keep a value below a name, or forget it, and the name with its last one."""
    below = kept.setdefault(name, {})
    put(below, key, value)
    if not below:
        del kept[name]


def put(kept: dict[K, V], name: K, value: V | None) -> None:
    """Keep a value, or forget it."""
    if value is None:
        kept.pop(name, None)
    else:
        kept[name] = value


_CODES: dict[tuple[str, str], int] = {}
"""Plugin and code -> its number in `SeenDecision.codes`; there are some dozens."""
CHOSEN, NOT_THERE = 0, 255


def code_of(plugin: str, code: str) -> int:
    """The number of a verdict's plugin and code."""
    found = _CODES.setdefault((plugin, code), len(_CODES) + 1)
    return min(found, NOT_THERE - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDecision:
    """A stored decision, or a supposed one, small: without texts and scores of those that were not chosen."""

    revision: int = 0
    """Mod revision of its key."""
    identity: int = 0
    policy: int
    digest: str = ""
    chosen: tuple[ChosenMember, ...]
    condition: PolicyCondition
    counting: str = ""
    evicted: frozenset[str] = frozenset()
    abandons: bool
    deleting: bool
    names: tuple[str, ...] = ()
    """Every member that it names, sorted."""
    codes: bytes = b""
    """What it says of each of these."""

    def code(self, member: str) -> int:
        """What it says of a member: CHOSEN, NOT_THERE, or the number of a verdict's plugin and code."""
        at = bisect_left(self.names, member)
        return self.codes[at] if at < len(self.names) and self.names[at] == member else NOT_THERE


def decision_of(kv: KeyValue) -> SeenDecision:
    """Raises `ValueError`."""
    found = inflated(kv.value)
    record = DecisionRecord.of_chosen(found)
    decision = record.decision
    numbers: dict[tuple[str, str], int] = {}
    codes = {one.name: CHOSEN for one in decision.chosen}
    for name, pair in verdict_pairs(found):
        number = numbers.get(pair)
        if number is None:
            number = numbers[pair] = code_of(*pair)
        codes.setdefault(name, number)
    names = tuple(sorted(codes))
    return SeenDecision(
        revision=kv.mod_revision,
        identity=record.identity,
        policy=decision.policy,
        digest=record.digest,
        chosen=decision.chosen,
        condition=decision.condition,
        counting=record.counting,
        evicted=record.evicted,
        abandons=record.abandons,
        deleting=record.deleting,
        names=names,
        codes=bytes(map(codes.__getitem__, names)),
    )


def state_of(seen: SeenPlacement | None, stored: SeenDecision | None) -> str:
    """How a placement stands, in a word; a placement without an object is being deleted."""
    if seen is None or seen.placement.deleting:
        return "deleting"
    if seen.unreadable:
        return "unreadable"
    if stored is None:
        return "undecided"
    return "fulfilled" if stored.condition.status else "unfulfilled"


STATES = ("deleting", "unreadable", "undecided", "fulfilled", "unfulfilled")
