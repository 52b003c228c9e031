"""What a hub has seen of members: their objects, and what their agents' leases and words and users' drains add.

Each change answers which fields of the member are others now. What cannot be read stays as it was.
Neighbours: `state.hub_view` takes the streams apart, `state.seen` makes one member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.documents.fields import mapping
from wharfinger.placement.contracts.placement_records import DrainRecord, MemberRecord, MemberStatusRecord
from wharfinger.placement.model.members import Ages, Member
from wharfinger.placement.state.hub_changes import MemberChange, difference
from wharfinger.placement.state.seen import SeenMember, held, member_of, object_of, put, status_of, store

ANOTHER = MemberChange.STANDING | MemberChange.ELIGIBILITY
UNCHANGED = MemberChange(0)


class MembersView:
    """All members. It is changed by the methods that begin with `take` only, and by `as_heard`."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        back: Callable[[str], None],
        note_unreadable: Callable[[str, Exception], None],
    ) -> None:
        """`back`: called with a member that is reachable again; `note_unreadable`: with a key, and what is wrong."""
        self._clock = clock
        self._back = back
        self._note_unreadable = note_unreadable
        self.by_name: dict[str, SeenMember] = {}
        self._drains: dict[str, DrainRecord] = {}
        self._agents: dict[str, MemberRecord] = {}
        self._statuses: dict[str, MemberStatusRecord] = {}
        self._changes = 0
        """Grows with each change of a member that a decision may depend on."""
        self._sorted: tuple[int, tuple[Member, ...]] = (0, ())

    @property
    def in_order(self) -> tuple[Member, ...]:
        """The members sorted by name; the same tuple as long as none has changed."""
        changes, members = self._sorted
        if changes != self._changes:
            members = tuple(self.by_name[name].member for name in sorted(self.by_name))
            self._sorted = self._changes, members
        return members

    @property
    def drains(self) -> dict[str, DrainRecord]:
        """Members that are cordoned or drained, as they are there now."""
        return {name: one for name in self._drains if (one := self.drain_of(name)) is not None}

    def drain_of(self, name: str) -> DrainRecord | None:
        """Whether a member is cordoned or drained."""
        found, member = self._drains.get(name), self.by_name.get(name)
        if found is None or not found.identity:
            return found
        return found if member is not None and member.member.identity == found.identity else None

    def as_heard(self, ages: Mapping[str, tuple[float | None, float | None]]) -> None:
        """Take these ages, as a decision recorded them, for what is known of the members' agents."""
        for name, one in self.by_name.items():
            heartbeat, health = ages.get(name, (None, None))
            one.recorded = Ages(heartbeat, health)
            if one.obj:
                one.member = member_of(one.obj, one.member.identity, one.status, heard=heartbeat is not None)
        self._changes += 1

    def take(self, name: str, kv: KeyValue | None) -> MemberChange:
        """The object of a member; None: it is gone."""
        before = self.by_name.get(name)
        if kv is None:
            self.by_name.pop(name, None)
            return self._changed(ANOTHER)
        try:
            obj = object_of(kv)
            obj = {**obj, "metadata": {**mapping(obj, "metadata"), "name": name}}
            made = self._made(name, obj, kv.create_revision, kv.mod_revision)
        except InvalidObject as error:
            self._note_unreadable(kv.key, error)
            if before is not None and before.member.identity == kv.create_revision:
                before.unreadable, before.revision = str(error), kv.mod_revision
                return self._changed(MemberChange.ELIGIBILITY)
            nothing = Member(name, kv.create_revision)
            self.by_name[name] = SeenMember(name, nothing, kv.mod_revision, {}, unreadable=str(error))
            return self._changed(ANOTHER)
        self.by_name[name] = made
        if before is None:
            return self._changed(ANOTHER)
        readable_again = MemberChange.ELIGIBILITY if before.unreadable else UNCHANGED
        return self._changed(difference(before.member, made.member) | readable_again)

    def take_agent(self, name: str, value: bytes | None) -> MemberChange:
        """The record under the agent's lease. Raises `ValueError`."""
        store(self._agents, name, value, MemberRecord)
        return self._remade(name)

    def take_status(self, name: str, value: bytes | None) -> MemberChange:
        """What the agent says of the member. Raises `ValueError`, `InvalidObject`."""
        put(self._statuses, name, status_of(value, name) if value is not None else None)
        return self._remade(name)

    def take_drain(self, name: str, value: bytes | None) -> MemberChange:
        """The record that a member is cordoned or drained. Raises `ValueError`."""
        before = self._drains.get(name)
        store(self._drains, name, value, DrainRecord)
        return self._changed(ANOTHER) if before != self._drains.get(name) else UNCHANGED

    def _made(self, name: str, obj: Mapping[str, object], identity: int, revision: int) -> SeenMember:
        """A member from its object, what it was before, and what is known of its agent. Raises `InvalidObject`."""
        before, now = self.by_name.get(name), self._clock()
        if before is not None and before.member.identity != identity:
            before = None
        said, agent = self._statuses.get(name), self._agents.get(name)
        if said is None or said.identity != identity:
            said = MemberStatusRecord(identity=identity)
        there = agent is not None and agent.identity == identity
        heard = now if there or (before is not None and before.there) else before.heard if before is not None else None
        member = member_of(obj, identity, said.status, heard=heard is not None)
        sick = member.agent is not None and member.agent.healthy is not None and not member.agent.healthy.true
        since = before.unhealthy if before is not None and before.unhealthy is not None else now
        return SeenMember(
            name=name,
            member=member,
            revision=revision,
            obj=obj,
            status=said.status,
            there=there,
            heard=heard,
            unhealthy=since if sick else None,
            held=held(obj),
            orphans=said.orphans,
        )

    def _remade(self, name: str) -> MemberChange:
        """What is known of a member's agent has changed."""
        before = self.by_name.get(name)
        if before is None or not before.obj:
            return UNCHANGED
        made = self._made(name, before.obj, before.member.identity, before.revision)
        made.unreadable = before.unreadable
        self.by_name[name] = made
        fields = difference(before.member, made.member)
        if before.there is not made.there:
            fields |= MemberChange.ELIGIBILITY
        if made.reachable and not before.reachable:
            self._back(name)
        return self._changed(fields)

    def _changed(self, fields: MemberChange) -> MemberChange:
        self._changes += bool(fields)
        return fields
