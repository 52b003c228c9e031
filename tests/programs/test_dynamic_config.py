"""Values that a real worker takes in while it places pods: no restart, and every decision can be made again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.patience import patient
from tests.programs.conftest import Site
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.framework.config.dynamic import digest
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.process import logs
from wharfinger.process.records import ConfigStatusRecord, InstanceRecord
from wharfinger.programs.worker import Worker
from wharfinger.scheduling.contracts.scheduling import Placed
from wharfinger.scheduling.reading.attempts import explain_pod
from wharfinger.scheduling.reading.deciding_again import decide_again, decision_of
from wharfinger.settings import DispatchSettings
from wharfinger.testing import node_manifest

TENANT = "tenant/common"
DEFAULT = "default-scheduler"
ROOM = {"profiles": {DEFAULT: {"weights": {"NodeResourcesFit": 100}}}}
"""Room counts for more than taints do."""


@dataclass
class Case:
    """A worker among two nodes: `tainted` has most room, but pods had better go to `small`."""

    site: Site
    worker: Worker

    async def set(self, kind: str, value: Any, target: str = TENANT) -> None:
        """Set a value (None: take it away), and wait until the worker knows."""
        key = keys.config(kind, target)
        if value is None:
            await self.site.store.delete(key)
        else:
            await self.site.store.put(key, json.dumps(value).encode())
        follower = self.worker.loops.dynamic.follower(kind)
        wanted = "" if value is None else digest(value)
        await self.site.until(lambda: follower.digest == wanted or (value is not None and follower.problem))

    async def placed(self, name: str) -> Placed:
        """Place a pod, and prove that its decision can be made again."""
        await self.site.pod(name)
        await self.site.all_bound([name])
        return await self.decided(name)

    async def decided(self, name: str) -> Placed:
        """The decision for a bound pod; the same again, by what its hash says."""
        key = PodKey(self.site.namespace, name)
        found = await explain_pod(self.site.client, self.site.store, cluster="wharfinger", key=key)
        _, decision = decision_of(found.attempts, key, None)
        again = await decide_again(self.site.store, decision, load_profiles)
        assert isinstance(decision.outcome, Placed)
        assert again.same, (name, again.recorded, again.recomputed)
        return decision.outcome

    async def told(self) -> ConfigStatusRecord:
        """What the worker says of its configuration."""
        slot = self.worker.loops.membership.slot
        kv = (await self.site.store.get(keys.config_status("common", slot, 1))).kv
        assert kv is not None
        return ConfigStatusRecord.model_validate_json(kv.value)

    async def registration(self) -> KeyValue:
        """The worker's own, once it says ready."""
        async with asyncio.timeout(patient(20)):
            while True:
                kv = (await self.site.store.get(keys.instance("common", self.worker.loops.membership.slot, 1))).kv
                if kv is not None and InstanceRecord.model_validate_json(kv.value).state == "ready":
                    return kv
                await asyncio.sleep(0.02)


async def two_nodes(site: Site, **settings: Any) -> Case:
    for name, cpu, taints in (("tainted", "64", [{"key": "k", "effect": "PreferNoSchedule"}]), ("small", "1", [])):
        await site.store.put(keys.node(name), json.dumps(node_manifest(name, cpu, taints=taints)).encode())
    return Case(site, await site.worker(**settings))


async def test_other_weights_decide_without_a_restart_and_are_recorded(site: Site) -> None:
    case = await two_nodes(site)
    started = load_profiles()[DEFAULT].digest
    before = await case.placed("before")
    await case.set("profile", ROOM)
    between = await case.placed("between")
    await case.set("profile", None)
    after = await case.placed("after")

    assert [one.node for one in (before, between, after)] == ["small", "tainted", "small"]
    assert before.computation.profile == after.computation.profile == started
    assert between.computation.profile != started


async def test_values_in_force_and_refused_are_reported_beside_the_registration(site: Site) -> None:
    """The registration stays as it is: a ready worker stays counted, and a drain that relied on it goes on."""
    case = await two_nodes(site)
    before = await case.registration()
    await case.set("profile", ROOM)
    await case.set("queue", {"podInitialBackoffSeconds": 60, "podMaxBackoffSeconds": 1})
    async with asyncio.timeout(patient(20)):
        while not (said := await case.told()).problems:
            await asyncio.sleep(0.02)

    assert said.in_force == {"profile": digest(ROOM)}
    assert said.profiles == {DEFAULT: (await case.placed("now")).computation.profile}, "what decides is named"
    assert said.problems["queue"].startswith(f"{TENANT}: podMaxBackoffSeconds: must be at least")
    assert await case.registration() == before


async def test_decisions_during_weight_changes_can_each_be_recomputed(site: Site) -> None:
    case = await two_nodes(site)
    names = [f"p-{number}" for number in range(24)]
    for number, name in enumerate(names):
        await site.pod(name)
        if number % 4 == 3:
            await site.all_bound([names[number - 3]])  # by these weights; others may be on their way
            await case.set("profile", ROOM if number % 8 == 3 else None)
    await site.all_bound(names)
    decided = [await case.decided(name) for name in names]

    assert len({one.computation.profile for one in decided}) == 2


async def test_decisions_of_cohorts_while_weights_change_can_each_be_made_again(site: Site) -> None:
    names = [f"p-{number}" for number in range(100)]
    for name in names:
        await site.pod(name)
    case = await two_nodes(site, dispatching=DispatchSettings(hold=0.1, cohort_most=24))
    flips = 0
    while not all([await site.node_of(name) for name in names[-3:]]):
        flips += 1
        await case.set("profile", ROOM if flips % 2 else None)
    await site.all_bound(names)
    decided = [await case.decided(name) for name in names[::10]]

    assert case.worker.metrics.registry.get_sample_value("wharfinger_cohort_pods_count")
    assert {one.computation.profile for one in decided} <= set(await kept(site))


async def kept(site: Site) -> list[str]:
    """The hashes whose content etcd has."""
    return [kv.key.removeprefix(keys.PROFILES) async for page in site.store.list(keys.PROFILES) for kv in page.items]


async def test_a_worker_begins_with_the_values_that_are_there(site: Site) -> None:
    await site.store.put(keys.config("profile", TENANT), json.dumps(ROOM).encode())
    await site.pod("early")
    case = await two_nodes(site)
    await site.all_bound(["early"])

    assert (await case.decided("early")).node == "tainted"


async def test_a_value_that_is_wrong_for_this_worker_changes_nothing(site: Site) -> None:
    case = await two_nodes(site)
    await case.set("profile", ROOM)
    await case.set("profile", {"profiles": {DEFAULT: {"weights": {"Nonsense": 1}}, "other": {}}})
    follower = case.worker.loops.dynamic.follower("profile")

    assert follower.digest == digest(ROOM)
    assert "other: there is no such profile" in follower.problem
    assert (await case.placed("p")).node == "tainted"


async def test_a_waiting_pod_is_looked_at_again_when_arguments_change(site: Site) -> None:
    case = await two_nodes(site)
    asked = {"example.com/gpu": "1"}
    containers = [{"name": "c", "resources": {"requests": asked, "limits": asked}}]
    value = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gpu", "namespace": site.namespace},
        "spec": {"containers": containers},
    }
    await site.store.put(keys.pod(site.namespace, "gpu"), json.dumps(value).encode())
    await site.until(lambda: len(case.worker.queue.waiting) == 1)
    ignored = [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/gpu"]}}]
    await case.set("profile", {"profiles": {DEFAULT: {"pluginConfig": ignored}}})

    await site.all_bound(["gpu"])
    await case.decided("gpu")


async def test_chains_that_are_started_from_now_on_back_off_otherwise(site: Site) -> None:
    case = await two_nodes(site)
    await case.set("queue", {"podInitialBackoffSeconds": 7, "podMaxBackoffSeconds": 70})
    await site.pod("p")
    await site.all_bound(["p"])

    workflow = (await site.stored("p"))["metadata"]["annotations"]["wharfinger.dev/attempt"].partition("@")[0]
    history = await site.client.get_workflow_handle(workflow).fetch_history()
    policy = history.events[0].workflow_execution_started_event_attributes.retry_policy
    assert (policy.initial_interval.seconds, policy.maximum_interval.seconds) == (7, 70)


@pytest.fixture
def level() -> Iterator[str]:
    before = logs.level()
    yield before
    logs.set_level(before)


async def test_log_level_changes_and_goes_back(site: Site, level: str) -> None:
    case = await two_nodes(site)
    await case.set("log", {"level": "error"})
    assert logs.level() == "error"
    await case.set("log", None)
    assert logs.level() == level


async def test_a_worker_that_was_ready_for_long_enough_has_proven_its_values(site: Site) -> None:
    case = await two_nodes(site, min_ready=0.5)
    await case.set("profile", ROOM)
    proven = case.worker.metrics.config_updates.labels("profile", "proven")

    await site.until(lambda: proven._value.get() == 1)
