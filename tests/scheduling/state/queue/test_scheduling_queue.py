"""The queue's transitions: each test is one rule."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.scheduling.state.queue.pods import pod, refusal
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.queue.entry import Part, Reason
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> SchedulingQueue:
    def gate(pod: Pod) -> str:
        return "SchedulingGates" if pod.scheduling_gates else ""

    return SchedulingQueue(QueueRules(gate), clock=clock)


def popped(queue: SchedulingQueue) -> list[str]:
    names = []
    while (entry := queue.pop()) is not None:
        names.append(entry.pod.name)
    return names


def part(queue: SchedulingQueue, name: str) -> Part | None:
    entry = queue.get(PodKey("default", name))
    return entry.part if entry is not None else None


def test_pods_are_popped_by_priority_then_arrival(queue: SchedulingQueue, clock: Clock) -> None:
    for name, priority in (("early", 0), ("late", 0), ("urgent", 10), ("negative", -5)):
        queue.put(pod(name, priority=priority), None)
        clock.advance(1)

    assert popped(queue) == ["urgent", "early", "late", "negative"]


def test_pod_added_twice_is_queued_once(queue: SchedulingQueue) -> None:
    queue.put(pod("a"), None)
    queue.put(pod("a", mod=5), None)

    assert popped(queue) == ["a"]


def test_a_priority_changed_while_active_changes_the_order(queue: SchedulingQueue) -> None:
    queue.put(pod("a", priority=1), None)
    queue.put(pod("b", priority=2), None)
    queue.put(pod("a", priority=3), None)

    assert popped(queue) == ["a", "b"]


def test_a_gained_pod_is_not_popped_before_its_hold_is_over(queue: SchedulingQueue, clock: Clock) -> None:
    queue.put(pod("gained", priority=10), None, not_before=clock() + 2)
    queue.put(pod("seen"), None)

    assert popped(queue) == ["seen"]
    assert queue.active.next_due() == clock() + 2

    clock.advance(2)

    assert popped(queue) == ["gained"]


def test_a_gated_pod_waits_for_its_gates_only(queue: SchedulingQueue) -> None:
    queue.put(pod("a", gates=("wait",)), None)

    assert part(queue, "a") is Part.GATED
    assert popped(queue) == []

    queue.put(pod("a"), None)

    assert popped(queue) == ["a"]


def test_the_clock_of_a_gated_pod_starts_when_its_gates_open(queue: SchedulingQueue, clock: Clock) -> None:
    """kube-scheduler sets the initial attempt's timestamp when the pod enters the active queue, not when it is seen."""
    queue.put(pod("gated", gates=("wait",)), None)
    clock.advance(60)
    queue.put(pod("ready"), None)
    clock.advance(60)

    entry = queue.put(pod("gated"), None)

    assert (entry.since, entry.arrival) == (clock(), clock())
    assert popped(queue) == ["ready", "gated"]


def test_a_pod_gated_again_keeps_the_time_of_its_first_queueing(queue: SchedulingQueue, clock: Clock) -> None:
    first = queue.put(pod("a"), None).since
    clock.advance(60)
    queue.put(pod("a", gates=("wait",)), None)
    clock.advance(60)

    entry = queue.put(pod("a"), None)

    assert (entry.since, entry.arrival) == (first, clock())


def test_a_pod_with_a_record_waits(queue: SchedulingQueue) -> None:
    queue.put(pod("a"), refusal(record=7))

    assert part(queue, "a") is Part.WAITING
    assert popped(queue) == []


def test_a_record_of_an_earlier_life_counts_for_nothing(queue: SchedulingQueue) -> None:
    queue.put(pod("a", create=20), refusal(record=7, create=1))

    assert part(queue, "a") is Part.ACTIVE


def test_a_recreated_pod_starts_from_the_beginning(queue: SchedulingQueue) -> None:
    queue.put(pod("a"), refusal(record=7))
    queue.put(pod("a", create=20), None)

    assert part(queue, "a") is Part.ACTIVE


def test_a_record_ends_the_flight(queue: SchedulingQueue) -> None:
    queue.put(pod("a"), None)
    queue.pop()
    assert part(queue, "a") is Part.IN_FLIGHT

    queue.put(pod("a"), refusal(record=9))

    assert part(queue, "a") is Part.WAITING
    assert len(queue.in_flight) == 0


def test_an_update_of_the_pod_does_not_end_the_flight(queue: SchedulingQueue) -> None:
    queue.put(pod("a"), None)
    queue.pop()
    queue.put(pod("a", labels={"new": "label"}), None)

    assert part(queue, "a") is Part.IN_FLIGHT


def test_the_record_it_was_started_with_does_not_end_the_flight(queue: SchedulingQueue) -> None:
    """Its chain was gone and is started anew; only a newer record tells of the new chain."""
    entry = queue.put(pod("a"), refusal(record=7))
    queue.restart(entry, "chain gone")
    queue.pop()
    queue.put(pod("a"), refusal(record=7))
    assert part(queue, "a") is Part.IN_FLIGHT

    queue.put(pod("a"), refusal(record=8))

    assert part(queue, "a") is Part.WAITING


def test_a_start_that_is_not_confirmed_in_time_is_repeated(queue: SchedulingQueue, clock: Clock) -> None:
    """[A start may join a run that is just ending]: nothing would ever come of it."""
    queue.put(pod("a"), None)
    entry = queue.pop()
    assert entry is not None
    queue.started(entry)
    clock.advance(29)
    assert queue.return_overdue() == 0

    clock.advance(1)

    assert queue.return_overdue() == 1
    assert popped(queue) == ["a"]


def test_pods_whose_starts_are_not_confirmed_do_not_keep_others_out(queue: SchedulingQueue, clock: Clock) -> None:
    """A pod that a Permit plugin holds is in flight for minutes; perhaps it is held until the others come, too."""
    queue.put(pod("held"), None)
    entry = queue.pop()
    assert entry is not None
    queue.started(entry)
    clock.advance(10)
    queue.put(pod("new"), None)
    clock.advance(20)
    assert queue.return_overdue() == 1

    assert popped(queue) == ["new", "held"]


def test_a_start_that_temporal_has_not_accepted_yet_is_not_overdue(queue: SchedulingQueue, clock: Clock) -> None:
    queue.put(pod("a"), None)
    queue.pop()
    clock.advance(1000)

    assert queue.return_overdue() == 0


def test_a_failing_start_makes_room_and_comes_back(queue: SchedulingQueue, clock: Clock) -> None:
    queue.put(pod("a"), None)
    entry = queue.pop()
    assert entry is not None
    queue.defer(entry, 5)

    assert popped(queue) == []
    clock.advance(5)
    assert popped(queue) == ["a"]


def test_a_record_deleted_by_hand_makes_the_pod_active(queue: SchedulingQueue) -> None:
    queue.put(pod("a"), refusal(record=7))
    queue.put(pod("a"), None)

    assert part(queue, "a") is Part.ACTIVE


def test_a_waiting_pod_taken_over_is_started_again_at_once_and_then_slowly(
    queue: SchedulingQueue, clock: Clock
) -> None:
    queue.put(pod("a"), refusal(record=7), cause="take-over", not_before=clock() + 2)
    assert queue.due_restarts(10) == []

    clock.advance(2)
    assert [entry.pod.name for entry in queue.due_restarts(10)] == ["a"]
    assert queue.due_restarts(10) == []

    clock.advance(300)
    assert [entry.pod.name for entry in queue.due_restarts(10)] == ["a"]


def test_a_woken_pod_is_not_started_before_its_hold_is_over(queue: SchedulingQueue, clock: Clock) -> None:
    """Its owner may have changed for a moment only, however short its back-off is."""
    entry = queue.put(pod("a"), refusal(record=7, parked=False), cause="take-over", not_before=clock() + 2)
    clock.advance(1)
    queue.wake(entry, Reason("NodeAdd"))
    assert popped(queue) == []

    clock.advance(1)
    assert popped(queue) == ["a"]


def test_a_pod_that_ends_waiting_is_not_started_again(queue: SchedulingQueue, clock: Clock) -> None:
    queue.put(pod("a"), refusal(record=7))
    queue.remove(PodKey("default", "a"))
    clock.advance(1000)

    assert queue.due_restarts(10) == []


def test_waiting_pods_are_found_by_the_plugins_that_refused_them(queue: SchedulingQueue) -> None:
    queue.put(pod("fit"), refusal(record=7, rejectors=("NodeResourcesFit",)))
    queue.put(pod("both"), refusal(record=8, rejectors=("NodeAffinity", "NodeResourcesFit")))
    queue.put(pod("taint"), refusal(record=9, rejectors=("TaintToleration",)))

    index = queue.waiting.candidates
    found = {
        rejectors: [entry.pod.name for equals in index.refused_by(rejectors) for entry in equals.members.values()]
        for rejectors in index.rejectors()
    }

    assert found == {
        ("NodeResourcesFit",): ["fit"],
        ("NodeAffinity", "NodeResourcesFit"): ["both"],
        ("TaintToleration",): ["taint"],
    }


def test_equal_waiting_pods_are_one_class(queue: SchedulingQueue) -> None:
    for number in range(5):
        queue.put(pod(f"web-{number}", requests={"cpu": 100}), refusal(record=7 + number))
    queue.put(pod("big", requests={"cpu": 9000}), refusal(record=20))

    groups = sorted(len(equals.members) for equals in queue.waiting.candidates.refused_by(("NodeResourcesFit",)))

    assert groups == [1, 5]


def test_an_outage_of_temporal_sets_no_pod_apart(queue: SchedulingQueue, clock: Clock) -> None:
    """Starts fail for minutes, one pod at a time; afterwards all of them go together."""
    for name in "abcd":
        queue.put(pod(name), None)
    probed = set()
    for number in range(100):
        members = queue.pop_group(f"g{number}", queue.window.size, lambda _: True)
        probed |= {entry.pod.name for entry in members}
        queue.start_failed(members, 5.0, blamed=False)
        clock.advance(1)
    assert probed == {"a", "b", "c", "d"}
    queue.window.accepted()
    clock.advance(5)

    assert len(queue.pop_group("last", queue.window.size, lambda _: True)) == 4


def test_a_pod_set_apart_stays_so_until_its_own_attempt_is_decided(queue: SchedulingQueue) -> None:
    entry = queue.put(pod("a"), refusal(record=10, parked=False))
    queue.restart(entry, "NodeAdd")
    for group in ("first", "second"):
        queue.pop_group(group, 200, lambda _: True)
        queue.run_failed(group, blamed=True)
    queue.put(pod("a"), refusal(record=11, reason="SchedulerError"))
    assert entry.alone

    queue.put(pod("a"), refusal(record=12))
    assert not entry.alone


def test_a_pod_that_spoils_groups_again_and_again_stays_apart(queue: SchedulingQueue) -> None:
    """Its own attempts go well: after the first of them it joins groups again, after the second no more."""
    record = 10
    for together in (True, True, False):
        entry = queue.put(pod("a"), refusal(record=record, parked=False))
        queue.restart(entry, "NodeAdd")
        for group in ("first", "second"):
            assert [one.pod.name for one in queue.pop_group(group, 200, lambda _: True)] == ["a"] * together
            queue.run_failed(group, blamed=True)
        assert popped(queue) == ["a"]
        record += 1
