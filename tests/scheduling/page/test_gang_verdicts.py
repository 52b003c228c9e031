"""A gang that waits: why it was refused, how many members fit in each domain now, and what is missing there."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.page.cluster import Page, in_step
from tests.page.test_json import get
from wharfinger.objects.documents.pods import GROUP_LABEL, MIN_AVAILABLE_LABEL
from wharfinger.objects.model.gang import GangKey
from wharfinger.scheduling.page.deciding import Deciders
from wharfinger.scheduling.page.gang_verdicts import GangQuestion, verdicts

GANG = "/api/v1/gangs/default/mpi"
TOPOLOGY = "wharfinger.dev/topology-key"


async def member(page: Page, number: int, least: int = 3, cpu: str = "3", **more: Any) -> None:
    labels = {GROUP_LABEL: "mpi", MIN_AVAILABLE_LABEL: str(least)}
    await page.cluster.pod(f"mpi-{number}", cpu, labels=labels, **more)


@pytest.fixture
async def gang(page: Page) -> Page:
    """Three members of 3 CPUs each; zone a has one such place on n1 and none on n2, zone b one on n3."""
    for number in range(3):
        await member(page, number, metadata={"annotations": {TOPOLOGY: "zone"}})
    await in_step(page.parts, page.cluster.store.revision)
    return page


async def test_each_domain_says_how_many_fit_and_what_is_missing(gang: Page, client: aiohttp.ClientSession) -> None:
    assert (await get(client, GANG))["topologyKeys"] == ["zone"]
    found = await get(client, f"{GANG}/domains")

    assert (found["required"], found["pending"], found["bound"], found["fits"]) == (3, 3, 0, False)
    rows = {row["domain"]: row for row in found["domains"]}
    assert rows.keys() == {"a", "b"}
    assert (rows["a"]["fits"], rows["a"]["missing"], rows["a"]["nodes"]) == (1, 2, 2)
    assert (rows["b"]["fits"], rows["b"]["missing"], rows["b"]["nodes"]) == (1, 2, 1)
    assert rows["a"]["terms"] == {"zone": "a"}
    assert (rows["a"]["free"]["cpu"], rows["a"]["lacks"]) == (5000, {"cpu": 4000})
    assert rows["b"]["lacks"] == {"cpu": 5000}
    assert rows["a"]["refusals"] == {"NodeResourcesFit": {"Insufficient cpu": 2}}, "nodes elsewhere say nothing"
    assert rows["b"]["refusals"] == {"NodeResourcesFit": {"Insufficient cpu": 1}}
    assert rows["a"]["message"] == "mpi-1 is the first that fits no node"
    assert found["profileServed"]["basis"] == "unknown"


async def test_a_domain_with_enough_room_lacks_nothing(gang: Page, client: aiohttp.ClientSession) -> None:
    for number in range(2):
        await gang.cluster.node(f"b{number}", "4", labels={"zone": "b"})
    await in_step(gang.parts, gang.cluster.store.revision)

    found = await get(client, f"{GANG}/domains")
    first = found["domains"][0]
    assert (found["fits"], first["domain"], first["missing"], first["lacks"]) == (True, "b", 0, {})


async def test_bound_members_fix_the_domain(gang: Page, client: aiohttp.ClientSession) -> None:
    await member(gang, 0, nodeName="n3", metadata={"annotations": {TOPOLOGY: "zone"}})
    await in_step(gang.parts, gang.cluster.store.revision)

    found = await get(client, f"{GANG}/domains")
    assert (found["required"], found["bound"]) == (2, 1)
    assert [(row["domain"], row["fits"]) for row in found["domains"]] == [("b", 0)]


async def test_the_refusal_that_a_gang_waits_with_is_told(gang: Page, client: aiohttp.ClientSession) -> None:
    assert (await get(client, GANG))["refusal"] is None
    for number in range(3):
        await gang.cluster.refusal(
            "default", f"mpi-{number}", ("NodeResourcesFit",), "gang needs 3 members placed together, 1 fit.",
            attempt=4, workflow_id="wharfinger/gang/default/mpi",
        )  # fmt: skip
    await in_step(gang.parts, gang.cluster.store.revision)

    refusal = (await get(client, GANG))["refusal"]
    assert (refusal["attempt"], refusal["plugins"]) == (4, ["NodeResourcesFit"])
    assert refusal["message"] == "gang needs 3 members placed together, 1 fit."
    assert refusal["workflowId"] == "wharfinger/gang/default/mpi"
    assert refusal["members"] >= 1


async def test_without_topology_keys_it_may_go_anywhere(page: Page, client: aiohttp.ClientSession) -> None:
    for number in range(2):
        await member(page, number)
    await in_step(page.parts, page.cluster.store.revision)

    found = await get(client, f"{GANG}/domains")
    [anywhere] = found["domains"]
    assert (anywhere["domain"], anywhere["terms"], anywhere["fits"]) == (None, {}, 2)
    assert (anywhere["missing"], anywhere["message"]) == (1, None), "the third member does not exist"
    assert (await get(client, GANG))["held"] == "PodGroup: 2 of 3 members exist"


async def test_a_gang_that_is_bound_or_absent_has_no_question(page: Page, client: aiohttp.ClientSession) -> None:
    for number in range(3):
        await member(page, number, cpu="100m", nodeName="n1")
    await in_step(page.parts, page.cluster.store.revision)

    found = await get(client, f"{GANG}/domains")
    assert (found["pending"], found["domains"], found["fits"]) == (0, [], None)
    await get(client, "/api/v1/gangs/default/nothing/domains", 404)


async def test_what_takes_too_long_is_told_as_not_tried(gang: Page) -> None:
    cache = gang.parts.following.cache
    asked = GangQuestion(GangKey("default", "mpi"), list(cache.gangs.of(GangKey("default", "mpi"))), None)
    ticks = iter(range(0, 1000, 3))
    deciders = Deciders(gang.parts.following, slots=1)
    found = await deciders.ask(lambda stage: verdicts(stage, asked, lambda: float(next(ticks))))
    deciders.close()

    assert found["notTried"] == 2
    assert found["fits"] is None
    assert [(row["tried"], row["missing"]) for row in found["domains"]] == [(False, None), (False, None)]


async def test_what_would_help_a_pod_of_a_gang_names_its_gang(gang: Page, client: aiohttp.ClientSession) -> None:
    """One member alone fits on n1; that must not be taken for a place of the gang."""
    for number in range(3):
        await gang.cluster.refusal("default", f"mpi-{number}", ("GangScheduling",), "no domain has room")
    await in_step(gang.parts, gang.cluster.store.revision)
    found = await get(client, "/api/v1/pending/Unschedulable~GangScheduling/help")

    assert (found["gang"], found["held"]) == ("mpi", None)
    assert found["fitsNow"] in ("n1", "n3")
    others = await get(client, "/api/v1/pending/Unschedulable~NodeResourcesFit/help")
    assert others["gang"] is None
