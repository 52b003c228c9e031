"""The activity `ask_extenders` on real extenders: which objects they are sent, and what becomes of their answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import generate_latest

from tests.framework.extenders.extender_server import ExtenderServer
from tests.scheduling.world import Hand, World
from wharfinger.etcd import keys
from wharfinger.etcd.store import Get
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.scheduling.contracts.eviction import digest
from wharfinger.scheduling.contracts.extenders import (
    NO_ANSWERS,
    AskExtenders,
    ExtenderAnswers,
    ExtendersAnswered,
    ExtendersFailed,
)
from wharfinger.scheduling.contracts.scheduling import AskInput, AskOutcome, Gone, Placed, Recorded, Refused


@pytest.fixture
async def server() -> AsyncIterator[ExtenderServer]:
    made = ExtenderServer()
    async with made.serving():
        yield made


def profiles(server: ExtenderServer, **fields: Any) -> dict[str, Profile]:
    return load_profiles({"extenders": [{"urlPrefix": f"http://127.0.0.1:{server.port}", **fields}]})


async def ask(hand: Hand, name: str, answers: ExtenderAnswers = NO_ANSWERS) -> tuple[AskExtenders, AskOutcome]:
    """The question that `place` makes, and what came of it."""
    question = await hand.place(name, answers=answers)
    assert isinstance(question, AskExtenders), question
    return question, await hand.activities.ask_extenders(AskInput(namespace="default", name=name, ask=question))


def metrics_of(hand: Hand) -> str:
    return generate_latest(hand.metrics.registry).decode()


async def answered(hand: Hand, name: str, answers: ExtenderAnswers = NO_ANSWERS) -> ExtenderAnswers:
    question, outcome = await ask(hand, name, answers)
    assert isinstance(outcome, ExtendersAnswered), outcome
    return answers.with_one(question, outcome)


def all_but(*refused: str) -> Any:
    """A filter verb that refuses these nodes."""

    def verb(arguments: Any) -> Any:
        sent = arguments["NodeNames"] or [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]
        left = [name for name in sent if name not in refused]
        return {
            "NodeNames": left,
            "Nodes": {"items": [{"metadata": {"name": name}} for name in left]},
            "FailedNodes": {name: "no licence" for name in sent if name in refused},
        }

    return verb


async def test_the_pod_goes_where_the_extender_lets_it(world: World, server: ExtenderServer) -> None:
    for name in ("a", "b"):
        await world.put_node(name)
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles(server, filterVerb="filter", nodeCacheCapable=True))
    server.verbs["filter"] = all_but("a")

    placed = await hand.place("web", answers=await answered(hand, "web"))

    assert isinstance(placed, Placed)
    assert placed.node == "b"
    [(_, sent)] = server.asked
    assert sent["Pod"]["unknown"] == {"kept": True}
    assert (sent["Nodes"], sent["NodeNames"]) == (None, ["a", "b"])


async def test_nodes_are_sent_as_stored_and_read_again_once_changed(world: World, server: ExtenderServer) -> None:
    for name in ("a", "b"):
        await world.put_node(name)
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles(server, filterVerb="filter"))
    server.verbs["filter"] = all_but()
    read: list[str] = []
    await answered(hand, "web")
    await world.put_node("b", heartbeat="2")
    await hand.seen()
    transact = hand.store.txn

    async def noting(compares: Any, success: Any, failure: Any = ()) -> Any:
        read.extend(one.key for one in success if isinstance(one, Get))
        return await transact(compares, success, failure)

    hand.store.txn = noting  # type: ignore[method-assign]
    await answered(hand, "web")
    await answered(hand, "web")

    beats = [
        {
            node["metadata"]["name"]: node["status"]["conditions"][0]["lastHeartbeatTime"]
            for node in one["Nodes"]["items"]
        }
        for _, one in server.asked
    ]
    assert beats == [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "1", "b": "2"}]
    assert read == [keys.node("b")]


async def test_a_node_that_went_meanwhile_is_left_out(world: World, server: ExtenderServer) -> None:
    for name in ("a", "b"):
        await world.put_node(name)
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles(server, filterVerb="filter"))
    server.verbs["filter"] = all_but()
    question = await hand.place("web")
    assert isinstance(question, AskExtenders)
    await world.store.delete(keys.node("a"))
    await hand.seen()

    outcome = await hand.activities.ask_extenders(AskInput(namespace="default", name="web", ask=question))

    assert isinstance(outcome, ExtendersAnswered)
    assert [node["metadata"]["name"] for node in server.asked[0][1]["Nodes"]["items"]] == ["b"]


async def test_nothing_is_asked_about_a_pod_that_is_gone(world: World, server: ExtenderServer) -> None:
    await world.put_node("a")
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles(server, filterVerb="filter"))
    question = await hand.place("web")
    assert isinstance(question, AskExtenders)
    await world.store.delete(keys.pod("default", "web"))
    await hand.seen()

    outcome = await hand.activities.ask_extenders(AskInput(namespace="default", name="web", ask=question))

    assert isinstance(outcome, Gone)
    assert outcome.why == "deleted"
    assert server.asked == []


async def test_a_failure_is_an_outcome_and_names_the_extender(world: World, server: ExtenderServer) -> None:
    await world.put_node("a")
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles(server, filterVerb="filter", nodeCacheCapable=True))

    async def broken(_: web.Request) -> web.Response:
        return web.Response(status=503)

    server.verbs["filter"] = broken
    _, outcome = await ask(hand, "web")

    url = f"http://127.0.0.1:{server.port}"
    why = f"failed filter with extender at URL {url}/filter, code 503"
    assert outcome == ExtendersFailed(extender=url, verb="filter", message=why)
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="error"} 1.0' in metrics_of(hand)


async def test_an_extender_that_was_taken_out_meanwhile_is_a_failure(world: World, server: ExtenderServer) -> None:
    await world.put_node("a")
    await world.put_pod("web")
    first = await world.hand(profiles=profiles(server, filterVerb="filter"))
    question = await first.place("web")
    assert isinstance(question, AskExtenders)
    second = await world.hand()

    outcome = await second.activities.ask_extenders(AskInput(namespace="default", name="web", ask=question))

    assert isinstance(outcome, ExtendersFailed)
    assert outcome.extender == f"http://127.0.0.1:{server.port}"


async def crowded(world: World) -> None:
    """Two full nodes, each with two pods of low priority, and a pod that may evict them."""
    for name in ("a", "b"):
        await world.put_node(name, cpu="2")
        for number in range(2):
            await world.put_pod(f"old-{name}{number}", spec={"nodeName": name, "priority": 0})
    await world.put_pod("vip", spec={"priority": 9})


def first_of_b(arguments: Any) -> Any:
    """A verb for preemption that leaves node b, with the one victim there."""
    victims = (arguments["NodeNameToVictims"] or arguments["NodeNameToMetaVictims"])["b"]["Pods"]
    uid = victims[0].get("UID") or victims[0]["metadata"]["uid"]
    return {"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}}


@pytest.mark.parametrize("capable", [True, False], ids=["uids", "objects"])
async def test_victims_are_sent_as_the_extender_wants_them(
    world: World, server: ExtenderServer, *, capable: bool
) -> None:
    await crowded(world)
    hand = await world.hand(profiles=profiles(server, preemptVerb="preempt", nodeCacheCapable=capable))
    server.verbs["preempt"] = first_of_b
    refused = await hand.place("vip", answers=await answered(hand, "vip"))

    assert isinstance(refused, Refused)
    assert (refused.nominated_node, len(refused.victims)) == ("b", 1)
    sent = server.asked[0][1]
    given = sent["NodeNameToMetaVictims" if capable else "NodeNameToVictims"]
    assert given.keys() == {"a", "b"}
    if not capable:
        assert all(pod["unknown"] == {"kept": True} for one in given.values() for pod in one["Pods"])


async def test_a_second_extender_is_sent_what_the_first_one_named(world: World, server: ExtenderServer) -> None:
    """The first extender names another victim than the scheduler did: its object has to be there, too."""
    await crowded(world)
    url = f"http://127.0.0.1:{server.port}"
    both = [
        {"urlPrefix": url, "preemptVerb": verb, "nodeCacheCapable": verb == "first"} for verb in ("first", "second")
    ]
    hand = await world.hand(profiles=load_profiles({"extenders": both}))
    named: list[str] = []

    def first(arguments: Any) -> Any:
        chosen = {pod["UID"] for pod in arguments["NodeNameToMetaVictims"]["b"]["Pods"]}
        named.extend({"uid-old-b0", "uid-old-b1"} - chosen)
        return {"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": uid} for uid in named]}}}

    server.verbs |= {"first": first, "second": first_of_b}
    refused = await hand.place("vip", answers=await answered(hand, "vip"))

    assert isinstance(refused, Refused)
    assert [victim.uid for victim in refused.victims] == named
    [sent] = server.asked[1][1]["NodeNameToVictims"]["b"]["Pods"]
    assert (sent["metadata"]["uid"], sent["unknown"]) == (named[0], {"kept": True})


async def test_a_nomination_after_a_refusal_of_extenders_is_kept(world: World, server: ExtenderServer) -> None:
    """Node a has room and the extender refuses it: without its answer the recorder would see a pod that fits."""
    await world.put_node("a", cpu="2")
    await world.put_node("b", cpu="1")
    await world.put_pod("old", spec={"nodeName": "b", "priority": 0})
    await world.put_pod("vip", spec={"priority": 9})
    hand = await world.hand(profiles=profiles(server, filterVerb="filter", nodeCacheCapable=True))
    server.verbs["filter"] = all_but("a")
    answers = await answered(hand, "vip")
    refused = await hand.place("vip", answers=answers)
    assert isinstance(refused, Refused)
    assert refused.nominated_node == "b"
    fields = {"uid": "uid-vip", "nominated_node": "b", "victims": refused.victims}

    lapsed = await hand.record("vip", **fields)
    recorded = await hand.record("vip", answers=answers, **fields)

    assert isinstance(lapsed, Recorded)
    assert not lapsed.nominated
    assert isinstance(recorded, Recorded)
    assert recorded.nominated
    assert (await world.record_of("vip"))["nominated_node"] == "b"


async def test_many_victims_are_found_again_by_the_answers(world: World, server: ExtenderServer) -> None:
    await crowded(world)
    hand = await world.hand(profiles=profiles(server, preemptVerb="preempt", nodeCacheCapable=True))
    server.verbs["preempt"] = first_of_b
    answers = await answered(hand, "vip")
    refused = await hand.place("vip", answers=answers)
    assert isinstance(refused, Refused)
    cut = {
        "uid": "uid-vip",
        "nominated_node": "b",
        "victims": (),
        "victim_count": 1,
        "victims_digest": digest(refused.victims),
        "revision": refused.computation.revision,
    }
    recorded = await hand.record("vip", answers=answers, **cut)

    assert isinstance(recorded, Recorded)
    assert recorded.nominated
    assert (await world.record_of("vip"))["victims"] == [victim.pod for victim in refused.victims]
