"""What the queue and the waker do with pods that concern extenders: they never join a cohort, nor a gang."""

from __future__ import annotations

import pytest

from tests.scheduling.stage import Stage
from wharfinger.framework.profiles import load_profiles
from wharfinger.scheduling.loops.queueing import alone_by
from wharfinger.scheduling.state.queue.entry import Part
from wharfinger.testing.builders import pod

GPU = "example.com/gpu"


@pytest.mark.parametrize("extenders", [(), ({"urlPrefix": "http://extender", "filterVerb": "filter"},)])
async def test_a_gang_that_concerns_extenders_is_not_woken(extenders: tuple[dict[str, str], ...]) -> None:
    """Its next attempt would be refused again, whatever the cluster has."""
    async with Stage(profiles=load_profiles({"extenders": list(extenders)})) as stage:
        for name in ("a", "b"):
            await stage.put_pod(name, gang=("team", 2), cpu="1")
        for name in ("a", "b"):
            await stage.refuse(name, plugins=("GangScheduling", "NodeResourcesFit"))
        await stage.until(lambda: {stage.part("a"), stage.part("b")} == {Part.WAITING})
        await stage.put_node("n", cpu="4")
        await stage.caught_up()

        assert len(stage.attempts.woken) == (0 if extenders else 1)


def test_a_pod_that_concerns_an_extender_is_placed_alone() -> None:
    extender = {"urlPrefix": "http://extender", "filterVerb": "filter", "managedResources": [{"name": GPU}]}
    alone = alone_by(load_profiles({"extenders": [extender]}))

    assert alone(pod("card", extended={GPU: 1}))
    assert not alone(pod("plain"))


def test_pods_of_an_unknown_profile_are_nobodys_to_hold_back() -> None:
    alone = alone_by(load_profiles())

    assert not alone(pod("web"))
    assert not alone(pod("other", scheduler_name="other"))
