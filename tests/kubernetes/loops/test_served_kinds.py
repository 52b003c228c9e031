"""Kinds that not every API server has are copied as they are served, also when they come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
import pytest

from tests.kubernetes.loops.importing_stage import ImportingHand, Site
from wharfinger.apiserver.client import ApiResource
from wharfinger.etcd import keys

BUILT_IN = ApiResource("scheduling.k8s.io", "v1alpha2", "podgroups", namespaced=True)
OURS = ApiResource("scheduling.x-k8s.io", "v1alpha1", "podgroups", namespaced=True)
VOLCANO = ApiResource("scheduling.volcano.sh", "v1beta1", "podgroups", namespaced=True)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    site.node("n1")
    yield site
    await site.close()


def group(site: Site, resource: ApiResource, name: str, least: int = 2) -> None:
    spec = {"minMember": least} if resource != BUILT_IN else {"schedulingPolicy": {"gang": {"minCount": least}}}
    site.api.put(resource, {"metadata": {"name": name}, "spec": spec})


def withdraw(site: Site, resource: ApiResource) -> None:
    site.api.withdraw(resource)
    for hand in site.hands:
        hand.api.cut_watches(resource)


async def copied(site: Site) -> dict[str, str]:
    """The API version of each copy, by name."""
    found = [kv async for page in site.store.list(keys.POD_GROUPS) for kv in page.items]
    return {kv.key.rpartition("/")[2]: orjson.loads(kv.value)["apiVersion"] for kv in found}


def live(hand: ImportingHand) -> bool:
    return all(kind.live for kind in hand.importing.kinds.values())


async def test_pod_groups_of_all_known_groups_are_copied(site: Site) -> None:
    for resource in (VOLCANO, OURS, BUILT_IN):
        site.api.serve(resource, "PodGroup")
    group(site, BUILT_IN, "a")
    group(site, OURS, "b")
    group(site, VOLCANO, "c")

    hand = await site.hand()

    assert await copied(site) == {"a": BUILT_IN.api_version, "b": OURS.api_version}
    assert set((await site.imported()).revisions) == {
        "pods",
        "nodes",
        "podgroups.scheduling.k8s.io",
        "podgroups.scheduling.x-k8s.io",
    }
    group(site, OURS, "d")
    site.api.remove(BUILT_IN, "a")
    await site.time.advance(1)
    assert await copied(site) == {"b": OURS.api_version, "d": OURS.api_version}
    assert live(hand)


async def test_kind_that_comes_and_goes_is_followed_while_the_worker_runs(site: Site) -> None:
    hand = await site.hand()
    assert await copied(site) == {}

    site.api.serve(OURS, "PodGroup")
    group(site, OURS, "b")
    await site.time.advance(40)
    assert await copied(site) == {"b": OURS.api_version}
    newer = OURS._replace(version="v1")
    site.api.serve(newer, "PodGroup")
    withdraw(site, OURS)
    group(site, newer, "c")
    await site.time.advance(8)
    assert (await copied(site))["c"] == newer.api_version
    assert live(hand)

    withdraw(site, newer)
    await site.time.advance(8)
    assert not hand.importing.trouble
    assert await copied(site) == {}
    assert set(hand.importing.kinds) == {"pods", "nodes"}
    assert live(hand)


async def test_device_classes_are_copied_and_nothing_waits_for_them(site: Site) -> None:
    """An installation whose role does not name them yet places pods as before."""
    classes = ApiResource("resource.k8s.io", "v1", "deviceclasses", namespaced=False)
    site.api.serve(classes, "DeviceClass")
    site.api.put(classes, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}})
    refused = await site.hand(before=lambda api: api.faults.forbid("watch", classes))
    assert set((await site.imported()).revisions) == {"pods", "nodes"}
    assert "deviceclasses" in refused.importing.trouble
    assert await site.active() == refused.name
    await refused.stop()

    await site.hand()

    assert (await site.store.get(keys.DEVICE_CLASSES + "gpu")).kv is not None
    assert "deviceclasses" in (await site.imported()).revisions


async def test_copies_go_though_their_kind_went_while_no_importer_ran(site: Site) -> None:
    site.api.serve(OURS, "PodGroup")
    group(site, OURS, "b")
    first = await site.hand()
    await first.stop()
    site.api.withdraw(OURS)

    await site.hand(seconds=8)

    assert await copied(site) == {}


async def test_one_look_that_misses_a_group_removes_no_copy(site: Site) -> None:
    """An API server that has just started may not serve custom resources yet."""
    site.api.serve(OURS, "PodGroup")
    group(site, OURS, "b")
    hand = await site.hand()
    withdraw(site, OURS)
    await site.time.advance(2.5)
    assert await copied(site) == {"b": OURS.api_version}
    site.api.serve(OURS, "PodGroup")

    await site.time.advance(15)

    assert await copied(site) == {"b": OURS.api_version}
    assert live(hand)


async def test_of_two_of_one_name_the_built_in_one_is_copied(site: Site) -> None:
    for resource in (OURS, BUILT_IN):
        site.api.serve(resource, "PodGroup")
        group(site, resource, "g")
    hand = await site.hand()
    assert await copied(site) == {"g": BUILT_IN.api_version}

    group(site, OURS, "g", 3)
    await site.time.advance(1)
    assert await copied(site) == {"g": BUILT_IN.api_version}

    site.api.remove(BUILT_IN, "g")
    await site.time.advance(40)
    assert await copied(site) == {"g": OURS.api_version}

    group(site, BUILT_IN, "g")
    await site.time.advance(1)
    assert await copied(site) == {"g": BUILT_IN.api_version}
    site.api.remove(OURS, "g")
    await site.time.advance(40)
    assert await copied(site) == {"g": BUILT_IN.api_version}
    assert live(hand)


async def test_nothing_counts_as_copied_before_it_is_known_what_is_served(site: Site) -> None:
    site.api.serve(OURS, "PodGroup")
    group(site, OURS, "b")

    hand = await site.hand(before=lambda api: api.faults.refuse(503, name="/apis", times=1), seconds=1)
    assert not (await site.imported()).revisions
    await site.time.advance(3)

    assert await copied(site) == {"b": OURS.api_version}
    assert live(hand)
