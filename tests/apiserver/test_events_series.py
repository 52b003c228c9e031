from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from wharfinger.apiserver.events import REFRESH, WINDOW, ApiEvent, EventReporter, RecentEvents, Said, pod_reference

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPORTER = partial(EventReporter, "default-scheduler", "w-1")


def refusal(run: str, pod: str = "web", after: float = 0.0) -> ApiEvent:
    regarding = pod_reference("shop", pod, f"u-{pod}", 41)
    return REPORTER(run, START + timedelta(seconds=after), regarding).failed_scheduling("no room")


def test_other_attempt_is_a_repeat_and_same_attempt_a_retry() -> None:
    recent = RecentEvents()

    first, series = recent.say(refusal("1"), 0.0)
    again, same = recent.say(refusal("2", after=60.0), 60.0)

    assert (first, again) == (Said.FIRST, Said.AGAIN)
    assert same is series
    assert (series.count, series.last) == (2, START + timedelta(seconds=60))
    assert [recent.say(refusal(run), 61.0)[0] for run in ("1", "2")] == [Said.RETRIED, Said.RETRIED]
    assert series.count == 2


def test_event_after_the_window_is_a_first_one() -> None:
    recent = RecentEvents()
    _, old = recent.say(refusal("1"), 0.0)
    recent.say(refusal("2"), WINDOW)
    old.tell(1, WINDOW)

    said, new = recent.say(refusal("3"), 2 * WINDOW + 1)

    assert said is Said.FIRST
    assert new is not old
    assert recent.sweep(2 * WINDOW + 1) == [old]


def test_first_repeat_is_due_once_the_event_is_created() -> None:
    recent = RecentEvents()
    _, series = recent.say(refusal("1"), 0.0)
    recent.say(refusal("2"), 1.0)
    assert not series.due

    series.tell(1, 1.0)
    assert series.due

    series.queued = True
    assert not series.due


def test_later_repeats_are_written_when_the_refresh_is_due() -> None:
    recent = RecentEvents()
    _, series = recent.say(refusal("1"), 0.0)
    recent.say(refusal("2"), 1.0)
    series.tell(2, 1.0)
    now = 1.0
    while now < REFRESH:
        assert recent.sweep(now) == []
        now += WINDOW
        recent.say(refusal(f"at {now}"), now)

    assert not series.due
    assert recent.sweep(now) == [series]


def test_ended_series_is_swept_with_the_count_that_is_not_written() -> None:
    recent = RecentEvents()
    _, behind = recent.say(refusal("1"), 0.0)
    recent.say(refusal("2"), 1.0)
    recent.say(refusal("3"), 2.0)
    behind.tell(2, 1.0)
    _, alone = recent.say(refusal("1", "db"), 2.0)
    alone.tell(1, 2.0)

    assert recent.sweep(WINDOW + 2.0) == []
    assert recent.sweep(WINDOW + 2.5) == [behind]
    assert recent.sweep(WINDOW + 2.5) == []
    assert len(recent) == 0


def test_beyond_the_limit_the_longest_silent_is_ended() -> None:
    recent = RecentEvents(limit=2)
    _, web = recent.say(refusal("1", "web"), 0.0)
    _, db = recent.say(refusal("1", "db"), 1.0)
    db.tell(1, 1.0)
    recent.say(refusal("2", "db"), 2.0)
    recent.say(refusal("2", "web"), 3.0)

    recent.say(refusal("1", "cache"), 4.0)

    assert len(recent) == 2
    assert recent.say(refusal("3", "web"), 5.0) == (Said.AGAIN, web)
    assert recent.sweep(5.0) == [db]


def test_forgotten_series_is_first_again() -> None:
    recent = RecentEvents()
    _, series = recent.say(refusal("1"), 0.0)

    recent.forget(series)
    recent.forget(series)

    said, new = recent.say(refusal("2"), 1.0)
    assert said is Said.FIRST
    recent.forget(series)
    assert recent.say(refusal("3"), 2.0) == (Said.AGAIN, new)


def test_close_ends_all_and_returns_what_is_not_written() -> None:
    recent = RecentEvents()
    _, behind = recent.say(refusal("1"), 0.0)
    behind.tell(1, 0.0)
    recent.say(refusal("2"), 1.0)
    _, level = recent.say(refusal("1", "db"), 1.0)
    level.tell(1, 1.0)

    assert recent.close() == [behind]
    assert len(recent) == 0
