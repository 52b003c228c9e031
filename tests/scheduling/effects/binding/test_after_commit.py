"""Binds whose pods are a Kubernetes API's: committed in etcd, then sent; what the API says corrects the outcome."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.kubernetes_world import UpstreamWorld, group, kinds, sent
from tests.scheduling.world import Hand
from wharfinger.apiserver.client import NODES, PODS, ApiCall
from wharfinger.etcd import keys
from wharfinger.etcd.store import Operation, Put
from wharfinger.kubernetes.effects.copying import forget_copies
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, Gone, Placed, Rejected
from wharfinger.testing.memory_upstream import MemoryUpstream


async def one_placed(site: UpstreamWorld, *, nodes: int = 1) -> tuple[Hand, MemoryUpstream, Placed]:
    """A worker, its client of the API, and its placement of the pod `web`."""
    for number in range(nodes):
        site.node(f"node-{number}")
    uid = site.pending("web")
    await site.imports()
    hand = await site.upstream_hand()
    return hand, site.clients[-1], await hand.placed("web", live_uid=uid)


# --- a lone pod -----------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [False, True])
async def test_a_bind_is_unanswered_until_its_copy_shows_it_or_it_fails(site: UpstreamWorld, away: bool) -> None:
    hand, api, placed = await one_placed(site)
    unanswered, web = hand.cache.unanswered, PodKey("default", "web")
    during, told = list[bool](), list[PodKey]()

    async def asked(request: ApiCall) -> None:
        if request.subresource == "binding":
            assert await site.node_of("web") == "node-0"
            during.append(web in unanswered)

    api.before_request = asked
    unanswered.on_answer(told.extend)
    if away:
        api.faults.disconnect(None)
        with pytest.raises(ApplicationError):
            await hand.bind("web", placed)
    else:
        await hand.bind("web", placed)
    assert (during, told, web in unanswered) == (([], [web], False) if away else ([True], [], True))
    await site.imports()
    assert web not in unanswered


async def test_a_lone_pod_is_committed_and_sent(site: UpstreamWorld) -> None:
    hand, api, placed = await one_placed(site)
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Bound)
    assert outcome.node == site.there("web") == await site.node_of("web") == "node-0"
    promise = await site.promise("web")
    assert promise is not None
    assert (promise.uid, promise.node) == (placed.uid, "node-0")
    assert sent(api) == ["web"]
    pod = api.find(PODS, "web")
    assert pod is not None
    assert pod["metadata"]["annotations"]["wharfinger.dev/attempt"] == promise.attempt
    await site.imports()
    assert await site.promise("web") is None
    assert await site.node_of("web") == "node-0"


async def test_nothing_is_committed_without_the_right_to_bind(site: UpstreamWorld) -> None:
    hand, api, placed = await one_placed(site)
    await site.store.delete(keys.ACTIVE)
    await site.seen()
    with pytest.raises(ApplicationError, match="does not hold the Lease"):
        await hand.bind("web", placed)
    assert await site.node_of("web") == ""
    assert sent(api) == []


async def test_a_bind_compares_the_right_that_it_was_decided_under(site: UpstreamWorld) -> None:
    """It went and came back, under another importer; this worker has not seen it."""
    hand, api, placed = await one_placed(site)
    hand.store.pause_watches()
    await site.begin()
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Contended)
    assert hand.conflicts("active") >= 1
    assert await site.node_of("web") == ""
    assert sent(api) == []


async def test_a_bind_does_not_land_after_the_copies_were_forgotten(site: UpstreamWorld) -> None:
    """The API was restored while the transaction was on its way; all is copied anew before it arrives."""
    hand, api, placed = await one_placed(site)

    async def restored(_compares: object, writes: Sequence[Operation]) -> None:
        if any(isinstance(one, Put) and one.key.startswith(keys.PROMISES) for one in writes):
            hand.store.before_txn = None
            await forget_copies(site.store, ["pods", "nodes"], epoch=site.epoch, generation=1)
            await site.begin()
            await site.imports()

    hand.store.before_txn = restored
    outcome = await hand.bind("web", placed)
    assert not isinstance(outcome, Bound)
    assert await site.promise("web") is None
    assert await site.node_of("web") == ""
    assert sent(api) == []


async def test_a_refusal_of_the_api_is_told_in_its_words(site: UpstreamWorld) -> None:
    hand, api, placed = await one_placed(site)
    api.faults.refuse(403, 'admission webhook "quota" denied the request: no', subresource="binding")
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Rejected)
    assert outcome.plugin == "DefaultBinder"
    assert 'admission webhook "quota" denied the request: no' in outcome.message
    assert await site.node_of("web") == ""
    assert await site.promise("web") is None
    assert site.there("web") == ""


async def test_a_pod_that_another_scheduler_bound_is_gone(site: UpstreamWorld) -> None:
    hand, _, placed = await one_placed(site, nodes=2)
    site.change("web", nodeName="elsewhere")
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Gone)
    assert (outcome.reason, outcome.node) == ("bound", "elsewhere")
    assert await site.node_of("web") == "elsewhere"


async def test_a_pod_that_was_deleted_is_gone(site: UpstreamWorld) -> None:
    hand, _, placed = await one_placed(site)
    site.api.remove(PODS, "web")
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Gone)
    assert outcome.reason == "deleted"
    await site.imports()
    assert await site.promise("web") is None
    assert await site.pod("web") is None


async def test_a_pod_created_again_is_not_bound(site: UpstreamWorld) -> None:
    hand, _, placed = await one_placed(site)
    site.api.remove(PODS, "web")
    site.pending("web")
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Gone)
    assert site.there("web") == ""


async def test_a_pod_whose_labels_changed_is_placed_anew(site: UpstreamWorld) -> None:
    hand, _, placed = await one_placed(site)
    site.change("web", labels={"app": "other"})
    assert isinstance(await hand.bind("web", placed), Contended)
    assert site.there("web") == await site.node_of("web") == ""


async def test_an_annotation_in_between_does_not_matter(site: UpstreamWorld) -> None:
    hand, api, placed = await one_placed(site)
    site.change("web", annotations={"note": "x"})
    assert isinstance(await hand.bind("web", placed), Bound)
    assert sent(api) == ["web", "web"]
    assert site.there("web") == "node-0"


@pytest.mark.parametrize("applied", [True, False])
async def test_a_retry_completes_what_an_api_that_was_away_left(site: UpstreamWorld, applied: bool) -> None:
    hand, api, placed = await one_placed(site)
    if applied:
        api.faults.lose_answers(subresource="binding")
    else:
        api.faults.disconnect(None)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    assert await site.node_of("web") == "node-0"
    assert await site.promise("web") is not None
    api.faults.clear()
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Bound)
    assert site.there("web") == outcome.node == "node-0"


async def test_another_worker_completes_it(site: UpstreamWorld) -> None:
    hand, api, placed = await one_placed(site)
    api.faults.disconnect(None)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    other = await site.upstream_hand()
    assert isinstance(await other.bind("web", placed), Bound)
    assert site.there("web") == "node-0"


async def test_a_retry_of_a_bind_that_was_shown_is_bound(site: UpstreamWorld) -> None:
    hand, api, placed = await one_placed(site)
    api.faults.lose_answers(subresource="binding")
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    await site.imports()
    assert isinstance(await hand.bind("web", placed), Bound)
    assert sent(api) == ["web"]


# --- a cohort -------------------------------------------------------------------------------------


async def test_a_cohort_is_sent_each_pod_by_itself(site: UpstreamWorld) -> None:
    hand, api, placed = await group(site)
    api.faults.refuse(422, "no such thing", subresource="binding", name="web-1")
    site.change("web-2", nodeName="elsewhere")
    bound = await hand.bind_many(placed)
    assert kinds(bound) == {"web-1": "rejected", "web-2": "gone"}
    assert sorted(one.name for one in bound.bound) == ["web-0", "web-3"]
    assert [bool(site.there(f"web-{number}")) for number in range(4)] == [True, False, True, True]
    assert sent(api, dry=True) == []


async def test_a_cohort_of_which_one_got_no_answer_is_completed(site: UpstreamWorld) -> None:
    hand, api, placed = await group(site)
    api.faults.disconnect(subresource="binding", name="web-2")
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed)
    bound = await hand.bind_many(placed)
    assert (len(bound.bound), bound.unbound) == (4, ())
    assert all(site.there(f"web-{number}") for number in range(4))


async def test_without_an_api_nothing_is_kept(site: UpstreamWorld) -> None:
    """etcd itself is the store: the same bind, and no promise."""
    await site.put_node("node-0")
    await site.put_pod("web")
    hand = await site.hand()
    assert isinstance(await hand.bind("web", await hand.placed("web")), Bound)
    assert await site.promise("web") is None
    assert site.api.objects(NODES) == []
