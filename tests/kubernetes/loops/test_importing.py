"""The importer's loop: becoming it, following every kind, and reporting how far the copies are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from tests.kubernetes.loops.importing_stage import Site
from wharfinger.apiserver.client import LEASES, NODES, PODS
from wharfinger.etcd import keys
from wharfinger.etcd.store import Operation, Put
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Imported
from wharfinger.testing.memory_leases import MemoryLease

LISTED = "upstream_listed kind=pods"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    site.node("n1")
    site.pod("a")
    yield site
    await site.close()


def listed(caplog: pytest.LogCaptureFixture) -> int:
    return caplog.text.count(LISTED)


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="wharfinger")


# --- one of several -------------------------------------------------------------------------------


async def test_one_of_two_workers_imports(site: Site) -> None:
    first, second = await site.hand(), await site.hand()
    assert await site.importer() == first.name
    assert await site.copies() == ["a", "n1"]
    site.pod("b")
    await site.time.advance(1)
    assert await site.copy("b") is not None
    assert not second.api.requests


async def test_another_worker_goes_on_when_the_lease_is_lost(site: Site) -> None:
    first, second = await site.hand(), await site.hand()
    site.store.drop_lease(await site.importer_lease())
    await site.time.advance(3)
    assert await site.importer() == second.name
    site.pod("b")
    await site.time.advance(1)
    assert await site.copy("b") is not None
    assert not first.importing.kinds
    assert await site.active() == second.name


async def test_another_worker_takes_over_from_a_killed_importer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It revokes no lease; etcd ends it."""

    async def never(_lease: MemoryLease) -> None:
        pass

    monkeypatch.setattr(MemoryLease, "revoke", never)
    first, second = await site.hand(), await site.hand()
    await first.store.close()
    await site.pass_time(2)
    assert await site.active() == first.name
    await site.pass_time(2)
    assert await site.active() == ""
    assert await site.importer() == first.name
    await site.pass_time(6)
    assert await site.importer() == second.name
    assert await site.active() == second.name


async def test_a_new_importer_resumes_without_a_list(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    first, second = await site.hand(), await site.hand()
    assert listed(caplog) == 1
    await first.stop()
    site.pod("b")
    site.api.remove(PODS, "a")
    await site.time.advance(3)
    assert await site.importer() == second.name
    assert await site.copies() == ["b", "n1"]
    assert listed(caplog) == 1


async def test_an_importer_with_extenders_makes_copies_whole(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """What an importer without extenders copied is copied once more; the next one of its kind resumes."""
    first, second = await site.hand(), await site.hand(whole=True)
    site.api.put(PODS, {"metadata": {"name": "e"}, "spec": {"containers": [{"name": "c", "env": [{"name": "X"}]}]}})
    await site.time.advance(1)
    assert "env" not in (await site.copy("e"))["spec"]["containers"][0]
    await first.stop()
    await site.time.advance(3)
    assert await site.importer() == second.name
    assert (await site.copy("e"))["spec"]["containers"][0]["env"] == [{"name": "X"}]
    assert (await site.imported()).whole
    assert listed(caplog) == 2
    third = await site.hand(whole=True)
    await second.stop()
    await site.time.advance(3)
    assert await site.importer() == third.name
    assert listed(caplog) == 2


@pytest.mark.parametrize("elects", [True, False])
@pytest.mark.parametrize("whole", [True, False])
async def test_nothing_is_bound_until_all_copies_are_of_one_kind(site: Site, elects: bool, whole: bool) -> None:
    """Extenders were added to the configuration, or removed. The Lease is kept all the while."""
    first, second = await site.hand(elects=elects, whole=not whole), await site.hand(elects=elects, whole=whole)
    site.api.put(PODS, {"metadata": {"name": "e"}, "spec": {"containers": [{"name": "c", "env": [{"name": "X"}]}]}})
    await site.time.advance(1)
    assert ("env" in (await site.copy("e"))["spec"]["containers"][0]) is not whole
    writes: list[bool] = []

    async def look(_compares: object, found: Sequence[Operation]) -> None:
        if any(isinstance(one, Put) and one.key.startswith((keys.PODS, keys.NODES)) for one in found):
            writes.append(bool(await site.active()))

    second.store.before_txn = look
    await first.stop()
    await site.time.advance(4)
    assert writes
    assert not any(writes)
    assert ("env" in (await site.copy("e"))["spec"]["containers"][0]) is whole
    assert (await site.imported()).whole is whole
    assert await site.active() == second.name


async def test_copies_that_were_half_made_anew_are_made_anew_again(site: Site) -> None:
    """An importer without extenders ended before it had made all copies anew; the next one has extenders again."""
    first = await site.hand(whole=True)
    site.api.put(PODS, {"metadata": {"name": "e"}, "spec": {"containers": [{"name": "c", "env": [{"name": "X"}]}]}})
    second = await site.hand()
    second.api.faults.hold(before=True, verb="watch", resource=NODES)
    await first.stop()
    await site.time.advance(5)
    assert "env" not in (await site.copy("e"))["spec"]["containers"][0]
    third = await site.hand(whole=True)
    await second.stop()
    await site.time.advance(4)
    assert await site.active() == third.name
    assert "env" in (await site.copy("e"))["spec"]["containers"][0]
    assert not (await site.imported()).mixed


async def test_an_importer_whose_event_loop_hangs_is_replaced(site: Site) -> None:
    """Its lease is renewed on a thread of its own, which would go on."""
    await site.hand()
    site.time.now += 60  # nothing of the loop ran meanwhile
    site.store.advance(0)
    assert await site.importer() == ""


async def test_the_lease_is_renewed_while_all_is_copied_anew(site: Site) -> None:
    first, second = await site.hand(whole=True), await site.hand()
    gate = second.api.faults.hold(before=True, verb="watch", resource=NODES)
    await first.stop()
    await site.time.advance(20)
    assert await site.importer() == second.name
    assert second.asked("update", LEASES) > 5
    assert await site.active() == ""
    gate.open()
    await site.time.advance(4)
    assert await site.active() == second.name


async def test_an_importer_that_was_replaced_unseen_stops(site: Site) -> None:
    """Its lease is there, and the key is another one's: it finds out with its next write."""
    first = await site.hand()
    lease = await site.importer_lease()
    await site.store.put(keys.IMPORTER, promise_records.stored(Imported()), lease=lease)
    site.pod("b")
    await site.time.advance(0.05)
    assert await site.copy("b") is None
    await site.time.advance(5)
    assert await site.importer() == first.name
    assert await site.copy("b") is not None


async def test_a_failing_store_is_tried_again(site: Site) -> None:
    hand = await site.hand()
    hand.store.fail_next(applied=False)
    await site.time.advance(10)
    site.pod("b")
    await site.time.advance(1)
    assert await site.importer() == hand.name
    assert await site.copy("b") is not None


# --- what goes wrong with the API -----------------------------------------------------------------


async def test_a_cut_watch_is_resumed_where_it_ended(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    hand = await site.hand()
    hand.api.cut_watches()
    site.pod("b")
    site.api.remove(PODS, "a")
    await site.time.advance(3)
    assert await site.copies() == ["b", "n1"]
    assert listed(caplog) == 1
    assert all(kind.live for kind in hand.importing.kinds.values())
    assert hand.importing.trouble == {}


async def test_expired_history_is_followed_by_a_list(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    hand = await site.hand()
    hand.api.faults.disconnect(None, verb="watch")
    hand.api.cut_watches()
    await site.time.advance(1)
    site.pod("b")
    site.api.remove(PODS, "a")
    site.api.forget_before(site.api.revision + 1)
    hand.api.faults.clear()
    await site.time.advance(15)
    assert await site.copies() == ["b", "n1"]
    assert listed(caplog) == 2
    assert "upstream_watch_expired" in caplog.text


async def test_a_silent_watch_is_followed_by_a_list(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """As where the API is asked for a revision that it has not reached."""
    hand = await site.hand()
    hand.api.cut_watches()
    await site.time.advance(0.01)
    hand.api.silence_watches()
    await site.time.advance(71)
    hand.api.tick()
    await site.time.advance(0.05)
    hand.api.resume_watches()
    site.pod("b")
    await site.time.advance(10)
    assert await site.copy("b") is not None
    assert "upstream_watch_silent effect=list_again kind=pods" in caplog.text


async def test_a_watch_that_showed_something_is_resumed(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    hand = await site.hand()
    await site.time.advance(100)
    hand.api.cut_watches()
    await site.time.advance(5)
    assert listed(caplog) == 1


async def test_nothing_is_reported_while_a_kind_is_forbidden(site: Site) -> None:
    hand = await site.hand(seconds=20, before=lambda api: api.faults.forbid("watch", NODES))
    assert "nodes" in hand.importing.trouble["nodes"]
    assert await site.copy("a") is not None
    assert (await site.imported()).revisions == {}
    assert await site.active() == ""
    hand.api.faults.clear()
    await site.time.advance(15)
    assert set((await site.imported()).revisions) == {"pods", "nodes"}
    assert hand.importing.trouble == {}
    assert await site.active() == hand.name


async def test_nothing_is_reported_while_the_api_is_away(site: Site) -> None:
    hand = await site.hand()
    before = await site.imported()
    await site.time.advance(2)
    told = await site.imported()
    assert told.time > before.time
    hand.api.faults.disconnect(None)
    hand.api.cut_watches(NODES)
    await site.time.advance(1)
    told = await site.imported()
    await site.time.advance(8)
    assert await site.imported() == told
    assert "nodes" in hand.importing.trouble
    hand.api.faults.clear()
    await site.time.advance(12)
    assert (await site.imported()).time > told.time


async def test_a_resumed_watch_that_fails_at_once_is_never_live(site: Site) -> None:
    """Its API answers other requests, so only a moment without failure shows that the watch is open."""
    hand = await site.hand()
    hand.api.faults.refuse(503, "overloaded", times=None, verb="watch")
    hand.api.cut_watches()
    await site.time.advance(1)
    told = await site.imported()
    for _ in range(100):
        await site.time.advance(0.3)
        assert not any(kind.live for kind in hand.importing.kinds.values())
    assert await site.imported() == told


async def test_revisions_are_reported_behind_the_copies(site: Site) -> None:
    await site.hand()
    pod = site.pod("b")
    await site.time.advance(1)
    assert (await site.imported()).revisions["pods"] == int(pod["metadata"]["resourceVersion"])


async def test_finished_pods_have_no_copies(site: Site) -> None:
    await site.hand()
    pod = site.pod("b")
    await site.time.advance(1)
    assert await site.copy("b") is not None
    site.api.put(PODS, {**pod, "status": {"phase": "Succeeded"}})
    await site.time.advance(1)
    assert await site.copy("b") is None
