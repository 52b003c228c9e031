"""What the cache needs now and then: assumptions expire, and other writers' over-commitment is counted."""

from __future__ import annotations

import asyncio
import logging

from wharfinger.cache.cache import Cache
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks."""


class Upkeep:
    """A timer over the cache."""

    def __init__(self, cache: Cache, metrics: Metrics, *, every: float = EVERY) -> None:
        """`every`: seconds."""
        self._cache = cache
        self._metrics = metrics
        self._every = every
        self._revision = 0
        self._over: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                self.look()
            except Exception:
                log.exception("upkeep_failed")

    def look(self) -> None:
        """One look."""
        for assumption in self._cache.expire():
            log.info("assumption_expired pod=%s/%s node=%s", *assumption.identity[:2], assumption.node)
        if self._cache.progress.revision == self._revision:
            return
        self._revision = self._cache.progress.revision
        over = frozenset(self._cache.over_committed())
        for node in over - self._over:
            self._metrics.foreign_overcommit.inc()
            log.warning("node_overcommitted reason=other_writer node=%s", node)
        self._over = over
