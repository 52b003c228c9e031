"""What a hub reconciles of everything now and then: the parts of a sweep, edited overrides, and seen time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from itertools import islice

import pytest

from tests.fleet.agent.hosts import running
from tests.placement.delivery_scene import rolled_out
from tests.placement.effects.test_rolling_out import override
from tests.placement.hub.test_rollout_controller import ReconcilingScene, settled_scene
from tests.placement.scene import P
from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Read
from wharfinger.placement.hub import rollout_controller
from wharfinger.process import controller
from wharfinger.process.controller import SWEEP, TICK, sweep_parts


class Swept:
    """A sweep of references that may change, whose pauses end at once."""

    def __init__(self, *references: str) -> None:
        self.references = set(references)
        self.seconds = 0.0
        self._parts: AsyncIterator[Sequence[str]] = sweep_parts(lambda: self.references, pause=self._pause)

    async def _pause(self, seconds: float) -> None:
        self.seconds += seconds

    async def until(self, seconds: float) -> list[list[str]]:
        """The parts until so many seconds have passed."""
        found: list[list[str]] = []
        while self.seconds < seconds:
            found.append(list(await anext(self._parts)))
        return found


async def test_each_comes_once_in_a_sweep_in_equal_parts() -> None:
    swept = Swept(*(f"p{number}" for number in range(900)))
    parts = await swept.until(SWEEP)

    assert {len(part) for part in parts} == {3}
    assert sorted(one for part in parts for one in part) == sorted(swept.references)


async def test_few_references_come_one_a_second_and_then_again() -> None:
    parts = await Swept("a", "b").until(4 * TICK)
    assert sorted(islice(parts, 2)) == sorted(islice(parts, 2, None)) == [["a"], ["b"]]


async def test_a_new_reference_comes_in_the_next_sweep() -> None:
    swept = Swept()
    assert await swept.until(2 * TICK) == [[], []]
    swept.references.add("a")
    assert await swept.until(3 * TICK) == [["a"]]


@pytest.fixture
async def scene() -> ReconcilingScene:
    return await settled_scene()


async def test_an_override_of_another_object_causes_no_rollout(scene: ReconcilingScene) -> None:
    await scene.put(override(selects={**rolled_out()["spec"]["resourceSelectors"][0], "name": "other"}))
    scene.controller.note(await scene.see())
    assert scene.controller._due == {}


async def test_everything_is_reconciled_in_parts(scene: ReconcilingScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "TICK", 0.01)
    monkeypatch.setattr(controller, "SWEEP", 0.05)
    names = {f"cluster/p{number}" for number in range(50)}
    scene.view.decisions |= dict.fromkeys(names, scene.view.decisions[P])
    sizes: list[int] = []
    async with running(scene.controller._sweep()):
        while scene.controller._due.keys() < names:
            sizes.append(len(scene.controller._due))
            await asyncio.sleep(0)
        sizes.append(len(scene.controller._due))
    steps = {after - before for before, after in itertools.pairwise(sizes) if after > before}
    assert steps <= {10}


async def test_no_time_is_seen_without_etcd(scene: ReconcilingScene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await scene.controller._is_seen()
    scene.clock.advance(rollout_controller.QUIET + 1)
    assert await scene.controller._is_seen()  # silent, because nothing has happened
    await scene.store.put("/registry/elsewhere", b"")
    assert not await scene.controller._is_seen()  # its watch is silent, though something has
    scene.view.reached("hub", scene.store.revision)
    assert await scene.controller._is_seen()
    scene.clock.advance(rollout_controller.QUIET + 1)

    async def away(key: str) -> Read:
        raise Unavailable(f"no answer about {key}")

    monkeypatch.setattr(scene.store, "get", away)
    assert not await scene.controller._is_seen()
