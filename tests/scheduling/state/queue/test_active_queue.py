"""When groups start: at once in a quiet system, together while one counts, and never more than may."""

from __future__ import annotations

import heapq
import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clock import Clock
from tests.scheduling.state.queue.pods import pod, refusal
from wharfinger.scheduling.state.queue.active_queue import IN_GROUPS, REMEMBERED, Lane, Window
from wharfinger.scheduling.state.queue.entry import Entry, Part, Reason
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue

TIMEOUT = 3.0
MOST, GROUPS = 5, 4


def window(most_groups: int = GROUPS) -> Window:
    return Window(MOST, most_groups, task_timeout=TIMEOUT)


def test_lone_pod_starts_at_once_and_those_behind_it_wait_for_its_end() -> None:
    groups = window()
    assert not groups.may_start(0, 0.0)
    assert groups.may_start(1, 0.0)

    groups.began("a", 0.0)
    assert not groups.may_start(MOST - 1, 0.1)
    groups.ended("a", 0.1)
    assert groups.may_start(1, 0.1)


def test_flood_starts_full_groups_up_to_the_bound() -> None:
    groups = window()
    for number in range(GROUPS):
        assert groups.may_start(MOST, 0.0)
        groups.began(str(number), 0.0)
    assert not groups.may_start(100 * MOST, 1000.0)


def test_group_is_overdue_after_twice_the_longest_of_the_last_groups() -> None:
    groups = window()
    for number, took in enumerate((0.2, *[0.1] * (REMEMBERED - 1))):
        groups.began(str(number), 0.0)
        groups.ended(str(number), took)
    groups.began("a", 10.0)
    assert groups.overdue_at() == 10.4
    assert not groups.may_start(1, 10.39)
    assert groups.may_start(1, 10.4)

    groups.ended("a", 10.1)  # the longest is forgotten
    groups.began("b", 11.0)
    assert groups.overdue_at() == 11.2


def test_outage_makes_no_group_wait_longer_than_temporals_task_timeout() -> None:
    groups = window()
    groups.began("first", 0.0)
    assert groups.overdue_at() == TIMEOUT  # nothing is known yet
    groups.ended("first", 60.0)
    groups.began("second", 60.0)

    assert groups.overdue_at() == 60.0 + TIMEOUT


def test_group_that_etcd_did_not_tell_of_shows_no_duration() -> None:
    groups = window()
    groups.began("a", 0.0)
    groups.ended("a", 0.001, told=False)
    groups.began("b", 0.0)

    assert groups.overdue_at() == TIMEOUT


def test_failed_start_lets_one_pod_at_a_time_probe_until_one_is_accepted() -> None:
    groups = window()
    groups.began("a", 0.0)
    groups.failed()
    assert not groups.may_start(100 * MOST, TIMEOUT - 0.1)
    groups.ended("a", 1.0, told=False)
    assert groups.may_start(100 * MOST, 1.0)
    assert groups.size == 1

    groups.accepted()
    assert groups.size == MOST


def test_groups_that_hang_let_one_pod_probe_when_they_are_overdue() -> None:
    """Their worker is lost, perhaps: waiting for them would take as long as an unconfirmed start."""
    groups = window()
    groups.began("hangs", 0.0)
    groups.failed()
    assert groups.overdue_at() == TIMEOUT
    assert groups.may_start(1, TIMEOUT)

    groups.began("probe", TIMEOUT)
    assert groups.overdue_at() is None
    assert not groups.may_start(100 * MOST, 100.0)
    groups.accepted()
    assert groups.may_start(MOST, TIMEOUT)


class Life:
    """A queue, and groups that take some time, hang, fail to start, or whose run fails; in virtual time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = Clock()
        rules = QueueRules(lambda _: "", backoff=lambda attempt: 2.0**attempt)
        self.queue = SchedulingQueue(rules, clock=self.clock, window=window())
        self._events: list[tuple[float, int, str, list[Entry]]] = []
        self._tickets = itertools.count()
        self._names = itertools.count()
        self._records = itertools.count(10_000)
        self.trouble = True
        """Whether groups may hang or fail."""
        at = 0.0
        for _ in range(self.rng.randrange(60)):
            at += self.rng.choice((0.0, 0.001, 0.05, 2.0)) * self.rng.random()
            self._later(at, "arrives", [])

    def _later(self, seconds: float, what: str, members: list[Entry]) -> None:
        heapq.heappush(self._events, (self.clock() + seconds, next(self._tickets), what, members))

    def step(self) -> bool:
        """Let the next thing happen, and look; whether there was any."""
        overdue = self.queue.window.overdue_at() if self.queue.ready() else None
        due = [at for at in (overdue, self.queue.active.next_due()) if at is not None]
        if self._events and (not due or self._events[0][0] <= min(due)):
            at, _, what, members = heapq.heappop(self._events)
            self.clock.advance(max(0.0, at - self.clock()))
            getattr(self, f"_{what}")(members)
        elif due:
            self.clock.advance(max(0.0, min(due) - self.clock()))
        elif len(self.queue.in_flight):
            self.clock.advance(31)
        else:
            return False
        self.queue.return_overdue()
        self._look()
        return True

    def _arrives(self, _: list[Entry]) -> None:
        number = next(self._names)
        for part in range(self.rng.choice((1, 1, 3, 3 * MOST))):
            name = f"p{number}-{part}"
            self.queue.put(pod(name, create=next(self._records), priority=self.rng.choice((0, 0, 0, 5))), None)

    def _ends(self, members: list[Entry]) -> None:
        for entry in members:
            if entry.part is not Part.IN_FLIGHT or self.queue.get(entry.key) is not entry:
                continue
            if self.trouble and self.rng.random() < 0.1:
                record = refusal(record=next(self._records), create=entry.pod.create_revision, parked=False)
                self.queue.put(entry.pod, record)
                self.queue.wake(entry, Reason("NodeAdd"))
            else:
                self.queue.remove(entry.key)

    def _fails(self, members: list[Entry]) -> None:
        places = [entry.number for entry in members]
        for group in {entry.group for entry in members} - {""}:
            self.queue.run_failed(group, blamed=self.rng.random() < 0.5)
        assert places == [entry.number for entry in members]

    def _start_fails(self, members: list[Entry]) -> None:
        places = [entry.number for entry in members]
        self.queue.start_failed(members, 5.0, blamed=False)
        assert places == [entry.number for entry in members]

    def _look(self) -> None:
        groups, queue = self.queue.window, self.queue
        while groups.may_start(queue.ready(), self.clock()):
            members = queue.pop_group(f"g{next(self._names)}", groups.size, lambda _: True)
            assert 1 <= len(members) <= groups.size
            places = [(-entry.pod.priority, entry.number) for entry in members]
            assert places == sorted(places)
            left = queue.active.first(self.clock(), IN_GROUPS)
            assert left is None or places[-1] < (-left.pod.priority, left.number)
            self._begin(members)
        while (entry := queue.pop((Lane.ALONE,))) is not None:
            queue.remove(entry.key)
        self.check()

    def _begin(self, members: list[Entry]) -> None:
        chance = self.rng.random() if self.trouble else 1.0
        if chance < 0.1:
            self._later(self.rng.random(), "start_fails", members)
            return
        self.queue.window.accepted()
        for entry in members:
            self.queue.started(entry)
        if chance < 0.2:
            self._later(self.rng.random(), "fails", members)
        elif chance > 0.3:
            self._later(0.01 + 0.2 * self.rng.random(), "ends", members)

    def check(self) -> None:
        groups = self.queue.window
        assert len(groups) <= GROUPS
        assert len(groups) or not self.queue.ready(), "idle while pods are ready and no group counts"
        due = groups.overdue_at()
        assert due is None or due > self.clock() or not self.queue.ready()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_window_never_idles_is_bounded_and_keeps_the_order(seed: int) -> None:
    """Random arrivals, ends, hangs, failed starts and failed runs; once they end, every pod gets its outcome."""
    life = Life(seed)
    for _ in range(2_000):
        if not life.step():
            break
        if not life._events:
            life.trouble = False
    assert len(life.queue) == 0


def streamed(task: float, *, rate: float = 100.0, seconds: float = 60.0) -> tuple[float, int]:
    """A stream over a Temporal that does one task at a time, first come, first served: pods a group, and the most
    last tasks that ever waited.

    Etcd tells of a group when its first task is done, which takes `task` seconds and 2 ms a pod. Its last task takes
    half of `task`, and comes just behind the first task of the group that starts then.
    """
    groups = Window(200, GROUPS, task_timeout=TIMEOUT)
    queue: list[tuple[str, int, float]] = []
    """What is to be done: of which group, of how many pods (0: its last task), in how many seconds."""
    clock, ready, arrived, started, pods, waiting = 0.0, 0, 0, 0, 0, 0

    def start() -> None:
        nonlocal ready, started, pods
        while groups.may_start(ready, clock):
            size = min(ready, groups.size)
            ready, started, pods = ready - size, started + 1, pods + size
            groups.began(str(started), clock)
            queue.append((str(started), size, task + 0.002 * size))

    while clock < seconds:
        if queue:
            group, size, took = queue.pop(0)
            clock += took
        else:
            group, size = "", 0
            clock = (arrived + 1) / rate
        came = int(clock * rate + 1e-9)
        ready, arrived = ready + came - arrived, came
        if size:
            groups.ended(group, clock)
        start()
        if size:
            queue.append((group, 0, task / 2))
        waiting = max(waiting, sum(not size for _, size, _ in queue))
    return pods / started, waiting


def test_last_tasks_do_not_pile_up_and_a_slow_temporal_makes_groups_grow() -> None:
    """A group does not count to the end of its run, so its last task may wait: those of as many as may be in flight."""
    quick, slow = streamed(0.02), streamed(0.2)

    assert quick[0] < 10
    assert slow[0] > 3 * quick[0]
    assert max(quick[1], slow[1]) <= GROUPS
