"""Gangs whose pods are a Kubernetes API's: a dry run of all, then all for good, or none."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.kubernetes_world import UpstreamWorld, group, kinds, sent
from wharfinger.apiserver.client import PODS, ApiCall
from wharfinger.etcd import keys


async def none_held(site: UpstreamWorld, count: int = 4) -> bool:
    """No member is bound on either side, and no promise is left."""
    names = [f"web-{number}" for number in range(count)]
    there = [site.there(name) or await site.node_of(name) or await site.promise(name) for name in names]
    return not any(there)


async def test_a_gang_is_rehearsed_and_then_sent(site: UpstreamWorld) -> None:
    hand, api, placed = await group(site)
    bound = await hand.bind_many(placed, whole=True)
    assert (len(bound.bound), bound.unbound, bound.transactions) == (4, (), 1)
    order = [one.dry_run for one in api.requests if one.subresource == "binding"]
    assert order == [True] * 4 + [False] * 4
    assert all(site.there(f"web-{number}") for number in range(4))


async def test_a_dry_run_that_is_refused_gives_the_gang_up(site: UpstreamWorld) -> None:
    hand, api, placed = await group(site)
    api.faults.refuse(403, "admission webhook denied the request", subresource="binding", name="web-2", times=None)
    bound = await hand.bind_many(placed, whole=True)
    assert bound.bound == ()
    assert set(kinds(bound).values()) == {"contended"}
    assert all("pod default/web-2: admission webhook denied" in one.message for one in bound.unbound)
    assert sent(api) == []
    assert await none_held(site)
    assert hand.metrics.gangs_torn._value.get() == 0


async def test_a_member_bound_elsewhere_gives_the_gang_up(site: UpstreamWorld) -> None:
    hand, _, placed = await group(site)
    site.change("web-1", nodeName="elsewhere")
    bound = await hand.bind_many(placed, whole=True)
    assert bound.bound == ()
    assert [site.there(f"web-{number}") for number in range(4)] == ["", "elsewhere", "", ""]
    assert [await site.promise(f"web-{number}") for number in range(4)] == [None] * 4


async def test_a_member_with_a_new_annotation_is_rehearsed_again(site: UpstreamWorld) -> None:
    hand, api, placed = await group(site)
    site.change("web-1", annotations={"note": "x"})
    bound = await hand.bind_many(placed, whole=True)
    assert len(bound.bound) == 4
    assert sent(api, dry=True).count("web-1") == 2


async def test_webhooks_without_dry_runs_let_the_gang_go_on(
    site: UpstreamWorld, caplog: pytest.LogCaptureFixture
) -> None:
    hand, api, placed = await group(site)

    def no_dry_run(request: ApiCall) -> None:
        if not request.dry_run:
            fault.end()

    fault = api.faults.refuse(400, "the server does not support dry run", subresource="binding", times=4)
    api.before_request = no_dry_run
    bound = await hand.bind_many(placed, whole=True)
    assert len(bound.bound) == 4
    assert "gang_without_dry_run" in caplog.text


async def test_a_member_that_goes_after_its_dry_run_tears_the_gang(
    site: UpstreamWorld, caplog: pytest.LogCaptureFixture
) -> None:
    hand, api, placed = await group(site)

    def delete(request: ApiCall) -> None:
        if request.subresource == "binding" and not request.dry_run and site.api.find(PODS, "web-3"):
            site.api.remove(PODS, "web-3")

    api.before_request = delete
    bound = await hand.bind_many(placed, whole=True)
    assert len(bound.bound) == 3
    assert kinds(bound) == {"web-3": "gone"}
    assert hand.metrics.gangs_torn._value.get() == 1
    assert "gang_torn" in caplog.text


async def test_a_gang_whose_binds_got_no_answer_is_completed(site: UpstreamWorld) -> None:
    """The decided is completed: members that are bound already must not give the others up."""
    hand, api, placed = await group(site)
    for number in (0, 1):
        api.faults.lose_answers(subresource="binding", name=f"web-{number}", times=2)

    def away(request: ApiCall) -> None:
        if not request.dry_run and request.subresource == "binding":
            api.faults.disconnect(None, subresource="binding", name="web-3")

    api.before_request = away
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed, whole=True)
    api.before_request = None
    api.faults.clear()
    api.faults.lose_answers(subresource="binding")
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed, whole=True)
    api.faults.clear()
    bound = await hand.bind_many(placed, whole=True)
    assert (len(bound.bound), bound.unbound) == (4, ())
    assert all(site.there(f"web-{number}") for number in range(4))


async def test_some_bound_members_complete_the_gang_although_another_is_refused(site: UpstreamWorld) -> None:
    """An earlier try bound two; the third is refused now, so the gang is torn, and the fourth is bound."""
    hand, api, placed = await group(site)
    seen: list[str] = []

    def cut(request: ApiCall) -> None:
        if request.subresource == "binding" and not request.dry_run:
            seen.append(request.name)
            if len(seen) == 2:
                api.faults.disconnect(None)

    api.before_request = cut
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed, whole=True)
    api.before_request = None
    api.faults.clear()
    bound_before = [f"web-{number}" for number in range(4) if site.there(f"web-{number}")]
    assert len(bound_before) == 2
    refused = next(f"web-{number}" for number in range(4) if not site.there(f"web-{number}"))
    api.faults.refuse(422, "not this one", subresource="binding", name=refused, times=None)
    bound = await hand.bind_many(placed, whole=True)
    assert len(bound.bound) == 3
    assert kinds(bound) == {refused: "rejected"}
    assert hand.metrics.gangs_torn._value.get() == 1


async def test_an_api_that_is_away_during_dry_runs_leaves_the_promises(site: UpstreamWorld) -> None:
    hand, api, placed = await group(site)
    api.faults.disconnect(None)
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed, whole=True)
    assert all([await site.promise(f"web-{number}") for number in range(4)])
    api.faults.clear()
    bound = await hand.bind_many(placed, whole=True)
    assert len(bound.bound) == 4


async def test_giving_up_a_gang_is_completed_by_its_retry(site: UpstreamWorld) -> None:
    """The API was away between the refusal and the fences; what is withdrawn is never sent."""
    hand, api, placed = await group(site)
    api.faults.refuse(403, "denied", subresource="binding", name="web-2", times=None)
    api.faults.disconnect(2, verb="patch", subresource="status")
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed, whole=True)
    api.faults.clear()
    await site.seen()
    bound = await hand.bind_many(placed, whole=True)
    assert bound.bound == ()
    assert sent(api) == []
    assert await none_held(site)


async def test_a_member_that_goes_before_the_dry_runs_gives_the_gang_up(site: UpstreamWorld) -> None:
    """The try that bound them in etcd ended; its retry finds three of four, of which none was sent."""
    hand, api, placed = await group(site)
    api.faults.disconnect(None)
    with pytest.raises(ApplicationError):
        await hand.bind_many(placed, whole=True)
    api.faults.clear()
    site.api.remove(PODS, "web-3")
    await site.imports()
    bound = await hand.bind_many(placed, whole=True)
    assert bound.bound == ()
    assert kinds(bound)["web-3"] == "gone"
    assert sent(api) == []
    assert await none_held(site, 3)
    assert hand.metrics.gangs_torn._value.get() == 0


async def test_a_gang_that_lost_its_room_in_etcd_is_not_told_to_be_torn(
    site: UpstreamWorld, caplog: pytest.LogCaptureFixture
) -> None:
    hand, api, placed = await group(site)
    await site.store.delete(keys.node(placed.seats[0].node))
    await hand.seen()
    bound = await hand.bind_many(placed, whole=True)
    assert set(kinds(bound).values()) == {"contended"}
    assert (sent(api), sent(api, dry=True)) == ([], [])
    assert "gang_torn" not in caplog.text
    assert hand.metrics.gangs_torn._value.get() == 0
