"""Waiting for an instance: what counts is its record, unchanged for long enough while the activity looked."""

from __future__ import annotations

import asyncio

import pytest

from tests.fleet.effects.fleet_stage import FleetStage
from tests.patience import patient
from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.fleet.contracts.fleets import AwaitInput, AwaitProgress, Ended, NotGranted, Ready, ReadyOutcome
from wharfinger.fleet.effects.awaiting_ready import AwaitingReady, Count
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.memory_store import MemoryStore

READY = InstanceRecord(state="ready", host="a", pid=1).to_bytes()
STARTING = InstanceRecord(state="starting", host="a", pid=1, waiting_for="etcd: first list").to_bytes()


class Beats:
    """Heartbeats as they are sent, and a clock that each of them moves on."""

    def __init__(self, step: float = 0.0) -> None:
        self.sent: list[AwaitProgress] = []
        self.now = 0.0
        self._step = step

    def __call__(self, progress: AwaitProgress) -> None:
        self.sent.append(progress)
        self.now += self._step

    def clock(self) -> float:
        return self.now


async def wait(
    stage: FleetStage, beats: Beats, *, min_ready: float = 0.0, progress: AwaitProgress | None = None
) -> ReadyOutcome:
    request = AwaitInput(tenant=stage.tenant, slot=0, incarnation=1, min_ready=min_ready)
    async with asyncio.timeout(patient(30)):
        return await AwaitingReady(stage.store, clock=beats.clock).wait(request, progress or AwaitProgress(), beats)


async def until_told(beats: Beats, waiting_for: str) -> None:
    async with asyncio.timeout(patient(20)):
        while not beats.sent or beats.sent[-1].waiting_for != waiting_for:
            await asyncio.sleep(0.01)


async def told_once(beats: Beats, waiting_for: str, after: int) -> int:
    """The place of the first beat that says so, of those `after` so many; others may have followed."""
    async with asyncio.timeout(patient(20)):
        while True:
            for place, progress in enumerate(beats.sent[after:], after):
                if progress.waiting_for == waiting_for:
                    return place
            await asyncio.sleep(0.01)


async def test_instance_is_ready_when_its_record_is_ready(stage: FleetStage) -> None:
    await stage.grant(0)
    beats = Beats()
    waiting = asyncio.ensure_future(wait(stage, beats))
    await until_told(beats, "its registration")
    await stage.instance(0, state="starting", waiting_for="temporal: no answer")
    await until_told(beats, "temporal: no answer")

    ready = await stage.instance(0)

    assert await waiting == Ready(mod_revision=ready)


async def test_it_has_to_stay_so(stage: FleetStage) -> None:
    await stage.grant(0)
    await stage.instance(0)
    beats = Beats()
    waiting = asyncio.ensure_future(wait(stage, beats, min_ready=1.0))
    await until_told(beats, "min-ready time")
    await stage.instance(0, state="withdrawn")
    await until_told(beats, "it is withdrawn")
    beats.now += 4.0
    again = await stage.instance(0)
    await until_told(beats, "min-ready time")

    assert beats.sent[-1] == AwaitProgress(mod_revision=again, seconds=0.0, waiting_for="min-ready time")
    beats.now += 1.0
    assert await waiting == Ready(mod_revision=again)


async def test_its_end_ends_the_wait(stage: FleetStage) -> None:
    await stage.grant(0)
    beats = Beats()
    waiting = asyncio.ensure_future(wait(stage, beats))
    await until_told(beats, "its registration")

    await stage.exit(0, how="code", detail="exit code 3")

    assert await waiting == Ended(detail="code: exit code 3")


async def test_without_a_grant_it_will_not_come(stage: FleetStage) -> None:
    assert await wait(stage, Beats()) == NotGranted()
    await stage.grant(0, want="drain")
    assert await wait(stage, Beats()) == NotGranted()


async def test_a_grant_that_is_withdrawn_ends_the_wait() -> None:
    stage = FleetStage(MemoryStore())
    await stage.grant(0)
    beats = Beats()
    waiting = asyncio.ensure_future(wait(stage, beats))
    await until_told(beats, "its registration")
    await stage.store.delete(keys.grant(stage.tenant, 0, 1))

    assert await waiting == NotGranted()


async def test_a_later_try_goes_on_counting_where_nothing_changed() -> None:
    stage = FleetStage(MemoryStore())
    await stage.grant(0)
    ready = await stage.instance(0)
    beats = Beats(step=1.0)

    outcome = await wait(stage, beats, min_ready=9.0, progress=AwaitProgress(mod_revision=ready, seconds=8.5))

    assert outcome == Ready(mod_revision=ready)
    assert beats.sent[0].seconds == 8.5


async def test_a_later_try_begins_anew_where_something_did() -> None:
    stage = FleetStage(MemoryStore())
    await stage.grant(0)
    before = await stage.instance(0)
    ready = await stage.instance(0)
    beats = Beats(step=0.6)

    assert await wait(stage, beats, min_ready=0.5, progress=AwaitProgress(mod_revision=before, seconds=9)) == Ready(
        mod_revision=ready
    )
    assert beats.sent[0].seconds == 0.0


async def test_when_etcd_does_not_answer_the_count_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.fleet.effects.awaiting_ready.TICK", 0.1)
    stage = FleetStage(MemoryStore())
    await stage.grant(0)
    ready = await stage.instance(0)
    store = Silent(stage.store)
    beats = Beats()
    waiting = asyncio.ensure_future(
        wait(FleetStage(store, tenant=stage.tenant), beats, min_ready=5.0, progress=AwaitProgress())
    )
    await until_told(beats, "min-ready time")
    store.silent = 1
    silence = await told_once(beats, "etcd's answer", len(beats.sent))
    assert beats.sent[silence].mod_revision == 0
    again = await told_once(beats, "min-ready time", silence)
    assert beats.sent[again].seconds == 0.0
    waiting.cancel()
    assert ready


async def test_after_some_silence_the_try_fails() -> None:
    stage = FleetStage(MemoryStore())
    store = Silent(stage.store)
    store.silent = 10

    with pytest.raises(Unavailable):
        await wait(FleetStage(store, tenant=stage.tenant), Beats())


class Silent(MemoryStore):
    """A client of the same store whose next readings get no answer."""

    def __init__(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        self._shared = store._shared
        self._reset()
        self.silent = 0

    async def txn(self, *arguments: object) -> object:  # type: ignore[override]
        if self.silent:
            self.silent -= 1
            raise Unavailable("no answer")
        return await super().txn(*arguments)  # type: ignore[arg-type]


# --- the count alone --------------------------------------------------------------------------


def kv(value: bytes, mod_revision: int = 5) -> KeyValue:
    return KeyValue("key", value, 1, mod_revision)


def test_seconds_between_two_looks_count() -> None:
    count = Count(AwaitProgress(), 10.0)
    count.looked(kv(READY), 100.0)
    count.looked(kv(READY), 102.0)
    count.looked(kv(READY), 106.5)

    assert count.progress.seconds == 6.5
    assert count.left == 3.5


def test_a_look_that_came_late_begins_the_count_anew() -> None:
    count = Count(AwaitProgress(), 10.0)
    count.looked(kv(READY), 100.0)
    count.looked(kv(READY), 104.0)
    count.looked(kv(READY), 110.0)

    assert count.progress.seconds == 0.0


def test_a_record_written_again_begins_the_count_anew() -> None:
    count = Count(AwaitProgress(), 10.0)
    count.looked(kv(READY), 100.0)
    count.looked(kv(READY), 104.0)
    count.looked(kv(READY, 6), 105.0)

    assert (count.progress.seconds, count.progress.mod_revision) == (0.0, 6)


def test_instance_that_is_not_ready_names_what_it_waits_for() -> None:
    count = Count(AwaitProgress(), 10.0)
    count.looked(kv(STARTING), 100.0)

    assert count.progress == AwaitProgress(waiting_for="etcd: first list")
    assert count.left == float("inf")


def test_unreadable_record_is_not_ready() -> None:
    count = Count(AwaitProgress(), 0.0)
    count.looked(kv(b"ready!"), 100.0)

    assert "cannot be read" in count.progress.waiting_for
    assert count.left == float("inf")
