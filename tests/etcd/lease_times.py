"""Stories about leases: their time runs in etcd too, and does not wait for a process that stands still."""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator

from tests.etcd.etcd_process import EtcdProcess
from wharfinger.errors import WharfingerError

TRIES = 4


class Watchman:
    """Asks etcd all the while, in a thread of its own."""

    def __init__(self, etcd: EtcdProcess) -> None:
        self.longest = 0.0
        """Seconds without an answer: for so long etcd was away, or this process stood still."""
        self._answered = time.monotonic()
        self._etcd = etcd
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchman", daemon=True)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            self.longest = max(self.longest, time.monotonic() - self._answered)

    def _run(self) -> None:
        while not self._over.wait(0.03):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self._etcd.url}/health", timeout=1):
                now = time.monotonic()
                self.longest, self._answered = max(self.longest, now - self._answered), now


async def with_time_enough(etcd: EtcdProcess, shortest: int, story: Callable[[int], Awaitable[None]]) -> None:
    """Tell the story of a lease of `shortest` seconds; again with twice as many when a process stood still for long.

    A lease is renewed every third of its time, so it outlives a standstill of as much: without one a failure counts.
    """
    for tries in range(1, TRIES + 1):
        seconds = shortest * 2 ** (tries - 1)
        watchman = Watchman(etcd)
        try:
            with watchman.watching():
                await story(seconds)
        except (AssertionError, WharfingerError):
            if tries == TRIES or watchman.longest < seconds / 3:
                raise
        else:
            return
