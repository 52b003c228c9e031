"""The read model: states, reasons, rates and events, change by change; and what it is made of."""

from __future__ import annotations

import json

import pytest

from tests.page.looking import Looking
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.follow.plain import as_json
from wharfinger.page.follow.rings import CountRing, DurationRing, LevelRing
from wharfinger.page.web.inputs import BadInput, selector_of
from wharfinger.page.web.stream import MOST_PENDING, RESYNC, ViewerStream
from wharfinger.process.records import HoldRecord
from wharfinger.scheduling.page.node_map import NodeMap
from wharfinger.scheduling.page.objects import pod_in_short
from wharfinger.scheduling.page.pending import PendingPods
from wharfinger.testing import pod_manifest


async def test_a_life_of_a_pod_is_counted_by_state() -> None:
    looking = await Looking().listed()
    seen = []
    for change in ("queued", "refused", "bound", "finished", "gone"):
        looking.now += 2
        match change:
            case "queued":
                await looking.cluster.pod("a")
            case "refused":
                await looking.cluster.refusal("default", "a", ("NodeResourcesFit",), "no")
            case "bound":
                await looking.cluster.pod("a", nodeName="n")
                await looking.cluster.store.delete(keys.attempt("default", "a"))
            case "finished":
                await looking.cluster.pod("a", nodeName="n", status={"phase": "Succeeded"})
            case "gone":
                await looking.cluster.store.delete(keys.pod("default", "a"))
        await looking.step()
        seen.append(dict(+looking.model.counts()))

    assert seen == [{"queued": 1}, {"waiting": 1}, {"bound": 1}, {"finished": 1}, {}]
    assert looking.model.states == {}
    assert looking.model.reasons == {}
    rates = looking.model.rates.whole
    assert [sum(filter(None, ring.series(looking.now))) for ring in (rates.created, rates.bound, rates.refused)] == [
        1,
        1,
        1,
    ]
    [p50] = rates.latency.quantiles(looking.now, (0.5,))
    assert p50 == pytest.approx(4.0, rel=0.2), "from seen to bound"
    assert [event.what for event in looking.model.events] == ["bound", "finished", "left"]


async def test_the_time_to_the_bind_begins_without_gates() -> None:
    looking = await Looking().listed()
    await looking.cluster.pod("a", schedulingGates=[{"name": "quota"}])
    await looking.step()
    looking.now += 60
    await looking.cluster.pod("a")
    await looking.step()
    looking.now += 2
    await looking.cluster.pod("a", nodeName="n")
    await looking.step()

    latency = looking.model.rates.whole.latency
    assert latency.quantiles(looking.now, (0.5,)) == [pytest.approx(2.0, rel=0.2)]


async def test_a_pod_for_which_plugins_are_called_waits_for_these() -> None:
    looking = await Looking().listed()
    await looking.cluster.pod("a")
    await looking.step()
    kv = (await looking.cluster.store.get(keys.pod("default", "a"))).kv
    assert kv is not None
    looking.model.watched = {"pod:default/a"}
    record = HoldRecord(node="n", create_revision=kv.create_revision, attempt="w@r", calls=("PreBind/Licences",))
    await looking.cluster.put(keys.hold("default", "a"), record.to_bytes())
    await looking.step()

    assert looking.model.take_touched() == {"pod:default/a"}
    [reason] = PendingPods(looking.following).reasons()
    assert (reason["slug"], reason["plugins"]) == ("CallingPlugins~Licences", [])
    assert reason["title"] == "plugins are called before the bind: Licences"
    assert dict(+looking.model.counts()) == {"waiting": 1}
    assert pod_in_short(looking.model, looking.following.cache.pods[PodKey("default", "a")])["reason"] == (
        "CallingPlugins"
    )
    looking.now += 20
    await looking.cluster.store.delete(keys.hold("default", "a"))
    await looking.step()
    assert dict(+looking.model.counts()) == {"queued": 1}
    await looking.cluster.put(keys.hold("default", "a"), record.to_bytes())
    await looking.step()
    await looking.cluster.pod("a", nodeName="n")
    await looking.step()
    assert looking.model.reasons == {}


async def test_what_a_list_shows_is_no_event() -> None:
    looking = Looking()
    await looking.cluster.pod("a", nodeName="n")
    await looking.cluster.pod("b")
    await looking.listed()

    assert dict(+looking.model.counts()) == {"bound": 1, "queued": 1}
    assert not any(looking.model.rates.whole.created.series(looking.now))
    assert not looking.model.events


async def test_a_pod_of_the_same_name_is_another_one() -> None:
    looking = await Looking().listed()
    await looking.cluster.pod("a", nodeName="n")
    await looking.step()
    await looking.cluster.store.delete(keys.pod("default", "a"))
    await looking.cluster.pod("a", nodeName="n")
    await looking.step()

    assert dict(+looking.model.counts()) == {"bound": 1}
    assert sum(filter(None, looking.model.rates.whole.bound.series(looking.now))) == 2


async def test_a_record_of_an_earlier_pod_is_no_reason() -> None:
    looking = await Looking().listed()
    await looking.cluster.pod("a")
    await looking.cluster.refusal("default", "a", ("NodeAffinity",), "no")
    await looking.cluster.store.delete(keys.pod("default", "a"))
    await looking.cluster.pod("a")
    await looking.step()

    assert [key.reason for key, _ in looking.model.waiting()] == ["NotTried"]


async def test_reasons_are_ordered_and_remembered() -> None:
    looking = await Looking().listed()
    pending = PendingPods(looking.following)
    for name in "abc":
        await looking.cluster.pod(name)
    await looking.cluster.refusal("default", "b", ("NodeAffinity",), "no")
    await looking.step()
    pending.note(set())
    assert [(key.reason, [pod.name for pod in pods]) for key, pods in pending.groups()] == [
        ("NotTried", ["a", "c"]), ("Unschedulable", ["b"])
    ]  # fmt: skip
    looking.now += 10
    await looking.cluster.refusal("default", "a", ("NodeAffinity",), "no")
    await looking.step()
    pending.note(set())

    [first, *_] = pending.reasons()
    assert (first["reason"], first["examples"]) == ("Unschedulable", ["default/a", "default/b"]), "the oldest first"
    assert [value for value in first["trend"] if value is not None] == [1, 1, 2]


async def test_the_map_tells_rows_that_changed_and_new_layouts() -> None:
    looking = Looking()
    for name in ("a", "b"):
        await looking.cluster.node(name)
    await looking.listed()
    nodes = NodeMap(looking.following)
    whole = nodes.whole()
    nodes.tick()
    nodes.tick()
    assert nodes.changed() is None

    await looking.cluster.pod("p", "2", nodeName="b")
    await looking.step()
    assert nodes.whole()["requested"]["cpu"] == [0, 2000], "asking in between takes nothing away from the others"
    nodes.tick()
    assert nodes.changed() == {"layout": whole["layout"], "rows": [[1, 2000, 0, 1]]}
    assert nodes.changed("default") == nodes.changed()
    assert nodes.changed("other") is None, "nobody is told of other namespaces' pods"
    await looking.cluster.node("b", labels={"zone": "z"})
    await looking.step()
    assert nodes.whole()["layout"] == whole["layout"] + 1
    nodes.tick()
    assert nodes.changed() == {"layout": whole["layout"] + 1, "rows": []}


async def test_unreadable_objects_do_no_harm() -> None:
    looking = await Looking().listed()
    await looking.cluster.put(keys.pod("default", "a"), b"no json")
    await looking.cluster.put(keys.pod("default", "b"), pod_manifest("b"))
    await looking.step()

    assert dict(+looking.model.counts()) == {"queued": 1}
    assert len(looking.following.view.invalid.reasons) == 1


def test_rings_forget_and_say_what_they_do_not_know() -> None:
    ring = CountRing(100.0, slots=4, width=5)
    ring.add(101.0)
    ring.add(104.0)
    ring.add(106.0)
    assert ring.series(106.0) == [None, None, 2, 1]
    assert ring.rate(112.0, over=2) == pytest.approx(0.3)
    assert ring.series(119.0) == [2, 1, 0, 0]
    assert ring.series(1000.0) == [0, 0, 0, 0]


def test_levels_last_until_they_change() -> None:
    ring = LevelRing(100.0, slots=4, width=5)
    ring.note(101.0, 7)
    ring.note(112.0, 9)
    assert ring.series() == [None, 7, 7, 9]
    ring.note(400.0, 0)
    assert ring.series() == [9, 9, 9, 0]


def test_quantiles_are_exact_to_a_fifth() -> None:
    ring = DurationRing()
    for number in range(1, 101):
        ring.add(1000.0, number / 100)
    p50, p99 = ring.quantiles(1000.0, (0.5, 0.99))
    assert p50 == pytest.approx(0.5, rel=0.2)
    assert p99 == pytest.approx(0.99, rel=0.2)
    assert DurationRing().quantiles(5.0, (0.5,)) == [None]


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=b", {"a": "b"}, True), ("a==b,c", {"a": "b"}, False), ("a!=b", {}, True), ("a in (b, c)", {"a": "c"}, True),
        ("a notin (b,c),!d", {"a": "x"}, True), ("!d", {"d": ""}, False),
        ("example.com/a=", {"example.com/a": ""}, True), ("", {}, True),
    ],
)  # fmt: skip
def test_selectors_are_kubectls(text: str, labels: dict[str, str], matches: bool) -> None:
    assert selector_of(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a b", "a in b", "a in (b", "=b", "a=b=c", "a=<x>", "-a", "!a in (b)", "x" * 1001])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        selector_of(text)


async def test_a_viewer_that_does_not_read_is_told_to_ask_again() -> None:
    number = [0]

    def source(topic: str) -> object:
        number[0] += 1
        return number[0]

    stream = ViewerStream(source)
    messages = stream.messages(["status"])
    assert await anext(messages) == b"retry: 1000\n\n"
    for _ in range(MOST_PENDING + 5):
        await stream.tick()
    got = [await anext(messages) for _ in range(MOST_PENDING)]
    await stream.tick()
    assert RESYNC not in got
    assert await anext(messages) == RESYNC
    await messages.aclose()
    assert len(stream) == 0
    assert not stream.topics


async def test_topics_are_made_once_for_all_viewers() -> None:
    asked: list[str] = []
    stream = ViewerStream(lambda topic: asked.append(topic) or len(asked))  # type: ignore[func-returns-value]
    viewers = [stream.messages(["overview"]) for _ in range(50)]
    for viewer in viewers:
        await anext(viewer)
    await stream.tick()
    said = {await anext(viewer) for viewer in viewers}

    assert len(said) == 1
    assert asked == ["overview"]
    for viewer in viewers:
        await viewer.aclose()


def test_half_characters_are_escaped() -> None:
    assert json.loads(as_json({"a": "\udcff", "b": 1})) == {"a": "\udcff", "b": 1}
