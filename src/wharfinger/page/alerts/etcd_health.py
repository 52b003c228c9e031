"""etcd's own metrics and alarms, read of each of its members, and the alerts about them.

They are read at the endpoints that the page uses, or where it is told. etcd serves `/metrics` and `/health` on its
client addresses, and on those of `--listen-metrics-urls`. It asks for no user there. Where it is not reached, or
another server stands before it, nothing is known, and the page says so.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import aiohttp
import orjson

from wharfinger.errors import ConfigurationError
from wharfinger.etcd import etcd_tls
from wharfinger.page.alerts.rules import CRITICAL, AlertRule, AlertSource, Processes, SeenAlert, counted, how_many_not
from wharfinger.page.follow.plain import text
from wharfinger.page.follow.scraping import EVERY, WITHIN, Scraper, plain_session
from wharfinger.page.options import ScrapeOptions
from wharfinger.settings import EtcdSettings

log = logging.getLogger(__name__)

READ = (
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_server_quota_backend_bytes",
    "etcd_server_has_leader",
)
LONGEST_HEALTH = 4096
"""Bytes."""
ALARM = "ALARM"


class EtcdHealth:
    """Reads etcd's members."""

    def __init__(self, settings: EtcdSettings | None, addresses: Sequence[str], clock: Callable[[], float]) -> None:
        """`settings`: how etcd is reached, None where it is not a server's; `addresses`: base URLs of its metrics
        where they are others than the endpoints.
        """
        self.addresses = tuple(addresses) or (settings.endpoints if settings is not None else ())
        self.scraper = Scraper(
            ScrapeOptions(), lambda: self.addresses, clock, names=READ, tls=_context(settings, self.addresses)
        )
        self.alarms: dict[str, str | None] = {}
        """By address, why etcd says that it is not healthy: an alarm, or no leader. Empty = it is; None = unknown."""

    async def run(self) -> None:
        """Read again and again until cancelled."""
        async with plain_session(WITHIN) as session:
            while True:
                await self.read_all(session)
                await asyncio.sleep(EVERY)

    async def read_all(self, session: aiohttp.ClientSession) -> None:
        """Read each once."""
        await self.scraper.read_all(session)
        for address in self.addresses:
            self.alarms[address] = await self._health(session, address)

    def told(self) -> dict[str, Any]:
        """As `Scraper.told`, with what etcd says of its health."""
        said = [{"address": text(url), "says": text(why)} for url, why in self.alarms.items() if why]
        return self.scraper.told() | {"unhealthy": said}

    async def _health(self, session: aiohttp.ClientSession, address: str) -> str | None:
        try:
            async with session.get(f"{address}/health", ssl=self.scraper.tls, allow_redirects=False) as response:
                said = orjson.loads(await response.content.read(LONGEST_HEALTH))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.debug("etcd_health_unread address=%s error=%r", address, str(error))
            return None
        if not isinstance(said, dict) or "health" not in said:
            return None
        return "" if str(said["health"]).lower() == "true" else str(said.get("reason") or "it is not healthy")


def _context(settings: EtcdSettings | None, addresses: Sequence[str]) -> ssl.SSLContext | None:
    """How its members are trusted. The store has refused certificates that cannot be used already."""
    if settings is None or not any(address.startswith("https://") for address in addresses):
        return None
    try:
        return etcd_tls.context(settings)
    except ConfigurationError as error:
        log.warning("etcd_metrics_unread error=%r", str(error))
        return None


def _fullest(them: Processes) -> float | None:
    """Of etcd's members, how much of its quota is in use where it is most."""
    shares = []
    for one in them:
        used = one.last.total("etcd_mvcc_db_total_size_in_use_in_bytes") if one.last is not None else None
        quota = one.last.total("etcd_server_quota_backend_bytes") if one.last is not None else None
        if used is not None and quota:
            shares.append(used / quota)
    return max(shares, default=None)


RULES = (
    AlertRule("EtcdFull", _fullest, 0.7, " of the quota"),
    AlertRule("EtcdWithoutLeader", how_many_not("etcd_server_has_leader"), unit=" servers without a leader"),
)


class EtcdAlerts(AlertSource):
    """Evaluated on the members of etcd."""

    name = "etcd"
    rules = RULES
    nobody = "no address of etcd's metrics is known: give --etcd-metrics-url"

    def __init__(self, etcd: EtcdHealth) -> None:
        super().__init__(etcd.scraper)
        self._etcd = etcd

    def told(self) -> dict[str, Any]:
        """With what its members say of their health."""
        return self._etcd.told()

    def seen(self) -> Iterable[SeenAlert]:
        """Alarms, and what else makes a member call itself unhealthy."""
        said = {address: why for address, why in self._etcd.alarms.items() if why is not None}
        wrong = {address: why for address, why in said.items() if why}
        means = "a member of etcd says that it is not healthy"
        if any(ALARM in why for why in wrong.values()):
            means = "etcd has raised an alarm: at its quota it refuses every write but deletes"
        shown = "; ".join(f"{address}: {why}" for address, why in wrong.items())
        value = shown or f"{counted(len(said), ' members')} asked, none says so"
        yield SeenAlert("EtcdUnhealthy", bool(wrong) if said else None, value, means=means, severity=CRITICAL)
