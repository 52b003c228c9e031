"""Invariant 3 as far as the queue goes: whatever happens, in whatever order, no pod falls out."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.clock import Clock
from tests.scheduling.state.queue.pods import pod, refusal
from wharfinger.objects.model.gang import Gang, GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.scheduling.state.queue.entry import Entry, Part, Reason
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduling.state.queue.turns import by_namespace

NAMES = st.sampled_from("abcd")
GANG = {"a", "b"}


class QueueMachine(RuleBasedStateMachine):
    """A cluster of a few pods, told to the queue as etcd would show it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.revision = 10
        self.lives: dict[str, int] = {}
        self.gated: set[str] = set()
        self.records: dict[str, Refusal] = {}
        self.promised: dict[str, Entry] = {}
        rules = QueueRules(
            lambda p: "gate" if p.scheduling_gates else "",
            alone=lambda p: p.name == "d",
            gang=self.gang_of,
            share_of=by_namespace,
        )
        self.queue = SchedulingQueue(rules, clock=self.clock, spread=itertools.cycle((0.0, 0.9, 0.4)).__next__)
        self.cohorts = 0
        self.standing = "apart"

    def gang_of(self, pod: Pod) -> tuple[str, Gang | None]:
        if pod.name not in GANG or self.standing == "apart":
            return "", None
        return ("too few", None) if self.standing == "held" else ("", Gang(GangKey("default", "team"), 2))

    def tell(self, name: str, **fields: object) -> None:
        gates = ("gate",) if name in self.gated else ()
        self.queue.put(
            pod(name, create=self.lives[name], mod=self.revision, gates=gates, **fields), self.records.get(name)
        )
        self.promised.pop(name, None)

    @rule(name=NAMES, gated=st.booleans(), priority=st.integers(-2, 2))
    def created_or_updated(self, name: str, gated: bool, priority: int) -> None:
        self.revision += 1
        if name not in self.lives:
            self.lives[name] = self.revision
            self.records.pop(name, None)
        (self.gated.add if gated else self.gated.discard)(name)
        self.tell(name, priority=priority)

    @rule(name=NAMES)
    def created_anew_between_two_lists(self, name: str) -> None:
        self.revision += 1
        self.lives[name] = self.revision
        self.gated.discard(name)
        self.tell(name)

    @rule(name=NAMES, rejectors=st.sampled_from([(), ("A",), ("A", "B")]), parked=st.booleans(), urgent=st.booleans())
    def refused(self, name: str, rejectors: tuple[str, ...], parked: bool, urgent: bool) -> None:
        if name in self.lives:
            self.revision += 1
            self.records[name] = refusal(
                record=self.revision, create=self.lives[name], rejectors=rejectors, parked=parked, urgent=urgent
            )
            self.tell(name)

    @rule(name=NAMES)
    def record_deleted(self, name: str) -> None:
        if self.records.pop(name, None) is not None and name in self.lives:
            self.tell(name)

    @rule(name=NAMES)
    def bound_or_deleted(self, name: str) -> None:
        if self.lives.pop(name, None) is not None:
            self.records.pop(name, None)
            self.gated.discard(name)
            self.queue.remove(PodKey("default", name))

    @rule(name=NAMES)
    def promised_in_etcd(self, name: str) -> None:
        entry = self.entry(name)
        if entry is not None:
            del self.lives[name]
            self.records.pop(name, None)
            self.gated.discard(name)
            self.queue.promised(entry.key)
            self.promised[name] = entry

    @rule(name=NAMES)
    def bind_answered_by_the_api(self, name: str) -> None:
        if name in self.promised:
            assert self.queue.remove(PodKey("default", name)) is self.promised.pop(name)

    @rule(accepted=st.booleans())
    def popped(self, accepted: bool) -> None:
        entry = self.queue.pop()
        if entry is not None and accepted:
            self.queue.started(entry)

    @rule(standing=st.sampled_from(["apart", "held", "together"]))
    def gang_stands_otherwise(self, standing: str) -> None:
        self.standing = standing
        for name in GANG & set(self.lives):
            self.tell(name)

    @rule(accepted=st.booleans())
    def gang_popped(self, accepted: bool) -> None:
        members = self.queue.pop_gang()
        assert {entry.pod.name for entry in members} <= GANG
        for entry in members if accepted else ():
            self.queue.started(entry)

    @rule(limit=st.integers(1, 4), fitting=st.sets(NAMES), accepted=st.booleans())
    def popped_many(self, limit: int, fitting: set[str], accepted: bool) -> None:
        self.cohorts += 1
        members = self.queue.pop_group(f"c{self.cohorts}", limit, lambda entry: entry.pod.name in fitting)
        assert len(members) <= limit
        assert all(self.queue.may_join(entry) for entry in members)
        single = len(members) == 1 and not (members[0].together or members[0].chainless)
        assert {entry.cohort for entry in members} == ({""} if single else {f"c{self.cohorts}"} if members else set())
        for entry in members if accepted else ():
            self.queue.started(entry)

    @rule(name=NAMES)
    def start_failed(self, name: str) -> None:
        entry = self.entry(name)
        if entry is not None:
            self.queue.defer(entry, 5)

    @rule(blamed=st.booleans())
    def start_of_a_group_failed(self, blamed: bool) -> None:
        for members in [list(group.values()) for group in self.queue.in_flight.groups.values()]:
            self.queue.start_failed(members, 5, blamed=blamed)
        self.only_promised_pods_count()

    @rule()
    def run_of_a_group_failed(self) -> None:
        for group in list(self.queue.in_flight.groups):
            self.queue.run_failed(group, blamed=True)
        self.only_promised_pods_count()

    def only_promised_pods_count(self) -> None:
        counted = [entry for group in self.queue.in_flight.groups.values() for entry in group.values()]
        assert all(self.promised[entry.pod.name] is entry for entry in counted)

    @rule(name=NAMES)
    def woken_with_others(self, name: str) -> None:
        entry = self.entry(name)
        if entry is not None and self.queue.may_join(entry):
            self.queue.wake(entry, Reason("NodeAdd"))

    @rule(accepted=st.booleans())
    def chain_started(self, accepted: bool) -> None:
        entry = self.queue.due_chain()
        if entry is not None:
            assert entry.part is Part.WAITING
            assert entry.refusal is not None
            assert entry.refusal.urgent
            if accepted:
                self.queue.started(entry)

    @rule(name=NAMES)
    def chain_gone(self, name: str) -> None:
        entry = self.entry(name)
        if entry is not None:
            self.queue.restart(entry, "chain gone")

    @rule(seconds=st.sampled_from([1, 31, 500]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.queue.return_overdue()
        self.queue.due_restarts(2)

    def entry(self, name: str) -> Entry | None:
        return self.queue.get(PodKey("default", name))

    @invariant()
    def every_pending_pod_is_in_exactly_one_part(self) -> None:
        keys = {PodKey("default", name) for name in self.lives}
        assert set(self.queue) == keys
        parts = (
            (Part.GATED, self.queue.gated),
            (Part.ACTIVE, self.queue.active),
            (Part.IN_FLIGHT, self.queue.in_flight),
            (Part.WAITING, self.queue.waiting),
        )
        for key in keys:
            entry = self.queue.get(key)
            assert entry is not None
            assert [part for part, members in parts if key in members] == [entry.part]
        assert sum(len(members) for _, members in parts) == len(keys)

    @invariant()
    def groups_count_while_one_of_their_pods_is_in_flight_or_promised(self) -> None:
        entries = [entry for entry in map(self.queue.get, self.queue) if entry and entry.part is Part.IN_FLIGHT]
        groups = {entry.group for entry in (*entries, *self.promised.values())} - {""}
        assert set(self.queue.in_flight.groups) == groups
        assert len(self.queue.window) == len(groups)
        assert all(group in self.queue.window for group in groups)
        ganged = [entry for entry in entries if entry.cohort == "default/team"]
        assert self.queue.in_flight.gangs == bool(ganged)
        assert self.queue.in_flight.alone == len([e for e in entries if not e.group and e not in ganged])

    @invariant()
    def exactly_the_waiting_pods_whose_record_names_no_chain_are_without_one(self) -> None:
        chainless = {entry.key for entry in self.queue.waiting if entry.refusal and not entry.refusal.parked}
        urgent = {entry.key for entry in self.queue.waiting if entry.key in chainless and entry.refusal.urgent}
        assert {key for key in self.queue if key in self.queue.waiting.urgent} == urgent
        assert len(self.queue.waiting.urgent) == len(urgent)
        assert self.queue.waiting.chainless == len(chainless)
        parked = {entry.gang or entry.key for entry in self.queue.waiting if entry.key not in chainless}
        assert self.queue.waiting.chains == len(parked) + self.queue.waiting.urgent.unconfirmed

    @invariant()
    def only_pods_that_may_be_with_others_are_woken_so(self) -> None:
        for key in self.queue:
            entry = self.queue.get(key)
            assert entry is not None
            assert not entry.together or (entry.part is not Part.WAITING and self.queue.may_join(entry))

    @invariant()
    def exactly_the_gated_pods_are_held_back(self) -> None:
        held = GANG & set(self.lives) if self.standing == "held" else set()
        assert {entry.pod.name for entry in self.queue.gated.values()} == self.gated | held

    @invariant()
    def members_of_a_gang_that_is_placed_as_one_are_startable_as_one(self) -> None:
        ganged = {key.name for key in self.queue if (entry := self.queue.get(key)) and entry.gang is not None}
        assert ganged == (GANG & set(self.lives) if self.standing == "together" else set())
        for part in Part:
            members = self.queue.gangs.members(GangKey("default", "team"), part)
            assert {entry.pod.name for entry in members} == {name for name in ganged if self.part_of(name) is part}

    def part_of(self, name: str) -> Part | None:
        entry = self.entry(name)
        return entry.part if entry is not None else None

    @invariant()
    def every_waiting_pod_has_its_record_and_is_indexed(self) -> None:
        index = self.queue.waiting.candidates
        equals = [equals for names in index.rejectors() for equals in index.refused_by(names)]
        indexed = [entry for members in equals for entry in members.members.values()]
        assert {entry.key for entry in indexed} == {entry.key for entry in self.queue.waiting}
        assert all(entry.refusal == self.records[entry.pod.name] for entry in self.queue.waiting)


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestEveryPodIsSomewhere = QueueMachine.TestCase
