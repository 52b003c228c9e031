"""Invariant 3: every pending, ungated pod of ours is in its owner's queue; nothing else is in any.

Three workers follow the same facts, each with a view of its own; pods, records, tenants and the workers
themselves come and go in any order, and the queues are looked at after every step.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.clock import Clock
from tests.scheduling.stage import PROFILES, pod_bytes
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.loops.pod_events import PodEventHandler
from wharfinger.scheduling.loops.queueing import Gangs, gate_by, order_by
from wharfinger.scheduling.loops.shards import Shards
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import observe
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.pool import Ownership, Pool
from wharfinger.scheduling.state.queue.entry import Part, Reason
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.telemetry import Metrics
from wharfinger.testing import MemoryStore

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])


class Follower:
    """One worker's view, intake and queue."""

    def __init__(self, tenant: str, clock: Clock) -> None:
        metrics = Metrics()
        self.cache = Cache(clock=clock)
        self.view = View(self.cache, metrics)
        self.shards = Shards(hold=0, clock=clock)
        self.ownership = Ownership(frozenset(PROFILES), tenant)
        gate = gate_by(PROFILES)
        self.gangs = Gangs(self.cache, self.ownership, gate=gate)
        rules = QueueRules(gate, order_by(PROFILES), gang=self.gangs.placed_with)
        self.queue = SchedulingQueue(rules, clock=clock)
        self.pod_events = PodEventHandler(
            ProcessParts(MemoryStore(), metrics, clock=clock),
            Pool(self.cache, PROFILES, self.ownership),
            self.queue,
            gangs=self.gangs,
            shards=self.shards,
            ending=self,
            kick=lambda: None,
        )

    def close(self, key: PodKey, refusal: Refusal, *, remove_record: bool) -> None:
        """Endings are told of, and left to be."""

    def gone(self, key: PodKey) -> None:
        """As is what is kept of pods beside them."""

    def bound(self, pod: Pod) -> None:
        """As are runs."""

    def leave(self, pod: Pod, refusal: Refusal | None) -> None:
        """As are chains of pods that cohorts bound."""

    def follow(self, revision: int, events: list[Event]) -> None:
        changes = Changes(revision)
        for event in events:
            observed = observe(event)
            assert observed is not None
            self.view.take(observed, changes)
        changes.surroundings = self.view.cache.surroundings
        self.pod_events.apply(changes)


class ClusterMachine(RuleBasedStateMachine):
    """A store of a few keys, and three workers: two of the common pool, one of a tenant."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.revision = 1
        self.stored: dict[str, KeyValue] = {}
        self.workers = {
            "common/0": Follower("common", self.clock),
            "common/1": Follower("common", self.clock),
            "blue/0": Follower("blue", self.clock),
        }
        self.up = set(self.workers)
        self.share_out()

    def share_out(self) -> None:
        for name, worker in self.workers.items():
            pool = {one for one in self.up if one.startswith(worker.ownership.tenant + "/")}
            if worker.shards.update(frozenset(pool), name if name in self.up else None):
                worker.pod_events.resharded()

    def write(self, changed: dict[str, bytes | None]) -> None:
        self.revision += 1
        events = []
        for key, value in changed.items():
            old = self.stored.get(key)
            if value is None:
                if old is not None:
                    del self.stored[key]
                    events.append(Event(KeyValue(key, b"", 0, self.revision), deleted=True))
                continue
            create = old.create_revision if old is not None else self.revision
            self.stored[key] = KeyValue(key, value, create, self.revision)
            events.append(Event(self.stored[key]))
        for worker in self.workers.values():
            worker.follow(self.revision, events)

    @rule(
        name=NAMES,
        tenant=st.sampled_from(["", "blue", "red"]),
        gated=st.booleans(),
        phase=st.sampled_from(["", "", "", "Succeeded"]),
        deleted=st.sampled_from(["", "", "", "2026-01-01T00:00:00Z"]),
        scheduler=st.sampled_from(["", "", "", "somebody-else"]),
        gang=st.sampled_from([None, None, ("team", 1), ("team", 2), ("team", 3)]),
    )
    def pod_written(self, name: str, tenant: str, gated: bool, **fields: Any) -> None:
        labels = {"wharfinger.dev/tenant": tenant} if tenant else {}
        gates = ("wait",) if gated else ()
        self.write({keys.pod("default", name): pod_bytes(name, labels=labels, gates=gates, **fields)})

    @rule(name=NAMES)
    def bound(self, name: str) -> None:
        pod = keys.pod("default", name)
        if pod in self.stored:
            self.write({pod: pod_bytes(name, node="n"), keys.binding("n"): b"{}", keys.attempt("default", name): None})

    @rule(name=NAMES)
    def deleted(self, name: str) -> None:
        self.write({keys.pod("default", name): None})

    @rule(name=NAMES)
    def turned_unreadable(self, name: str) -> None:
        self.write({keys.pod("default", name): b"{"})

    @rule(name=NAMES)
    def refused(self, name: str) -> None:
        pod = self.stored.get(keys.pod("default", name))
        if pod is not None:
            record = AttemptRecord(attempt=1, create_revision=pod.create_revision, revision=self.revision)
            self.write({keys.attempt("default", name): record.to_bytes()})

    @rule(name=NAMES, junk=st.booleans())
    def record_gone_or_unreadable(self, name: str, junk: bool) -> None:
        self.write({keys.attempt("default", name): json.dumps([]).encode() if junk else None})

    @rule(least=st.sampled_from([None, 0, 2, 4]), key=st.sampled_from([None, "zone"]))
    def pod_group_comes_and_goes(self, least: int | None, key: str | None) -> None:
        topology = {"topology": [{"key": key}] if key else []}
        spec = {"minMember": least, "schedulingConstraints": topology}
        value = None if least is None else json.dumps({"metadata": {"name": "team"}, "spec": spec}).encode()
        self.write({keys.stored("podgroups", "default", "team"): value})

    @rule(name=st.sampled_from(["common/0", "common/1", "blue/0"]), accepted=st.booleans())
    def worker_starts_a_gang(self, name: str, accepted: bool) -> None:
        queue = self.workers[name].queue
        for entry in queue.pop_gang():
            if accepted:
                queue.started(entry)
            else:
                queue.defer(entry, 5)

    @rule(exists=st.booleans())
    def tenant_comes_and_goes(self, exists: bool) -> None:
        self.write({keys.tenant("blue"): b"{}" if exists else None})

    @rule(name=st.sampled_from(["common/0", "common/1", "blue/0"]), up=st.booleans())
    def worker_comes_and_goes(self, name: str, up: bool) -> None:
        (self.up.add if up else self.up.discard)(name)
        self.share_out()

    @rule(name=st.sampled_from(["common/0", "common/1", "blue/0"]))
    def worker_starts_and_time_passes(self, name: str) -> None:
        queue = self.workers[name].queue
        entry = queue.pop()
        if entry is not None:
            queue.started(entry)
        self.clock.advance(10)
        queue.return_overdue()

    @rule(
        name=st.sampled_from(["common/0", "common/1", "blue/0"]),
        cohort=st.uuids(),
        limit=st.integers(1, 5),
        start=st.sampled_from(["accepted", "lost", "failed", "blamed"]),
    )
    def worker_forms_a_cohort(self, name: str, cohort: UUID, limit: int, start: str) -> None:
        queue = self.workers[name].queue
        members = queue.pop_group(str(cohort), limit, lambda _: True)
        if start in ("failed", "blamed"):
            queue.start_failed(members, 5, blamed=start == "blamed")
        for entry in members if start == "accepted" else ():
            queue.started(entry)

    @rule(name=st.sampled_from(["common/0", "common/1", "blue/0"]))
    def run_of_a_group_fails(self, name: str) -> None:
        queue = self.workers[name].queue
        for group in list(queue.in_flight.groups):
            queue.run_failed(group)

    @rule(names=st.lists(NAMES, unique=True), urgent=st.booleans(), chained=st.booleans())
    def turned_away_together(self, names: list[str], urgent: bool, chained: bool) -> None:
        """As `record_many`: the records of many pods in one transaction; a repetition writes them again."""
        found = {name: self.stored[pod] for name in names if (pod := keys.pod("default", name)) in self.stored}
        if found:
            records = {
                keys.attempt("default", name): AttemptRecord(
                    attempt=1,
                    create_revision=pod.create_revision,
                    revision=self.revision,
                    parked=chained,
                    urgent=urgent,
                ).to_bytes()
                for name, pod in found.items()
            }
            self.write(dict(records))

    @rule(names=st.lists(NAMES, unique=True))
    def bound_together(self, names: list[str]) -> None:
        changed: dict[str, bytes | None] = {}
        for name in names:
            if keys.pod("default", name) in self.stored:
                changed[keys.pod("default", name)] = pod_bytes(name, node="n")
                changed[keys.attempt("default", name)] = None
        if changed:
            self.write(changed)

    @rule(name=st.sampled_from(["common/0", "common/1", "blue/0"]), which=NAMES)
    def worker_wakes(self, name: str, which: str) -> None:
        entry = self.workers[name].queue.get(PodKey("default", which))
        if entry is not None and self.workers[name].queue.may_join(entry):
            self.workers[name].queue.wake(entry, Reason("NodeAdd"))

    @rule(name=st.sampled_from(["common/0", "common/1", "blue/0"]))
    def worker_starts_a_chain(self, name: str) -> None:
        queue = self.workers[name].queue
        entry = queue.due_chain()
        if entry is not None:
            queue.started(entry)

    @invariant()
    def every_pod_is_in_its_owners_queue_and_in_no_other(self) -> None:
        for worker in self.workers.values():
            expected = {
                key
                for key, pod in worker.cache.pods.items()
                if pod.pending and worker.ownership.owns(pod, worker.cache.tenants) and worker.shards.mine(pod)
            }
            assert set(worker.queue) == expected
        for tenant in ("common", "blue"):
            if any(name.startswith(tenant) for name in self.up):
                pool = [worker for worker in self.workers.values() if worker.ownership.tenant == tenant]
                view = pool[0]
                ours = [
                    key
                    for key, pod in view.cache.pods.items()
                    if pod.pending and view.ownership.owns(pod, view.cache.tenants)
                ]
                assert sorted(ours) == sorted(key for worker in pool for key in worker.queue)

    @invariant()
    def a_pod_waits_only_with_a_record_and_is_held_back_only_by_gates_and_its_gang(self) -> None:
        for worker in self.workers.values():
            fresh = Gangs(worker.cache, worker.ownership, gate=gate_by(PROFILES))
            for key in worker.queue:
                entry = worker.queue.get(key)
                assert entry is not None
                pod = worker.cache.pods[key]
                held, gang = fresh.placed_with(pod)
                assert (entry.part is Part.GATED) == bool(pod.scheduling_gates or held)
                assert entry.gang == gang
                if entry.part is Part.WAITING:
                    record = worker.view.records.get(key)
                    assert record is not None
                    assert record.create_revision == entry.pod.create_revision


ClusterMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestNoPodFallsOut = ClusterMachine.TestCase
