"""What a rerun keeps of pods: of those that ended nothing in memory, and all of it in their order."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path

import pytest

from tests.replay.replay_stage import Stage
from tests.replay.test_rerun import Span
from tests.scheduling.world import pod_object
from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.model.pod import PodKey
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.ends import PodEnds
from wharfinger.replay.lived_pods import LivedPod, Lives, digest_of, freed
from wharfinger.replay.report.rerun_report import RerunReport
from wharfinger.replay.reruns import FirstState, rerun

BAR = 160
"""Bytes that a pod which came and went may take, caches that have a size included; it was 1,000 once."""
PODS = 500


def a_pod(name: str, created: int) -> LivedPod:
    return LivedPod(PodKey("default", name), created)


def come_and_go(span: Span, first: int, last: int) -> None:
    for number in range(first, last):
        name = f"web-7d4b9c-{number:05d}"
        span.pod(name)
        span.bound(name, "a")
        span.gone(keys.pod("default", name))


def test_pods_that_came_and_went_take_no_memory() -> None:
    """Until they are told: then their names and ends, where a report keeps them."""
    span, report = Span(), RerunReport()
    span.node("a")
    come_and_go(span, 0, 100)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    come_and_go(span, 100, 100 + PODS)
    span.rerun.decided = frozenset()
    gc.collect()
    lived, _ = tracemalloc.get_traced_memory()
    report.close(span.rerun)
    gc.collect()
    told, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert report.decisions == 100 + PODS
    assert len(list(report.ends)) == 100 + PODS
    assert (lived - before) / PODS < BAR
    assert (told - lived) / PODS < BAR


def test_of_a_pod_that_is_there_no_object_is_kept() -> None:
    """Whether it was changed is told by a digest; the order of its fields means nothing."""
    obj = pod_object("web", spec={"nodeName": "a"})
    turned = json.loads(json.dumps(dict(reversed(obj.items()))))
    moved = pod_object("web", spec={"nodeName": "b"}, status={"phase": "Running"})
    other = pod_object("web", cpu="2")

    assert len({digest_of(freed(one)) for one in (obj, turned, moved)}) == 1
    assert digest_of(freed(other)) != digest_of(freed(obj))
    assert {len(digest_of(freed(one))) for one in (obj, other)} == {16}


def test_those_that_ended_are_told_as_they_were_in_their_order() -> None:
    lives = Lives()
    for number in range(6):
        lives.came(a_pod(f"pod-{number}", 10 + number))
    full = LivedPod(
        PodKey("other", "full"),
        20,
        b"digest",
        recorded="a",
        node="b",
        total=321,
        message="no room\nfor it",
        ours=False,
        started="2026-03-01T12:00:00Z",
        evicted=True,
        evicted_then=True,
        failed=True,
        scheduler="own",
        owner="ReplicaSet/web",
    )
    lives.came(full)
    for key in (PodKey("default", "pod-4"), PodKey("default", "pod-1"), full.key):
        found = lives.get(key)
        assert found is not None
        lives.ended(found)
    lives.came(a_pod("pod-1", 30))

    found_again = list(lives)
    there = list(lives.there)
    lives.close()

    assert [pod.create_revision for pod in found_again] == [10, 11, 12, 13, 14, 15, 20, 30]
    assert [pod.create_revision for pod in there] == [10, 12, 13, 15, 30]
    assert len(lives) == 8
    full.digest = b""
    assert found_again[6] == full
    assert type(found_again[6].evicted) is bool


def test_texts_that_no_file_can_hold_stop_nothing() -> None:
    span, report = Span(), RerunReport()
    span.node("a")
    for name, change in (("moved", {"nodeName": "\ud800"}), ("others", {"schedulerName": "\udfff"})):
        span.pod(name)
        span.pod(name, spec=change)
        span.gone(keys.pod("default", name))
    report.close(span.rerun)

    assert [(pod.key.name, pod.recorded) for pod in span.rerun.lived] == [("moved", "?"), ("others", "")]
    assert report.counts == {"placed": 1}


def test_the_first_state_is_lived_classes_first_and_pods_last() -> None:
    state = FirstState()
    given = {
        keys.pod("default", "late"): 9,
        keys.pod("default", "early"): 2,
        keys.node("b"): 3,
        keys.node("a"): 4,
        f"{keys.PRIORITY_CLASSES}high": 8,
        f"{keys.NAMESPACES}default": 1,
        "/registry/unknown": 5,
    }
    state.add(KeyValue(key, b"\xff\x00", created, created + 1, 7) for key, created in given.items())

    events = list(state.events())
    state.close()

    assert [event.kv.key.rpartition("/")[2] for event in events] == [
        "high", "default", "unknown", "b", "a", "early", "late",
    ]  # fmt: skip
    assert {event.kv.mod_revision - event.kv.create_revision for event in events} == {1}
    assert {(event.kv.value, event.kv.lease) for event in events} == {(b"\xff\x00", 7)}
    assert not any(event.deleted for event in events)


def test_a_folder_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    lives = Lives()
    lives.came(a_pod("web", 1))

    with pytest.raises(UsageError, match="TMPDIR names another folder"):
        lives.ended(next(lives.there))
    with pytest.raises(UsageError, match="TMPDIR names another folder"):
        FirstState()
    span = Span()
    span.node("a")
    span.pod("job")
    with pytest.raises(UsageError, match="TMPDIR names another folder"):
        span.bound("job", "a", status={"phase": "Succeeded"})


def test_ends_are_kept_of_so_many_pods_and_of_more_not_at_all() -> None:
    ends = PodEnds(most=3)
    for number, node in enumerate(("a", "", "b")):
        ends.add(f"default/pod-{number}", 10 + number, node, evicted=not node)

    assert list(ends) == [("default/pod-0", 10, "a"), ("default/pod-1", 11, ""), ("default/pod-2", 12, "b")]
    assert ends.to_plain() == {
        "nodes": ["a", "b"],
        "pods": [["default/pod-0", 10, 0], ["default/pod-1", 11, -1], ["default/pod-2", 12, 1]],
        "evicted": [1],
    }
    for number in range(3, 6):
        ends.add(f"default/pod-{number}", 10 + number, "a", evicted=False)
    assert ends.to_plain() is None
    assert list(ends) == []


async def test_the_file_is_given_back_however_a_rerun_ends(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.world.put_node("a", cpu="8")
    hand = await stage.world.hand()
    await stage.world.put_pod("web")
    await stage.world.seen()
    await stage.alone(hand, "web")
    await stage.world.store.delete(keys.pod("default", "web"))
    spool, closed = Spool(), list[Lives]()
    spool.add(stage.runs[0])
    close = Lives.close
    monkeypatch.setattr(Lives, "close", lambda lives: (closed.append(lives), close(lives))[0])

    report = await rerun(stage.world.store, spool, spool.units(), ProfileChange())
    monkeypatch.setattr(RerunReport, "close", None)
    with pytest.raises(TypeError):
        await rerun(stage.world.store, spool, spool.units(), ProfileChange())
    spool.close()

    assert report.counts == {"same": 1}
    assert [len(lives) for lives in closed] == [1, 1]
