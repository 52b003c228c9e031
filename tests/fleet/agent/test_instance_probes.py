from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fleet.agent.hosts import COMMAND, FIRST, NOON, exit_of, grant, running, until
from wharfinger.etcd import keys
from wharfinger.fleet.agent.host_exits import HostExits
from wharfinger.fleet.agent.instances import HostProbes
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore


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
