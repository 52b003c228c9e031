"""Delivered placements on the command line: status, diff, history, rollback, evict, wait and delete, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.patience import patient
from tests.placement.delivered import DRIFT, GOOD, DeliveredScene, unwell
from tests.placement.objects import pick, placement_object
from tests.placement.reading.test_placement_deliveries import FakeTemporal
from tests.placement.scene import P
from wharfinger.cli.output import Output
from wharfinger.errors import NotFound
from wharfinger.etcd.store import Operation, Put, Store
from wharfinger.placement.cli.history import policy_phrase
from wharfinger.placement.cli.status import watch_status
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord
from wharfinger.placement.contracts.placement_records import EvictionRecord
from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries

DIFFERS = {"object": "v1 Service web/s", "reason": "FailedToTakeOver", "diffs": [["/spec/a", "", '"x"']]}


async def begun() -> DeliveredScene:
    return await (await DeliveredScene.begin()).ready()


def do(work: Coroutine[Any, Any, object]) -> None:
    asyncio.run(work)


@pytest.fixture
def scene(outside: Shell, monkeypatch: pytest.MonkeyPatch) -> DeliveredScene:
    """What commands are connected to: snapshot 1 is available everywhere."""
    scene = asyncio.run(begun())

    @asynccontextmanager
    async def opened(_: object, **__: object) -> AsyncIterator[Store]:
        yield scene.store.client()

    monkeypatch.setattr("wharfinger.cli.connect.open_store", opened)
    monkeypatch.setattr("wharfinger.process.waiting.APART", 0.0)
    return scene


def rows(text: str) -> list[list[str]]:
    """The cells of a table's lines: columns are three blanks apart."""
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in text.splitlines()]


# --- list -----------------------------------------------------------------------------------------


def test_a_list_counts_what_is_available_and_says_what_failed(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.deliver("b", result={"failed": True, "reason": "v1 ConfigMap web/c: FoundDrifts"}))
    told = outside("placement", "list")
    assert rows(told.out)[1] == [
        *("cluster/web", "PickN", "3", "3", "3", "2", "fulfilled"),
        "b: v1 ConfigMap web/c: FoundDrifts",
    ]


def test_a_reason_that_is_cut_in_a_list_says_so(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.deliver("b", result={"failed": True, "reason": "v1 ConfigMap web/c: " + "x" * 80}))
    why = rows(outside("placement", "list").out)[1][-1]

    assert (len(why), why[-1]) == (60, "…")


# --- plan -----------------------------------------------------------------------------------------


def test_a_plan_says_what_would_be_done_step_by_step(outside: Shell, scene: DeliveredScene) -> None:
    told = outside("placement", "plan", "--leave", "a")
    assert (told.code, told.out.splitlines()[-1]) == (0, "step 1: release a")
    told = outside("placement", "plan", "--leave", "a", "-o", "json")
    assert '"steps": [' in told.out
    do(scene.away("c"))
    assert outside("placement", "plan", "--leave", "a").out.splitlines()[-1] == "then waits: a"


def test_a_plan_leaves_objects_of_other_kinds_out(outside: Shell, scene: DeliveredScene) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    placement = placement_object(generation=2, **pick(2))
    told = outside("placement", "plan", "-f", outside.file([namespace, placement, pod]), "-o", "json")
    assert [len(one["removed"]) for one in told.json] == [1]
    assert told.err == "2 objects of other kinds are left out: only placements and members are planned\n"
    told = outside("placement", "plan", "-f", outside.file([namespace]))
    assert told.err.startswith("1 object of another kind is left out")
    wrong = outside("placement", "plan", "-f", outside.file([namespace, {**namespace, "metadata": {}}]))
    assert (wrong.code, "metadata.name is missing" in wrong.err) == (2, True)
    wrong = outside("placement", "plan", "-f", outside.file([namespace, placement_object(**pick(-1))]))
    assert wrong.code == 2


# --- cluster list ---------------------------------------------------------------------------------


def test_a_member_that_does_not_answer_shows_its_agents_words(outside: Shell, scene: DeliveredScene) -> None:
    do(unwell(scene, "b"))
    table = {row[0]: row for row in rows(outside("cluster", "list").out)}
    assert (table["a"][1], table["b"][1]) == ("Ready", "NotReady")
    assert table["b"][-1] == "its etcd does not answer"
    assert [row[3] for row in rows(outside("placement", "status", "web").out) if row[0] == "b"] == ["does not answer"]


# --- status ---------------------------------------------------------------------------------------


def test_a_status_has_a_row_for_each_member(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.deliver("b", result={"applied": True, "reason": "v1 Pod web/x: Pending"}))
    do(scene.away("c"))
    told = outside("placement", "status", "web")
    assert told.code == 0
    assert "snapshot 1: 1 of 3 ready, at least 2, at most 4" in told.out
    table = rows(told.out)[-4:]
    assert table[0] == ["CLUSTER", "ONLINE", "SNAPSHOT", "STATE", "WHY"]
    assert [row[:4] for row in table[1:]] == [
        ["a", "yes", "1", "available"],
        ["b", "yes", "1", "not available: v1 Pod web/x: Pending"],
        ["c", "no", "1", "no agent"],
    ]


def test_a_status_shows_what_is_wanted_and_by_whom(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.snapshot(2))
    do(scene.snapshot(3))
    do(scene.pin(2, by="me", why="crash"))
    do(scene.trouble("selected twice"))
    told = outside("placement", "status", "web").out
    assert "snapshot 2, pinned by me: crash (the newest is 3): 3 of 3 ready" in told
    assert "trouble: selected twice" in told
    assert rows(told)[-1][:4] == ["c", "yes", "1 -> 2", "waits for the budget"]


def test_a_status_for_programs_has_it_all(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.deliver("a", result={"failed": True, "reason": "no", "told": [DIFFERS], "drifted": [DRIFT.model_dump()]}))
    told = outside("placement", "status", "web", "-o", "json").json
    assert (told["snapshot"], told["newestSnapshot"], told["settled"], told["pin"]) == (1, 1, False, None)
    assert (told["target"], told["ready"], told["floor"], told["ceiling"]) == (3, 2, 2, 4)
    assert told["conditions"][-1] == {
        "type": "ClusterResourcePlacementApplied",
        "status": "False",
        "reason": "ApplyFailed",
        "message": "2 of 3 member clusters have all objects applied",
    }
    one = told["members"][0]
    assert (one["work"], one["state"], one["message"], one["want"]) == ("failed", "failed", "no", "present")
    assert one["conditions"][-1]["reason"] == "NotAllWorkHaveBeenApplied"
    assert one["result"]["told"][0]["differences"] == [{"path": "/spec/a", "hub": "", "member": '"x"'}]
    assert one["result"]["current"]


def test_a_status_of_what_is_not_delivered_yet(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.store.put(placement_keys.pin(P), PinRecord(snapshot=9).to_bytes()))
    assert "snapshot 1: 3 of 3 ready" in outside("placement", "status", "web").out
    do(scene.store.delete(placement_keys.snapshot(P, 1)))
    assert "no snapshot of the selected objects yet" in outside("placement", "status", "web").out
    assert outside("placement", "status", "web", "-n", "team").err == "error: there is no placement ns/team/web\n"


def test_a_status_of_what_is_being_deleted(outside: Shell, scene: DeliveredScene) -> None:
    do(_deleted(scene))
    told = outside("placement", "status", "web").out
    assert "it is being deleted: left on 3 member clusters" in told
    assert rows(told)[-1][:4] == ["c", "yes", "1", "removing"]


async def _deleted(scene: DeliveredScene) -> None:
    await scene.put(placement_object(deleting=True, **pick(3)))
    await scene.attempt()


async def test_a_watched_status_goes_on_with_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    scene = await begun()
    task = asyncio.create_task(watch_status(PlacementDeliveries(scene.store), P, Output.TABLE, apart=0.0, anyway=0.01))
    seen = ""

    async def shown(text: str) -> str:
        nonlocal seen
        while text not in seen:
            await asyncio.sleep(0.01)
            seen += capsys.readouterr().out
        found, seen = seen, ""
        return found

    async with asyncio.timeout(patient(30)):
        first = await shown("c  ")
        assert len(rows(first)) == 7
        await scene.deliver("b", result={"failed": True, "reason": "no"})
        assert [row[0] for row in rows(await shown("failed: no"))] == [
            "snapshot 1: 2 of 3 ready, at least 2, at most 4",
            "b",
        ]
        await _deleted(scene)
        await shown("removing")
        await scene.remove_work("a")
        await shown("a has nothing of it any more")
        for key in (placement_keys.decision(P), placement_keys.placement(P)):
            await scene.store.delete(key)
        await shown("cluster/web is gone")
        await task
    with pytest.raises(NotFound):
        await watch_status(PlacementDeliveries(scene.store), P, Output.TABLE)


# --- diff -----------------------------------------------------------------------------------------


def test_nothing_that_differs_is_no_failure(outside: Shell, scene: DeliveredScene) -> None:
    told = outside("placement", "diff", "web")
    assert (told.code, told.out, told.err) == (0, "nothing differs\n", "")


def test_differences_and_drifts_are_listed(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.deliver("a", result={**GOOD, "told": [DIFFERS], "drifted": [DRIFT.model_dump()]}))
    do(scene.deliver("b", result={**GOOD, "drifted": [DRIFT.model_dump()]}))
    told = outside("placement", "diff", "web")
    assert told.code == 1
    assert rows(told.out)[1:] == [
        ["a", "v1 Service web/s", "difference", "/spec/a", '"x"'],
        ["a", "v1 ConfigMap web/c", "drift", "/data/a", '"1"', '"2"'],
        ["b", "v1 ConfigMap web/c", "drift", "/data/a", '"1"', '"2"'],
    ]
    one = outside("placement", "diff", "web", "--cluster", "b", "-o", "json")
    assert one.code == 1
    assert one.json == [
        {
            "cluster": "b",
            "object": "v1 ConfigMap web/c",
            "kind": "drift",
            "reason": "Drifted",
            "path": "/data/a",
            "hub": '"1"',
            "member": '"2"',
        }
    ]
    assert outside("placement", "diff", "web", "--cluster", "c").code == 0


def test_results_about_earlier_contents_are_left_out(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.deliver("a", result={**GOOD, "counter": 4, "drifted": [DRIFT.model_dump()]}))
    told = outside("placement", "diff", "web")
    assert (told.code, told.err) == (0, "note: a has not reported its present contents: applying\n")
    refused = outside("placement", "diff", "web", "--cluster", "x")
    assert (refused.code, refused.err) == (1, "error: placement cluster/web has nothing on cluster 'x'\n")


# --- history --------------------------------------------------------------------------------------


@pytest.fixture
def temporal(monkeypatch: pytest.MonkeyPatch) -> FakeTemporal:
    fake = FakeTemporal()

    async def opened(_: object) -> FakeTemporal:
        return fake

    monkeypatch.setattr("wharfinger.cli.connect.open_temporal", opened)
    return fake


def test_a_history_has_snapshots(outside: Shell, scene: DeliveredScene, temporal: FakeTemporal) -> None:
    do(scene.snapshot(2))
    do(scene.pin(1))
    told = outside("placement", "history", "web")
    assert told.code == 0
    assert rows(told.out)[-2:] == [
        ["1", "2026-01-01T00:00:00Z", "1", "a, b, c", "pinned"],
        ["2", "2026-01-01T00:00:00Z", "1"],
    ]
    assert told.err == "Temporal keeps no attempt of it\nTemporal keeps no rollout of it\n"
    shown = outside("placement", "history", "web", "-o", "json").json
    assert [(one["number"], one["members"], one["pinned"]) for one in shown["snapshots"]] == [
        (1, ["a", "b", "c"], True),
        (2, [], False),
    ]
    assert (len(shown["policies"]), shown["rollouts"], len(temporal.queries)) == (1, [], 4)


def test_a_history_has_a_policy_in_words(outside: Shell, scene: DeliveredScene, temporal: FakeTemporal) -> None:
    shown = rows(outside("placement", "history", "web").out)

    assert shown[0] == ["POLICY", "FIRST-DECIDED", "WHAT"]
    assert shown[1][-1] == "PickN 3"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({}, "PickAll"),
        (
            {
                "placementType": "PickN",
                "numberOfClusters": 2,
                "topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/region"}],
            },
            "PickN 2, spread over topology.kubernetes.io/region",
        ),
        ({"placementType": "PickFixed", "clusterNames": ["a", "b"]}, "PickFixed, a, b"),
        (
            {
                "affinity": {
                    "clusterAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{}, {}]},
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                    }
                },
                "tolerations": [{"operator": "Exists"}],
            },
            "PickAll, 2 required terms, 1 preferred term, 1 toleration",
        ),
    ],
)
def test_a_policy_is_told_in_a_few_words(policy: dict[str, Any], words: str) -> None:
    assert policy_phrase(policy) == words


# --- changes --------------------------------------------------------------------------------------


def test_a_rollback_says_what_it_did(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.snapshot(2))
    told = outside("placement", "rollback", "web", "--to", "1", "--why", "crash")
    assert told.out == (
        "clusterresourceplacement/web pinned to snapshot 1 (the newest is 2); "
        "the hub rolls it out within the placement's budget\n"
    )
    assert "pinned by" in outside("placement", "status", "web").out
    assert "unpinned" in outside("placement", "rollback", "web", "--to", "latest").out
    refused = outside("placement", "rollback", "web", "--to", "7")
    assert (refused.code, refused.err) == (1, "error: placement cluster/web has no snapshot 7; there are: 1, 2\n")


@pytest.mark.parametrize("to", ["0", "-1", "newest", "1.5", "²", "1" * 5000])
def test_what_is_no_snapshot_is_used_wrongly(outside: Shell, scene: DeliveredScene, to: str) -> None:
    refused = outside("placement", "rollback", "web", f"--to={to}")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)


def test_an_eviction_is_named_and_not_waited_for(outside: Shell, scene: DeliveredScene) -> None:
    told = outside("placement", "evict", "web", "--cluster", "b")
    assert told.code == 0
    assert told.out.startswith("clusterresourceplacementeviction/web-b-")
    waited = outside("placement", "evict", "web", "--cluster", "c", "--wait", "0")
    assert waited.code == 1
    assert "has not ended after 0 s: does a hub run?" in waited.err


@pytest.mark.parametrize(
    ("executed", "valid", "code", "told"),
    [(True, True, 0, "executed: said"), (False, True, 1, "blocked: said"), (False, False, 1, "invalid: said")],
)
def test_the_outcome_of_an_eviction_is_the_exit_code(
    outside: Shell, scene: DeliveredScene, executed: bool, valid: bool, code: int, told: str
) -> None:
    _judged_at_once(scene, EvictionRecord(valid=valid, executed=executed, message="said"))
    answer = outside("placement", "evict", "web", "--cluster", "b", "--wait", "30")
    assert answer.code == code
    assert told in (answer.out if executed else answer.err)


def _judged_at_once(scene: DeliveredScene, record: EvictionRecord) -> None:
    """Every eviction ends as soon as it is put."""
    opened = scene.store.client

    def client() -> Any:
        found = opened()

        async def judge(_: object, operations: list[Operation]) -> None:
            for one in operations:
                if isinstance(one, Put) and one.key.startswith(placement_keys.PLACEMENT_EVICTIONS):
                    await scene.store.put(placement_keys.evicted(one.key.rpartition("/")[2]), record.to_bytes())

        found.after_txn = judge
        return found

    scene.store.client = client  # type: ignore[method-assign]


def test_a_wait_says_meanwhile_what_it_waits_for(outside: Shell, scene: DeliveredScene) -> None:
    do(scene.deliver("b", result={"failed": True, "reason": "no"}))
    waiting = outside("placement", "wait", "web", "--timeout", "0.3")

    assert waiting.err.splitlines() == [
        "waits: b: failed: no",
        "error: cluster/web is not settled after 0.3 s: b: failed: no",
    ]


def test_a_wait_is_over_or_says_what_is_missing(outside: Shell, scene: DeliveredScene) -> None:
    told = outside("placement", "wait", "web")
    assert (told.code, told.out) == (0, "cluster/web is settled: snapshot 1 is settled on 3 member clusters\n")
    do(scene.deliver("b", result={"failed": True, "reason": "no"}))
    waiting = outside("placement", "wait", "web", "--for", "available", "--timeout", "0")
    assert (waiting.code, waiting.err) == (1, "error: cluster/web is not available after 0 s: b: failed: no\n")
    assert outside("placement", "wait", "nothing", "--for", "gone").code == 0
    assert outside("placement", "wait", "nothing").err == "error: there is no placement cluster/nothing\n"
    assert outside("placement", "wait", "web", "--for", "ready").code == 2


def test_a_placement_is_deleted_and_waited_for(outside: Shell, scene: DeliveredScene) -> None:
    marked = outside("placement", "delete", "web")
    assert (marked.code, marked.out) == (0, "clusterresourceplacement/web marked for deletion\n")
    left = outside("placement", "delete", "web", "--wait", "--timeout", "0")
    assert left.code == 1
    assert left.err == "error: cluster/web is not gone after 0 s: left on a, b, c\n"
    failed = outside("placement", "wait", "web")
    assert failed.err == "error: cluster/web will not be settled: it is being deleted\n"
    assert outside("placement", "delete", "web", "-n", "team").code == 1
