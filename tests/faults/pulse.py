"""Which process stood still without a fault: a shared machine stops a process now and then, as a fault does."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from tests.faults.site import WorkerSite
from tests.faults.timeline import Timeline

EVERY = 0.3
"""Seconds between two questions."""
LONG = 2.0
"""Seconds without an answer that are told; less is what `timeline.SLACK` is for."""


class Pulse:
    """A thread for each worker, which asks it whether it lives; a worker that was late had been struck."""

    def __init__(
        self, workers: Sequence[WorkerSite], timeline: Timeline, clock: Callable[[], float] = time.time
    ) -> None:
        self._timeline = timeline
        self._clock = clock
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._feel, args=(worker,), name="pulse", daemon=True) for worker in workers
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _feel(self, worker: WorkerSite) -> None:
        felt = self._clock()
        while not self._over.wait(EVERY):
            with suppress(OSError, http.client.HTTPException):
                with urllib.request.urlopen(f"{worker.health}/livez", timeout=LONG) as answer:
                    answer.read()
                now = self._clock()
                if now - felt > LONG:
                    self._timeline.struck.append((felt, now))
                felt = now
