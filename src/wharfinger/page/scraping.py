"""What only workers know, read from their `/metrics` every five seconds with the page's own credential.

A worker that cannot be read shows no figures and says why; nothing else depends on it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from wharfinger.errors import UsageError
from wharfinger.page.exposition import MOST_BYTES, Scrape, read
from wharfinger.page.options import ScrapeOptions
from wharfinger.serving.options import is_loopback

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds."""
WITHIN = 3.0
KEPT = 181
"""Scrapes that are kept of each worker: a quarter of an hour."""
MOST_WORKERS = 256
AT_ONCE = 8

READ = (
    "scheduler_pending_pods",
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_algorithm_duration_seconds_sum",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "scheduler_pod_scheduling_sli_duration_seconds_bucket",
    "wharfinger_ready",
    "wharfinger_in_flight_limit",
    "wharfinger_start_failures_total",
    "wharfinger_contended_total",
    "wharfinger_foreign_overcommit_total",
    "wharfinger_evictions_overdue_total",
    "wharfinger_config_problems",
    "wharfinger_invalid_objects",
    "wharfinger_lost_pods",
    "wharfinger_node_evictions_held_total",
    "wharfinger_unserved_pods",
    "wharfinger_relists_total",
    "wharfinger_upstream_import_lag_seconds",
    "wharfinger_upstream_oldest_promise_seconds",
    "wharfinger_upstream_promises",
    "wharfinger_gangs_torn_total",
    "wharfinger_watch_revision",
    "wharfinger_parked_chains",
    "wharfinger_waiting_without_chain",
)
"""Metrics that the page shows or evaluates."""


@dataclass(slots=True)
class ScrapedWorker:
    """What was read of one worker."""

    scrapes: deque[Scrape] = field(default_factory=lambda: deque(maxlen=KEPT))
    problem: str = "was not read yet"
    """Why there are no figures now; empty when there are."""

    @property
    def last(self) -> Scrape | None:
        """The newest one that succeeded, unless something is wrong since."""
        return self.scrapes[-1] if self.scrapes and not self.problem else None

    def increase(self, name: str, seconds: float, **labels: str) -> float | None:
        """How much a counter grew over the last `seconds`; a restart begins at 0. None while that is not known."""
        kept = [one for one in self.scrapes if one.at >= self.scrapes[-1].at - seconds] if self.scrapes else []
        values = [value for one in kept if (value := one.total(name, **labels)) is not None]
        if len(values) < 2:
            return None
        return sum(max(0.0, after - before) if after >= before else after for before, after in _pairs(values))


class Scraper:
    """Reads the workers that are registered."""

    def __init__(
        self, options: ScrapeOptions, registered: Callable[[], Iterable[str]], clock: Callable[[], float]
    ) -> None:
        """`registered`: the base URLs of their health endpoints; `clock`: monotonic seconds. Raises `UsageError`."""
        self._registered = registered
        self._clock = clock
        self._options = options
        self._tls = _context(options)
        self.workers: dict[str, ScrapedWorker] = {}
        """By base URL."""

    async def run(self) -> None:
        """Read again and again until cancelled."""
        timeout = aiohttp.ClientTimeout(total=WITHIN)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=True, trust_env=False) as session:
            while True:
                await self.read_all(session)
                await asyncio.sleep(EVERY)

    async def read_all(self, session: aiohttp.ClientSession) -> None:
        """Read each worker once."""
        urls = [url for url in dict.fromkeys(self._registered()) if url][:MOST_WORKERS]
        for gone in self.workers.keys() - set(urls):
            del self.workers[gone]
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(url: str) -> None:
            async with gate:
                await self._read(session, url)

        await asyncio.gather(*map(one, urls))

    def figures(self, url: str) -> dict[str, Any]:
        """What is shown of a worker: null where it is not known, and why."""
        worker = self.workers.get(url)
        last = worker.last if worker is not None else None
        if worker is None or last is None:
            problem = (
                worker.problem if worker is not None else "it serves no metrics" if not url else "was not read yet"
            )
            return {"problem": problem}
        decided = worker.increase("scheduler_scheduling_algorithm_duration_seconds_count", 60)
        took = worker.increase("scheduler_scheduling_algorithm_duration_seconds_sum", 60)
        attempts = worker.increase("scheduler_schedule_attempts_total", 60)
        span = min(60.0, worker.scrapes[-1].at - worker.scrapes[0].at) or None
        return {
            "problem": None,
            "inFlightLimit": last.total("wharfinger_in_flight_limit"),
            "active": last.total("scheduler_pending_pods", queue="active"),
            "backoff": last.total("scheduler_pending_pods", queue="backoff"),
            "unschedulable": last.total("scheduler_pending_pods", queue="unschedulable"),
            "inFlight": last.total("scheduler_pending_pods", queue="in-flight"),
            "attemptsPerSecond": round(attempts / span, 2) if attempts is not None and span else None,
            "decisionSeconds": took / decided if took is not None and decided else None,
            "revision": last.largest("wharfinger_watch_revision"),
        }

    async def _read(self, session: aiohttp.ClientSession, url: str) -> None:
        worker = self.workers.setdefault(url, ScrapedWorker())
        try:
            headers = self._credential(url)
            ssl_ = self._tls if url.startswith("https://") else True
            async with session.get(f"{url}/metrics", headers=headers, ssl=ssl_, allow_redirects=False) as response:
                if response.status != 200:
                    worker.problem = _refused(response.status)
                    return
                body = bytearray()
                async for chunk in response.content.iter_chunked(1 << 16):
                    body += chunk
                    if len(body) > MOST_BYTES:
                        raise ValueError("too long")
            worker.scrapes.append(read(body.decode("utf-8", "replace"), self._clock(), READ))
            worker.problem = ""
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            worker.problem = f"does not answer ({type(error).__name__})"
            log.debug("scrape_failed url=%s error=%r", url, str(error))

    def _credential(self, url: str) -> dict[str, str]:
        """The token goes over TLS only, or stays on this machine."""
        file = self._options.token_file
        if file is None or not (url.startswith("https://") or is_loopback(url.split("/")[2].rpartition(":")[0])):
            return {}
        return {"Authorization": f"Bearer {file.read_text(encoding='utf-8').strip()}"}


def _refused(status: int) -> str:
    if status in (401, 403):
        return f"needs a credential (status {status}): give --metrics-token-file or --metrics-cert-file"
    return f"answered with status {status}"


def _context(options: ScrapeOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(options.ca_file) if options.ca_file is not None else None)
        if options.cert_file is not None:
            context.load_cert_chain(options.cert_file, options.key_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--metrics-ca-file, --metrics-cert-file: cannot be read ({error})") from error
    return context


def _pairs(values: list[float]) -> Iterable[tuple[float, float]]:
    return itertools.pairwise(values)
