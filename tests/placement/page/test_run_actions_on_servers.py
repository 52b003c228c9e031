"""A run is approved, stopped, resumed and retried from the page, before a whole hub on real etcd and Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from temporalio.client import Client

from tests.page.cluster import MemoryCluster, served
from tests.page.small_cluster import TOKEN
from tests.placement.hub.test_hub import WEB, World, client, store, until_seen
from tests.placement.run_scene import APPROVAL, external, stage, strategy_object
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.page.options import PageOptions
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.reading.update_runs import UpdateRuns
from wharfinger.process.names import update_run_id

__all__ = ["client", "store"]

pytestmark = pytest.mark.servers
RUN = "release"
CANARY = stage("canary", {"region": "east"}, beforeStageTasks=[APPROVAL])
REST = stage("rest", {"region": "west"})


class EtcdCluster:
    """etcd, as `served` asks for a cluster's store: its client, and no revision to wait for."""

    revision = 0

    def __init__(self, store: EtcdStore) -> None:
        self._store = store

    def client(self) -> EtcdStore:
        return self._store


class RunOnServers:
    """A page, the hub behind it, and agents that obey."""

    def __init__(self, world: World, session: aiohttp.ClientSession) -> None:
        self.world = world
        self._session = session
        self.broken: set[str] = set()
        """Members that fail to apply what they get."""

    async def run(self) -> dict[str, Any]:
        async with self._session.get(f"/api/v1/update-runs/{RUN}") as answer:
            found: dict[str, Any] = await answer.json()
            assert answer.status == 200, found
            return found

    async def act(self, verb: str, reason: str, **more: str) -> tuple[int, str]:
        """Status and sentence, or message, of an action."""
        form = {"reason": reason, "confirm": RUN, **more}
        async with self._session.post(f"/api/v1/update-runs/{RUN}/{verb}", json=form) as answer:
            told = await answer.json()
            return answer.status, told.get("sentence") or told["message"]

    async def until(self, phase: str) -> dict[str, Any]:
        """Wait until the page shows the run in this phase; what it shows then."""
        found: dict[str, Any] = {}

        async def holds() -> bool:
            found.update(await self.run())
            return bool(found["phase"] == phase)

        await until_seen(holds)
        return found

    async def until_offered(self, *verbs: str) -> None:
        async def holds() -> bool:
            return [one["verb"] for one in (await self.run())["actions"]] == list(verbs)

        await until_seen(holds)

    async def delivered(self) -> list[str]:
        return [kv.key[-1] async for page in self.world.store.list(placement_keys.work.below(WEB)) for kv in page.items]

    @asynccontextmanager
    async def agents(self) -> AsyncIterator[None]:
        """Agents that answer for every work: it is available, or it failed on a broken member."""

        async def report() -> None:
            while True:
                async for page in self.world.store.list(placement_keys.work.below(WEB)):
                    for kv in page.items:
                        work, member = WorkRecord.model_validate_json(kv.value), kv.key.rpartition("/")[2]
                        bad = member in self.broken
                        said = {"failed": True, "reason": "no such kind"} if bad else {"available": True}
                        result = ResultRecord(counter=work.counter, identity=work.identity, applied=not bad, **said)
                        await self.world.store.put(placement_keys.result(WEB, member), result.to_bytes())
                await asyncio.sleep(0.2)

        reporting = asyncio.create_task(report())
        try:
            yield
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)


@pytest.fixture
async def real(store: EtcdStore, client: Client, token_file: Path) -> AsyncIterator[RunOnServers]:
    world = World(store, client)
    for name, region in (("a", "east"), ("b", "east"), ("c", "west")):
        await world.member(name, labels={"region": region})
    await world.put(strategy_object(CANARY, REST))
    await world.put(external())
    cluster = MemoryCluster(store=EtcdCluster(store))  # type: ignore[arg-type]
    options = PageOptions(0, static_token_file=token_file, allow_actions=True)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(cluster, options) as page,
        aiohttp.ClientSession(page.server.url, headers=headers) as session,
        world.hub("h1"),
    ):
        await UpdateRuns(store).start(RUN, placement="web", strategy="slowly")
        yield RunOnServers(world, session)


async def test_a_run_is_steered_to_its_end_from_the_page(real: RunOnServers) -> None:
    await real.until("waiting")
    await real.until_offered("approve", "stop")
    assert await real.act("retry", "in vain") == (
        409,
        f"run {RUN} has no failed or skipped member: there is nothing to try again",
    )

    assert await real.act("stop", "the disk is full") == (200, f"update run {RUN} is stopped")
    await real.until("stopped")
    await real.until_offered("approve", "resume")
    assert await real.act("resume", "it was mended") == (200, f"update run {RUN} goes on")
    await real.until("waiting")
    await real.until_offered("approve", "stop")
    assert await real.delivered() == []

    real.broken = {"a"}
    async with real.agents():
        said = f"stage canary of {RUN} is approved (before)"
        assert await real.act("approve", "the metrics are fine", stage="canary", when="before") == (200, said)
        paused = await real.until("paused")
        assert "a" in [row["cluster"] for row in paused["stages"][0]["members"] if row["state"] == "failed"]
        real.broken = set()
        assert await real.act("retry", "the kind is there now") == (200, f"update run {RUN} tries again (retry 1)")
        ended = await real.until("succeeded")

    assert await real.delivered() == ["a", "b", "c"]
    assert ended["actions"] == []
    assert await real.act("stop", "too late") == (409, f"run {RUN} has ended (succeeded): start another one")
    done = {one["what"]: (one["who"], one["why"]) for one in ended["history"]}
    assert done["it was stopped"] == ("alice", "the disk is full")
    assert done["it was resumed"] == ("alice", "it was mended")
    assert done["canary.before was approved"] == ("alice", "the metrics are fine")
    assert done["retry 1"] == ("alice", "the kind is there now")
    kv = (await real.world.store.get(placement_keys.update_run("", RUN))).kv
    assert kv is not None
    handle = real.world.client.get_workflow_handle(update_run_id(real.world.cluster, WEB, RUN, kv.create_revision))
    assert (await handle.result())["outcome"] == "succeeded"


async def test_an_approval_of_a_stopped_run_counts_when_it_is_resumed(real: RunOnServers) -> None:
    await real.until("waiting")
    await real.act("stop", "look first")
    await real.until("stopped")
    await real.until_offered("approve", "resume")
    said = f"stage canary of {RUN} is approved (before)"
    assert await real.act("approve", "the metrics are fine", stage="canary", when="before") == (200, said)
    await real.until_offered("resume")
    async with real.agents():
        assert await real.act("resume", "it is well") == (200, f"update run {RUN} goes on")
        await real.until("succeeded")
    assert await real.delivered() == ["a", "b", "c"]
