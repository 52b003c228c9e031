"""The span is lived again: what is decided otherwise has consequences, what was decided by others is a fact."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.replay.replay_stage import Stage
from tests.scheduling.world import PROFILES, node_object, pod_object
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.model.pod import PodKey
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange, Setting
from wharfinger.replay.lived_pods import LivedPod
from wharfinger.replay.recorded import Unit, units
from wharfinger.replay.report.rerun_report import RerunReport, fragmentation, shapes_of
from wharfinger.replay.rerun import Rerun, RerunSimulator
from wharfinger.replay.reruns import DecidedPods, rerun

GROUP = "pod-group.scheduling.sigs.k8s.io/"
PACKED = Setting.parse("NodeResourcesFit.scoringStrategy.type=MostAllocated")


class Span:
    """Events as etcd would show them, one a revision."""

    def __init__(self, *decided: str) -> None:
        self.revision = 10
        self.created: dict[str, int] = {}
        self.rerun = Rerun(RerunSimulator(PROFILES), {(PodKey("default", name), 0) for name in decided}, set(PROFILES))
        self.rerun.begin([])

    def _take(self, key: str, obj: dict[str, Any] | None) -> None:
        self.revision += 1
        if obj is None:
            self.created.pop(key, None)
            self.rerun.take([Event(KeyValue(key, b"", 0, self.revision), deleted=True)])
            return
        created = self.created.setdefault(key, self.revision)
        self.rerun.take([Event(KeyValue(key, json.dumps(obj).encode(), created, self.revision))])

    def node(self, name: str, cpu: str = "4", **more: Any) -> None:
        self._take(keys.node(name), node_object(name, cpu=cpu, **more))

    def pod(self, name: str, cpu: str = "1", **more: Any) -> None:
        self._take(keys.pod("default", name), pod_object(name, cpu=cpu, **more))

    def gone(self, key: str) -> None:
        self._take(key, None)

    def bound(self, name: str, node: str, cpu: str = "1", **more: Any) -> None:
        """As recorded: by a decision of ours, unless more is said."""
        key = PodKey("default", name)
        if not more.pop("foreign", False):
            self.rerun.decided = {*self.rerun.decided, (key, self.created[keys.pod("default", name)])}
        self.pod(name, cpu, spec={"nodeName": node}, **more)

    @property
    def nodes(self) -> dict[str, str]:
        return {pod.key.name: pod.node for pod in self.rerun.lived}

    def lived(self, name: str) -> LivedPod:
        return [pod for pod in self.rerun.lived if pod.key.name == name][-1]


def test_pods_are_decided_when_they_come_and_not_where_the_record_says() -> None:
    span = Span()
    span.node("a", cpu="8")
    span.pod("web")
    span.node("b", cpu="8")
    span.bound("web", "b")

    assert span.nodes == {"web": "a"}
    assert span.lived("web").recorded == "b"


def test_a_pod_without_a_place_waits_for_what_happens_in_the_rerun() -> None:
    span = Span()
    span.node("a", cpu="2")
    span.pod("first", cpu="2")
    span.pod("second", cpu="2")
    waiting = dict(span.nodes)
    refused = span.lived("second").message
    span.gone(keys.pod("default", "first"))

    assert waiting == {"first": "a", "second": ""}
    assert "Insufficient cpu" in refused
    assert span.nodes == {"first": "a", "second": "a"}


def test_resize_in_place_counts_and_wakes_pods_when_it_frees_room() -> None:
    def reported(cpu: str) -> dict[str, Any]:
        amounts = {"cpu": cpu}
        return {"name": "main", "allocatedResources": amounts, "resources": {"requests": amounts}}

    span = Span()
    span.node("a", cpu="4")
    span.pod("web")
    span.bound("web", "a", status={"containerStatuses": [reported("3")]})
    span.pod("next", cpu="2")
    waiting = dict(span.nodes)
    span.bound("web", "a", status={"containerStatuses": [reported("1")]})

    assert waiting == {"web": "a", "next": ""}
    assert span.nodes == {"web": "a", "next": "a"}


def test_a_finished_pod_gives_its_room_away() -> None:
    span = Span()
    span.node("a", cpu="2")
    span.pod("job", cpu="2")
    span.pod("next", cpu="2")
    span.bound("job", "a", cpu="2", status={"phase": "Succeeded"})

    assert span.nodes["next"] == "a"


def test_a_new_node_wakes_those_that_fit() -> None:
    span = Span()
    span.node("a", cpu="1")
    span.pod("web", cpu="3")
    span.pod("huge", cpu="30")
    span.node("b", cpu="4")

    assert span.nodes == {"web": "b", "huge": ""}


def test_binds_of_others_are_facts() -> None:
    span = Span()
    span.node("a", cpu="2")
    span.node("b", cpu="2")
    span.pod("theirs", cpu="2", spec={"schedulerName": "another"})
    span.pod("ours", cpu="2")
    before = dict(span.nodes)
    free = "b" if before["ours"] == "a" else "a"
    span.bound("theirs", free, cpu="2", foreign=True)
    span.pod("late", cpu="2")

    assert before["theirs"] == ""
    assert span.nodes["theirs"] == free
    assert span.nodes["late"] == "", "both nodes are full"
    assert not span.lived("theirs").ours


def test_a_foreign_bind_of_a_pod_of_ours_moves_it_there() -> None:
    span = Span()
    span.node("a", cpu="2")
    span.pod("web", cpu="2")
    span.node("b", cpu="2")
    span.bound("web", "b", cpu="2", foreign=True)
    span.pod("next", cpu="2")

    assert span.nodes == {"web": "b", "next": "a"}


def test_victims_of_the_rerun_end_then() -> None:
    span = Span()
    span.node("a", cpu="2")
    span.pod("low", cpu="2", spec={"priority": 1})
    span.pod("high", cpu="2", spec={"priority": 9})
    span.bound("low", "a", cpu="2")
    span.gone(keys.pod("default", "low"))

    assert span.nodes["high"] == "a"
    assert span.lived("low").evicted
    assert span.rerun.evictions == [(PodKey("default", "low"), PodKey("default", "high"))]


def test_a_gang_is_placed_as_one_or_waits_as_one() -> None:
    span = Span()
    span.node("a", cpu="2")
    labels = {GROUP + "name": "team", GROUP + "min-available": "3"}
    for name in ("m0", "m1", "m2"):
        span.pod(name, labels=labels)
    before = dict(span.nodes)
    span.node("b", cpu="1")

    assert set(before.values()) == {""}
    assert sorted(span.nodes.values()) == ["a", "a", "b"]


def test_of_pods_that_ended_little_is_kept() -> None:
    span = Span()
    span.node("a")
    for name in ("job", "web"):
        span.pod(name)
    span.bound("job", "a", status={"phase": "Succeeded"})

    assert [pod.key.name for pod in span.rerun.lived.there] == ["web"]
    assert {pod.key.name: bool(pod.digest) for pod in span.rerun.lived} == {"job": False, "web": True}
    assert span.nodes == {"job": "a", "web": "a"}


async def test_decided_pods_are_found_by_their_life(stage: Stage) -> None:
    await stage.world.put_node("a", cpu="2")
    hand = await stage.world.hand()
    for name, cpu in (("web", "1"), ("huge", "9"), ("huge", "9")):
        await stage.world.put_pod(name, cpu=cpu)
        await stage.world.seen()
        await stage.alone(hand, name)
    spool = Spool()
    for run in stage.runs:
        spool.add(run)
    found = DecidedPods(spool, spool.units())
    web, huge = (PodKey("default", name) for name in ("web", "huge"))
    created = {key: (await stage.world.store.get(keys.pod("default", key.name))).kv for key in (web, huge)}
    lives = {key: kv.create_revision for key, kv in created.items() if kv is not None}

    assert ((web, lives[web]) in found, (web, 1) in found, (huge, lives[huge]) in found) == (True, False, False)
    assert found.place(web, lives[web], placed=True) == 0
    assert found.place(huge, lives[huge], placed=False) == 2, "the last time"
    assert found.place(web, lives[web], placed=False) is None
    found.close()
    spool.close()


def test_a_pod_that_comes_again_is_another_one() -> None:
    span = Span()
    span.node("a")
    span.pod("web")
    span.gone(keys.pod("default", "web"))
    span.pod("web")

    assert [pod.node for pod in span.rerun.lived] == ["a", "a"]
    assert len({pod.create_revision for pod in span.rerun.lived}) == 2


def test_what_cannot_be_read_stops_nothing() -> None:
    span = Span()
    span._take(keys.node("broken"), {"metadata": {"name": "broken"}, "status": {"allocatable": {"cpu": "many"}}})
    span._take(keys.pod("default", "broken"), {"spec": {"containers": "none"}})
    span.gone(keys.node("never-there"))
    for other in (keys.pod("default", "other-name"), f"{keys.PODS}default/web/more", f"{keys.PODS}web"):
        span._take(other, pod_object("differs"))
        span.gone(other)
    span.node("a")
    span.pod("web")

    assert span.nodes == {"web": "a"}


async def test_a_span_is_lived_again_under_a_change(stage: Stage) -> None:
    """Packed, the pods leave a node free, and the large one that was refused fits."""
    world = stage.world
    for name in ("a", "b"):
        await world.put_node(name, cpu="4")
    hand = await world.hand()
    for name in ("one", "two"):
        await world.put_pod(name, cpu="1")
        await world.seen()
        await stage.alone(hand, name)
    await world.put_pod("large", cpu="4")
    await world.seen()
    await stage.alone(hand, "large")
    spool, found = Spool(), list[Unit]()
    for run in stage.runs:
        found += units(run, spool.add(run))

    same = await rerun(world.store, spool, found, ProfileChange())
    packed = await rerun(world.store, spool, found, ProfileChange(settings=(PACKED,)))
    nothing = await rerun(world.store, spool, [], ProfileChange())

    assert same.counts == {"same": 2, "otherwise": 1}
    assert packed.counts["placed"] == 1
    plain = packed.to_plain()
    assert {one["pod"]: one["verdict"] for one in plain["pods"]}["default/large"] == "placed"
    last = plain["overTime"][-1]
    assert last["again"]["use"]["cpu"] == 75.0 > last["recorded"]["use"]["cpu"] == 25.0
    assert packed.packed == 0.75
    assert (nothing.decisions, nothing.packed) == (0, None)


def test_fragmentation_is_what_is_free_where_pods_do_not_fit() -> None:
    simulator = RerunSimulator(PROFILES)
    for name, cpu in (("large", "4"), ("small", "1")):
        simulator.add({"kind": "Node", **node_object(name, cpu=cpu)})
    shapes = shapes_of([{"cpu": 2000}, {"cpu": 2000}, {"cpu": 500}, {"cpu": 9000}])

    assert shapes[0] == ((("cpu", 2000),), 2)
    found = fragmentation(simulator.snapshot(), [*shapes, ((("example.com/gpu", 1),), 5)])
    assert found == {"cpu": pytest.approx((2 * 0.2 + 0.0 + 1.0) / 4)}
    assert fragmentation(simulator.snapshot(), []) == {}


def test_pods_that_go_on_waking_each_other_are_left_and_it_is_said() -> None:
    span = Span()
    span.node("a", cpu="1")
    for number in range(3):
        span.pod(f"pod-{number}", cpu="9")
    span.rerun.tries = 50 * 13
    span.node("b", cpu="2")
    span.node("c", cpu="10")

    report = RerunReport()
    report.close(span.rerun)

    assert report.stopped
    assert report.counts == {"otherwise": 3}
