"""Actions on staged update runs: which mean something when, what each would do, and what the others answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.page.small_cluster import TOKEN
from tests.placement.page.test_update_runs import Site, hub_page
from tests.placement.run_scene import APPROVAL, RUN, RunScene, run_object, stage
from wharfinger.placement.reading.update_runs import MOST_CHANGES

WAIT = {"type": "TimedWait", "waitTime": "30s"}
ALL = stage("prod", maxConcurrency=2)
OTHERS = {"labelSelector": {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["b"]}]}}
"""Of a stage: all members but b."""


class RunDesk:
    """A page before a run that is as a test wants it."""

    def __init__(self, scene: RunScene, site: Site) -> None:
        self.scene = scene
        self.site = site

    async def act(self, verb: str, reason: str = "because", **more: str) -> tuple[int, Any]:
        form = {"reason": reason, "confirm": RUN, **more}
        return await self.site.post(f"update-runs/{RUN}/{verb}", form)

    async def done(self, verb: str, reason: str = "because", **more: str) -> str:
        """Carry an action out, and let the hub follow; the outcome."""
        code, told = await self.act(verb, reason, **more)
        assert code == 200, told
        await self.scene.settle()
        return str(told["sentence"])

    async def actions(self) -> dict[str, str]:
        """What is offered now: verb, or verb and key, and what it would do."""
        found = (await self.site.run())["actions"]
        return {" ".join(filter(None, (one["verb"], one.get("key")))): one["effect"] for one in found}

    async def happened(self) -> list[tuple[str, str | None, str | None]]:
        return [(one["what"], one["who"], one["why"]) for one in (await self.site.run())["history"]]


@pytest.fixture
async def desk(token_file: Path) -> AsyncIterator[RunDesk]:
    scene = RunScene()
    async with hub_page(scene.store, token_file, actions=True) as site:
        yield RunDesk(scene, site)


async def start(desk: RunDesk, *stages: dict[str, Any], state: str = "Run", **spec: Any) -> None:
    """Start the run, and settle it."""
    await desk.scene.arrange(*stages, **spec)
    await desk.scene.put(run_object(state=state))
    await desk.scene.settle()


async def test_a_run_under_way_is_stopped_and_goes_on(desk: RunDesk) -> None:
    await start(desk, ALL)
    assert await desk.actions() == {
        "stop": "Nothing new is started until the run is resumed. What was started finishes: a, b."
    }

    assert await desk.done("stop", "the disk is full") == f"update run {RUN} is stopped"
    await desk.scene.answer()
    await desk.scene.settle()
    assert (await desk.site.run())["phase"] == "stopped"
    assert await desk.scene.has() == {"a": 1, "b": 1}, "c was not started"
    assert await desk.actions() == {"resume": "The run goes on where it was stopped. Still to come: c."}
    said = "its state to be Run again: it is stopped; last noted is Stop by alice at "
    [(kind, told)] = await desk.site.waits()
    assert (kind, told.startswith(said), told.endswith(": the disk is full")) == ("state", True, True)

    assert await desk.done("resume", "it was mended") == f"update run {RUN} goes on"
    assert await desk.scene.has() == {"a": 1, "b": 1, "c": 1}
    assert (await desk.happened())[:2] == [
        ("it was resumed", "alice", "it was mended"),
        ("it was stopped", "alice", "the disk is full"),
    ]


async def test_an_action_that_changes_nothing_says_so(desk: RunDesk) -> None:
    await start(desk, ALL)
    for verb, said in (("resume", "was under way already"), ("stop", "is stopped"), ("stop", "was stopped already")):
        code, told = await desk.act(verb)
        assert (code, told) == (200, {"written": said == "is stopped", "sentence": f"update run {RUN} {said}"})
    assert [what for what, *_ in await desk.happened()].count("it was stopped") == 1


async def test_a_planned_run_is_resumed_and_neither_stopped_nor_retried(desk: RunDesk) -> None:
    await start(desk, ALL | {"beforeStageTasks": [APPROVAL]}, state="Initialize")
    assert await desk.actions() == {
        "resume": "The run starts by its plan. Stage prod is first, after its approval: a, b, c."
    }
    code, told = await desk.act("stop")
    assert (code, told["error"]) == (409, "Conflict")
    assert "may not change from Initialize to Stop" in told["message"]
    code, told = await desk.act("retry")
    assert (code, told["message"]) == (409, f"run {RUN} is not started: resume it")

    await desk.done("resume")
    assert (await desk.site.run())["waitsFor"] == ["prod.before"]


async def test_a_run_that_has_ended_well_offers_nothing(desk: RunDesk) -> None:
    await start(desk, stage("prod", maxConcurrency=3))
    await desk.scene.answer()
    await desk.scene.settle()
    assert (await desk.site.run())["outcome"] == "succeeded"
    assert await desk.actions() == {}
    for verb in ("stop", "resume"):
        code, told = await desk.act(verb)
        assert (code, told["error"], told["code"]) == (409, "Conflict", 409)
        assert told["message"] == f"run {RUN} has ended (succeeded): start another one"
    code, told = await desk.act("retry")
    assert code == 409
    assert told["message"] == f"run {RUN} has no failed or skipped member: there is nothing to try again"
    assert (await desk.site.run())["retries"] == 0


async def test_a_paused_run_is_retried_with_its_failed_members(desk: RunDesk) -> None:
    await start(desk, ALL)
    code, told = await desk.act("retry")
    assert (code, told["error"]) == (409, "Conflict"), "nothing has failed yet"
    await desk.scene.answer("a", available=False, failed=True, reason="no such kind")
    await desk.scene.answer("b")
    await desk.scene.settle()
    found = await desk.site.run()
    assert found["phase"] == "paused"
    assert (await desk.actions())["retry"] == "By the same plan, these are updated again: a."

    assert await desk.done("retry", "it is fixed") == f"update run {RUN} tries again (retry 1)"
    assert ("retry 1", "alice", "it is fixed") in await desk.happened()
    assert "retry" not in await desk.actions(), "it is tried already"
    await desk.scene.answer()
    await desk.scene.settle()
    assert await desk.scene.has() == {"a": 1, "b": 1, "c": 1}


async def test_an_aborted_run_that_is_stopped_is_retried_then_resumed(desk: RunDesk) -> None:
    await start(desk, stage("prod", maxConcurrency=3, onFailure="Abort"))
    await desk.done("stop")
    await desk.scene.answer(available=False, failed=True)
    await desk.scene.settle()
    assert (await desk.site.run())["outcome"] == "aborted"
    code, told = await desk.act("resume")
    assert code == 409
    assert told["message"].endswith("): retry and resume it, or start another one")
    assert await desk.actions() == {
        "retry": "By the same plan, these are updated again: a, b, c. "
        "The run, which ended as aborted, is opened again. It stays stopped until it is resumed, too."
    }

    await desk.done("retry")
    assert "resume" in await desk.actions()
    assert await desk.done("resume") == f"update run {RUN} goes on"


async def test_a_run_that_rolls_back_is_not_retried_before_it_has_ended(desk: RunDesk) -> None:
    await start(desk, stage("prod", maxConcurrency=3, onFailure="Rollback"))
    await desk.scene.answer("a", available=False, failed=True, reason="no such kind")
    await desk.scene.answer()
    await desk.scene.settle()
    assert (await desk.site.run())["phase"] == "rolling back"
    assert "retry" not in await desk.actions()
    code, told = await desk.act("retry")
    assert code == 409
    assert told["message"].startswith(f"run {RUN} is rolling back: ")

    await desk.scene.answer()
    await desk.scene.settle()
    assert (await desk.site.run())["outcome"] == "failed"
    assert "The run, which ended as failed, is opened again." in (await desk.actions())["retry"]


async def test_approvals_say_which_stage_starts_or_ends(desk: RunDesk) -> None:
    canary = stage("canary", {"name": "b"}, beforeStageTasks=[APPROVAL], afterStageTasks=[APPROVAL, WAIT])
    await start(desk, canary, stage("rest", maxConcurrency=2) | OTHERS)
    assert (await desk.actions())["approve canary.before"] == "Stage canary starts and updates b."
    found = next(one for one in (await desk.site.run())["actions"] if one["verb"] == "approve")
    assert (found["stage"], found["when"], found["key"]) == ("canary", "before", "canary.before")
    code, told = await desk.act("approve", stage="rest", when="before")
    assert code == 409
    assert told["message"] == f"run {RUN} does not wait for approval rest.before: it waits for canary.before"

    said = await desk.done("approve", stage="canary", when="before")
    assert said == f"stage canary of {RUN} is approved (before)"
    await desk.scene.answer()
    await desk.scene.settle()
    assert (await desk.actions())["approve canary.after"] == (
        "Stage canary ends, once its wait is over. After it, stage rest is next."
    )
    assert "The wait after stage canary keeps what is left of it." in (await desk.actions())["stop"]

    await desk.done("stop")
    told = (await desk.actions())["approve canary.after"]
    assert told.endswith("The run is stopped: the approval counts when it is resumed.")


async def test_a_form_without_its_confirmation_changes_nothing(desk: RunDesk) -> None:
    await start(desk, ALL)
    for form in (
        {"confirm": "other"}, {"reason": ""}, {"reason": "r" * 201}, {"state": "Stop"}, {"when": "now"},
    ):  # fmt: skip
        for verb in ("stop", "resume", "retry", "approve"):
            code, told = await desk.site.post(
                f"update-runs/{RUN}/{verb}", {"reason": "because", "confirm": RUN, "stage": "prod"} | form
            )
            assert (code, told["error"]) == (400, "BadRequest"), (verb, form)
    assert (await desk.act("approve"))[0] == 400, "no stage is named"
    assert (await desk.act("delete"))[0] == 404
    assert (await desk.site.run())["state"] == "Run"
    assert (await desk.site.run())["retries"] == 0


async def test_a_run_that_is_not_there_is_not_found(desk: RunDesk) -> None:
    await start(desk, ALL)
    form = {"reason": "because", "confirm": "other"}
    for verb in ("stop", "resume", "retry"):
        code, told = await desk.site.post(f"update-runs/other/{verb}", form)
        assert (code, told["message"]) == (404, "update run other does not exist")
        assert (await desk.site.post(f"update-runs/{RUN}/{verb}?namespace=web", form | {"confirm": RUN}))[0] == 404
    assert (await desk.site.post("update-runs/Not_A_Name/stop", form | {"confirm": "Not_A_Name"}))[0] == 422


async def test_the_log_has_who_did_what_and_why(desk: RunDesk, caplog: pytest.LogCaptureFixture) -> None:
    await start(desk, ALL | {"beforeStageTasks": [APPROVAL]})
    with caplog.at_level(logging.INFO, "wharfinger.page.web.forms"):
        await desk.act("approve", "the metrics are fine", stage="prod", when="before")
        await desk.act("stop", "look\nfirst action=forged")
        await desk.act("stop", "again")
        await desk.act("retry", "in vain")

    lines = [one.getMessage() for one in caplog.records if one.name == "wharfinger.page.web.forms"]
    assert lines == [
        f"action_done action=approve run={RUN} stage=prod.before who='alice' why='the metrics are fine' written=True",
        f"action_done action=stop run={RUN} who='alice' why='look\\nfirst action=forged' written=True",
        f"action_done action=stop run={RUN} who='alice' why='again' written=False",
    ], "what was refused is not done"


async def test_a_page_without_actions_has_no_such_address(token_file: Path) -> None:
    scene = RunScene()
    await scene.arrange(ALL)
    await scene.put(run_object())
    await scene.settle()
    form = {"reason": "because", "confirm": RUN, "stage": "prod"}
    async with hub_page(scene.store, token_file) as site:
        for verb in ("stop", "resume", "retry", "approve"):
            assert (await site.post(f"update-runs/{RUN}/{verb}", form))[0] == 404
        assert (await site.run())["state"] == "Run"
        assert (await site.get("session"))["actions"] is False


async def test_a_session_must_send_its_mark_with_an_action(desk: RunDesk) -> None:
    await start(desk, ALL)
    server = desk.site.page.server
    path, form = f"{server.url}/api/v1/update-runs/{RUN}/stop", {"reason": "because", "confirm": RUN}
    own = {"Origin": server.url}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        async with browser.post(path, json=form, headers=own) as answer:
            assert answer.status == 401, "it was not let in"
        async with browser.post(f"{server.url}/session", data={"token": TOKEN}, headers=own) as answer:
            assert answer.status < 400
        async with browser.get(f"{server.url}/api/v1/session") as answer:
            mark = (await answer.json())["mark"]
        for headers in (
            {},
            own,
            own | {"X-Wharfinger-Mark": "x"},
            {"X-Wharfinger-Mark": mark, "Origin": "http://evil"},
        ):
            async with browser.post(path, json=form, headers=headers) as answer:
                assert answer.status == 403, headers
        assert (await desk.site.run())["state"] == "Run"
        async with browser.post(path, json=form, headers=own | {"X-Wharfinger-Mark": mark}) as answer:
            assert answer.status == 200
    assert (await desk.site.run())["state"] == "Stop"


async def test_only_the_newest_changes_of_the_state_are_kept(desk: RunDesk) -> None:
    await start(desk, ALL)
    for number in range(MOST_CHANGES):
        await desk.act("stop", f"stop {number}")
        await desk.act("resume", f"resume {number}")
    noted = [why for what, _, why in await desk.happened() if what.startswith("it was ")]
    assert len(noted) == MOST_CHANGES
    assert {f"stop {MOST_CHANGES - 1}", f"resume {MOST_CHANGES - 1}"} <= set(noted)
    assert "stop 0" not in noted


async def test_a_run_of_a_namespace_is_named_with_it(desk: RunDesk, caplog: pytest.LogCaptureFixture) -> None:
    """A run of the cluster has the same name, and stays as it is."""
    await start(desk, ALL)
    own = run_object(namespace="web") | {"kind": "StagedUpdateRun"}
    await desk.scene.put(own)
    form = {"reason": "because", "confirm": RUN}
    with caplog.at_level(logging.INFO, "wharfinger.page.web.forms"):
        code, told = await desk.site.post(f"update-runs/{RUN}/stop?namespace=web", form)

    assert (code, told["written"]) == (200, True)
    assert f"action_done action=stop run=web/{RUN} who='alice'" in caplog.text
    found = await desk.site.get(f"update-runs/{RUN}?namespace=web")
    assert (found["state"], found["namespace"]) == ("Stop", "web")
    assert [one["verb"] for one in found["actions"]] == ["resume"]
    assert (await desk.site.run())["state"] == "Run"
