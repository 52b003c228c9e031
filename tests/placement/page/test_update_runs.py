"""Staged update runs over HTTP: what each waits for now, its stages with their clusters, and what happened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.page.cluster import MemoryCluster, Page, served
from tests.page.small_cluster import TOKEN
from tests.placement.delivered import GOOD, DeliveredScene
from tests.placement.run_scene import APPROVAL, RUN, RunScene, run_object, stage
from tests.placement.scene import TIME, P
from wharfinger.page.options import PageOptions
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.page.view import PlacementView
from wharfinger.testing.memory_store import MemoryStore

WAIT = {"type": "TimedWait", "waitTime": "30s"}
ALL = stage("prod", maxConcurrency=2)


class Site:
    """A page before a hub's etcd, and who asks it."""

    def __init__(self, page: Page, session: aiohttp.ClientSession) -> None:
        self.page = page
        self._session = session

    async def get(self, path: str, status: int = 200) -> Any:
        """The answer; nothing is kept from before."""
        self.page.parts.view(PlacementView).hub_reading.last = None
        async with self._session.get(f"/api/v1/{path}") as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()

    async def run(self, name: str = RUN) -> dict[str, Any]:
        found: dict[str, Any] = await self.get(f"update-runs/{name}")
        return found

    async def waits(self, name: str = RUN) -> list[tuple[str, str]]:
        return [(one["kind"], one["sentence"]) for one in (await self.run(name))["waits"]]

    async def post(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        async with self._session.post(f"/api/v1/{path}", json=form) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def hub_page(store: MemoryStore, tokens: Path, *, actions: bool = False) -> AsyncIterator[Site]:
    options = PageOptions(0, static_token_file=tokens, allow_actions=actions, temporal_ui="http://temporal")
    async with served(MemoryCluster(store=store), options) as page:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(page.server.url, headers=headers) as session:
            yield Site(page, session)


@pytest.fixture
def scene() -> RunScene:
    return RunScene()


async def test_a_run_tells_its_approvals_since_when_and_its_stages(scene: RunScene, token_file: Path) -> None:
    canary = stage("canary", {"name": "b"}, beforeStageTasks=[APPROVAL])
    await scene.arrange(canary, stage("rest", {"name": "a"}), unmatched="Last")
    await scene.put(run_object())
    await scene.settle()
    async with hub_page(scene.store, token_file) as site:
        found = await site.run()
        assert found["waits"] == [
            {
                "kind": "approval",
                "stage": "canary",
                "when": "before",
                "key": "canary.before",
                "since": TIME,
                "sentence": "an approval before stage canary starts",
            }
        ]
        assert [(one["stage"], one["state"], one["before"]) for one in found["stages"]][:2] == [
            ("canary", "not started", ["Approval"]),
            ("rest", "not started", []),
        ]
        [member] = found["stages"][0]["members"]
        assert (member["cluster"], member["state"], member["had"], member["online"]) == ("b", "waiting", None, True)
        assert (found["state"], found["phase"], found["frozen"], found["delivers"]) == ("Run", "waiting", True, True)
        assert [one["what"] for one in found["history"]] == ["the plan was frozen", "its progress was recorded last"]
        assert found["link"].startswith("http://temporal/namespaces/default/workflows/wharfinger%2Fupdate-run%2F")
        [row] = (await site.get("placements"))["runs"]
        assert (row["run"], row["phase"], row["waitsFor"]) == (RUN, "waiting", ["canary.before"])
        assert (row["stages"], row["stagesEnded"], row["members"], row["membersDone"]) == (3, 0, 3, 0)


async def test_a_run_tells_clusters_that_are_not_available_and_the_budget(scene: RunScene, token_file: Path) -> None:
    await scene.arrange(ALL | {"deadlineSeconds": 60})
    await scene.put(run_object())
    await scene.settle()
    await scene.answer("a", available=False, reason="Deployment web/api: 1 of 3 are ready")
    await scene.settle()
    await scene.store.delete(placement_keys.member("b"))
    async with hub_page(scene.store, token_file) as site:
        found = await site.run()
        first, second, budget = found["waits"]
        assert (first["kind"], first["cluster"], first["why"]) == (
            "cluster",
            "a",
            "Deployment web/api: 1 of 3 are ready",
        )
        assert first["deadlineSeconds"] == 60
        assert (second["cluster"], second["why"]) == ("b", "it is unreachable: its agent is away")
        assert (budget["kind"], budget["maxConcurrency"], budget["clusters"]) == ("budget", 2, ["c"])
        states = {row["cluster"]: (row["state"], row["online"]) for row in found["stages"][0]["members"]}
        assert states == {"a": ("updating", True), "b": ("updating", False), "c": ("waiting", True)}


async def test_a_timed_wait_tells_how_much_is_left(scene: RunScene, token_file: Path) -> None:
    await scene.arrange(ALL | {"afterStageTasks": [WAIT]}, members="ab")
    await scene.put(run_object())
    await scene.settle()
    await scene.answer()
    await scene.settle()
    async with hub_page(scene.store, token_file) as site:
        [wait] = (await site.run())["waits"]
        assert (wait["kind"], wait["stage"], wait["remainingSeconds"]) == ("time", "prod", 30.0)
        assert wait["leftSeconds"] == 0.0, "the record is of long ago, and the run goes on"

        await scene.state("Stop")
        state, wait = (await site.run())["waits"]
        assert state["kind"] == "state"
        assert state["sentence"].startswith("its state to be Run again: it is stopped")
        assert wait["leftSeconds"] == 30.0, "a stopped run keeps what is left"


async def test_runs_that_are_planned_queued_or_paused_say_so(scene: RunScene, token_file: Path) -> None:
    await scene.arrange(ALL, members="ab")
    await scene.put(run_object(state="Initialize"))
    async with hub_page(scene.store, token_file) as site:
        planning = await site.run()
        assert (planning["frozen"], planning["waits"][0]["kind"]) == (False, "state")
        assert [row["cluster"] for row in planning["stages"][0]["members"]] == ["a", "b"], "what the plan would be"

        await scene.settle()
        await scene.state("Run")
        await scene.settle()
        await scene.put(run_object("second"))
        assert await site.waits("second") == [("turn", f"waits for run {RUN} to end")]
        assert not (await site.run("second"))["delivers"]

        await scene.answer(failed=True, available=False, reason="no such kind")
        await scene.settle()
        [(kind, said)] = await site.waits()
        assert kind == "pause"
        assert said.startswith("a retry: ")


async def test_the_history_has_who_approved_retried_and_how_it_ended(scene: RunScene, token_file: Path) -> None:
    await scene.arrange(ALL | {"beforeStageTasks": [APPROVAL]}, members="ab")
    await scene.put(run_object())
    await scene.settle()
    await scene.approve("prod", "before", "ann")
    await scene.settle()
    await scene.answer()
    await scene.settle()
    async with hub_page(scene.store, token_file) as site:
        found = await site.run()
        assert (found["outcome"], found["waits"]) == ("succeeded", [])
        happened = {one["what"]: one["who"] for one in found["history"]}
        assert happened == {
            "the plan was frozen": None,
            "prod.before was approved": "ann",
            "it ended: succeeded": None,
        }
        await scene.retry()
        assert "retry 1" in [one["what"] for one in (await site.run())["history"]]


async def test_a_run_that_is_not_there_is_not_found(scene: RunScene, token_file: Path) -> None:
    async with hub_page(scene.store, token_file) as site:
        assert (await site.get("update-runs/nothing", 404))["message"] == "update run nothing does not exist"
        assert (await site.get("update-runs/Not_A_Name", 422))["error"] == "Unprocessable"
        assert (await site.get("update-runs/x?namespace=a/b", 400))["error"] == "BadRequest"


async def test_the_approval_that_a_run_waits_for_is_given_from_the_page(scene: RunScene, token_file: Path) -> None:
    await scene.arrange(ALL | {"beforeStageTasks": [APPROVAL]}, members="ab")
    await scene.put(run_object())
    await scene.settle()
    form = {"reason": "the metrics are fine", "confirm": RUN, "stage": "prod", "when": "before"}
    async with hub_page(scene.store, token_file) as site:
        assert (await site.post(f"update-runs/{RUN}/approve", form))[0] == 404, "actions are not allowed"
    async with hub_page(scene.store, token_file, actions=True) as site:
        status, answer = await site.post(f"update-runs/{RUN}/approve", form)
        assert (status, answer["written"]) == (200, True)
        await scene.settle()
        found = await site.run()
        assert found["stages"][0]["approvals"][0]["who"] == "alice"
        assert found["stages"][0]["approvals"][0]["why"] == "the metrics are fine"
        assert [one["kind"] for one in found["waits"]] == ["cluster", "cluster"]
        status, answer = await site.post(f"update-runs/{RUN}/approve", form)
        assert (status, answer["error"]) == (409, "Conflict")
        assert "approved already, by alice" in answer["message"]


async def test_a_placement_has_its_plan_and_its_history(token_file: Path) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    scene = await (await DeliveredScene.begin(strategy=strategy)).ready()
    await scene.namespace(version="2")
    await scene.snapshot(2)
    await scene.deliver("a", snapshot=2, result=GOOD | {"available": False, "reason": "1 of 3 are ready"})
    async with hub_page(scene.store, token_file) as site:
        plan = (await site.get("placements/cluster%2Fweb"))["plan"]
        assert (plan["target"], plan["ready"], plan["floor"], plan["external"]) == (3, 2, 2, False)
        assert (plan["heldByBudget"], plan["waiting"]) == (["b", "c"], ["a"])
        assert plan["waves"] == [], "as long as a is not available, nothing may follow"
        assert plan["waitsThen"] == ["b", "c"]
        assert plan["decidedAnew"] is None

        await scene.deliver("a", snapshot=2)
        plan = (await site.get("placements/cluster%2Fweb"))["plan"]
        assert plan["waves"] == [{"update": ["b"]}, {"update": ["c"]}]
        history = await site.get("placements/cluster%2Fweb/history")
        assert [(one["number"], one["members"], one["wanted"]) for one in history["snapshots"]] == [
            (2, ["a"], True),
            (1, ["b", "c"], False),
        ]
        assert history["note"] == "cannot reach Temporal"
        assert history["attempts"] == history["rollouts"] == []
        await site.get("placements/cluster%2Fnothing/history", 404)


async def test_a_placement_that_runs_deliver_has_no_waves(scene: RunScene, token_file: Path) -> None:
    await scene.arrange(ALL)
    await scene.put(run_object())
    await scene.settle()
    async with hub_page(scene.store, token_file) as site:
        found = await site.get(f"placements/{P.replace('/', '%2F')}")
        assert (found["plan"]["external"], found["plan"]["waves"], found["run"]) == (True, None, RUN)
