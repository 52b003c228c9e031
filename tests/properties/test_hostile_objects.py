"""Whatever lies in etcd, under whatever key: a worker's core takes it in, tells of it, and serves the others.

The decoders alone are tested in `tests/objects/documents/test_fuzz`; here is what follows them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clock import Clock
from tests.objects.documents.test_fuzz import VALUES, paths, replaced
from tests.patience import patient
from tests.properties import hostile
from tests.properties.shares import in_quarters
from tests.scheduling.stage import PROFILES, Stage, node_bytes, pod_bytes
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.etcd.table import ParsedKey
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.records import AttemptRecord, InstanceRecord
from wharfinger.scheduling.model.promises import KubernetesSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import observe
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.queue.entry import Part
from wharfinger.telemetry import Metrics

PROFILE: Profile = PROFILES["default-scheduler"]


class Follower:
    """The view of one worker, told of one key after the other."""

    def __init__(self) -> None:
        self.cache = Cache(clock=Clock())
        self.cache.kubernetes = KubernetesSide()
        self.view = View(self.cache, Metrics())
        self.revision = 0

    def take(self, key: str, value: bytes | None) -> None:
        self.revision += 1
        kv = KeyValue(key, value or b"", self.revision if value is not None else 0, self.revision)
        observed = observe(Event(kv, deleted=value is None))
        if observed is not None:
            self.view.take(observed, Changes(self.revision))
        self.cache.progress.advance(self.revision)

    def decide_everything(self) -> None:
        """A decision for each pending pod, with everything that is told of it."""
        for pod in list(self.cache.pods.values()):
            if pod.pending and pod.scheduler_name in PROFILES and PROFILE.gate(pod).ok:
                decide(pod, self.cache)


def decide(pod: Pod, cache: Cache) -> None:
    evaluation = PROFILE.evaluate(pod, cache.snapshot(excluding=pod.identity))
    assert evaluation.node is None or evaluation.node in cache.nodes
    assert evaluation.refusals is not None
    assert isinstance(evaluation.message, str)


def test_every_key_space_is_tried() -> None:
    assert set(hostile.COMPLETE) == {*keys.FOLLOWED, keys.PROFILES, keys.SOFTWARE, keys.INSTALLATION}


@in_quarters(150)
@given(st.data(), st.sampled_from(sorted(hostile.COMPLETE)), VALUES)
def test_any_field_of_any_kind_may_hold_anything(quarter: int, data: st.DataObject, prefix: str, new: Any) -> None:
    complete = hostile.named(hostile.COMPLETE[prefix], prefix, 1)
    value = json.dumps(replaced(complete, data.draw(st.sampled_from(paths(complete))), new)).encode()
    follower = Follower()
    follower.take(keys.node("n"), node_bytes("n"))
    follower.take(hostile.well_formed_key(prefix, 1), value)
    follower.take(keys.pod("default", "good"), pod_bytes("good"))

    follower.decide_everything()


@given(st.lists(st.sampled_from(["", "a", "/", "\udcff", "\n", "wharfinger.dev/", "pods/"]), max_size=8), st.binary())
def test_any_key_may_hold_anything(parts: list[str], value: bytes) -> None:
    follower = Follower()
    for prefix in (keys.ROOT, *hostile.COMPLETE):
        follower.take(prefix + "".join(parts), value)
        follower.take(prefix + "".join(parts), None)

    assert follower.view.invalid.reasons == {}


def test_as_large_as_etcd_takes_them_and_many() -> None:
    follower = Follower()
    for number in range(20):
        follower.take(keys.node(f"n{number}"), node_bytes(f"n{number}"))
    for key, value in hostile.huge(random.Random(1)):
        follower.take(key, value)

    follower.decide_everything()
    follower.take(keys.pod("default", "good"), pod_bytes("good"))
    decide(follower.cache.pods[PodKey("default", "good")], follower.cache)


@pytest.mark.parametrize("seed", range(3))
async def test_loops_continue_and_report_each_unreadable_object_once(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed)
    stored = dict(hostile.stored(rng, 600))
    caplog.set_level(logging.INFO)
    async with Stage() as stage:
        await stage.put_node("good")
        for number, (key, value) in enumerate(stored.items()):
            await stage.store.put(key, value)
            if number % 50 == 0:
                await stage.put_pod(f"good{number}")
                await stage.until(lambda name=f"good{number}": name in stage.attempts.names)
                await stage.bind(f"good{number}", "good")
        for pod in [pod for pod in stage.cache.pods.values() if pod.pending]:  # so that the waker decides them too
            record = AttemptRecord(attempt=1, create_revision=pod.create_revision, plugins=("NodeResourcesFit",))
            await stage.store.put(keys.attempt(pod.namespace, pod.name), record.to_bytes())
        await stage.put_node("larger", cpu="64")
        await stage.caught_up()

        invalid = stage.loops.scheduling.view.invalid.reasons
        for key in stored:
            parsed = keys.parse(key)
            if parsed is not None and parsed.prefix in (keys.PODS, keys.NODES):
                assert (key in invalid) != _readable(stage, parsed) or _occupies(stage, parsed)
        told = sum(sample.value for metric in stage.metrics.invalid_objects.collect() for sample in metric.samples)
        assert told == len(invalid) > 200
        lines = Counter(record.getMessage() for record in caplog.records if record.msg.startswith("object_invalid "))
        assert sum(lines.values()) == len(invalid)
        failed = {record.name for record in caplog.records if record.levelno >= logging.ERROR}
        assert failed <= {
            "wharfinger.scheduling.loops.closer"
        }  # the stage's Temporal has no run of such an id, and says so loudly
        assert max(len(record.getMessage()) for record in caplog.records) < 4000

        for key in stored:
            await stage.store.delete(key)
        await stage.caught_up()
        assert stage.loops.scheduling.view.invalid.reasons == {}


async def test_a_worker_that_lists_finds_what_another_watched() -> None:
    async with Stage() as watching:
        for key, value in hostile.stored(random.Random(4), 600):
            await watching.store.put(key, value)
        async with Stage(watching.store) as listing:
            await watching.caught_up()
            await listing.caught_up()

            assert watching.loops.scheduling.view.invalid.reasons == listing.loops.scheduling.view.invalid.reasons
            assert set(watching.cache.pods) == set(listing.cache.pods)
            assert set(watching.cache.nodes) == set(listing.cache.nodes)


@pytest.mark.long
async def test_very_large_objects_one_after_the_other_let_the_loop_run() -> None:
    large = [each for seed in range(3) for each in hostile.huge(random.Random(seed)) if len(each[1]) > 200_000]
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with Stage() as stage:
        stage.loops.scheduling.informer._clock = time.monotonic  # how long it decodes at a stretch is real
        stage.loops.scheduling.informer._store.pause_watches()  # type: ignore[attr-defined]
        for key, value in large:
            await stage.store.put(key, value)
        turning = asyncio.create_task(turn())
        stage.loops.scheduling.informer._store.resume_watches()  # type: ignore[attr-defined]
        caught_up = await stage.cache.progress.wait_for(stage.store.revision, patient(10))
        turning.cancel()

        assert caught_up
        assert turns > sum(len(value) for _, value in large) // 2**21


async def test_a_registration_that_no_lease_holds_gets_no_share_of_the_pods() -> None:
    async with Stage() as stage:
        record = InstanceRecord(state="ready", host="h", pid=1)
        await stage.store.put(keys.instance("common", "ghost", 1), record.to_bytes())
        await stage.caught_up()

        assert len(stage.loops.scheduling.shards.members) == 1
        assert keys.instance("common", "ghost", 1) in stage.loops.scheduling.view.invalid.reasons


async def test_a_record_of_the_future_keeps_no_pod_waiting() -> None:
    async with Stage() as stage:
        revision = await stage.put_pod("p")
        record = AttemptRecord(attempt=1, create_revision=revision, revision=2**62, plugins=("NodeResourcesFit",))
        await stage.store.put(keys.attempt("default", "p"), record.to_bytes())
        await stage.caught_up()

        assert stage.part("p") is Part.IN_FLIGHT


def _readable(stage: Stage, parsed: ParsedKey) -> bool:
    if len(parsed.parts) == 1:
        return parsed.prefix == keys.NODES and parsed.parts[0] in stage.cache.nodes
    return len(parsed.parts) == 2 and parsed.prefix == keys.PODS and PodKey(*parsed.parts) in stage.cache.pods


def _occupies(stage: Stage, parsed: ParsedKey) -> bool:
    """Whether it is a pod that cannot be read, but counts on the node that it says it is on."""
    pod = stage.cache.pods.get(PodKey(*parsed.parts)) if parsed.prefix == keys.PODS else None
    return pod is not None and pod.bound
