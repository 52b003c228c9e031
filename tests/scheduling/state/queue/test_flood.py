"""Twenty thousand pods: every step stays quick, nothing is left behind, and who is urgent goes next."""

from __future__ import annotations

import time

from tests.clock import Clock
from tests.scheduling.state.queue.pods import pod, refusal
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.state.queue.entry import GARBAGE, Entry, EntryHeap, Part, Reason
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue

MANY = 20_000


def flooded(clock: Clock, pods: int) -> SchedulingQueue:
    queue = SchedulingQueue(QueueRules(lambda _: ""), clock=clock)
    for number in range(pods):
        queue.put(pod(f"p{number}", create=number + 1), None)
    return queue


def test_a_later_pod_of_more_importance_is_popped_next() -> None:
    clock = Clock()
    queue = flooded(clock, MANY)
    clock.advance(60)
    queue.put(pod("urgent", priority=1), None)

    assert [entry.pod.name for entry in queue.pop_group("c", 3, lambda _: True)] == ["urgent", "p0", "p1"]
    queue.put(pod("urgent too", priority=1), None)
    alone = queue.pop()
    assert alone is not None
    assert alone.pod.name == "urgent too"


def test_a_flood_passes_through_the_whole_queue_within_seconds() -> None:
    clock = Clock()
    began = time.process_time()
    queue = flooded(clock, MANY)
    refused = 0
    for number in range(MANY // 200):
        members = queue.pop_group(f"c{number}", 200, lambda _: True)
        for entry in members:
            queue.started(entry)
        assert len(queue.in_flight.groups) == 1
        for place, entry in enumerate(members):
            if place % 2:
                queue.remove(entry.key)
            else:
                refused += 1
                record = refusal(record=MANY + refused, create=entry.pod.create_revision, parked=False)
                queue.put(entry.pod, record)
    assert len(queue.in_flight.groups) == queue.ready() == 0
    assert len(queue.waiting) == queue.waiting.chainless == MANY // 2

    for entry in list(queue.waiting):
        queue.wake(entry, Reason("NodeAdd"))
    assert queue.ready() == MANY // 2
    assert time.process_time() - began < 20  # seconds; it took two


def test_pods_that_change_again_and_again_leave_nothing_behind() -> None:
    heap = EntryHeap()
    entries = [Entry(pod(f"p{number}"), 0.0, 0.0, Part.ACTIVE, "seen") for number in range(1000)]
    for round_ in range(50):
        for entry in entries:
            heap.push(entry, round_)
    assert len(heap) == 1000
    assert len(heap._heap) <= 2 * 1000 + GARBAGE

    for entry in entries[10:]:
        heap.discard(entry.key)
    assert len(heap._heap) <= 2 * 10 + GARBAGE
    assert sorted(entry.pod.name for entry in heap) == sorted(f"p{number}" for number in range(10))
    assert [heap.pop() for _ in range(11)] == [*entries[:10], None]


def test_an_update_that_changes_no_order_keeps_the_place() -> None:
    heap = EntryHeap()
    first, second = (Entry(pod(name), 0.0, 0.0, Part.ACTIVE, "seen") for name in "ab")
    heap.push(first, 0)
    heap.push(second, 0)
    heap.push(first, 0)

    assert heap.pop() is first
    assert PodKey("default", "a") not in heap
