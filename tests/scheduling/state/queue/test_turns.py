"""Namespaces take turns with their pods of equal priority."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict

import pytest

from tests.clock import Clock
from tests.scheduling.state.queue.pods import pod
from wharfinger.objects.model.gang import Gang, GangKey
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.state.queue.active_queue import by_priority
from wharfinger.scheduling.state.queue.entry import GARBAGE, Entry, Part
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.scheduling.state.queue.turns import FairHeap, Turns, by_namespace


@pytest.fixture
def queue(clock: Clock) -> SchedulingQueue:
    return SchedulingQueue(QueueRules(lambda _: "", share_of=by_namespace), clock=clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def put(queue: SchedulingQueue, namespace: str, pods: int, *, priority: int = 0) -> None:
    for number in range(pods):
        queue.put(pod(f"p{number}", namespace=namespace, priority=priority), None)


def popped(queue: SchedulingQueue, most: int = 100_000) -> list[str]:
    return [entry.pod.namespace for _ in range(most) if (entry := queue.pop()) is not None]


def test_one_namespaces_backlog_delays_no_other(queue: SchedulingQueue) -> None:
    put(queue, "many", 10_000)
    assert popped(queue, 100) == ["many"] * 100
    for number in range(3):
        queue.put(pod(f"next-{number}", namespace="few"), None)
        group = queue.pop_group("g", 200, lambda _: True, may_park=True)
        assert [entry.pod.namespace for entry in group] == ["few", *["many"] * 199]


def test_backlogs_of_equal_priority_share_alike(queue: SchedulingQueue) -> None:
    put(queue, "a", 300)
    put(queue, "b", 30)
    put(queue, "c", 300)
    assert Counter(popped(queue, 90)) == {"a": 30, "b": 30, "c": 30}
    assert Counter(popped(queue, 100)) == {"a": 50, "c": 50}


def test_priority_goes_before_turns(queue: SchedulingQueue) -> None:
    put(queue, "a", 3)
    put(queue, "b", 3)
    put(queue, "urgent", 3, priority=7)
    assert popped(queue) == ["urgent"] * 3 + ["a", "b"] * 3


def test_a_namespace_saves_no_turns_up(queue: SchedulingQueue) -> None:
    put(queue, "a", 100)
    popped(queue, 50)
    put(queue, "late", 50)
    assert Counter(popped(queue, 20)) == {"a": 10, "late": 10}


def test_a_namespace_that_gives_one_pod_after_another_takes_no_extra_turns(queue: SchedulingQueue) -> None:
    put(queue, "many", 100)
    given: Counter[str] = Counter()
    for number in range(40):
        queue.put(pod(f"next-{number}", namespace="greedy"), None)
        given.update(popped(queue, 1))
    assert given == {"many": 20, "greedy": 20}


def test_a_gang_takes_a_turn_a_member(clock: Clock) -> None:
    gang = Gang(GangKey("gangs", "g"), 4)
    rules = QueueRules(
        lambda _: "", gang=lambda one: ("", gang if one.namespace == "gangs" else None), share_of=by_namespace
    )
    queue = SchedulingQueue(rules, clock=clock)
    put(queue, "gangs", 4)
    put(queue, "many", 20)
    assert len(queue.pop_gang()) == 4
    queue.put(pod("late", namespace="gangs"), None)
    assert popped(queue, 4) == ["many"] * 4
    assert not queue.pop_gang()  # its turn came as often, and it came later
    assert popped(queue, 1) == ["many"]
    assert queue.pop_gang()


def test_a_gangs_turn_is_that_of_its_member_that_can_be_started(clock: Clock) -> None:
    gang = Gang(GangKey("gangs", "g"), 2)
    rules = QueueRules(lambda _: "", gang=lambda _: ("", gang), share_of=by_namespace)
    delays = itertools.cycle((1.0, 0.5, 0.0, 0.5))
    queue = SchedulingQueue(rules, clock=clock, spread=delays.__next__)
    for name, priority in ("held-back", 10), ("ready", 0):
        queue.put(pod(name, namespace="gangs", priority=priority), None)
    for entry in queue.pop_gang():
        queue.defer(entry, 10)
    clock.advance(6)
    assert [entry.pod.name for entry in queue.pop_gang()] == ["held-back", "ready"]


def test_pods_whose_start_failed_keep_their_place_in_their_namespace(queue: SchedulingQueue) -> None:
    put(queue, "a", 4)
    put(queue, "b", 4)
    first = queue.pop_group("g", 2, lambda _: True, may_park=True)
    queue.start_failed(first, 10.0, blamed=False)
    names = [(entry.pod.namespace, entry.pod.name) for _ in range(8) if (entry := queue.pop()) is not None]
    assert [name for space, name in names if space == "a"] == ["p0", "p1", "p2", "p3"]
    assert [space for space, _ in names] == ["a", "b"] * 4


@pytest.mark.parametrize("seed", range(20))
def test_two_heaps_on_the_same_turns_give_what_a_simple_round_gives(seed: int) -> None:
    """Against a plain model: the namespace with the smallest tag, then the pod that came first."""
    rng = random.Random(seed)
    turns, numbers = Turns(by_namespace), itertools.count()
    heaps = [FairHeap(turns), FairHeap(turns)]
    ready: dict[tuple[int, str], list[tuple[tuple[object, int], Entry]]] = defaultdict(list)
    tags: dict[tuple[int, str], int] = {}
    given: dict[int, int] = {}
    where: dict[Entry, int] = {}
    for step in range(600):
        now = [heap.first() for heap in heaps]
        if rng.random() < 0.55 - step / 3000:
            entry = _entry(rng, next(numbers))
            order = (by_priority(entry.pod, entry.arrival), entry.number)
            where[entry] = rng.randrange(2)
            heaps[where[entry]].push(entry, order)
            ready[by_namespace(entry.pod)].append((order, entry))
        elif where and rng.random() < 0.1:
            entry = rng.choice(list(where))
            assert heaps[where.pop(entry)].discard(entry.key)
            ready[by_namespace(entry.pod)] = [one for one in ready[by_namespace(entry.pod)] if one[1] is not entry]
        elif where:
            best = min((found[0], at) for at, found in enumerate(now) if found is not None)[1]
            entry = heaps[best].pop()  # type: ignore[assignment]
            share = min(
                (share for share in ready if ready[share]),
                key=lambda it: (it[0], max(given.get(it[0], 0), tags.get(it, 0)), min(ready[it])[0]),
            )
            expected = min(ready[share], key=lambda one: one[0])
            assert entry is expected[1]
            ready[share].remove(expected)
            del where[entry]
            given[share[0]] = max(given.get(share[0], 0), tags.get(share, 0))
            tags[share] = given[share[0]] + 1
        for rank in {share[0] for share in tags} - {share[0] for share in ready if ready[share]}:
            given.pop(rank, None)
            tags = {share: tag for share, tag in tags.items() if share[0] != rank}
        assert sum(map(len, heaps)) == len(where)
        assert {entry for heap in heaps for entry in heap} == where.keys()


def _entry(rng: random.Random, number: int) -> Entry:
    one = pod(f"p{number}", namespace=rng.choice("abcd"), priority=rng.choice([0, 0, 5]))
    return _of(one, number, arrival=rng.randrange(50))


def _of(one: Pod, number: int, *, arrival: float = 0.0) -> Entry:
    return Entry(pod=one, since=0.0, arrival=arrival, part=Part.ACTIVE, cause="seen", number=number)


def test_no_tag_is_kept_for_namespaces_that_have_gone() -> None:
    turns = Turns(by_namespace)
    heap = FairHeap(turns)
    for number in range(5_000):
        for space in ("steady", f"space-{number}"):
            entry = _of(pod(f"p{number}", namespace=space), number)
            heap.push(entry, (by_priority(entry.pod, entry.arrival), entry.number))
        if number > 3:
            assert heap.pop()
            assert heap.pop()
    assert len(turns._ranks[0].tags) <= 2 * GARBAGE
    assert len(heap._heads) <= 2 * len(heap) + GARBAGE + 1
    while heap.pop() is not None:
        pass
    assert not turns._ranks
