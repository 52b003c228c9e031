"""What placements would get, and what would be done on their members, if something else were different.

`Supposition` changes a view to what it would be; the pure cores decide (`effects.questions`) and foresee
(`deciding.rolling`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wharfinger.errors import InvalidConfiguration, InvalidObject, NotFound, UsageError
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.documents import objects_of
from wharfinger.objects.documents.kinds import MEMBER_CLUSTER, PLACEMENTS, reference
from wharfinger.objects.documents.merge import marked
from wharfinger.objects.model.names import is_dns_subdomain, is_qualified_name
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DrainRecord, MemberRecord, MemberStatusRecord
from wharfinger.placement.deciding.rolling import ForeseenRollout
from wharfinger.placement.effects.questions import answer
from wharfinger.placement.effects.rolling_out import rollout_of
from wharfinger.placement.model.delivery import RolloutStep
from wharfinger.placement.model.placement import PlacementDecision, PlacementRef, lives
from wharfinger.placement.reading.observe_placements import reference_of
from wharfinger.placement.spec.members import agent_status, with_labels, with_taints
from wharfinger.placement.state.hub_view import HUB, MEMBERS, OBJECTS, HubView
from wharfinger.placement.state.placed_kinds import check_with_kinds
from wharfinger.placement.state.seen import SeenDecision

MOMENT = "2026-01-01T00:00:00Z"
"""When what is supposed to be deleted was marked; nothing depends on it."""
FIRST = 1 << 40
"""Revisions of what is supposed begin here: above all that there are."""


class Supposition:
    """Changes a view to what it would be."""

    def __init__(self, view: HubView) -> None:
        self._view = view
        self._revision = FIRST

    def suppose_file(self, name: str, content: bytes) -> int:
        """Members and placements as a file has them; how many objects of other kinds are left out.

        Raises `UsageError`, naming all that is wrong.
        """
        left_out = 0
        try:
            objects = list(objects_of(name, content))
        except InvalidObject as error:
            raise UsageError(f"{name}: {error}") from None
        for obj in objects:
            try:
                if not isinstance(obj, Mapping):
                    raise InvalidObject("one of its documents is no object")
                about = reference(obj, "default")
                if about.kind not in (MEMBER_CLUSTER, *PLACEMENTS):
                    left_out += 1
                    continue
                check_with_kinds(obj)
            except InvalidConfiguration as error:
                raise UsageError("; ".join(f"{name}: {problem}" for problem in error.problems)) from None
            except InvalidObject as error:
                raise UsageError(f"{name}: {error}") from None
            if about.kind is MEMBER_CLUSTER:
                self._put_member(about.name, obj)
            else:
                self._put_placement(str(PlacementRef(about.namespace, about.name)), obj)
        return left_out

    def suppose_label(self, text: str) -> None:
        """`CLUSTER:KEY=VALUE`, or `CLUSTER:KEY-`. Raises `UsageError`, `NotFound`."""
        name, key, value = _taken_apart("label", text)
        self._put_member(name, with_labels(self._member(name), {key: value}))

    def suppose_taint(self, text: str) -> None:
        """`CLUSTER:KEY=VALUE`, or `CLUSTER:KEY-`. Raises `UsageError`, `NotFound`."""
        name, key, value = _taken_apart("taint", text)
        self._put_member(name, with_taints(self._member(name), {key: value}))

    def suppose_leaving(self, name: str) -> None:
        """A member leaves. Raises `NotFound`."""
        self._put_member(name, marked(self._member(name), MOMENT))

    def suppose_drain(self, name: str, want: Literal["cordon", "drain"]) -> None:
        """A member is cordoned or drained. Raises `NotFound`."""
        self._member(name)
        self._put(HUB, placement_keys.drain(name), DrainRecord(want=want).to_bytes())

    def suppose_deleted(self, text: str) -> None:
        """A placement is deleted. Raises `UsageError`, `NotFound`."""
        found = reference_of(text)
        if found not in self._view.placements:
            raise NotFound(f"there is no placement {found}")
        key = placement_keys.placement(found)
        self._view.changed(OBJECTS, Event(KeyValue(key, b"", 0, self._next()), deleted=True))

    def _member(self, name: str) -> Mapping[str, Any]:
        found = self._view.members.get(name)
        if found is None or not found.obj:
            raise NotFound(f"there is no member cluster {name[:80]!r}")
        return found.obj

    def _put_member(self, name: str, obj: Mapping[str, Any]) -> None:
        before = self._view.members.get(name)
        identity = before.member.identity if before is not None else self._next()
        self._put(MEMBERS, placement_keys.member_cluster(name), documents.to_json(obj), identity)
        if before is None:
            status = MemberStatusRecord(identity=identity, status=agent_status())
            self._put(HUB, placement_keys.member_status(name), status.to_bytes())
            self._put(HUB, placement_keys.member(name), MemberRecord(identity=identity).to_bytes())

    def _put_placement(self, found: str, obj: Mapping[str, Any]) -> None:
        before = self._view.placements.get(found)
        self._put(
            OBJECTS,
            placement_keys.placement(found),
            documents.to_json(obj),
            before.placement.identity if before is not None else 0,
        )

    def _put(self, stream: str, key: str, value: bytes, identity: int = 0) -> None:
        revision = self._next()
        self._view.changed(stream, Event(KeyValue(key, value, identity or revision, revision)))

    def _next(self) -> int:
        self._revision += 1
        return self._revision


def _taken_apart(option: str, text: str) -> tuple[str, str, str | None]:
    """Member, key and value; the value is None where the key goes. Raises `UsageError`."""
    name, colon, pair = text.partition(":")
    key, equals, value = pair.partition("=")
    removed = not equals and key.endswith("-")
    key = key.removesuffix("-") if removed else key
    if not colon or not is_dns_subdomain(name) or not is_qualified_name(key) or not (equals or removed):
        raise UsageError(f"--{option} {text[:80]!r} is not CLUSTER:KEY=VALUE, or CLUSTER:KEY- to take it away")
    return name, key, None if removed else value


@dataclass(frozen=True, slots=True)
class SupposedPlacement:
    """What a placement would get."""

    reference: str
    before: Sequence[str]
    after: Sequence[str]
    condition: str
    fulfilled: bool
    why: Mapping[str, str]
    """Of members that come or go."""
    waves: Sequence[Sequence[RolloutStep]] = ()
    """What would be done on members, wave by wave, if everything went well."""
    held: Sequence[str] = ()
    """Members that would wait even then."""

    @property
    def added(self) -> list[str]:
        """Members that would be chosen newly."""
        return [name for name in self.after if name not in self.before]

    @property
    def removed(self) -> list[str]:
        """Members that would not be chosen any more."""
        return [name for name in self.before if name not in self.after]


def members_by_kind(wave: Sequence[RolloutStep]) -> dict[str, list[str]]:
    """Members by what is done there: `add`, `update`, `strategy`, `remove` or `release`."""
    found: dict[str, list[str]] = {}
    for step in wave:
        found.setdefault("release" if step.want == "release" else step.kind.value, []).append(step.member)
    return found


def supposed(view: HubView) -> list[SupposedPlacement]:
    """What all placements would get by a view in which something is supposed, where another choice is stored."""
    found = (supposed_of(view, reference) for reference in sorted(view.references))
    return [one for one in found if one is not None]


def supposed_of(view: HubView, reference: str) -> SupposedPlacement | None:
    """What one placement would get by such a view; None where that is what is stored."""
    stored = view.decisions.get(reference)
    before = [one.name for one in stored.chosen] if stored is not None else []
    decision = answer(view, reference, time.monotonic()).decision
    if decision is None:
        return None
    changed = lives(decision.chosen) ^ (lives(stored.chosen) if stored is not None else set())
    status = stored.condition.status if stored is not None else None
    if not changed and status == decision.condition.status:
        return None
    reasons = {one.name: one.reason for one in decision.verdicts}
    reasons |= {one.name: one.reason for one in decision.chosen}
    rollout = _foreseen(view, reference, decision)
    return SupposedPlacement(
        reference,
        before,
        list(decision.names),
        decision.condition.message,
        decision.condition.status,
        {name: reasons.get(name, "it is gone") for name, _ in changed},
        rollout.waves,
        rollout.held,
    )


def _foreseen(view: HubView, reference: str, decision: PlacementDecision) -> ForeseenRollout:
    """How such a decision would be rolled out."""
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    supposed = SeenDecision(
        policy=decision.policy,
        chosen=decision.chosen,
        condition=decision.condition,
        abandons=seen.abandons if seen is not None else stored is not None and stored.abandons,
        deleting=seen is None or seen.placement.deleting,
    )
    return rollout_of(view, reference, supposed).foreseen or ForeseenRollout()
