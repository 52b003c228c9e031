"""What a hub sees of update runs: objects and records, also those that cannot be read."""

from __future__ import annotations

import pytest

from tests.placement.run_scene import RUN, RunScene, run_object, stage, strategy_object
from tests.placement.scene import P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import END, PLAN, RETRIES, RunEndRecord, RunRetryRecord
from wharfinger.placement.model.update_runs import RunState
from wharfinger.placement.state.update_runs_view import UpdateRunsView, runs_to

KEY = placement_keys.update_run("", RUN)


@pytest.fixture
async def scene() -> RunScene:
    scene = RunScene()
    await scene.arrange(stage("all"))
    await scene.put(run_object())
    await scene.settle()
    return scene


async def test_a_change_of_runs_is_a_change_of_their_placement(scene: RunScene) -> None:
    await scene.put(run_object(state="Stop"))
    assert [(one.placement, one.delivered, one.own) for one in await scene.see()] == [(P, True, False)]
    await scene.put(strategy_object(stage("all"), stage("more")))
    assert [one.placement for one in await scene.see()] == [P]
    await scene.store.put(await scene.key(RETRIES), RunRetryRecord(count=1).to_bytes())
    assert [one.placement for one in await scene.see()] == [P]


async def test_a_waiter_for_the_placement_hears_of_approvals(scene: RunScene) -> None:
    waiter = scene.view.delivery.waiter(P)
    await scene.approve("all", "before")
    await scene.see()
    assert waiter.is_set()


async def test_a_run_that_becomes_unreadable_is_as_it_was(scene: RunScene) -> None:
    await scene.store.put(KEY, b"{}")
    await scene.see()
    assert scene.view.update_runs.runs[KEY].run.state is RunState.RUN
    assert KEY in scene.view.unreadable


async def test_an_unreadable_run_of_another_identity_is_not_there(scene: RunScene) -> None:
    await scene.store.delete(KEY)
    await scene.store.put(KEY, b"{}")
    await scene.see()
    assert KEY not in scene.view.update_runs.runs


async def test_records_go_from_the_view_with_their_keys(scene: RunScene) -> None:
    prefix = placement_keys.run_record.below(P, RUN, await scene.identity())
    for kv in [kv async for page in scene.store.list(prefix) for kv in page.items]:
        await scene.store.delete(kv.key)
    await scene.see()
    assert scene.view.update_runs.records == {}


async def test_records_without_their_object_are_abandoned(scene: RunScene) -> None:
    identity = await scene.identity()
    assert list(scene.view.update_runs.abandoned()) == []
    await scene.store.delete(KEY)
    await scene.see()
    assert list(scene.view.update_runs.abandoned()) == [(P, RUN, identity)]
    await scene.put(run_object())
    await scene.see()
    assert list(scene.view.update_runs.abandoned()) == [(P, RUN, identity)]


async def test_a_retry_opens_a_run_that_has_ended(scene: RunScene) -> None:
    await scene.store.put(await scene.key(END), RunEndRecord(outcome="aborted").to_bytes())
    await scene.see()
    records = scene.view.update_runs.of(P, RUN, await scene.identity())
    assert (records.over, runs_to(records, RunState.RUN)) == (True, False)
    await scene.retry()
    await scene.see()
    assert (records.over, runs_to(records, RunState.RUN)) == (False, True)


async def test_a_record_that_cannot_be_read_is_named(scene: RunScene) -> None:
    key = await scene.key(PLAN)
    await scene.store.put(key, b"nonsense")
    await scene.see()
    assert key in scene.view.unreadable
    assert scene.view.update_runs.of(P, RUN, await scene.identity()).plan is not None


@pytest.mark.parametrize("rest", ["", "cluster/web", "ns/team/web/release/7", "cluster/web/release/x/plan"])
def test_what_is_no_key_of_a_record_is_a_value_error(rest: str) -> None:
    view = UpdateRunsView()
    with pytest.raises(ValueError, match=r"."):
        view.take(rest, b"{}")
    assert view.records == {}
