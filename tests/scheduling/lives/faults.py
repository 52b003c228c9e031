"""What goes wrong in a life for a while: kills, drains, outages, blindness, compactions, and bad connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.scheduling.lives.weather import Troubles, Weather
from wharfinger.errors import Compacted

if TYPE_CHECKING:
    from tests.scheduling.lives.life import World


class Faults:
    """Strikes blow after blow, until the world's time for that is up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng

    async def strike(self) -> None:
        """Strike."""
        rng = self._rng
        if rng.random() < 0.15:
            return
        if rng.random() < 0.5:
            self._world.temporal.troubles = Troubles(
                request_lost=rng.choice([0, 0.05, 0.2]),
                answer_lost=rng.choice([0, 0.05, 0.2]),
                twice=rng.choice([0, 0.05, 0.2]),
                late=rng.choice([0, 0, 0.05, 0.15]),
                elsewhere=rng.choice([0.1, 0.5]),
                terminated=rng.choice([0, 0.1, 0.3]),
                unanswered=rng.choice([0, 0.2, 0.7]),
                latency=rng.choice([0.004, 0.004, 0.05, 0.4]),
            )
        if rng.random() < 0.5:
            self._world.set_weather(
                Weather(
                    request_lost=rng.choice([0, 0.02, 0.1]),
                    answer_lost=rng.choice([0, 0.02, 0.2]),
                    lag=rng.choice([0, 0.05, 1.0]),
                    cut=rng.choice([0, 0.02, 0.1]),
                    doubled=rng.choice([0, 0.1]),
                    shuffled=rng.random() < 0.5,
                    latency=rng.choice([0.002, 0.002, 0.02, 0.2]),
                )
            )
        blows: list[Callable[[], Any]] = [
            self._kill,
            self._kill,
            self._drain,
            self._stop_temporal,
            self._stop_temporal,
            self._blind,
            self._compact,
        ]
        while self._world.loop.now < self._world.until:
            await asyncio.sleep(rng.expovariate(0.5))
            if self._world.loop.now < self._world.until:
                await rng.choice(blows)()

    async def _kill(self) -> None:
        slot = self._rng.choice(list(self._world.workers))
        if not self._world.workers[slot].gone:
            self._world.tell(self._world.workers[slot].name, "is killed")
            self._world.workers[slot].kill()
        await asyncio.sleep(self._rng.choice([0.0, 0.5, 3.0, 12.0]))
        self._world.begin(slot)

    async def _drain(self) -> None:
        slot = self._rng.choice(list(self._world.workers))
        worker = self._world.workers[slot]
        if worker.gone:
            return
        self._world.tell(worker.name, "drains")
        worker.drain()
        while not worker.gone:
            await asyncio.sleep(0.5)
        self._world.begin(slot)

    async def _stop_temporal(self) -> None:
        self._world.temporal.stop(away=self._rng.random() < 0.5)
        await asyncio.sleep(self._rng.choice([0.3, 2.0, 6.0, 13.0]))
        self._world.temporal.go_on()

    async def _blind(self) -> None:
        worker = self._rng.choice(list(self._world.workers.values()))
        worker.link.hold(True)
        await asyncio.sleep(self._rng.choice([0.3, 2.0, 8.0]))
        worker.link.hold(False)

    async def _compact(self) -> None:
        self._world.truth.follow()
        self._world.tell("etcd", "is compacted")
        with suppress(Compacted):
            self._world.store.compact(self._world.store.revision)
