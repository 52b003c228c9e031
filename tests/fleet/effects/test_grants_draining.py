"""Drains: one transaction on what is counted on, then a wait for the agent's word."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.exceptions import ApplicationError

from tests.fleet.effects.fleet_stage import EPOCH, FleetStage, asker, until
from tests.patience import patient
from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleets import Drained, DrainInput, DrainOutcome, Moved, StillThere
from wharfinger.fleet.effects.grants import Draining
from wharfinger.fleet.model.fleet import Grant, Slot
from wharfinger.fleet.model.rollout import Counted
from wharfinger.testing.memory_store import MemoryStore


class Beats:
    """Heartbeats, and a clock that each of them moves on."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.count = 0
        self._step = step

    def __call__(self) -> None:
        self.count += 1
        self.now += self._step

    def clock(self) -> float:
        return self.now


async def drain(
    stage: FleetStage, request: DrainInput, beats: Beats | None = None, activity: str = "1"
) -> DrainOutcome:
    beats = beats or Beats()
    async with asyncio.timeout(patient(30)):
        return await Draining(stage.store, clock=beats.clock).drain(request, asker(activity), beats)


async def wants(stage: FleetStage, slot: int = 0) -> str:
    return str((await stage.record(keys.grant(stage.tenant, slot, 1), Grant)).want)


async def until_draining(stage: FleetStage) -> None:
    async with asyncio.timeout(patient(20)):
        while await wants(stage) != "drain":
            await asyncio.sleep(0.01)


async def test_drain_writes_the_grant_and_waits_for_the_exit(stage: FleetStage) -> None:
    grant = await stage.grant(0)
    draining = asyncio.ensure_future(drain(stage, stage.drain_input(0, grant)))
    await until_draining(stage)
    await asyncio.sleep(0)
    assert not draining.done()

    await stage.exit(0)

    assert await draining == Drained()


async def test_what_is_counted_on_must_not_have_changed(stage: FleetStage) -> None:
    grant = await stage.grant(0)
    await stage.slot(1)
    relied = Counted(1, 1, await stage.instance(1))
    await stage.instance(1, state="withdrawn")

    outcome = await drain(stage, stage.drain_input(0, grant, [relied]))

    assert isinstance(outcome, Moved)
    assert await wants(stage) == "run"


@pytest.mark.parametrize(("known", "asked"), [(2, True), (1, False), (-1, True)])
async def test_drain_is_refused_once_its_rollout_was_decided_otherwise(
    stage: FleetStage, known: int, asked: bool
) -> None:
    grant = await stage.grant(0)
    await stage.act(EPOCH, decisions=2)

    draining = asyncio.ensure_future(drain(stage, stage.drain_input(0, grant, decisions=known)))
    if asked:
        await until_draining(stage)
        await stage.exit(0)
        assert await draining == Drained()
    else:
        assert isinstance(await draining, Moved)
        assert await wants(stage) == "run"


async def test_what_is_counted_on_must_be_there(stage: FleetStage) -> None:
    """A range compare would not see the DELETE."""
    grant = await stage.grant(0)
    relied = Counted(1, 1, await stage.instance(1))
    await stage.store.delete(keys.instance(stage.tenant, "1", 1))

    assert isinstance(await drain(stage, stage.drain_input(0, grant, [relied])), Moved)


@pytest.mark.parametrize("how", ["ended", "cleared away", "asked to leave"])
async def test_a_ready_record_that_outlives_its_process_is_not_counted_on(stage: FleetStage, how: str) -> None:
    grant = await stage.grant(0)
    relied = Counted(1, 1, await stage.instance(1))
    if how == "ended":
        await stage.grant(1)
        await stage.exit(1)
    elif how == "asked to leave":
        await stage.grant(1, want="drain")

    assert isinstance(await drain(stage, stage.drain_input(0, grant, [relied])), Moved)
    assert await wants(stage) == "run"


async def test_one_that_goes_because_it_does_not_serve_stays_when_it_does(stage: FleetStage) -> None:
    grant = await stage.grant(0)
    absent = Counted(0, 1, 0)
    await stage.instance(0)

    assert isinstance(await drain(stage, stage.drain_input(0, grant, [absent])), Moved)
    assert await wants(stage) == "run"


async def test_what_vanishes_between_reading_and_writing_is_seen(quick: FleetStage) -> None:
    grant = await quick.grant(0)
    await quick.grant(1)
    relied = Counted(1, 1, await quick.instance(1))
    store = quick.store
    assert isinstance(store, MemoryStore)
    other = store.client()
    vanished = False

    async def vanish(_: object, operations: object) -> None:
        nonlocal vanished
        if not vanished and b"drain" in repr(operations).encode():
            vanished = True
            await other.delete(keys.instance(quick.tenant, "1", 1))

    store.before_txn = vanish
    outcome = await drain(quick, quick.drain_input(0, grant, [relied]))

    assert vanished
    assert isinstance(outcome, Moved)
    assert await wants(quick) == "run"


async def test_many_are_counted_on_at_once(stage: FleetStage) -> None:
    grant = await stage.grant(0)
    relied = [Counted(slot, 1, await stage.instance(slot)) for slot in range(1, 60)]
    for slot in range(1, 60):
        await stage.grant(slot)
    await stage.exit(77)  # of another slot: not waited for
    draining = asyncio.ensure_future(drain(stage, stage.drain_input(0, grant, relied)))
    await until_draining(stage)
    await stage.exit(0)

    assert await draining == Drained()


async def test_a_successor_that_is_ready_gives_the_slot_its_revision(stage: FleetStage) -> None:
    await stage.slot(0, incarnation=2, revision=1)
    grant = await stage.grant(0)
    draining = asyncio.ensure_future(drain(stage, stage.drain_input(0, grant, assign=2)))
    await until_draining(stage)
    await stage.exit(0)
    await draining

    assert (await stage.record(keys.slot(stage.tenant, 0), Slot)).revision == 2


async def test_a_later_try_waits_on_and_asks_nothing_twice(quick: FleetStage) -> None:
    """Also when what was counted on has changed since: draining is final."""
    grant = await quick.grant(0)
    await quick.grant(1)
    relied = Counted(1, 1, await quick.instance(1))
    assert isinstance(quick.store, MemoryStore)
    quick.store.fail_next(applied=True)
    with pytest.raises(Unavailable):
        await drain(quick, quick.drain_input(0, grant, [relied]))
    await quick.instance(1, state="draining")
    before = await quick.read(keys.grant(quick.tenant, 0, 1))

    again = asyncio.ensure_future(drain(quick, quick.drain_input(0, grant, [relied])))
    await asyncio.sleep(0.05)
    assert await quick.read(keys.grant(quick.tenant, 0, 1)) == before
    await quick.exit(0)

    assert await again == Drained()


async def test_when_the_time_is_over_it_is_still_there(quick: FleetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.fleet.effects.grants.TICK", 0.1)
    grant = await quick.grant(0)
    nudge = asyncio.ensure_future(nudging(quick))

    outcome = await drain(quick, quick.drain_input(0, grant, timeout=3.0), Beats(step=1.0))
    nudge.cancel()

    assert outcome == StillThere()


async def nudging(stage: FleetStage) -> None:
    """Events on the watched key's neighbourhood do not end the wait; time does."""
    while True:
        await asyncio.sleep(0.01)
        await stage.exit(0, incarnation=11)


async def test_a_long_gap_counts_as_a_short_one(quick: FleetStage) -> None:
    grant = await quick.grant(0, want="drain")
    assert isinstance(quick.store, MemoryStore)
    beats = Beats(step=100.0)
    waiting = asyncio.ensure_future(drain(quick, quick.drain_input(0, grant, timeout=12.0), beats))
    await until(lambda: beats.now >= 100.0)
    await asyncio.sleep(0.05)

    assert not waiting.done()
    await quick.exit(0)
    assert await waiting == Drained()


async def test_a_grant_that_is_gone_has_moved(quick: FleetStage) -> None:
    assert isinstance(await drain(quick, quick.drain_input(0, 5)), Moved)


async def test_what_ended_by_itself_is_no_drain(quick: FleetStage) -> None:
    grant = await quick.grant(0)
    await quick.exit(0, how="code")

    assert isinstance(await drain(quick, quick.drain_input(0, grant)), Moved)
    assert await wants(quick) == "run"


async def test_a_grant_that_was_written_anew_is_another_one(quick: FleetStage) -> None:
    grant = await quick.grant(0)
    await quick.grant(0)

    assert isinstance(await drain(quick, quick.drain_input(0, grant)), Moved)


async def test_another_epoch_drains_no_instance(quick: FleetStage) -> None:
    grant = await quick.grant(0)
    await quick.act(EPOCH + 1)

    with pytest.raises(ApplicationError, match="epoch"):
        await drain(quick, quick.drain_input(0, grant))
    assert await wants(quick) == "run"


@pytest.mark.parametrize(("gone", "seconds"), [("", 300.0), ("record", 300.0), ("agent", 300.0), ("both", 60.0)])
async def test_end_that_no_agent_can_report_is_waited_for_a_minute(
    quick: FleetStage, monkeypatch: pytest.MonkeyPatch, gone: str, seconds: float
) -> None:
    monkeypatch.setattr("wharfinger.fleet.effects.grants.TICK", 0.01)
    grant = await quick.grant(0)
    if gone not in ("record", "both"):
        await quick.instance(0, state="draining")
    if gone not in ("agent", "both"):
        await quick.store.put(keys.host("a"), b"{}")
    beats = Beats(step=4.0)

    assert await drain(quick, quick.drain_input(0, grant, timeout=300.0), beats) == StillThere()

    assert seconds <= beats.now <= seconds + 5 * 4.0


async def test_grant_deleted_during_the_wait_does_not_prove_an_end(quick: FleetStage) -> None:
    grant = await quick.grant(0)
    draining = asyncio.ensure_future(drain(quick, quick.drain_input(0, grant)))
    await until_draining(quick)
    await quick.store.delete(keys.grant(quick.tenant, 0, 1))

    assert isinstance(await draining, Moved)
