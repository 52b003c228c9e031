"""The JSON of every view: what it says, and what it never says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.event_loop import watched_loop
from tests.page.cluster import Page, RecordedAttempts, attempt_of, in_step, no_temporal
from tests.page.small_cluster import TOKEN
from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.options import PageOptions
from wharfinger.page.web.server import PageServer
from wharfinger.placement.page.view import PlacementView
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Imported, Promise
from wharfinger.scheduling.page.attempts import PodAttempts
from wharfinger.scheduling.page.read_model import Nomination
from wharfinger.scheduling.page.view import SchedulingView
from wharfinger.testing import pod_manifest

SECRET = "hunter2"
HOSTILE = "<script>alert(1)</script>\u202e\u0007"


async def get(client: aiohttp.ClientSession, path: str, status: int = 200) -> Any:
    async with client.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def test_the_overview_counts_pods_by_state(client: aiohttp.ClientSession) -> None:
    found = await get(client, "/api/v1/overview")

    assert found["pods"] == {"bound": 2, "queued": 1, "waiting": 1, "gated": 1, "terminating": 0, "finished": 0}
    assert found["nodes"]["count"] == 3
    assert {one["resource"]: (one["requested"], one["allocatable"]) for one in found["nodes"]["resources"]}["cpu"] == (
        3000,
        12000,
    )
    [worker] = found["workers"]
    assert (worker["tenant"], worker["slot"], worker["state"]) == ("common", "0", "ready")
    assert worker["metrics"]["problem"], "what is not known is told as such"
    assert "Backlog" in found["alerts"]["unknown"]


async def test_a_namespace_is_a_filter(client: aiohttp.ClientSession) -> None:
    assert (await get(client, "/api/v1/overview?namespace=other"))["pods"]["bound"] == 1
    assert (await get(client, "/api/v1/pods?namespace=other"))["count"] == 1
    assert (await get(client, "/api/v1/pending?namespace=other"))["reasons"] == []
    whole = await get(client, "/api/v1/nodes?namespace=other")
    assert dict(zip(whole["names"], whole["requested"]["cpu"], strict=True)) == {"n1": 0, "n2": 2000, "n3": 0}
    assert (await get(client, "/api/v1/namespaces"))["namespaces"] == ["default", "other"]


async def test_what_waits_is_one_number_everywhere(page: Page, client: aiohttp.ClientSession) -> None:
    """Refused, held back, or served by nobody; not what was not tried yet."""
    await page.cluster.pod("fresh", "1")
    await in_step(page.parts, page.cluster.store.revision)
    for namespace, number in (("", 3), ("?namespace=default", 3), ("?namespace=other", 0)):
        reasons = (await get(client, f"/api/v1/pending{namespace}"))["reasons"]
        assert sum(one["count"] for one in reasons if one["reason"] != "NotTried") == number
        assert (await get(client, f"/api/v1/status{namespace}"))["pending"] == number
        assert (await get(client, f"/api/v1/overview{namespace}"))["pending"] == number


async def test_a_namespace_loses_nothing_to_the_others(
    page: Page, client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime(2026, 3, 2, tzinfo=UTC)
    page.parts.following.model.nominations.extend(
        [Nomination(at, PodKey("default", "first"), "n1")]
        + [Nomination(at, PodKey("other", f"later-{number}"), "n1") for number in range(9)]
    )
    seen = (await get(client, "/api/v1/overview?namespace=default"))["preemptions"]
    assert [one["pod"] for one in seen] == ["default/first"]

    async def placements() -> dict[str, Any]:
        named = [{"placement": one} for one in ("cluster/all", "ns/default/web", "ns/other/web")]
        return {"members": [], "count": 3, "placements": named, "runs": named}

    monkeypatch.setattr(page.parts.view(PlacementView).placements, "all", placements)
    found = await get(client, "/api/v1/placements?namespace=other")
    assert [one["placement"] for one in found["placements"]] == ["cluster/all", "ns/other/web"]
    assert found["count"] == len(found["runs"]) == 2


async def test_reasons_open_their_pods_and_what_would_help(client: aiohttp.ClientSession) -> None:
    reasons = (await get(client, "/api/v1/pending"))["reasons"]
    assert [(one["reason"], one["count"]) for one in reasons] == [
        ("NotServed", 1),
        ("SchedulingGated", 1),
        ("Unschedulable", 1),
    ]

    refused = reasons[-1]
    opened = await get(client, f"/api/v1/pending/{refused['slug']}")
    assert [(pod["name"], pod["plugins"]) for pod in opened["pods"]] == [("big", ["NodeResourcesFit"])]
    help_ = await get(client, f"/api/v1/pending/{refused['slug']}/help")
    assert help_["refusals"] == {"NodeResourcesFit": {"Insufficient cpu": 3}}
    assert help_["oneMoreNode"][0]["pods"] == 0, "no node of this kind is large enough"
    assert help_["nearest"][0] == {"node": "n3", "lacks": {"cpu": 12000}}
    assert "a node is added" in [one["event"] for one in help_["events"]]
    await get(client, "/api/v1/pending/Unschedulable~Nothing", 404)


async def test_the_map_has_columns_and_selectors(client: aiohttp.ClientSession) -> None:
    whole = await get(client, "/api/v1/nodes")
    zone = whole["labels"]["zone"]

    assert [zone["values"][code] for code in zone["codes"]] == ["a", "a", "b"]
    assert whole["requested"]["pods"] == [1, 1, 0]
    matched = await get(client, "/api/v1/node-matches?selector=zone%20in%20(a),kubernetes.io/hostname!=n1")
    assert [whole["names"][row] for row in matched["rows"]] == ["n2"]


async def test_a_node_says_why_pods_are_not_there(client: aiohttp.ClientSession) -> None:
    node = await get(client, "/api/v1/nodes/n1")
    refused = (await get(client, "/api/v1/nodes/n1/refusals"))["reasons"]

    assert [pod["name"] for pod in node["pods"]] == ["web-1"]
    assert {one["pod"]: one["refusedBy"] for one in refused}["default/big"] == {
        "NodeResourcesFit": ["Insufficient cpu"]
    }
    await get(client, "/api/v1/nodes/nothing", 404)


async def test_events_of_a_node_are_kept_while_the_page_looks(page: Page, client: aiohttp.ClientSession) -> None:
    await page.cluster.pod("late", "1", nodeName="n3")
    await page.cluster.node("n3", "4", labels={"zone": "b"}, unschedulable=True)
    await in_step(page.parts, page.cluster.store.revision)

    events = (await get(client, "/api/v1/nodes/n3"))["events"]
    assert [(one["what"], one["about"]) for one in events] == [("cordoned", ""), ("bound", "default/late")]


async def test_a_pod_that_is_absent_is_null_where_that_is_asked_for(client: aiohttp.ClientSession) -> None:
    assert await get(client, "/api/v1/pods/default/nothing?optional=1") is None
    assert (await get(client, "/api/v1/pods/default/big?optional=1"))["name"] == "big"
    await get(client, "/api/v1/pods/default/nothing", 404)


async def test_raw_objects_never_leave(page: Page, client: aiohttp.ClientSession) -> None:
    """Neither environments nor annotations nor images nor commands."""
    pod = pod_manifest("secretive", "1", metadata={"annotations": {"token": SECRET, "kubectl": SECRET}})
    pod["spec"]["containers"][0] |= {"env": [{"name": "P", "value": SECRET}], "args": [SECRET], "image": f"r/{SECRET}"}
    pod["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": f"/{SECRET}"}}]
    await page.cluster.put(keys.pod("default", "secretive"), pod)
    await page.cluster.refusal("default", "secretive", ("NodeResourcesFit",), "no room")
    await in_step(page.parts, page.cluster.store.revision)

    paths = ["overview", "pending", "pods", "pods/default/secretive", "nodes", "nodes/n1", "gangs", "alerts"]
    for path in [*paths, "pending/Unschedulable~NodeResourcesFit"]:
        async with client.get(f"/api/v1/{path}") as answer:
            assert answer.status == 200
            assert SECRET not in await answer.text(), path


async def test_hostile_texts_are_bounded_and_plain(page: Page, client: aiohttp.ClientSession) -> None:
    await page.cluster.pod("hostile", "1", labels={"a": HOSTILE})
    await page.cluster.refusal("default", "hostile", ("NodeResourcesFit",), HOSTILE + "x" * (1 << 20))
    await page.cluster.put(keys.PODS + f"default/{HOSTILE}", pod_manifest(HOSTILE))
    await page.cluster.put(keys.PODS + "default/\udcff", b"{}")
    await in_step(page.parts, page.cluster.store.revision)

    for path in ("pods", "pods/default/hostile", "overview", "pending", "pending/Unschedulable~NodeResourcesFit"):
        async with client.get(f"/api/v1/{path}") as answer:
            assert answer.status == 200
            assert answer.content_type == "application/json"
            assert len(await answer.read()) < 40_000
    found = await get(client, "/api/v1/pods/default/hostile")
    assert found["message"].startswith(HOSTILE)
    assert found["labels"] == {"a": HOSTILE}


@pytest.mark.parametrize(
    "path",
    [
        "overview?namespace=a/b", "pods?state=odd", "pods?limit=0", "pods?limit=1e9", "pods?selector=a%20b%20c",
        "pods?selector=((", "node-matches?selector=" + "a%3Db," * 40, "pods?name=" + "x" * 300,
        "pods/default/big/decision?attempt=-1", "pods/default/big/difference?first=1", "pods/default/a%2Fb",
        "stream?topics=" + ",".join(f"t{n}" for n in range(30)),
    ],
)  # fmt: skip
async def test_inputs_are_limited(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(f"/api/v1/{path}") as answer:
        assert answer.status == 400
        assert (await answer.json())["error"] == "BadRequest"


async def test_while_temporal_is_away_attempts_say_so(page: Page, client: aiohttp.ClientSession) -> None:
    page.parts.view(SchedulingView).attempts = PodAttempts(
        page.cluster.store, no_temporal, cluster="c", ui="", namespace="default"
    )
    for path in ("attempts", "decision", "difference?first=1&second=2"):
        found = await get(client, f"/api/v1/pods/default/big/{path}", 503)
        assert found["error"] == "TemporalUnavailable"


async def test_a_decision_is_made_again_in_columns(page: Page, client: aiohttp.ClientSession) -> None:
    """On the state of its own revision, whatever has happened since."""
    attempts, cache = page.parts.view(SchedulingView).attempts, page.parts.following.cache
    assert isinstance(attempts, RecordedAttempts)
    profile = load_profiles()["default-scheduler"]
    pod = cache.pods[PodKey("default", "big")]
    recorded = []
    for number, cpu in ((1, "4"), (2, "32")):
        await page.cluster.node("n3", cpu, labels={"zone": "b"})
        await in_step(page.parts, page.cluster.store.revision)
        evaluation = profile.evaluate(pod, cache.snapshot())
        recorded.append(attempt_of(evaluation, pod, number, datetime.now(UTC), digest=profile.digest))
    attempts.record(pod.key, pod, recorded)
    await page.cluster.store.delete(keys.node("n1"))

    first = await get(client, "/api/v1/pods/default/big/decision?attempt=1")
    newest = await get(client, "/api/v1/pods/default/big/decision")
    assert (first["names"], first["feasible"], first["same"]) == (["n1", "n2", "n3"], [0, 0, 0], True)
    assert [first["reasons"][code - 1] for code in first["verdicts"]["NodeResourcesFit"]] == ["Insufficient cpu"] * 3
    assert (newest["feasible"], newest["recorded"]["node"]) == ([0, 0, 1], "n3")
    difference = await get(client, "/api/v1/pods/default/big/difference?first=1&second=2")
    assert difference["refusals"] == [
        {"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "before": 3, "after": 2}
    ]
    assert [(one["node"], one["kind"]) for one in difference["nodes"]["changed"]] == [("n3", "opened")]
    [shown, _] = (await get(client, "/api/v1/pods/default/big/attempts"))["attempts"]
    assert [step["name"] for step in shown["steps"]] == ["place", "record_refusal", "waited"]


async def test_what_if_decides_twice_and_changes_nothing(page: Page, client: aiohttp.ClientSession) -> None:
    before = page.cluster.store.revision
    path = "/api/v1/pods/default/big/what-if"

    async def ask(form: Any, status: int = 200) -> Any:
        async with client.post(path, data=json.dumps(form)) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()

    same = await ask({})
    assert same["sameNode"]
    assert same["before"]["refusals"] == {"NodeResourcesFit": {"Insufficient cpu": 3}}
    smaller = await ask({"requests": {"cpu": "3"}})
    assert smaller["after"]["node"] in ("n1", "n3")
    assert smaller["nodesGained"] == {"count": 2, "nodes": ["n1", "n3"]}
    tainted = await ask({"requests": {"cpu": "3"}, "nodes": [{"name": "n3", "addTaints": [{"key": "t"}]}]})
    assert tainted["after"]["node"] == "n1"
    tolerant = {
        "requests": {"cpu": "4"},
        "tolerations": [{"key": "t"}],
        "nodes": [{"name": "n3", "addTaints": [{"key": "t"}]}],
    }
    assert (await ask(tolerant))["after"]["node"] == "n3"
    weighed = await ask({"requests": {"cpu": "3"}, "weights": {"NodeResourcesFit": 50}})
    [best, *_] = weighed["after"]["ranking"]
    assert best["plugins"]["NodeResourcesFit"] % 50 == 0
    assert page.cluster.store.revision == before

    for wrong in (
        {"requests": {"cpu": "much"}}, {"requests": {"cpu": "-1"}}, {"weights": {"Nothing": 2}},
        {"weights": {"NodeResourcesFit": 0}},
        {"nodes": [{"name": "nothing"}]}, {"module": "os"}, {"config": "/etc/passwd"},
        {"labels": {str(n): "" for n in range(21)}}, [],
    ):  # fmt: skip
        await ask(wrong, 400)
    async with client.post(path, data=b"{" + b" " * (1 << 17)) as answer:
        assert answer.status == 400


async def test_gangs_say_what_is_missing(page: Page, client: aiohttp.ClientSession) -> None:
    labels = {"pod-group.scheduling.sigs.k8s.io/name": "mpi", "pod-group.scheduling.sigs.k8s.io/min-available": "3"}
    for number in range(2):
        await page.cluster.pod(f"mpi-{number}", "1", labels=labels)
    await in_step(page.parts, page.cluster.store.revision)

    [listed] = (await get(client, "/api/v1/gangs"))["gangs"]
    gang = await get(client, "/api/v1/gangs/default/mpi")
    assert (listed["members"], listed["minAvailable"], listed["missing"]) == (2, 3, 1)
    assert gang["held"] == "PodGroup: 2 of 3 members exist"
    assert [pod["name"] for pod in gang["pods"]] == ["mpi-0", "mpi-1"]
    reasons = (await get(client, "/api/v1/pending"))["reasons"]
    assert "GangIncomplete" in [one["reason"] for one in reasons]


async def test_fleets_show_slots_rollout_and_history(page: Page, client: aiohttp.ClientSession) -> None:
    await page.cluster.fleet(ready=1, replicas=2)

    [fleet] = (await get(client, "/api/v1/fleets"))["fleets"]
    assert (fleet["tenant"], fleet["replicas"], fleet["ready"], fleet["revision"]) == ("common", 2, 1, 2)
    assert fleet["phase"].startswith("updating slot 1")
    slot = fleet["slots"][0]
    assert (slot["slot"], slot["phase"], slot["host"]) == (0, "ready", "host-a")
    assert fleet["slots"][0]["metrics"]["problem"], "what is not known is told as such"
    assert [(one["revision"], one["wanted"], one["outcome"], one["who"]) for one in fleet["history"]] == [
        (2, True, None, "who-2"),
        (1, False, "completed", "who-1"),
    ]
    planned = await get(client, "/api/v1/fleets/common/plan")
    assert planned["steps"], planned
    await get(client, "/api/v1/fleets/nothing/plan", 404)


async def test_promises_are_shown_with_what_the_api_answered(page: Page, client: aiohttp.ClientSession) -> None:
    assert not (await get(client, "/api/v1/kubernetes"))["copied"]
    refused = Promise("u", 7, "n1", "w@r", "2026-03-02T00:00:00Z", withdrawn="refused", told="quota exceeded")
    pod = (await page.cluster.store.get(keys.pod("default", "web-1"))).kv
    assert pod is not None
    stored = Put(keys.promise("default", "web-1"), promise_records.stored(refused))
    await page.cluster.store.txn([], [Put(pod.key, pod.value), stored])
    await page.cluster.put(keys.IMPORTED, promise_records.stored(Imported({"pods": 12}, time="2026-03-02T00:00:00Z")))
    await in_step(page.parts, page.cluster.store.revision)

    assert (await get(client, "/api/v1/kubernetes?namespace=nowhere"))["count"] == 0
    found = await get(client, "/api/v1/kubernetes")
    assert (found["copied"], found["mayBind"], found["kinds"]) == (True, False, [{"plural": "pods", "revision": 12}])
    [promise] = found["promises"]
    assert (promise["name"], promise["node"], promise["answer"]) == ("web-1", "n1", "quota exceeded")
    assert promise["ageSeconds"] > 0
    assert (await get(client, "/api/v1/pods/default/web-1"))["promised"]
    assert (await get(client, "/api/v1/status"))["kubernetes"]


async def messages(
    client: aiohttp.ClientSession, topics: str, enough: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The last message of each topic, once it is enough."""
    found: dict[str, Any] = {}
    async with client.get(f"/api/v1/stream?topics={topics}") as answer, asyncio.timeout(patient(20)):
        assert answer.content_type == "text/event-stream"
        async for line in answer.content:
            if line.startswith(b"data: ") and (said := orjson.loads(line[6:])).get("topic"):
                found[said["topic"]] = said["now"]
                if enough(found):
                    return found
    raise AssertionError("the stream ended")


async def test_a_change_is_told_within_a_second(page: Page, client: aiohttp.ClientSession) -> None:
    def bound(found: dict[str, Any]) -> bool:
        return found.get("overview", {}).get("pods", {}).get("bound") == 3 and "pod:default/big" in found

    told = asyncio.create_task(messages(client, "status,overview,nodes,pod:default/big", bound))
    await messages(client, "status,nodes", lambda found: found.keys() == {"status", "nodes"})
    began = watched_loop().waited
    await page.cluster.pod("big", "16", nodeName="n3")
    found = await told

    assert watched_loop().waited - began < 1.0
    assert found["nodes"]["rows"] == [[2, 16000, 0, 1]]
    assert found["pod:default/big"]["revision"] == page.cluster.store.revision


async def test_before_etcd_answers_health_says_so(token_file: Path) -> None:
    server = PageServer(PageOptions(0, static_token_file=token_file), lambda _: None)
    await server.start()
    async with aiohttp.ClientSession(server.url, headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        for path, status in (
            ("/livez", 200),
            ("/readyz", 503),
            ("/", 200),
            ("/api/v1/status", 503),
            ("/api/v1/stream", 503),
        ):
            async with session.get(path) as answer:
                assert answer.status == status, path
        assert (await get(session, "/api/v1/overview", 503))["error"] == "Starting"
    await server.stop()


async def test_etcd_that_is_away_is_said(page: Page, client: aiohttp.ClientSession) -> None:
    assert (await get(client, "/api/v1/status"))["etcd"]["answers"]
    page.parts.following._answered -= 100.0
    said = (await get(client, "/api/v1/status"))["etcd"]
    assert not said["answers"]
    assert said["silentSeconds"] >= 100
