"""The right to bind: taken after everything is copied, lost in time, given back by the last worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.kubernetes.loops.importing_stage import OURS, RIVAL, Site
from wharfinger.apiserver.client import LEASES, NODES, ApiCall
from wharfinger.errors import LeaderElectionLost
from wharfinger.etcd import keys
from wharfinger.etcd.store import Delete
from wharfinger.settings import ElectionSettings
from wharfinger.testing.memory_faults import Gate

SHORT = ElectionSettings(lease_duration=10.0, renew_deadline=6.0, retry_period=2.0)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    site.node("n1")
    yield site
    await site.close()


async def seconds_until_lost(site: Site, at_most: float = 30.0) -> float:
    """Until `active` is gone."""
    began = site.time()
    while await site.active():
        await site.time.advance(0.1)
        assert site.time() - began < at_most
    return site.time() - began


async def just_renewed(site: Site) -> float:
    """Let time pass until the Lease is renewed; the moment."""
    before = site.lease()["renewTime"]
    while site.lease()["renewTime"] == before:
        await site.pass_time(0.1)
    return site.time()


# --- taking it ------------------------------------------------------------------------------------


async def test_the_lease_is_held_and_binding_allowed(site: Site) -> None:
    hand = await site.hand()
    assert site.lease()["holderIdentity"] == OURS
    kv = (await site.store.get(keys.ACTIVE)).kv
    assert kv is not None
    assert kv.lease not in (0, await site.importer_lease())
    assert await site.active() == hand.name


async def test_active_stays_while_the_lease_is_renewed(site: Site) -> None:
    hand = await site.hand()
    revision = (await site.store.get(keys.ACTIVE)).kv
    await site.time.advance(60)
    assert (await site.store.get(keys.ACTIVE)).kv == revision
    assert hand.asked("update", LEASES) >= 28


async def test_nothing_is_taken_before_everything_is_copied(site: Site) -> None:
    gates: list[Gate] = []
    hand = await site.hand(
        seconds=30, before=lambda api: gates.append(api.faults.hold(before=True, verb="watch", resource=NODES))
    )
    assert site.lease() == {}
    assert await site.active() == ""
    gates[0].open()
    await site.time.advance(2)
    assert await site.active() == hand.name
    imported = (await site.store.get(keys.IMPORTED)).kv
    active = (await site.store.get(keys.ACTIVE)).kv
    assert imported is not None
    assert active is not None
    assert imported.create_revision < active.create_revision


async def test_a_successor_renews_before_its_copies_are_complete(site: Site) -> None:
    """Its list may take longer than the Lease lasts; binding waits for it all the same."""
    first, second = await site.hand(), await site.hand()
    listed = asyncio.Event()

    async def slowly(request: ApiCall) -> None:
        if request.resource == NODES and second.asked("watch", NODES) > 1:  # the first one learns that it has to list
            await listed.wait()

    second.api.before_request = slowly
    site.node("n2")
    site.api.forget_before(site.api.revision + 1)
    await first.stop()
    await site.time.advance(20)
    assert await site.importer() == second.name
    assert second.asked("update", LEASES) > 5
    assert await site.active() == ""
    listed.set()
    await site.time.advance(4)
    assert await site.active() == second.name


async def test_kube_scheduler_is_waited_for(site: Site) -> None:
    site.rival_holds()
    hand = await site.hand()
    for second in range(1, 20):
        await site.time.advance(2)
        site.rival_holds(f"2019-01-01T00:01:{second:02}.000000Z")
    assert await site.active() == ""
    assert await site.copies() == ["n1"]
    await site.time.advance(14)
    assert await site.active() == ""
    await site.time.advance(4)
    assert await site.active() == hand.name
    assert site.lease()["holderIdentity"] == OURS


async def test_a_lease_that_is_released_is_taken_within_a_retry(site: Site) -> None:
    site.rival_holds()
    hand = await site.hand()
    site.rival_holds(holderIdentity="", leaseDurationSeconds=1)
    await site.time.advance(2.1)
    assert await site.active() == hand.name


async def test_a_forbidden_lease_is_a_trouble(site: Site) -> None:
    hand = await site.hand(before=lambda api: api.faults.forbid("create", LEASES))
    assert await site.active() == ""
    assert "cannot be held: 403" in hand.importing.trouble["lease"]
    await site.time.advance(5)
    assert "lease" in hand.importing.trouble
    hand.api.faults.clear()
    await site.time.advance(3)
    assert await site.active() == hand.name
    assert hand.importing.trouble == {}


# --- losing it ------------------------------------------------------------------------------------


async def test_a_holder_that_cannot_renew_gives_up_within_the_deadline(site: Site) -> None:
    hand = await site.hand()
    deleted: list[float] = []
    hand.store.before_txn = lambda _, writes: deleted.append(site.time()) if Delete(keys.ACTIVE) in writes else None
    await site.time.advance(1)
    hand.api.faults.disconnect(None, resource=LEASES)
    renewed = site.lease()["renewTime"]
    assert await seconds_until_lost(site) <= 10
    await site.time.advance(3)
    assert len(deleted) == 1
    assert site.lease()["renewTime"] == renewed
    assert isinstance(hand.ended_by, LeaderElectionLost)
    assert "cannot connect" in str(hand.ended_by)


async def test_the_deadline_counts_from_when_a_renewal_began(site: Site) -> None:
    """A slow answer must not prolong it: others count from when the record was written."""
    hand = await site.hand()
    gate = hand.api.faults.hold(verb="update", resource=LEASES)
    reached = asyncio.create_task(gate.reached())
    while not reached.done():
        await site.time.advance(0.1)
    written = site.time()
    hand.api.faults.disconnect(None, resource=LEASES)
    await site.time.advance(7)
    gate.open()
    await seconds_until_lost(site)
    assert site.time() - written <= 10.2


async def test_requests_that_hang_do_not_prolong_the_deadline(site: Site) -> None:
    hand = await site.hand()
    hand.api.faults.hold(None, verb="get", resource=LEASES)
    assert await seconds_until_lost(site) <= 10.1
    await site.time.advance(4)
    assert isinstance(hand.ended_by, LeaderElectionLost)


async def test_a_holder_that_was_replaced_gives_up_at_once(site: Site) -> None:
    hand = await site.hand()
    site.rival_holds()
    assert await seconds_until_lost(site) <= 2.1
    assert RIVAL in str(hand.ended_by)


async def test_a_lease_that_others_annotate_is_kept(site: Site) -> None:
    """The write fails by its revision; nobody else holds the Lease."""
    hand = await site.hand()

    def annotate(request: ApiCall) -> None:
        if request.verb == "update":
            lease = site.api.find(LEASES, "kube-scheduler", namespace="kube-system")
            assert lease is not None
            lease["metadata"]["annotations"] = {"seen": str(site.time())}
            site.api.put(LEASES, lease, namespace="kube-system")

    hand.api.before_request = annotate
    await site.time.advance(5)
    hand.api.before_request = None
    await site.time.advance(20)
    assert await site.active() == hand.name
    assert hand.ended_by is None


async def test_a_store_that_fails_at_the_end_does_not_keep_the_process(site: Site) -> None:
    hand = await site.hand()
    hand.api.faults.disconnect(None, resource=LEASES)
    hand.store.before_txn = lambda _, writes: (
        hand.store.fail_next(applied=False) if Delete(keys.ACTIVE) in writes else None
    )
    await site.time.advance(12)
    assert isinstance(hand.ended_by, LeaderElectionLost)
    assert await site.active() == ""


@pytest.mark.parametrize("cut_after", [0.0, 3.0, 6.0, 9.0, 9.9])
async def test_active_ends_in_time_whenever_etcd_is_lost_too(site: Site, cut_after: float) -> None:
    """The holder cannot delete it then; a bind takes 4.5 s more, and the Lease lasts 15 s."""
    hand = await site.hand()
    renewed = await just_renewed(site)
    hand.api.faults.disconnect(None, resource=LEASES)
    await site.pass_time(cut_after)
    await hand.store.close()
    while await site.active():
        await site.pass_time(0.1)
    assert site.time() - renewed <= 10


async def test_active_ends_with_its_holder_before_a_shorter_lease(site: Site) -> None:
    """5.5 s after the last renewal, because a bind may take 4.5 s more."""
    hand = await site.hand(settings=SHORT)
    await just_renewed(site)
    assert await site.active() == hand.name
    hand.api.faults.disconnect(None, resource=LEASES)
    await site.pass_time(5.5)
    assert await site.active() == ""
    assert hand.ended_by is None
    await site.pass_time(0.6)
    assert isinstance(hand.ended_by, LeaderElectionLost)


async def test_active_is_put_anew_when_the_lease_is_renewed_in_time(site: Site) -> None:
    hand = await site.hand(settings=replace(SHORT, retry_period=1.0))
    await just_renewed(site)
    hand.api.faults.disconnect(None, resource=LEASES)
    await site.pass_time(4.5)
    assert await site.active() == ""
    hand.api.faults.clear()
    await site.pass_time(1)
    assert await site.active() == hand.name
    assert hand.ended_by is None


@pytest.mark.parametrize("settings", [ElectionSettings(), SHORT])
async def test_active_stays_the_same_key_while_the_lease_is_held(site: Site, settings: ElectionSettings) -> None:
    """Its lease is renewed often enough: a bind that is under way compares its revision."""
    await site.hand(settings=settings)
    active = (await site.store.get(keys.ACTIVE)).kv
    await site.pass_time(60)
    assert (await site.store.get(keys.ACTIVE)).kv == active


async def test_active_is_put_anew_when_its_lease_ended_alone(site: Site) -> None:
    hand = await site.hand()
    site.store.drop_lease(await site.lease_under(keys.ACTIVE))
    assert await site.active() == ""
    await site.pass_time(2.1)
    assert await site.active() == hand.name
    assert hand.ended_by is None


async def test_another_worker_holds_the_same_lease_afterwards(site: Site) -> None:
    first, second = await site.hand(), await site.hand()
    first.api.faults.disconnect(None, resource=LEASES)
    await site.time.advance(15)
    assert isinstance(first.ended_by, LeaderElectionLost)
    assert await site.active() == second.name
    assert (site.lease()["holderIdentity"], site.lease()["leaseTransitions"]) == (OURS, 0)


async def test_a_successor_keeps_its_own_right_to_bind(site: Site) -> None:
    """A holder that lost etcd's lease unseen gives up later; `active` is the successor's by then."""
    first, second = await site.hand(), await site.hand()
    lease = await site.importer_lease()
    first.api.faults.disconnect(None, resource=LEASES)
    site.store.drop_lease(lease)
    await site.time.advance(20)
    assert await site.active() == second.name


# --- giving it back -------------------------------------------------------------------------------


async def test_the_last_worker_gives_the_lease_back(site: Site) -> None:
    hand = await site.hand()
    await hand.stop()
    assert (site.lease()["holderIdentity"], site.lease()["leaseDurationSeconds"]) == ("", 1)
    assert await site.active() == await site.importer() == ""


async def test_the_last_worker_gives_it_back_after_it_left_the_others(site: Site) -> None:
    hand = await site.hand()
    await site.leave(hand)
    await hand.stop()
    assert site.lease()["holderIdentity"] == ""


@pytest.mark.parametrize("registered", [True, False])
async def test_a_worker_with_others_does_not_give_it_back(site: Site, registered: bool) -> None:
    """Its own registration is gone before its importer ends, so it is not counted for another's."""
    first, second = await site.hand(), await site.hand()
    if not registered:
        await site.leave(first)
    await first.stop()
    assert site.lease()["holderIdentity"] == OURS
    await site.time.advance(3)
    assert await site.active() == second.name


async def test_a_standby_gives_nothing_back(site: Site) -> None:
    first, second = await site.hand(), await site.hand()
    await site.leave(first)
    await second.stop()
    assert site.lease()["holderIdentity"] == OURS
    assert await site.active() == first.name


async def test_a_lease_that_cannot_be_given_back_ends_all_the_same(site: Site) -> None:
    hand = await site.hand()
    hand.api.faults.disconnect(None)
    await hand.stop()
    assert hand.task.done()
    assert await site.active() == ""


# --- without an election --------------------------------------------------------------------------


async def test_without_election_binding_is_always_allowed(site: Site) -> None:
    site.rival_holds()
    first, second = await site.hand(elects=False), await site.hand(elects=False)
    active = (await site.store.get(keys.ACTIVE)).kv
    assert active is not None
    assert active.lease == 0
    await first.stop()
    await site.time.advance(5)
    assert await site.importer() == second.name
    assert (await site.store.get(keys.ACTIVE)).kv == active
    assert not first.asked("get", LEASES) + second.asked("get", LEASES)


async def test_an_election_begins_without_what_was_left_without_one(site: Site) -> None:
    first = await site.hand(elects=False)
    await first.stop()
    site.rival_holds()
    await site.hand()
    assert await site.active() == ""
