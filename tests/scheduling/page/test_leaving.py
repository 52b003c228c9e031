"""For whom a pod left, also when it is gone: by records, by its last state in etcd's history, and by Temporal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.page.cluster import BEGAN, MemoryCluster, Page, RecordedAttempts, in_step, served
from tests.page.small_cluster import TOKEN
from tests.page.test_json import get
from tests.patience import patient
from tests.programs.conftest import Site, site
from wharfinger.errors import ServerError
from wharfinger.etcd import keys
from wharfinger.objects.documents.edit import evict_pod
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.options import PageOptions
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.effects.refusing.eviction import PREEMPTED
from wharfinger.scheduling.page.attempts import LAST, PodAttempts
from wharfinger.scheduling.page.leaving import PodDepartures
from wharfinger.scheduling.page.view import SchedulingView
from wharfinger.scheduling.reading.history import Attempt, Step

__all__ = ["site"]

WHEN = "2026-03-02T09:00:00Z"
LOW, HIGH = PodKey("default", "low"), PodKey("default", "high")


def attempt(pod: PodKey, number: int, **more: Any) -> Attempt:
    """A recorded attempt."""
    return Attempt(number, f"wharfinger/pod/{pod}/u", f"run-{pod.name}-{number}", BEGAN, "seen", **more)


class Scene:
    """`low` on node n1, and `high`, for which it has to leave."""

    def __init__(self, page: Page, client: aiohttp.ClientSession) -> None:
        self.page = page
        self.client = client
        self.store = page.cluster.store

    async def begin(self) -> None:
        await self.page.cluster.pod("low", "4", nodeName="n1")
        await self.page.cluster.pod("high", "4", priority=1000)
        kv = (await self.store.get(keys.pod(*LOW))).kv
        assert kv is not None
        self.low = kv
        bound = attempt(LOW, 1, outcome="bound", node="n1", placement={"pod_revision": kv.mod_revision})
        self.record(LOW, [bound])
        self.record(HIGH, [])
        await self.seen()

    def record(self, key: PodKey, found: list[Attempt]) -> None:
        attempts = self.page.parts.view(SchedulingView).attempts
        assert isinstance(attempts, RecordedAttempts)
        attempts.record(key, None, found)  # type: ignore[arg-type]

    def chose(self, *victims: PodKey) -> None:
        """The preemptor's second attempt chose these; the third bound it."""
        told = [Victim(pod=str(one), create_revision=1, uid="").model_dump() for one in victims]
        placement = {"nominated_node": "n1", "victims": told}
        evicted = attempt(HIGH, 2, outcome="refused", placement=placement, steps=[Step("evict", BEGAN, 0.1)])
        self.record(HIGH, [attempt(HIGH, 1), evicted, attempt(HIGH, 3, outcome="bound", node="n1")])

    async def nominate(self, create_revision: int | None = None) -> None:
        record = AttemptRecord(
            attempt=2, nominated_node="n1", victims=(str(LOW),), workflow_id="w", run_id="r", time=WHEN,
            victim_revisions=(create_revision or self.low.create_revision,),
        )  # fmt: skip
        await self.store.put(keys.attempt(*HIGH), record.to_bytes())
        await self.seen()

    async def mark(self) -> None:
        message = PREEMPTED.format(scheduler="default-scheduler", pod=HIGH)
        await self.store.put(keys.pod(*LOW), evict_pod(self.low.value, message=message, now=WHEN))

    async def go(self) -> None:
        await self.store.delete(keys.pod(*LOW))
        for number in range(40):
            await self.page.cluster.pod(f"other-{number}", "1m", nodeName="n2")
        await self.seen()

    async def seen(self) -> None:
        await in_step(self.page.parts, self.store.revision)

    async def told(self, key: PodKey = LOW) -> dict[str, Any]:
        found: dict[str, Any] = await get(self.client, f"/api/v1/pods/{key}/preemption")
        return found


@pytest.fixture
async def scene(page: Page, client: aiohttp.ClientSession) -> Scene:
    scene = Scene(page, client)
    await scene.begin()
    return scene


async def test_a_pod_that_nobody_evicts_says_nothing(scene: Scene) -> None:
    assert await scene.told() == {"pod": "default/low", "there": True, "left": None, "victims": [], "note": None}


async def test_the_record_of_a_waiting_preemptor_names_its_victims(scene: Scene) -> None:
    await scene.nominate()

    left = (await scene.told())["left"]
    assert left == {
        "preemptor": "default/high",
        "preemptorThere": True,
        "node": "n1",
        "time": WHEN,
        "message": None,
        "attempt": 2,
        "workflowId": "w",
        "runId": "r",
        "link": "http://127.0.0.1:8233/namespaces/default/workflows/w/r/history" if left["link"] else None,
        "knownFrom": "record",
    }
    [chosen] = (await scene.told(HIGH))["victims"]
    assert (chosen["attempt"], chosen["node"], chosen["count"]) == (2, "n1", 1)
    assert chosen["pods"] == [{"pod": "default/low", "there": True}]
    await scene.nominate(create_revision=7)
    assert (await scene.told())["left"] is None, "another pod of that name was chosen"


async def test_a_pod_that_is_gone_is_read_from_the_history_of_etcd(scene: Scene) -> None:
    await scene.nominate()
    await scene.mark()
    await scene.store.delete(keys.attempt(*HIGH))
    await scene.go()

    await get(scene.client, f"/api/v1/pods/{LOW}", 404)
    left = (await scene.told())["left"]
    assert (left["preemptor"], left["node"], left["time"], left["knownFrom"]) == ("default/high", "n1", WHEN, "history")
    assert left["attempt"] is None, "its record was gone before, and Temporal has no attempt"
    scene.chose(LOW)
    left = (await scene.told())["left"]
    assert (left["attempt"], left["runId"], left["preemptorThere"]) == (2, "run-high-2", True)
    assert left["message"] == "default-scheduler: preempting to accommodate a higher priority pod default/high"


async def test_the_record_of_then_is_read_with_the_last_state(scene: Scene) -> None:
    await scene.nominate()
    await scene.mark()
    await scene.store.delete(keys.pod(*LOW))
    await scene.store.delete(keys.attempt(*HIGH))
    await scene.store.delete(keys.pod(*HIGH))
    await scene.go()

    left = (await scene.told())["left"]
    assert (left["preemptor"], left["attempt"], left["workflowId"], left["runId"]) == ("default/high", 2, "w", "r")
    assert not left["preemptorThere"]


async def test_a_pod_that_was_deleted_otherwise_says_so(scene: Scene) -> None:
    await scene.go()

    found = await scene.told()
    assert (found["there"], found["left"]) == (False, None)
    assert found["note"] == "its last state in etcd does not say that it was preempted"


async def test_what_etcd_and_temporal_have_forgotten_is_said(scene: Scene) -> None:
    await scene.mark()
    await scene.go()
    scene.store.compact(scene.store.revision)

    found = await scene.told()
    assert found["left"] is None
    assert found["note"].startswith("etcd has forgotten it, and Temporal does not answer")
    scene.record(LOW, [])
    assert (await scene.told())["note"] == "etcd has no state of it any more, and Temporal no attempt that bound it"


async def test_victims_have_the_attempts_that_chose_them(scene: Scene) -> None:
    scene.chose(LOW, PodKey("default", "long-gone"))

    [chosen] = (await scene.told(HIGH))["victims"]
    assert chosen["pods"] == [{"pod": "default/low", "there": True}, {"pod": "default/long-gone", "there": False}]


class SilentAttempts(PodAttempts):
    """Temporal is away."""

    async def recorded(self, key: PodKey, limit: int = LAST) -> Any:
        raise ServerError("cannot reach Temporal")


async def test_without_temporal_etcd_still_says_who_leaves(scene: Scene) -> None:
    await scene.nominate()
    scene.page.parts.view(SchedulingView).attempts = SilentAttempts(
        scene.store, scene.page.parts.temporal.client, cluster="c", ui="", namespace="default"
    )

    found = await scene.told()
    assert found["left"]["preemptor"] == "default/high"
    assert found["note"] == "what Temporal has is not included: cannot reach Temporal"
    await scene.go()
    assert (await scene.told())["left"]["knownFrom"] == "record"


# --- on real servers ------------------------------------------------------------------------------


@pytest.fixture
async def real(site: Site, token_file: Path) -> AsyncIterator[tuple[Site, Page, aiohttp.ClientSession]]:
    """A worker on etcd and Temporal, and a page before both."""
    await site.node("n1", cpu="4")
    await site.worker(eviction="immediate")
    cluster = MemoryCluster(store=_Client(site.store))  # type: ignore[arg-type]
    async with served(cluster, PageOptions(0, static_token_file=token_file)) as page:
        parts = page.parts

        async def connected() -> Any:
            return site.client

        view = parts.view(SchedulingView)
        view.attempts = PodAttempts(site.store, connected, cluster="wharfinger", ui="http://t", namespace="default")
        view.departures = PodDepartures(view.following, lambda: view.attempts, connected, cluster="wharfinger")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(page.server.url, headers=headers) as client:
            yield site, page, client


class _Client:
    """A store that `served` asks for its client and its revision."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.revision = 0

    def client(self) -> Any:
        return self._store


@pytest.mark.servers
async def test_a_victim_is_explained_by_etcd_and_later_by_temporal(
    real: tuple[Site, Page, aiohttp.ClientSession],
) -> None:
    site, _, client = real
    await site.pod("low", cpu="4")
    await site.all_bound(["low"])
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "high", "namespace": site.namespace}}
    requests = {"resources": {"requests": {"cpu": "4"}}}
    spec = {"priority": 1000, "containers": [{"name": "c", **requests}]}
    await site.store.put(keys.pod(site.namespace, "high"), json.dumps({**obj, "spec": spec}).encode())
    await site.all_bound(["high"])
    low, high = f"{site.namespace}/low", f"{site.namespace}/high"

    async def left() -> dict[str, Any] | None:
        found: dict[str, Any] = await get(client, f"/api/v1/pods/{low}/preemption")
        told: dict[str, Any] | None = found["left"]
        return told

    async with asyncio.timeout(patient(30)):  # visibility is a little late
        while (told := await left()) is None or told["attempt"] is None:
            await asyncio.sleep(0.1)
    assert (told["preemptor"], told["node"], told["attempt"], told["knownFrom"]) == (high, "n1", 1, "history")
    assert told["link"].startswith("http://t/namespaces/default/workflows/")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(told["time"])).total_seconds()) < 3600

    revision = (await site.store.get("x")).revision
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{site.etcd}/v3/kv/compaction", json={"revision": str(revision)}) as answer,
    ):
        assert answer.status == 200
    async with asyncio.timeout(patient(30)):
        while (told := await left()) is None:
            await asyncio.sleep(0.1)
    assert (told["preemptor"], told["node"], told["attempt"], told["knownFrom"]) == (high, "n1", 1, "temporal")
    preemptor = await get(client, f"/api/v1/pods/{high}/preemption")
    assert preemptor["victims"] == [{"attempt": 1, "node": "n1", "count": 1, "pods": [{"pod": low, "there": False}]}]
    attempts = await get(client, f"/api/v1/pods/{low}/attempts")
    assert (attempts["state"], attempts["attempts"][-1]["node"]) == ("deleted", "n1")
