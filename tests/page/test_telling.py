"""What viewers are told: topics of what changed, by namespace, and sums that are patched instead of counted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from tests.page.cluster import MemoryCluster, Page
from tests.patience import patient
from tests.scheduling.page.test_read_model import Looking
from wharfinger.etcd import keys
from wharfinger.fleet.page.view import FleetsView
from wharfinger.fleet.state.fleet_reading import OF_FLEETS
from wharfinger.objects.documents.pods import GROUP_LABEL
from wharfinger.objects.model.node import CPU
from wharfinger.page.follow.rings import DurationRing
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.options import PageOptions
from wharfinger.page.web.stream import ViewerStream
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.page.hubs import HubChanges
from wharfinger.placement.page.view import OF_PLACEMENTS
from wharfinger.scheduling.page.node_map import NodeMap
from wharfinger.scheduling.page.overview import Overview, RoomSums
from wharfinger.scheduling.page.pending import MOST_NAMESPACES, UNSEEN, PendingPods
from wharfinger.testing import node_manifest

WATCHED = {"pods", "pods?namespace=web", "gangs", "fleets", "placements", "kubernetes"}


async def touched(looking: Looking) -> set[str]:
    await looking.step()
    return looking.model.take_touched()


async def test_views_are_told_what_has_a_part_that_changed() -> None:
    looking = await Looking().listed()
    looking.following.marks |= {"fleets": OF_FLEETS, "placements": OF_PLACEMENTS}
    looking.following.watch_for(WATCHED)
    cluster = looking.cluster

    await cluster.pod("a", namespace="batch")
    assert await touched(looking) == {"pods"}
    await cluster.pod("a", namespace="web", labels={GROUP_LABEL: "g"})
    assert await touched(looking) == {"pods", "pods?namespace=web", "gangs"}
    await cluster.refusal("web", "a", ("NodeAffinity",), "no")
    assert "pods?namespace=web" in await touched(looking), "its record is a part of a pod"
    await cluster.fleet()
    assert await touched(looking) == {"fleets"}
    await cluster.worker(0)
    assert await touched(looking) == {"fleets"}
    await cluster.put(f"{placement_keys.CLUSTER_PLACEMENTS}p", {"kind": "ClusterResourcePlacement"})
    assert await touched(looking) == {"placements"}
    await cluster.node("n")
    assert await touched(looking) == set()


async def test_gangs_are_told_of_their_members_alone() -> None:
    looking = await Looking().listed()
    looking.following.watch_for({"gangs", "gangs?namespace=a", "gangs?namespace=b"})
    await looking.cluster.pod("alone", namespace="a")
    assert await touched(looking) == set()
    await looking.cluster.pod("m", namespace="a", labels={GROUP_LABEL: "g"})
    assert await touched(looking) == {"gangs", "gangs?namespace=a"}


async def test_a_hub_is_watched_only_while_somebody_looks() -> None:
    cluster, wanted, told = MemoryCluster(), [False], Counter[str]()
    changes = HubChanges(cluster.store, lambda: wanted[0], lambda: told.update(["change"]))
    watching = asyncio.create_task(changes.run())
    try:
        await cluster.put(f"{placement_keys.HUB}decisions/p", b"{}")
        await asyncio.sleep(0)
        assert not told
        wanted[0] = True
        async with asyncio.timeout(patient(20)):
            while not told:
                await asyncio.sleep(0.01)
            await cluster.put(f"{placement_keys.HUB}decisions/p", b"{1}")
            while told["change"] < 2:
                await asyncio.sleep(0.01)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_sums_that_are_patched_are_those_that_are_counted() -> None:
    looking = Looking()
    for name in "abc":
        await looking.cluster.node(name, "4", gpus=2 if name == "a" else 0)
    await looking.listed()
    sums, cache = RoomSums(), looking.following.cache
    sums.of(cache.snapshot())
    for number in range(30):
        name, node = f"p{number % 7}", "abc"[number % 3]
        if number % 5 == 4:
            await looking.cluster.store.delete(keys.pod("default", name))
        else:
            gpus = number % 2 if node == "a" else 0
            await looking.cluster.pod(name, f"{100 + number}m", nodeName=node, gpus=gpus)
        if number == 15:
            await looking.cluster.put(keys.node("d"), node_manifest("d", "8"))
        if number == 20:
            await looking.cluster.store.delete(keys.node("b"))
        if looking.cluster.store.revision > cache.progress.revision:  # there may be no such pod to delete
            await looking.step()
        assert sums.of(cache.snapshot()) == RoomSums().of(cache.snapshot())
    [cpu] = [one for one in sums.of(cache.snapshot()) if one["resource"] == CPU]
    assert cpu["allocatable"] == 16_000
    assert cpu["requested"] == int(cache.snapshot().requested(CPU).sum()) > 0


async def test_nodes_that_are_not_ready_are_counted() -> None:
    looking = Looking()
    broken = node_manifest("b")
    broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    await looking.cluster.node("a")
    await looking.cluster.put(keys.node("b"), broken)
    await looking.listed()
    overview = Overview(looking.following, PendingPods(looking.following), scraper(looking))
    assert overview.now()["nodes"]["notReady"] == 1
    await looking.cluster.put(keys.node("b"), node_manifest("b"))
    await looking.step()
    assert overview.now()["nodes"]["notReady"] == 0


def scraper(looking: Looking) -> Scraper:
    return Scraper(PageOptions(0).scrape, list, looking.following.clock)


async def test_a_row_is_told_to_namespaces_whose_pods_changed_there() -> None:
    looking = Looking()
    for name in ("a", "b"):
        await looking.cluster.node(name)
    await looking.cluster.pod("old", "1", "web", nodeName="a")
    await looking.cluster.pod("stays", "1", "data", nodeName="a")
    await looking.listed()
    nodes = NodeMap(looking.following)
    layout = nodes.whole()["layout"]
    nodes.tick()
    await looking.cluster.store.delete(keys.pod("web", "old"))
    await looking.cluster.pod("new", "2", "batch", nodeName="b")
    await looking.step()
    nodes.tick()

    assert nodes.changed("web") == {"layout": layout, "rows": [[0, 0, 0, 0]]}
    assert nodes.changed("batch") == {"layout": layout, "rows": [[1, 2000, 0, 1]]}
    assert nodes.changed("data") is None
    assert [row[0] for row in (nodes.changed() or {})["rows"]] == [0, 1]


async def test_a_tick_is_one_message_to_each_viewer() -> None:
    now = {"a": 1, "b": 2, "node:x": 3}
    stream = ViewerStream(now.get, changes=frozenset({"node"}))
    both, one = stream.messages(["a", "node:x", "b"]), stream.messages(["b"])
    for viewer in (both, one):
        await anext(viewer)
    await stream.tick()
    told = await anext(both)
    assert [line for line in told.split(b"\n") if line.startswith(b"event")] == [
        b"event: a",
        b"event: b",
        b"event: node",
    ]
    assert await anext(one) == told[told.index(b"event: b") : told.index(b"event: node")]
    await stream.tick()
    assert await anext(both) == b'event: node\ndata: {"topic":"node:x","now":3}\n\n', "the others are as they were"
    for viewer in (both, one):
        await viewer.aclose()


async def test_trends_of_a_namespace_begin_when_somebody_looks() -> None:
    looking = await Looking().listed()
    pending = PendingPods(looking.following)
    await looking.cluster.pod("a", namespace="web")
    await looking.step()
    pending.note(set())
    looking.now += 100
    pending.note({"web"})
    known = [value for value in pending.trend("web") or [] if value is not None]
    assert known == [1], "what was before, nobody counted"
    looking.now += UNSEEN + 5
    pending.note({"web"})
    assert [value for value in pending.trend("web") or [] if value is not None] == [1], "a gap is no trend"
    for number in range(MOST_NAMESPACES + 1):
        looking.now += 1
        pending.note({f"other-{number}"})
    assert pending.trend("web") is None
    assert pending.trend() is not None


def test_quantiles_of_every_slot_are_those_of_each() -> None:
    ring = DurationRing(slots=4, width=5)
    for now, seconds in ((100.0, 1.0), (101.0, 3.0), (111.0, 0.1)):
        ring.add(now, seconds)
    p50, p99 = ring.series(112.0, (0.5, 0.99))
    assert [value is None for value in p50] == [True, False, True, False]
    assert p50[1] == ring.quantiles(112.0, (0.5,), over=3)[0]
    assert p99[1] is not None
    assert p99[1] > (p50[1] or 0) > (p50[3] or 0)


async def test_what_fleets_say_is_read_anew_after_a_change(page: Page) -> None:
    """An answer is kept for a second for all viewers, but not beyond a change that they were told of."""
    parts = page.parts
    follower = parts.stream.messages(["fleets"])
    await anext(follower)
    assert (await parts.view(FleetsView).fleets.all())["count"] == 0
    await page.cluster.fleet()
    async with asyncio.timeout(patient(20)):
        while b"event: fleets" not in (told := await anext(follower)):
            pass
    assert json.loads(told.split(b"data: ")[1])["topic"] == "fleets"
    assert (await parts.view(FleetsView).fleets.all())["count"] == 1
    await follower.aclose()
