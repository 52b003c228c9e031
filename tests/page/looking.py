"""The page's following of a cluster in memory, step by step, at a test's own time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from tests.page.cluster import MemoryCluster
from wharfinger.etcd import keys
from wharfinger.scheduling.page.following import Following
from wharfinger.telemetry import Metrics


class Looking:
    """A following without loops: each `step` takes in what was written since."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.now = 1000.0
        self.following = Following(
            self.cluster.store, Metrics(), rng=random.Random(1), clock=lambda: self.now,
            utc_now=lambda: datetime(2026, 3, 2, tzinfo=UTC) + timedelta(seconds=self.now),
        )  # fmt: skip

    @property
    def model(self):
        return self.following.model

    async def listed(self) -> Looking:
        await self.following._informer._list("start")
        return self

    async def step(self) -> None:
        store, revision = self.cluster.store, self.following.cache.progress.revision
        async with store.watch(keys.ROOT, revision + 1) as batches:
            async for batch in batches:
                await self.following._informer._take(batch)
                if batch.revision >= store.revision:
                    return
