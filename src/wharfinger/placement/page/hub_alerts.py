"""Alerts about hubs: by their metrics, and by who is registered in etcd."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wharfinger.page.alerts.rules import (
    CRITICAL,
    AlertRule,
    AlertSource,
    SeenAlert,
    counted,
    how_many_not,
    largest,
    total,
)
from wharfinger.page.follow.scraping import Scraper
from wharfinger.placement.page.hubs import HubPresence

_PLACEMENTS = " placements", "/placements"
_MEMBERS = " members", "/placements"
RULES = (
    AlertRule("HubNotReady", how_many_not("wharfinger_ready"), 0, " hubs"),
    AlertRule("PlacementsUnfulfilled", total("wharfinger_placements", state="unfulfilled"), 0, *_PLACEMENTS),
    AlertRule("PlacementsUndecided", total("wharfinger_placements", state="undecided"), 0, *_PLACEMENTS),
    AlertRule("PlacementsUnreadable", total("wharfinger_placements", state="unreadable"), 0, *_PLACEMENTS),
    AlertRule("PlacementsUnsettled", total("wharfinger_placements_unsettled"), 0, *_PLACEMENTS),
    AlertRule(
        "RemovalsStuck", largest("wharfinger_works", want=re.compile("absent|release")), 0, " works", "/placements"
    ),
    AlertRule("ResultsFailed", largest("wharfinger_results", state="failed"), 0, *_MEMBERS),
    AlertRule("ResultsUnavailable", largest("wharfinger_results", state="unavailable"), 0, *_MEMBERS),
    AlertRule("MembersAway", largest("wharfinger_member_clusters", online="false"), 0, *_MEMBERS),
)
HUB_METRICS = (
    "wharfinger_ready",
    "wharfinger_placements",
    "wharfinger_placements_unsettled",
    "wharfinger_works",
    "wharfinger_results",
    "wharfinger_member_clusters",
)
"""What is read of hubs."""
MEMBERS_AWAY = "MembersAway"


class HubAlerts(AlertSource):
    """Evaluated on hubs."""

    name = "hubs"
    rules = RULES
    nobody = "no hub is registered with an address of its metrics"

    def __init__(self, hubs: HubPresence, scraper: Scraper) -> None:
        super().__init__(scraper)
        self._hubs = hubs

    def unused(self) -> str:
        """Hubs are used where anything of placements is here."""
        now = self._hubs.now
        return "there are no placements here, and no hub" if now is not None and not now.used else ""

    def unread(self) -> str:
        """Etcd names the hubs."""
        return "etcd has not said which hubs there are" if self._hubs.now is None else ""

    def instead(self, rule: AlertRule) -> tuple[float, str] | None:
        """Members without an agent, whose leases are in etcd."""
        if rule.name != MEMBERS_AWAY or self._hubs.now is None:
            return None
        away = len(self._hubs.now.away)
        return away, f"{counted(away, ' members')}, by their leases in etcd"

    def seen(self) -> Iterable[SeenAlert]:
        """Placements without a hub."""
        now = self._hubs.now
        if now is not None and now.used:
            yield SeenAlert(
                "NoHub",
                now.placements and not now.hubs,
                counted(len(now.hubs), " hubs"),
                "/placements",
                hold=15,
                means="no hub is registered: no placement is decided or delivered",
                severity=CRITICAL,
            )
