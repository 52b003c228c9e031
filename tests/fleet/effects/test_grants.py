"""Grants: one transaction, one number for each life, and never under another's epoch."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from tests.fleet.effects.fleet_stage import EPOCH, FleetStage, asker
from wharfinger.errors import InvalidObject, Unavailable
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleets import FleetFailure, Granted, Moved
from wharfinger.fleet.effects.grants import Granting
from wharfinger.fleet.model.fleet import Grant, Slot
from wharfinger.testing.memory_store import MemoryStore


async def test_the_first_life_of_a_slot_is_number_one(stage: FleetStage) -> None:
    outcome = await Granting(stage.store).grant(stage.grant_input(revision=3, settle=7.0), asker())

    assert outcome == Granted(incarnation=1)
    grant = await stage.record(keys.grant(stage.tenant, 0, 1), Grant)
    assert (grant.revision, grant.host, grant.want, grant.identity) == (3, "a", "run", stage.identity)
    assert grant.settle == 7.0
    slot = await stage.record(keys.slot(stage.tenant, 0), Slot)
    assert (slot.incarnation, slot.revision) == (1, 3)


async def test_a_try_that_comes_after_its_grant_has_come_and_gone_gives_none(quick: FleetStage) -> None:
    await quick.slot(0, incarnation=8)
    request = quick.grant_input(revision=5, after=8)
    assert await Granting(quick.store).grant(request, asker()) == Granted(incarnation=9)
    assert await Granting(quick.store).grant(request, asker()) == Granted(incarnation=9)  # its own
    await quick.store.delete(keys.grant(quick.tenant, 0, 9))

    assert isinstance(await Granting(quick.store).grant(request, asker()), Moved)


async def test_the_next_life_counts_up_and_keeps_the_rest(stage: FleetStage) -> None:
    await stage.slot(0, incarnation=8, revision=2, crashes=3)

    outcome = await Granting(stage.store).grant(stage.grant_input(revision=5), asker())

    assert outcome == Granted(incarnation=9)
    assert await stage.record(keys.slot(stage.tenant, 0), Slot) == Slot(incarnation=9, revision=2, crashes=3)


async def test_a_grant_may_assign_its_revision(quick: FleetStage) -> None:
    await quick.slot(0, revision=2)

    await Granting(quick.store).grant(quick.grant_input(revision=5, assign=True), asker())

    assert (await quick.record(keys.slot(quick.tenant, 0), Slot)).revision == 5


async def test_a_later_try_of_the_same_activity_finds_its_grant(stage: FleetStage) -> None:
    granting = Granting(stage.store)
    first = await granting.grant(stage.grant_input(), asker("7"))
    again = await granting.grant(stage.grant_input(), asker("7"))
    other = await granting.grant(stage.grant_input(), asker("8"))

    assert (first, again, other) == (Granted(incarnation=1), Granted(incarnation=1), Granted(incarnation=2))


@pytest.mark.parametrize("applied", [True, False])
async def test_an_answer_that_got_lost_grants_once(quick: FleetStage, applied: bool) -> None:
    assert isinstance(quick.store, MemoryStore)
    quick.store.fail_next(applied=applied)
    granting = Granting(quick.store)

    with pytest.raises(Unavailable):
        await granting.grant(quick.grant_input(), asker())
    outcome = await granting.grant(quick.grant_input(), asker())

    assert outcome == Granted(incarnation=1)
    assert (await quick.record(keys.slot(quick.tenant, 0), Slot)).incarnation == 1


async def test_another_epoch_is_refused_for_good(stage: FleetStage) -> None:
    await stage.act(EPOCH + 1)

    with pytest.raises(ApplicationError) as caught:
        await Granting(stage.store).grant(stage.grant_input(), asker())

    assert (caught.value.type, caught.value.non_retryable) == (FleetFailure.FENCED, True)
    assert await stage.read(keys.slot(stage.tenant, 0)) is None


async def test_an_actor_that_takes_over_in_between_is_not_overtaken(quick: FleetStage) -> None:
    """The compare, not the reading before it, is what keeps the former actor from writing."""
    taken = False

    async def take(*_: object) -> None:
        nonlocal taken
        if not taken and len(_[1]) == 2:  # type: ignore[arg-type]  # the grant's own transaction
            taken = True
            await quick.store.client().put(  # type: ignore[attr-defined]
                keys.actor(quick.tenant),
                (await quick.read(keys.actor(quick.tenant))).value.replace(b"4", b"5"),  # type: ignore[union-attr]
            )

    quick.store.before_txn = take  # type: ignore[attr-defined]
    with pytest.raises(ApplicationError, match="epoch 5"):
        await Granting(quick.store).grant(quick.grant_input(), asker())

    assert await quick.read(keys.grant(quick.tenant, 0, 1)) is None


async def test_no_grant_is_written_without_an_actor(quick: FleetStage) -> None:
    await quick.store.delete(keys.actor(quick.tenant))

    with pytest.raises(ApplicationError, match="none is recorded"):
        await Granting(quick.store).grant(quick.grant_input(), asker())


@pytest.mark.parametrize("again", [True, False])
async def test_a_fleet_that_was_deleted_gets_no_grant(quick: FleetStage, again: bool) -> None:
    await quick.store.delete(keys.fleet(quick.tenant))
    if again:
        await quick.store.put(keys.fleet(quick.tenant), b"{}")

    assert isinstance(await Granting(quick.store).grant(quick.grant_input(), asker()), Moved)


async def test_unreadable_counter_gives_no_incarnation(quick: FleetStage) -> None:
    await quick.store.put(keys.slot(quick.tenant, 0), b"{}")

    with pytest.raises(InvalidObject, match="slots"):
        await Granting(quick.store).grant(quick.grant_input(), asker())
