"""Where a rerun ends, who bound what in the record, and what becomes of victims."""

from __future__ import annotations

from typing import Any

import pytest

from tests.replay.cli.test_replay_output import TOLD
from tests.replay.replay_stage import Stage
from tests.replay.test_rerun import PACKED, Span
from tests.scheduling.world import CLUSTER
from wharfinger.errors import Compacted
from wharfinger.etcd import keys
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION
from wharfinger.objects.model.pod import PodKey
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.cli.replay_output import tell
from wharfinger.replay.ends import verdict_of
from wharfinger.replay.recorded import DecidedRun
from wharfinger.replay.report import html_report
from wharfinger.replay.report.rerun_report import RerunReport
from wharfinger.replay.reruns import rerun


async def lived(stage: Stage, runs: list[DecidedRun], change: ProfileChange | None = None, **more: Any) -> RerunReport:
    spool = Spool()
    for run in runs:
        spool.add(run)
    report = await rerun(stage.world.store, spool, spool.units(), change or ProfileChange(), cluster=CLUSTER, **more)
    spool.close()
    return report


async def decided(stage: Stage, *names: str) -> None:
    hand = stage.world.hands[0] if stage.world.hands else await stage.world.hand()
    for name in names:
        await stage.world.put_pod(name)
        await stage.world.seen()
        await stage.alone(hand, name)


async def test_a_span_that_ends_earlier_knows_nothing_of_later(stage: Stage) -> None:
    """A node goes and pods come after it; the bind of its last decision is seen nevertheless."""
    for name in ("a", "b"):
        await stage.world.put_node(name, cpu="8")
    await decided(stage, "first", "last", "later")
    await stage.world.store.delete(keys.node("a"))
    await stage.world.store.delete(keys.node("b"))

    ended = await lived(stage, stage.runs[:2], ends=True)
    whole = await lived(stage, stage.runs)

    assert ended.counts == {"same": 2}
    assert {pod for pod, _, _ in ended.ends} == {"default/first", "default/last"}
    assert ended.moments[-1].again.use, "the nodes are there"
    assert whole.counts == {"same": 3}
    assert not whole.moments[-1].again.use


async def test_a_bind_by_a_run_outside_of_the_span_is_decided_again(stage: Stage) -> None:
    """The record put it on b; packed, it joins the others on a, though its own run was not read."""
    for name in ("a", "b"):
        await stage.world.put_node(name, cpu="8")
    await decided(stage, "one", "two", "three", "four")
    recorded = {run.name: run.lone.node for run in stage.runs if run.lone is not None and run.lone.kind == "placed"}

    report = await lived(stage, [stage.runs[0], stage.runs[-1]], ProfileChange(settings=(PACKED,)))

    assert set(recorded.values()) == {"a", "b"}
    assert len({node for _, _, node in report.ends}) == 1
    assert report.counts == {"same": 2, "elsewhere": 2}


def test_attempts_of_another_cluster_are_facts() -> None:
    span = Span()
    span.rerun.cluster = "ours"
    span.node("a", cpu="8")
    for name in ("mine", "theirs"):
        span.pod(name)
    span.node("b", cpu="8")
    for name, cluster in (("mine", "ours"), ("theirs", "other")):
        attempt = {ATTEMPT_ANNOTATION: f"{cluster}/pods/default/{name}@run"}
        span.bound(name, "b", foreign=True, annotations=attempt)

    assert span.nodes == {"mine": "a", "theirs": "b"}


@pytest.mark.parametrize("names", [("old", "young"), ("young", "old")])
def test_the_longest_running_pod_is_not_the_victim(names: tuple[str, str]) -> None:
    times = {"old": "2026-03-01T10:00:00Z", "young": "2026-03-01T11:00:00Z"}
    span = Span()
    span.node("a", cpu="2")
    for name in names:
        span.pod(name, spec={"nodeName": "a", "priority": 1}, status={"startTime": times[name]})
    span.pod("vip", spec={"priority": 9})

    assert span.rerun.evictions == [(PodKey("default", "young"), PodKey("default", "vip"))]


def test_what_the_rerun_binds_runs_since_then() -> None:
    """Younger than a pod that a kubelet started before, whatever day it is."""
    span = Span()
    span.node("a", cpu="2")
    span.pod("there", spec={"nodeName": "a", "priority": 1}, status={"startTime": "2030-03-01T10:00:00Z"})
    span.rerun.time = 1_900_000_000.0
    span.pod("new", spec={"priority": 1})
    span.pod("vip", spec={"priority": 9})

    assert span.lived("new").started == "2030-03-17T17:46:40Z"
    assert span.rerun.evictions == [(PodKey("default", "new"), PodKey("default", "vip"))]


def preempted(*, then: bool) -> Span:
    """`then`: whether the record evicted the victim, too."""
    span = Span()
    span.node("a", cpu="2")
    span.pod("low", cpu="2", spec={"priority": 1})
    span.bound("low", "a", cpu="2")
    span.pod("vip", cpu="2", spec={"priority": 9})
    if then:
        mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        span.pod("low", cpu="2", spec={"priority": 1, "nodeName": "a"}, status={"conditions": [mark]})
        span.gone(keys.pod("default", "low"))
        span.bound("vip", "a", cpu="2")
    return span


def test_a_victim_of_the_rerun_alone_is_no_pod_on_the_same_node() -> None:
    span, report = preempted(then=False), RerunReport()
    report.close(span.rerun)
    ends = report.ends_to_plain()

    assert report.counts == {"evicted": 1, "placed": 1}
    assert report.to_plain()["summary"]["evicted"] == 1
    assert [(one["pod"], one["verdict"], one["evicted"]) for one in report.to_plain()["pods"]] == [
        ("default/low", "evicted", True),
        ("default/vip", "placed", False),
    ]
    assert ends is not None
    assert [pod[0] for pod in ends["pods"] if pod[2] == -1] == ["default/low"]
    assert ends["evicted"] == [0]
    plain = TOLD | {"since": None} | report.to_plain()
    assert "1      bound in the record, and evicted for another pod in the rerun" in tell(plain)
    assert "evicted for another pod in the rerun only" in html_report.page(plain)


def test_a_victim_of_both_is_where_it_was() -> None:
    report = RerunReport()
    report.close(preempted(then=True).rerun)

    assert report.counts == {"same": 2}


def test_a_victim_that_the_record_never_bound_has_no_node_in_either() -> None:
    assert verdict_of("", "a", evicted=True) == "otherwise"
    assert verdict_of("a", "a", evicted=True) == "evicted"


async def test_a_rerun_begins_anew_where_etcd_has_compacted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first state goes while it is listed; the rest is lived."""
    for name in ("a", "b"):
        await stage.world.put_node(name, cpu="8")
    await decided(stage, "one", "two", "three")
    [_, second, _] = [run.computations()[0].revision for run in stage.runs]
    store, listed = stage.world.store, stage.world.store.list

    def compacting(prefix: str, **more: Any) -> Any:
        if prefix == keys.ROOT:
            monkeypatch.setattr(store, "list", listed)
            store.compact(second)
        return listed(prefix, **more)

    monkeypatch.setattr(store, "list", compacting)
    report = await lived(stage, stage.runs)

    assert report.moments[0].revision >= second
    assert report.counts == {"same": 2}, "the first one is bound already"
    with pytest.raises(Compacted):
        async for _ in store.list(keys.ROOT, revision=second - 1):
            pass
