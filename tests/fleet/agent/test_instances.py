from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.fleet.agent.hosts import COMMAND, FIRST, NOON, SECOND, exit_of, grant, revoke, running, until
from wharfinger.etcd import keys
from wharfinger.fleet.agent.host_exits import HostExits
from wharfinger.fleet.agent.instances import HostGrants, HostProbes, instance_of
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture
def runtime(tmp_path: Path) -> FakeRuntime:
    return FakeRuntime(tmp_path)


def grants(store: MemoryStore, runtime: FakeRuntime) -> HostGrants:
    return HostGrants(store, runtime, "here", rng=random.Random(1))


async def test_an_instance_whose_grant_goes_is_ended_and_forgotten(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    for instance in (FIRST, SECOND):
        await grant(store, instance)
        await runtime.start(instance, COMMAND)
    following = grants(store, runtime)
    async with running(following.run()):
        await following.synced.wait()
        await revoke(store)
        await until(lambda: not runtime.lived(FIRST))

        assert [process.id for process in runtime.running()] == [SECOND]


async def test_a_stubborn_one_is_killed(runtime: FakeRuntime) -> None:
    runtime.stubborn.add(FIRST)
    await runtime.start(FIRST, COMMAND)
    async with running(grants(MemoryStore(), runtime).run()):
        await until(lambda: runtime.running() == [])


async def test_orphans_without_a_grant_are_ended_and_their_exits_forgotten(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    third = FIRST._replace(incarnation=3)
    runtime.left_running, runtime.left_ended = {FIRST, SECOND}, {third}
    await runtime.adopt()
    await grant(store, SECOND)
    async with running(grants(store, runtime).run()):
        await until(lambda: not runtime.lived(FIRST) and not runtime.lived(third))

        assert [process.id for process in runtime.running()] == [SECOND]


async def test_what_ended_is_kept_while_its_grant_is_there(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    await grant(store)
    await runtime.start(FIRST, COMMAND)
    runtime.end(FIRST, "code", 1)
    following = grants(store, runtime)
    async with running(following.run()):
        await following.synced.wait()
        await following.look()
        assert runtime.lived(FIRST)

        await revoke(store)
        await until(lambda: not runtime.lived(FIRST))


async def test_one_whose_grant_names_another_host_is_ended(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    await grant(store, host="elsewhere")
    await runtime.start(FIRST, COMMAND)
    async with running(grants(store, runtime).run()):
        await until(lambda: runtime.running() == [])


async def test_a_process_younger_than_the_watch_is_not_ended(runtime: FakeRuntime) -> None:
    """Its grant was put after the list, and the watch has not shown it: it is read before anything is done."""
    store = MemoryStore()
    following = grants(store, runtime)
    await grant(store)
    await runtime.start(FIRST, COMMAND)

    await following.look()
    await asyncio.gather(*following._ending.values())

    assert [process.id for process in runtime.running()] == [FIRST]


async def test_unreadable_grant_ends_no_instance(runtime: FakeRuntime) -> None:
    store = MemoryStore()
    await store.put(keys.grant(*FIRST), b"{")
    await runtime.start(FIRST, COMMAND)
    following = grants(store, runtime)
    async with running(following.run()):
        await following.synced.wait()
        await following.look()

        assert [process.id for process in runtime.running()] == [FIRST]


@pytest.mark.parametrize(
    "key", ["common/hand-host-1f/1", "common/0", "common/0/x", "common/0/" + "9" * 30, "common/²/1"]
)
def test_keys_of_others_name_no_instance(key: str) -> None:
    assert instance_of(keys.GRANTS + key, keys.GRANTS) is None


# --- probes ----------------------------------------------------------------------------------------


class Endpoint:
    """Answers as told."""

    problem = ""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, url: str) -> str:
        self.asked.append(url)
        return self.problem


class Scene:
    def __init__(self, folder: Path) -> None:
        self.store, self.runtime, self.endpoint = MemoryStore(), FakeRuntime(folder), Endpoint()
        rng = random.Random(1)
        self.exits = HostExits(ProcessParts(self.store, rng=rng, utc_now=lambda: NOON), self.runtime, "here")
        self.probes = HostProbes(self.store, self.runtime, self.exits, self.endpoint, every=60.0, most=3, rng=rng)

    async def register(self, state: str = "ready", pid: int = 0) -> None:
        process = self.runtime.find(FIRST)
        assert process is not None
        record = InstanceRecord(state=state, host="here", pid=pid or process.pid, health="http://one:1")  # type: ignore[arg-type]
        await self.store.put(keys.instance("common", "0", 1), record.to_bytes())
        self.probes.listed((await anext(aiter(self.store.list(keys.INSTANCES)))).items)


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)
    await grant(scene.store)
    await scene.runtime.start(FIRST, COMMAND)
    return scene


async def test_three_failed_probes_in_a_row_kill_the_instance_and_are_logged(scene: Scene) -> None:
    await scene.register()
    scene.endpoint.problem = "no answer"
    async with running(scene.exits.run()):
        await scene.probes.probe()
        await scene.probes.probe()
        scene.endpoint.problem = ""
        await scene.probes.probe()
        scene.endpoint.problem = "no answer"
        await scene.probes.probe()
        await scene.probes.probe()
        assert scene.runtime.find(FIRST) is not None

        await scene.probes.probe()

        assert scene.runtime.find(FIRST) is None
        await until(lambda: _exited(scene))
    exited = await exit_of(scene.store)
    assert exited is not None
    assert (exited.how, exited.detail) == ("probe", "/livez failed 3 times: no answer")


async def _exited(scene: Scene) -> bool:
    return await exit_of(scene.store) is not None


@pytest.mark.parametrize("state", ["starting", "ready", "withdrawn"])
async def test_instance_is_probed_at_its_registered_address(scene: Scene, state: str) -> None:
    await scene.register(state)

    await scene.probes.probe()

    assert scene.endpoint.asked == ["http://one:1/livez"]


async def test_one_that_drains_is_left_alone(scene: Scene) -> None:
    await scene.register("draining")

    await scene.probes.probe()

    assert scene.endpoint.asked == []


async def test_instance_without_a_registered_address_is_not_probed(scene: Scene) -> None:
    await scene.probes.probe()

    assert scene.endpoint.asked == []


async def test_a_record_of_another_process_counts_for_nothing(scene: Scene) -> None:
    await scene.register(pid=1)

    await scene.probes.probe()

    assert scene.endpoint.asked == []


async def test_instance_whose_lease_is_lost_is_still_probed(scene: Scene) -> None:
    await scene.register()
    scene.probes.listed([])

    await scene.probes.probe()

    assert scene.endpoint.asked == ["http://one:1/livez"]
