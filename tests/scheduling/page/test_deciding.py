"""What-if decides by the profile that a live worker of the pod's pool serves now, and says which."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from tests.page.cluster import Page, in_step
from wharfinger.errors import StoreError
from wharfinger.etcd import keys
from wharfinger.framework.profiles import load_configuration
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import TENANT_LABEL
from wharfinger.process.records import ConfigStatusRecord, InstanceRecord
from wharfinger.scheduling.page.deciding import Deciders
from wharfinger.scheduling.page.view import SchedulingView

BIG = "/api/v1/pods/default/big"
NAME = "default-scheduler"


def weighed(weight: int) -> Any:
    """A configuration in which NodeResourcesFit has this weight."""
    plugins = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": weight}]}}
    return load_configuration({"profiles": [{"schedulerName": NAME, "plugins": plugins}]}).profiles[NAME]


async def serving(page: Page, slot: int, digest: str, state: Any = "ready", tenant: str = "common") -> None:
    """Register a worker that decides by that profile; empty: it does not say by which."""
    record = InstanceRecord(state=state, host="h", pid=slot, scheduler_names=(NAME,))
    lease = await page.cluster.store.grant_lease(60)
    await page.cluster.store.put(keys.instance(tenant, str(slot), 1), record.to_bytes(), lease=lease.id)
    said = ConfigStatusRecord(profiles={NAME: digest} if digest else {})
    await page.cluster.put(keys.config_status(tenant, str(slot), 1), said.to_bytes())


async def told(page: Page, client: aiohttp.ClientSession, pod: str = BIG) -> dict[str, Any]:
    """What the form is told; nothing is kept from before."""
    await in_step(page.parts, page.cluster.store.revision)
    page.parts.view(SchedulingView).questions._stored = page.parts.view(SchedulingView).what_if._stored = None
    async with client.get(f"{pod}/weights") as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


@pytest.fixture
async def digests(page: Page) -> tuple[str, str]:
    """Of two stored profiles, with the weights 7 and 9; the second is newer."""
    found = []
    for weight in (7, 9):
        profile = weighed(weight)
        await page.cluster.put(keys.profile(profile.digest), profile.configuration)
        found.append(profile.digest)
    return found[0], found[1]


async def test_the_served_profile_counts_before_a_newer_one(
    page: Page, client: aiohttp.ClientSession, digests: tuple[str, str]
) -> None:
    older, newer = digests
    await serving(page, 0, older)

    found = await told(page, client)
    assert (found["digest"], found["weights"]["NodeResourcesFit"]) == (older, 7)
    assert found["profileServed"] == {
        "digest": older,
        "basis": "served",
        "pool": "common",
        "workers": ["common/0"],
        "others": {},
        "sentence": f"decided by profile {older[:12]}, as worker common/0 decides now",
    }
    async with client.post(f"{BIG}/what-if", data=json.dumps({"requests": {"cpu": "3"}})) as answer:
        decided = await answer.json()
    assert decided["profileServed"]["digest"] == older
    assert decided["after"]["ranking"][0]["plugins"]["NodeResourcesFit"] % 7 == 0

    await serving(page, 0, newer)
    assert (await told(page, client))["weights"]["NodeResourcesFit"] == 9


async def test_of_two_served_profiles_that_of_ready_workers_counts(
    page: Page, client: aiohttp.ClientSession, digests: tuple[str, str]
) -> None:
    older, newer = digests
    await serving(page, 0, newer, state="starting")
    await serving(page, 1, newer, state="starting")
    await serving(page, 2, older)

    found = (await told(page, client))["profileServed"]
    assert (found["digest"], found["workers"]) == (older, ["common/2"])
    assert found["others"] == {newer: ["common/0", "common/1"]}
    assert found["sentence"].endswith("; 2 more, by another profile")


async def test_workers_that_do_not_name_their_profile_are_said(
    page: Page, client: aiohttp.ClientSession, digests: tuple[str, str]
) -> None:
    await serving(page, 0, "")

    found = (await told(page, client))["profileServed"]
    assert (found["basis"], found["digest"], found["workers"]) == ("unknown", digests[1], ["common/0"])
    assert "do not name their profile" in found["sentence"]


async def test_a_name_that_no_worker_serves_is_said(
    page: Page, client: aiohttp.ClientSession, digests: tuple[str, str]
) -> None:
    await serving(page, 0, digests[0], tenant="gold")
    await page.cluster.put(keys.TENANTS + "gold", b"{}")
    await page.cluster.store.delete(keys.instance("common", "0", 1))
    await page.cluster.pod("ours", "1", labels={TENANT_LABEL: "gold"})

    found = (await told(page, client))["profileServed"]
    assert (found["basis"], found["digest"], found["workers"]) == ("unserved", digests[1], [])
    assert found["sentence"].startswith("no live worker serves scheduler name default-scheduler in pool common")
    ours = (await told(page, client, "/api/v1/pods/default/ours"))["profileServed"]
    assert (ours["basis"], ours["digest"], ours["pool"]) == ("served", digests[0], "gold")


async def test_without_etcd_the_profiles_that_were_read_last_count(page: Page) -> None:
    store = page.store
    pod = page.parts.following.cache.pods[PodKey("default", "big")]
    deciders, fresh = (Deciders(page.parts.following, slots=1) for _ in range(2))
    digest = await deciders.ask(lambda stage: stage.served(pod).digest)
    assert digest
    assert deciders._stored is not None
    deciders._stored = (-1e9, deciders._stored[1])
    store.fail_reads(100)

    assert await deciders.ask(lambda stage: stage.served(pod).digest) == digest
    with pytest.raises(StoreError):
        await fresh.ask(lambda stage: stage.served(pod).digest)
    deciders.close()
    fresh.close()
