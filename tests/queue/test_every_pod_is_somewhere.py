"""Invariant 3 as far as the queue goes: whatever happens, in whatever order, no pod falls out."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.queue.pods import Clock, pod, refusal
from wharfinger.model.pod import PodKey
from wharfinger.model.refusal import Refusal
from wharfinger.queue.entry import Entry, Part
from wharfinger.queue.scheduling_queue import SchedulingQueue

NAMES = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """A cluster of a few pods, told to the queue as etcd would show it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.revision = 10
        self.lives: dict[str, int] = {}
        self.gated: set[str] = set()
        self.records: dict[str, Refusal] = {}
        self.queue = SchedulingQueue(
            clock=self.clock, gate=lambda p: "gate" if p.scheduling_gates else "", confirm_after=30
        )

    def tell(self, name: str, **fields: object) -> None:
        gates = ("gate",) if name in self.gated else ()
        self.queue.put(
            pod(name, create=self.lives[name], mod=self.revision, gates=gates, **fields), self.records.get(name)
        )

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

    @rule(name=NAMES, rejectors=st.sampled_from([(), ("A",), ("A", "B")]))
    def refused(self, name: str, rejectors: tuple[str, ...]) -> None:
        if name in self.lives:
            self.revision += 1
            self.records[name] = refusal(record=self.revision, create=self.lives[name], rejectors=rejectors)
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

    @rule(accepted=st.booleans())
    def popped(self, accepted: bool) -> None:
        entry = self.queue.pop()
        if entry is not None and accepted:
            self.queue.started(entry)

    @rule(name=NAMES)
    def start_failed(self, name: str) -> None:
        entry = self.entry(name)
        if entry is not None:
            self.queue.defer(entry, 5)

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
    def exactly_the_gated_pods_are_held_back(self) -> None:
        assert {entry.pod.name for entry in self.queue.gated} == self.gated

    @invariant()
    def every_waiting_pod_has_its_record_and_is_indexed(self) -> None:
        index = self.queue.waiting.candidates
        indexed = [entry for names in index.rejectors() for equals in index.refused_by(names) for entry in equals]
        assert {entry.key for entry in indexed} == {entry.key for entry in self.queue.waiting}
        assert all(entry.refusal == self.records[entry.pod.name] for entry in self.queue.waiting)


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestEveryPodIsSomewhere = QueueMachine.TestCase
