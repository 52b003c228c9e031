from __future__ import annotations

import random
from pathlib import Path

from tests.fleet.agent.hosts import COMMAND, FIRST, NOON, SECOND, exit_of, grant, running
from wharfinger.fleet.agent.host_exits import HostExits, end_instances
from wharfinger.process.parts import ProcessParts
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore


async def test_instances_that_end_with_their_agent_have_not_crashed(tmp_path: Path) -> None:
    store, runtime = MemoryStore(), FakeRuntime(tmp_path)
    exits = HostExits(ProcessParts(store, rng=random.Random(1), utc_now=lambda: NOON), runtime, "here")
    for instance in (FIRST, SECOND):
        await grant(store, instance)
        await runtime.start(instance, COMMAND)
    runtime.stubborn.add(SECOND)
    async with running(exits.run()):
        await end_instances(runtime, exits, 1.0)

    ends = [await exit_of(store, instance) for instance in (FIRST, SECOND)]
    assert [(end.how, end.planned) for end in ends if end is not None] == [("drained", True), ("signal", True)]
