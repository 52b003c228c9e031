"""What an actor does with a plan that it cannot follow as a whole."""

from __future__ import annotations

import pytest

from wharfinger.fleet.contracts.fleets import Planned
from wharfinger.fleet.model.rollout import Busy, Crashed, Drop, Memory, Plan, Retire, Up
from wharfinger.workflows import acting as module
from wharfinger.workflows.acting import MOST_STEPS, Acting

MORE = MOST_STEPS + 8


@pytest.fixture
def acting(monkeypatch: pytest.MonkeyPatch) -> Acting:
    """One that acts already, outside a workflow: what it starts is open from then on."""
    acting = Acting("fleet", "blue", "test", Memory(), epoch=3)
    monkeypatch.setattr(acting, "check", lambda: None)
    monkeypatch.setattr(acting, "_publish", lambda: None)
    monkeypatch.setattr(acting.steps, "give_up", lambda slot=None: None)
    monkeypatch.setattr(acting.steps, "start", lambda step, planned: acting.actor.begun(step))
    monkeypatch.setattr(module, "grown", lambda: False)
    monkeypatch.setattr(module, "mended", lambda: True)
    return acting


def all_refused(acting: Acting) -> Planned:
    """A plan that drops every instance, and counts that as a crash of each."""
    memory, _ = acting.actor.look()
    why = "no secret tls/3"
    drops = tuple(Drop(slot, 1, "a", why=why) for slot in range(MORE))
    crashed = tuple(Crashed(slot, 1.0, 1, why, "a", 1) for slot in range(MORE))
    plan = Plan(memory=Memory(clock=memory.clock, crashed=crashed), steps=drops)
    acting.actor.looked(plan, 0.1)
    return Planned(plan=plan, read_at=1)


def slots(found: tuple[Busy, ...] | tuple[Crashed, ...]) -> list[int]:
    return [one.slot for one in found]


async def test_what_there_is_no_place_to_drop_has_not_crashed_yet(acting: Acting) -> None:
    assert await acting.follow(all_refused(acting))

    assert slots(acting.actor.busy) == slots(acting.memory.crashed) == list(range(MOST_STEPS))


async def test_long_drains_take_no_places_of_what_is_to_be_brought_up(acting: Acting) -> None:
    """Thirty-two instances that take an hour to leave kept every other slot empty as long."""
    memory, _ = acting.actor.look()
    drains = tuple(Retire(slot, 1, "a", 1) for slot in range(MORE))
    ups = tuple(Up(slot, 1, "a") for slot in range(MORE, MORE + 3))
    plan = Plan(memory=memory, steps=(*drains, *ups))
    acting.actor.looked(plan, 0.1)

    assert await acting.follow(Planned(plan=plan, read_at=1))

    assert slots(acting.actor.busy) == [*range(MOST_STEPS), *range(MORE, MORE + 3)]


async def test_nothing_has_crashed_that_a_long_history_leaves_to_the_next_run(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "grown", lambda: True)

    assert await acting.follow(all_refused(acting))

    assert (acting.actor.busy, acting.memory.crashed) == ((), ())


async def test_nothing_has_crashed_by_a_plan_that_is_not_followed(
    acting: Acting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_late(planned: Planned) -> bool:
        return False

    monkeypatch.setattr(acting, "_record_plan", too_late)

    assert not await acting.follow(all_refused(acting))

    assert (acting.actor.busy, acting.memory.crashed) == ((), ())
