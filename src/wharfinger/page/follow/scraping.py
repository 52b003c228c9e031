"""What only processes know, read from their `/metrics` every five seconds: of workers and hubs with the page's own
credential, of etcd's members as etcd itself is reached.

Addresses in etcd are written by any client, so only some hosts are followed: this machine's (loopback, its own name,
and the unspecified address, which connects to loopback), and the names, `*.SUFFIX`, addresses and networks of
`--metrics-host`. A process that cannot be read shows no figures and says why; nothing else depends on it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from wharfinger.errors import UsageError
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.page.follow.exposition import MOST_BYTES, Scrape, read
from wharfinger.page.options import ScrapeOptions

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class FollowedHosts:
    """The hosts of one page."""

    def __init__(self, hosts: Iterable[str] = (), *, own: str | None = None) -> None:
        """`hosts`: as `--metrics-host` gives them; `own`: the machine's name, None = as the system says.

        Raises `UsageError`.
        """
        self._names = {own.lower() if own is not None else socket.gethostname().lower()}
        self._suffixes: list[str] = []
        self._networks: list[Network] = []
        for host in (host.strip().lower() for host in hosts):
            if host.startswith("*."):
                self._suffixes.append(host[1:])
            elif (network := _network(host)) is not None:
                self._networks.append(network)
            elif host and not set(host) & set("/*:@?# "):
                self._names.add(host)
            else:
                raise UsageError(f"--metrics-host {host[:80]!r} is no host, *.SUFFIX, address or network")

    def follow(self, url: str) -> bool:
        """Whether the page may ask this URL."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").removesuffix(".")
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or "@" in parts.netloc or not host:
            return False
        if is_loopback(host) or host in self._names or host.endswith(tuple(self._suffixes)):
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_unspecified or any(address in network for network in self._networks)


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds."""
WITHIN = 3.0
WINDOW = 60.0
"""Seconds over which a counter's growth is asked for."""
KEPT = 13
"""Scrapes that are kept of each process: those of a window."""
MOST_PROCESSES = 256
AT_ONCE = 8
MOST_TOLD = 20
"""Problems that are named."""

READ = (
    "scheduler_pending_pods",
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_algorithm_duration_seconds_sum",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "temporal_workflow_task_execution_failed_total",
    "wharfinger_config_problems",
    "wharfinger_upstream_import_lag_seconds",
    "wharfinger_upstream_oldest_promise_seconds",
    "wharfinger_watch_revision",
)
"""Metrics of workers that the page shows or evaluates."""


@dataclass(slots=True)
class ScrapedProcess:
    """What was read of one process."""

    recent: deque[Scrape] = field(default_factory=lambda: deque(maxlen=KEPT))
    """The newest ones that succeeded."""
    problem: str = "was not read yet"
    """Why there are no figures now; empty when there are."""

    @property
    def last(self) -> Scrape | None:
        """The newest one that succeeded, unless something is wrong since."""
        return self.recent[-1] if self.recent and not self.problem else None

    def add(self, scrape: Scrape) -> None:
        """Take in one more."""
        self.recent.append(scrape)
        self.problem = ""

    def growth(self, name: str) -> tuple[float, float] | None:
        """How much a counter grew over the last minute, and over how many seconds of it that is known.

        A restart of its process begins at 0. None while two scrapes do not report it.
        """
        begin = self.recent[-1].at - WINDOW if self.recent else 0.0
        found = [(one.at, one.total(name)) for one in self.recent if one.at >= begin]
        points = [(at, value) for at, value in found if value is not None]
        if len(points) < 2 or points[0][0] == points[-1][0]:
            return None
        grown = sum(value - before if value >= before else value for (_, before), (_, value) in pairwise(points))
        return grown, points[-1][0] - points[0][0]


class Scraper:
    """Reads the processes that are registered."""

    def __init__(
        self,
        options: ScrapeOptions,
        registered: Callable[[], Iterable[str]],
        clock: Callable[[], float],
        *,
        names: Iterable[str] = READ,
        tls: ssl.SSLContext | None = None,
        follows: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`registered`: base URLs; `clock`: monotonic seconds; `names`: the metrics that are kept; `tls`: of another
        authority than the options name; `follows`: whether a base URL is asked. Raises `UsageError`.
        """
        self._registered = registered
        self._follows = follows
        self._clock = clock
        self._options = options
        self._names = tuple(names)
        self.tls = tls if tls is not None else _trust(options)
        """For `https://`, as aiohttp takes it; True: by the authorities that this machine trusts."""
        self.workers: dict[str, ScrapedProcess] = {}
        """By base URL."""
        self.rounds = 0
        """How often all of them were read."""

    async def run(self) -> None:
        """Read again and again until cancelled."""
        async with plain_session(WITHIN) as session:
            while True:
                await self.read_all(session)
                await asyncio.sleep(EVERY)

    async def read_all(self, session: aiohttp.ClientSession) -> None:
        """Read each worker once."""
        urls = [url for url in dict.fromkeys(self._registered()) if url][:MOST_PROCESSES]
        for gone in self.workers.keys() - set(urls):
            del self.workers[gone]
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(url: str) -> None:
            async with gate:
                await self._read(session, url)

        await asyncio.gather(*map(one, urls))
        self.rounds += 1

    def told(self) -> dict[str, Any]:
        """How many are known, how many could be read just now, and why not the others."""
        unread = {url: one.problem for url, one in sorted(self.workers.items()) if one.problem}
        return {
            "known": len(self.workers),
            "read": len(self.workers) - len(unread),
            "problems": [{"address": url, "problem": said} for url, said in list(unread.items())[:MOST_TOLD]],
        }

    def figures(self, url: str) -> dict[str, Any]:
        """What is shown of a worker: null where it is not known, and why."""
        worker = self.workers.get(url)
        last = worker.last if worker is not None else None
        if worker is None or last is None:
            problem = (
                worker.problem if worker is not None else "it serves no metrics" if not url else "was not read yet"
            )
            return {"problem": problem}
        decided = worker.growth("scheduler_scheduling_algorithm_duration_seconds_count")
        took = worker.growth("scheduler_scheduling_algorithm_duration_seconds_sum")
        attempts = worker.growth("scheduler_schedule_attempts_total")
        return {
            "problem": None,
            "active": last.total("scheduler_pending_pods", queue="active"),
            "backoff": last.total("scheduler_pending_pods", queue="backoff"),
            "unschedulable": last.total("scheduler_pending_pods", queue="unschedulable"),
            "inFlight": last.total("scheduler_pending_pods", queue="in-flight"),
            "attemptsPerSecond": round(attempts[0] / attempts[1], 2) if attempts else None,
            "decisionSeconds": took[0] / decided[0] if took and decided and decided[0] else None,
            "revision": last.largest("wharfinger_watch_revision"),
        }

    async def _read(self, session: aiohttp.ClientSession, url: str) -> None:
        worker = self.workers.setdefault(url, ScrapedProcess())
        if not self._follows(url):
            worker.problem = ELSEWHERE
            return
        try:
            headers = self._credential(url)
            async with session.get(f"{url}/metrics", headers=headers, ssl=self.tls, allow_redirects=False) as response:
                if response.status != 200:
                    worker.problem = _refused(response.status)
                    return
                body = bytearray()
                async for chunk in response.content.iter_chunked(1 << 16):
                    body += chunk
                    if len(body) > MOST_BYTES:
                        raise ValueError("too long")
            worker.add(read(body.decode("utf-8", "replace"), self._clock(), self._names))
        except Exception as error:  # whoever registers says the address: no text of it may end anything else
            worker.problem = f"does not answer ({type(error).__name__})"
            log.debug("scrape_failed url=%s error=%r", url, str(error))

    def _credential(self, url: str) -> dict[str, str]:
        """The token stays on this machine, or goes to whom the authorities that were given vouch for.

        Who registers a worker says its address, and a certificate for some name of theirs is had by anybody.
        """
        file, host = self._options.token_file, urlsplit(url).hostname or ""
        vouched = url.startswith("https://") and self._options.ca_file is not None
        if file is None or not (vouched or is_loopback(host)):
            return {}
        return {"Authorization": f"Bearer {file.read_text(encoding='utf-8').strip()}"}


ELSEWHERE = "is on a host that the page was not given: start it with --metrics-host"


def plain_session(within: float) -> aiohttp.ClientSession:
    """A client for answers that are not trusted: it asks for nothing compressed, and unpacks nothing.

    `within`: seconds for a whole answer.
    """
    timeout = aiohttp.ClientTimeout(total=within)
    headers = {"Accept-Encoding": "identity"}
    return aiohttp.ClientSession(timeout=timeout, headers=headers, auto_decompress=False, trust_env=False)


def _refused(status: int) -> str:
    if status in (401, 403):
        return f"needs a credential (status {status}): give --metrics-token-file or --metrics-cert-file"
    return f"answered with status {status}"


def _trust(options: ScrapeOptions) -> ssl.SSLContext | bool:
    if options.ca_file is None and options.cert_file is None:
        return True  # aiohttp has that context already: reading the machine's authorities again takes 40 ms
    try:
        context = ssl.create_default_context(cafile=str(options.ca_file) if options.ca_file is not None else None)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # set since Python 3.13; Prometheus takes such certificates
        if options.cert_file is not None:
            context.load_cert_chain(options.cert_file, options.key_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--metrics-ca-file, --metrics-cert-file: cannot be read ({error})") from error
    return context
