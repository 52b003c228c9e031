"""Refusals that the Kubernetes API was not told of are told again, and never of another pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wharfinger.kubernetes.loops.sweeps import RefusalSweep
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.scheduling.state.cache.cache import Cache


class AllShards:
    """Every pod is this worker's."""

    def mine(self, _pod: Pod) -> bool:
        return True


class HeardTeller:
    """Notes what is told, and of which pod."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.nominated: list[str | None] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def refused(self, pod: Pod, _raw: bytes, *, message: str, nominated: str | None, **_more: Any) -> bool:
        self.told.append((pod.uid, message))
        self.nominated.append(nominated)
        self.meanwhile()
        return True


class RefusedPods:
    """Two pods that were refused, and nobody told the API."""

    def __init__(self) -> None:
        self.teller = HeardTeller()
        self.cache = Cache(clock=lambda: 0.0)
        self.records: dict[PodKey, Refusal] = {}
        for name in ("a", "b"):
            self.put(name, f"uid-{name}", 5)
            self.records[PodKey("default", name)] = Refusal(
                1, "Unschedulable", (), 4, f"no room for {name}", "pod-x", "run", 5, record_revision=9, with_pod=True
            )
        self.sweep = RefusalSweep(self.teller, self.cache, AllShards(), self.records)  # type: ignore[arg-type]

    def put(self, name: str, uid: str, create_revision: int, **more: Any) -> None:
        self.cache.set_pod(Pod("default", name, uid, create_revision=create_revision, **more), b"{}")


@pytest.fixture
def pods() -> RefusedPods:
    return RefusedPods()


async def test_what_differs_at_two_looks_is_told(pods: RefusedPods) -> None:
    await pods.sweep.look()
    assert pods.teller.told == []
    await pods.sweep.look()
    assert pods.teller.told == [("uid-a", "no room for a"), ("uid-b", "no room for b")]


async def test_a_condition_that_says_so_is_not_told_again(pods: RefusedPods) -> None:
    pods.put("a", "uid-a", 5, condition=("False", "Unschedulable", "no room for a"))
    await pods.sweep.look()
    await pods.sweep.look()
    assert [uid for uid, _ in pods.teller.told] == ["uid-b"]


async def test_a_pod_created_again_meanwhile_is_not_told_of_the_old_one(pods: RefusedPods) -> None:
    """Telling takes a while for each; the record of the old pod stays until the new one is refused."""
    pods.teller.meanwhile = lambda: pods.put("b", "uid-b2", 12)
    await pods.sweep.look()
    await pods.sweep.look()
    assert [uid for uid, _ in pods.teller.told] == ["uid-a"]


async def test_a_pod_that_is_bound_meanwhile_is_told_nothing(pods: RefusedPods) -> None:
    pods.teller.meanwhile = lambda: pods.put("b", "uid-b", 5, node_name="n1")
    await pods.sweep.look()
    await pods.sweep.look()
    assert [uid for uid, _ in pods.teller.told] == ["uid-a"]


async def test_a_nomination_that_was_cleared_is_not_told_again(pods: RefusedPods) -> None:
    """A more important pod has taken the node from `b`; the record still has it."""
    for key, refusal in pods.records.items():
        pods.records[key] = replace(refusal, nominated_node="n1")
    pods.put("a", "uid-a", 5, nominated_node_name="n1")
    await pods.sweep.look()
    await pods.sweep.look()
    assert pods.teller.nominated == ["n1", None]


async def test_a_record_that_was_not_written_with_its_pod_is_not_told(
    pods: RefusedPods, caplog: pytest.LogCaptureFixture
) -> None:
    """Another client has put it, perhaps; the next attempt of the pod tells what is so."""
    pods.records[PodKey("default", "a")] = replace(pods.records[PodKey("default", "a")], with_pod=False)
    for _ in range(4):
        await pods.sweep.look()
    assert {uid for uid, _ in pods.teller.told} == {"uid-b"}
    assert [line for line in caplog.messages if "unproven" in line] == [
        "refusal_unproven effect=left_to_the_next_attempt pod=default/a revision=9"
    ]
