from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.apiserver.api_recorder import UpstreamRecorder, Written
from tests.clock import Clock
from wharfinger.apiserver.client import EVENTS, ApiAnswer
from wharfinger.apiserver.event_lane import (
    BEHIND_BINDS,
    FIRST_PAUSE,
    GATHER,
    LONGEST_PAUSE,
    QUEUE,
    SENDERS,
    TRIES,
    EventLane,
    EventOutcome,
    EventPolicy,
)
from wharfinger.apiserver.events import REFRESH, WINDOW, ApiEvent, EventReporter, pod_reference
from wharfinger.errors import UpstreamDenied, UpstreamUnavailable

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPORTER = partial(EventReporter, "default-scheduler", "w-1")
CREATED, PATCHED = ApiAnswer(201), ApiAnswer(200)
GONE = ApiAnswer(404, reason="NotFound")
THERE = ApiAnswer(409, reason="AlreadyExists")


def bound(pod: str = "web") -> ApiEvent:
    return REPORTER(f"run of {pod}", START, pod_reference("shop", pod, f"u-{pod}")).scheduled("n1")


def refused(run: str, pod: str = "web", after: float = 0.0) -> ApiEvent:
    regarding = pod_reference("shop", pod, f"u-{pod}", 41)
    return REPORTER(run, START + timedelta(seconds=after), regarding).failed_scheduling("no room")


class Bench:
    """A lane, the recorder that it writes to, and a sleep that only moves the clock."""

    def __init__(self, policy: EventPolicy = EventPolicy.ALL) -> None:
        self.clock = Clock()
        self.recorder = UpstreamRecorder()
        self.outcomes: Counter[EventOutcome] = Counter()
        self.pauses: list[float] = []
        self.gathered: list[float] = []
        self.gathering: asyncio.Event | None = None
        """While it is not set, events gather."""
        self.binds_wait = False
        self.lane = EventLane(
            self.recorder.apiserver,
            clock=self.clock,
            rng=random.Random(0),
            policy=policy,
            on_outcome=lambda outcome: self.outcomes.update([outcome]),
            binds_wait=lambda: self.binds_wait,
            sleep=self.sleep,
            gather=self.gather,
        )

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds)

    async def gather(self, seconds: float) -> None:
        self.gathered.append(seconds)
        await asyncio.sleep(0)
        if self.gathering is not None:
            await self.gathering.wait()

    def have_binds_wait(self) -> ApiAnswer:
        self.binds_wait = True
        return CREATED

    async def sent(self) -> list[Written]:
        """Let everything that waits be sent; what was written in all."""
        while self.lane.waiting or self.recorder.at_once:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        return self.recorder.written

    @property
    def verbs(self) -> list[str]:
        return [written.verb for written in self.recorder.written]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    made.lane.start()
    yield made
    await made.lane.stop(1.0)


async def test_event_is_created_in_the_namespace_of_its_pod(bench: Bench) -> None:
    event = bound()

    bench.lane.say(event)

    assert await bench.sent() == [Written("create", EVENTS, "shop", event.name, event.body())]
    assert bench.outcomes == {EventOutcome.WRITTEN: 1}


async def test_event_that_is_there_counts_as_written(bench: Bench) -> None:
    bench.recorder.answers = lambda written: THERE

    bench.lane.say(bound())

    await bench.sent()
    assert bench.outcomes == {EventOutcome.WRITTEN: 1}


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [
        (EventPolicy.ALL, ["Scheduled", "FailedScheduling", "Preempted"]),
        (EventPolicy.FAILURES, ["FailedScheduling", "Preempted"]),
        (EventPolicy.NONE, []),
    ],
)
async def test_policy_admits_events_by_what_they_say(policy: EventPolicy, reasons: list[str]) -> None:
    bench = Bench(policy)
    bench.lane.start()
    victim, preemptor = pod_reference("shop", "old", "u-old"), pod_reference("shop", "web", "u-web")

    bench.lane.say(bound())
    bench.lane.say(refused("1"))
    bench.lane.say(REPORTER("1", START, victim).preempted(preemptor, "n1"))

    assert [written.body["reason"] for written in await bench.sent()] == reasons
    assert bench.outcomes.total() == len(reasons)
    await bench.lane.stop(1.0)


async def test_few_requests_are_open_at_once(bench: Bench) -> None:
    bench.recorder.open = asyncio.Event()
    for number in range(20):
        bench.lane.say(bound(f"web-{number}"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.recorder.at_once == SENDERS

    bench.recorder.open.set()

    assert len(await bench.sent()) == 20
    assert bench.recorder.most_at_once == SENDERS


async def test_events_gather_for_a_moment_and_are_sent_together(bench: Bench) -> None:
    gathering = asyncio.Event()
    bench.gathering = gathering
    for number in range(5):
        bench.lane.say(bound(f"web-{number}"))
        for _ in range(10):
            await asyncio.sleep(0)
    alone = len(bench.recorder.written)

    gathering.set()

    assert (alone, len(await bench.sent())) == (0, 5)
    assert bench.gathered[0] == GATHER


async def test_events_wait_for_binds_but_not_long(bench: Bench) -> None:
    bench.binds_wait = True
    bench.lane.say(bound("first"))

    await bench.sent()

    assert len(bench.gathered) == pytest.approx(BEHIND_BINDS / GATHER, abs=1)


async def test_events_are_sent_as_soon_as_no_bind_waits(bench: Bench) -> None:
    bench.recorder.answers = lambda written: bench.have_binds_wait()
    for number in range(3 * SENDERS):
        bench.lane.say(bound(f"web-{number}"))
    while not bench.recorder.written:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    sent, bench.recorder.answers = len(bench.recorder.written), lambda written: CREATED

    bench.binds_wait = False

    assert (sent <= SENDERS, len(await bench.sent())) == (True, 3 * SENDERS)


async def test_events_do_not_wait_for_binds_at_half_of_the_queue(bench: Bench) -> None:
    bench.binds_wait = True
    for number in range(QUEUE // 2):
        bench.lane.say(bound(f"web-{number}"))

    while not bench.recorder.written:
        await asyncio.sleep(0)

    assert len(bench.gathered) == 1


async def test_full_queue_drops_and_counts(bench: Bench) -> None:
    for number in range(QUEUE):
        bench.lane.say(bound(f"web-{number}"))
    bench.lane.say(bound("late"))
    bench.lane.say(refused("1", "late"))

    assert bench.outcomes == {EventOutcome.QUEUE_FULL: 2}
    await bench.sent()
    bench.lane.say(refused("2", "late"))
    await bench.sent()
    assert bench.recorder.written[-1].verb == "create", "a dropped event is no first one of a series"
    assert bench.outcomes == {EventOutcome.QUEUE_FULL: 2, EventOutcome.WRITTEN: QUEUE + 1}


async def test_create_is_retried_while_the_server_is_away(bench: Bench) -> None:
    answers = iter([UpstreamUnavailable("503"), UpstreamDenied("401"), CREATED])
    bench.recorder.answers = lambda written: next(answers)

    bench.lane.say(bound())

    assert len({str(written) for written in await bench.sent()}) == 1
    assert bench.verbs == ["create"] * 3
    assert bench.outcomes == {EventOutcome.WRITTEN: 1}
    assert FIRST_PAUSE / 2 <= bench.pauses[0] <= FIRST_PAUSE <= bench.pauses[1] <= 2 * FIRST_PAUSE


async def test_event_is_given_up_after_some_tries(bench: Bench) -> None:
    bench.recorder.answers = lambda written: UpstreamUnavailable("down")

    bench.lane.say(bound())

    await bench.sent()
    assert bench.verbs == ["create"] * TRIES
    assert len(bench.pauses) == TRIES - 1
    assert bench.outcomes == {EventOutcome.UNAVAILABLE: 1}


async def test_pause_that_the_server_asks_for_is_kept_within_limits(bench: Bench) -> None:
    answers = iter(
        [UpstreamUnavailable("429", retry_after=3.0), UpstreamUnavailable("429", retry_after=900.0), CREATED]
    )
    bench.recorder.answers = lambda written: next(answers)

    bench.lane.say(bound())

    await bench.sent()
    assert 3.0 < bench.pauses[0] <= 3.0 + FIRST_PAUSE
    assert LONGEST_PAUSE < bench.pauses[1] <= LONGEST_PAUSE + 2 * FIRST_PAUSE


async def test_refused_event_is_not_retried(bench: Bench) -> None:
    bench.recorder.answers = lambda written: ApiAnswer(403, reason="Forbidden", message="being terminated")

    bench.lane.say(refused("1"))

    await bench.sent()
    assert bench.verbs == ["create"]
    assert bench.outcomes == {EventOutcome.REFUSED: 1}
    bench.lane.say(refused("2"))
    await bench.sent()
    assert bench.verbs == ["create", "create"]


async def test_sender_survives_a_bug(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.recorder.answers = lambda written: TypeError("bug")
    for number in range(2 * SENDERS):
        bench.lane.say(bound(f"web-{number}"))
    await bench.sent()
    bench.recorder.answers = lambda written: CREATED

    bench.lane.say(bound())

    await bench.sent()
    assert bench.outcomes == {EventOutcome.FAILED: 2 * SENDERS, EventOutcome.WRITTEN: 1}
    assert "event_failed" in caplog.text


async def test_first_repeat_patches_the_event_and_later_ones_are_counted(bench: Bench) -> None:
    first = refused("1")
    bench.lane.say(first)
    await bench.sent()
    bench.lane.say(refused("2", after=60.0))
    await bench.sent()
    bench.lane.say(refused("3", after=90.0))

    assert (await bench.sent())[1:] == [
        Written(
            *("patch", EVENTS, "shop", first.name),
            {"series": {"count": 2, "lastObservedTime": "2026-03-01T12:01:00.000000Z"}},
        )
    ]
    assert bench.outcomes == {EventOutcome.WRITTEN: 1, EventOutcome.COUNTED: 2}


async def test_retried_activity_writes_nothing_again(bench: Bench) -> None:
    for run in ("1", "1", "2", "2", "1"):
        bench.lane.say(refused(run))
        await bench.sent()

    assert bench.verbs == ["create", "patch"]
    assert bench.outcomes == {EventOutcome.WRITTEN: 1, EventOutcome.COUNTED: 1}


async def test_repeats_during_the_create_are_patched_after_it(bench: Bench) -> None:
    bench.recorder.open = asyncio.Event()
    for run in ("1", "2", "3"):
        bench.lane.say(refused(run))
        await asyncio.sleep(0)
    assert bench.recorder.written == []

    bench.recorder.open.set()

    assert [written.verb for written in await bench.sent()] == ["create", "patch"]
    assert bench.recorder.written[1].body["series"]["count"] == 3


async def test_repeat_creates_the_event_that_the_server_forgot(bench: Bench) -> None:
    bench.lane.say(refused("1"))
    await bench.sent()
    bench.recorder.answers = lambda written: GONE if written.verb == "patch" else CREATED
    again = refused("2", after=60.0)

    bench.lane.say(again)

    assert (await bench.sent())[2:] == [Written("create", EVENTS, "shop", again.name, again.body(count=2))]
    bench.recorder.answers = lambda written: PATCHED
    bench.lane.say(refused("3", after=70.0))
    bench.clock.advance(WINDOW + 1)
    bench.lane.sweep()
    assert (await bench.sent())[-1][:4] == ("patch", EVENTS, "shop", again.name)


async def test_first_repeat_that_got_no_answer_is_sent_with_the_next(bench: Bench) -> None:
    bench.lane.say(refused("1"))
    await bench.sent()
    bench.recorder.answers = lambda written: UpstreamUnavailable("down")
    bench.lane.say(refused("2"))
    await bench.sent()
    bench.recorder.answers = lambda written: PATCHED

    bench.lane.say(refused("3"))

    assert (await bench.sent())[-1].body["series"]["count"] == 3


async def test_counts_are_written_when_series_end_and_each_refresh(bench: Bench) -> None:
    for run in ("1", "2", "3"):
        bench.lane.say(refused(run, "ended"))
        bench.lane.say(refused(run, "lasting"))
        await bench.sent()
    told = len(bench.recorder.written)
    bench.clock.advance(WINDOW)
    bench.lane.say(refused("4", "lasting"))
    bench.clock.advance(1)
    bench.lane.sweep()
    ended = (await bench.sent())[told:]

    assert [(written.verb, written.body["series"]["count"]) for written in ended] == [("patch", 3)]
    begin, counts = bench.clock.now - WINDOW - 1, 4
    while bench.clock.now - begin < REFRESH:
        bench.clock.advance(WINDOW - 1)
        counts += 1
        bench.lane.say(refused(f"at {bench.clock.now}", "lasting"))
        bench.lane.sweep()
        await bench.sent()
    refreshed = bench.recorder.written[told + 1 :]
    assert [(written.verb, written.body["series"]["count"]) for written in refreshed] == [("patch", counts)]


async def test_series_whose_event_expired_begins_anew(bench: Bench) -> None:
    for run in ("1", "2", "3"):
        bench.lane.say(refused(run))
        await bench.sent()
    bench.clock.advance(REFRESH)
    bench.recorder.answers = lambda written: GONE if written.verb == "patch" else CREATED
    bench.lane.sweep()
    await bench.sent()

    bench.lane.say(refused("4"))

    await bench.sent()
    assert bench.verbs == ["create", "patch", "patch", "create"]


async def test_stop_sends_what_waits_and_the_counts(bench: Bench) -> None:
    for run in ("1", "2", "3"):
        bench.lane.say(refused(run))
        await bench.sent()
    bench.lane.say(bound())

    await bench.lane.stop(5.0)

    assert bench.verbs == ["create", "patch", "create", "patch"]
    assert bench.recorder.written[-1].body["series"]["count"] == 3
    bench.lane.say(bound("late"))
    await bench.lane.stop(5.0)
    assert bench.outcomes[EventOutcome.STOPPED] == 1
    assert len(bench.recorder.written) == 4


async def test_stop_gives_up_at_its_deadline_and_counts(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.recorder.open = asyncio.Event()
    for number in range(10):
        bench.lane.say(bound(f"web-{number}"))

    await bench.lane.stop(0.01)

    assert bench.recorder.written == []
    assert bench.outcomes == {EventOutcome.STOPPED: 10}
    assert "event_lane_stopped effect=events_lost" in caplog.text


async def test_lane_that_never_started_stops_at_once() -> None:
    bench = Bench()
    bench.lane.say(bound())

    await bench.lane.stop(5.0)

    assert bench.outcomes == {EventOutcome.STOPPED: 1}


async def test_losses_are_logged_once_a_sweep(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.recorder.answers = lambda written: ApiAnswer(403, reason="Forbidden")
    for number in range(3):
        bench.lane.say(bound(f"web-{number}"))
    await bench.sent()

    bench.lane.sweep()
    bench.lane.sweep()

    assert [record.getMessage() for record in caplog.records] == ["events_lost count=3"]
