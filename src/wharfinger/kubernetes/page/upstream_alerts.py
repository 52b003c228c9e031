"""Alerts about a Kubernetes API that is the store, by the metrics of workers."""

from __future__ import annotations

import re

from wharfinger.kubernetes.page.upstream import is_copied
from wharfinger.page.alerts.expressions import increase, largest, rate
from wharfinger.page.alerts.rules import CRITICAL, HOUR, MINUTE, AlertRule, AlertSource
from wharfinger.page.follow.scraping import Scraper
from wharfinger.scheduling.page.following import Following

RULES = (
    AlertRule("CopiesOld", "max(wharfinger_upstream_import_lag_seconds) > 10",
              "the copies are old: nothing is placed", largest("wharfinger_upstream_import_lag_seconds"),
              above=10, severity=CRITICAL, unit=" s", link="/kubernetes"),
    AlertRule("PromisesOld", "max(wharfinger_upstream_oldest_promise_seconds) > 60 for 5 min",
              "a bind is committed, and the API does not show it; its room is held",
              largest("wharfinger_upstream_oldest_promise_seconds"), above=60, hold=5 * MINUTE, unit=" s",
              link="/kubernetes"),
    AlertRule("GangsTorn", "increase(wharfinger_gangs_torn_total[1h]) > 0",
              "the API bound only some members of a gang", increase("wharfinger_gangs_torn_total", HOUR),
              link="/gangs"),
    AlertRule("EventsDropped",
              'sum(increase(wharfinger_upstream_events_total{outcome=~"queue_full|unavailable|refused|failed"}[15m]))'
              " > 0",
              "events were dropped; pods are bound all the same",
              increase("wharfinger_upstream_events_total", 15 * MINUTE,
                       outcome=re.compile("queue_full|unavailable|refused|failed")), unit=" events"),
    AlertRule("ApiServerFails",
              'sum(rate(wharfinger_upstream_requests_total{code=~"429|5..|error"}[5m])) > 1',
              "the API server is overloaded, or does not answer",
              rate("wharfinger_upstream_requests_total", 5 * MINUTE, code=re.compile("429|5..|error")), above=1,
              unit=" a second"),
)  # fmt: skip


class UpstreamAlerts(AlertSource):
    """Evaluated on workers, where a Kubernetes API is the store."""

    rules = RULES

    def __init__(self, following: Following, scraper: Scraper) -> None:
        super().__init__(scraper)
        self._following = following

    def unused(self) -> str:
        """Nothing is copied where etcd itself is the store."""
        return "" if is_copied(self._following) else "no Kubernetes API is the store here"
