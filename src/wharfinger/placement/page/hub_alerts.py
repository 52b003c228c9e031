"""Alerts about hubs: by their metrics, and by who is registered in etcd."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wharfinger.page.alerts.rules import (
    CRITICAL,
    HOUR,
    MINUTE,
    AlertRule,
    AlertSource,
    SeenAlert,
    counted,
    how_many,
    increase,
    largest,
    largest_rate,
    quantile,
    rate,
    says_no,
    share,
    total,
)
from wharfinger.page.follow.scraping import Scraper
from wharfinger.placement.page.hubs import HubPresence

RULES = (
    AlertRule("HubNotReady", "wharfinger_ready == 0 of a hub",
              "`/readyz` says what it waits for; other hubs go on", how_many(says_no("wharfinger_ready")),
              unit=" hubs"),
    AlertRule("PlacementsUnfulfilled", 'sum(wharfinger_placements{state="unfulfilled"}) > 0 for 10 min',
              "policies that too few members fulfil", total("wharfinger_placements", state="unfulfilled"),
              hold=10 * MINUTE, link="/placements", unit=" placements"),
    AlertRule("PlacementsUndecided", 'sum(wharfinger_placements{state="undecided"}) > 0 for 5 min',
              "placements without a decision: a hub's log, or Temporal",
              total("wharfinger_placements", state="undecided"), hold=5 * MINUTE, link="/placements",
              unit=" placements"),
    AlertRule("PlacementsUnreadable", 'sum(wharfinger_placements{state="unreadable"}) > 0',
              "objects that cannot be read stay as they were",
              total("wharfinger_placements", state="unreadable"), link="/placements", unit=" placements"),
    AlertRule("PlacementsUnsettled", "sum(wharfinger_placements_unsettled) > 0 for 10 min",
              "attempts or rollouts are started and change nothing: Temporal is away, or two hubs see different things",
              total("wharfinger_placements_unsettled"), hold=10 * MINUTE, link="/placements",
              unit=" placements"),
    AlertRule("RolloutStarts", "sum by (cause) (rate(wharfinger_placement_rollout_starts_total[10m])) > 1",
              "rollouts are started again and again",
              largest_rate("wharfinger_placement_rollout_starts_total", "cause", 10 * MINUTE), above=1,
              unit=" a second"),
    AlertRule("RemovalsStuck", 'max(wharfinger_works{want=~"absent|release"}) > 0 for 1 h',
              "something cannot be removed: a member without an agent, or an object with finalizers",
              largest("wharfinger_works", want=re.compile("absent|release")), hold=HOUR, link="/placements",
              unit=" works"),
    AlertRule("ResultsFailed", 'max(wharfinger_results{state="failed"}) > 0 for 5 min',
              "a placement cannot be applied on a member", largest("wharfinger_results", state="failed"),
              hold=5 * MINUTE, link="/placements", unit=" members"),
    AlertRule("ResultsUnavailable", 'max(wharfinger_results{state="unavailable"}) > 0 for 15 min',
              "objects are applied on a member and do not become available",
              largest("wharfinger_results", state="unavailable"), hold=15 * MINUTE, link="/placements",
              unit=" members"),
    AlertRule("Removals", 'sum(rate(wharfinger_works_written_total{kind="remove"}[5m])) > 1',
              "placements are leaving members in numbers",
              rate("wharfinger_works_written_total", 5 * MINUTE, kind="remove"), above=1, unit=" a second"),
    AlertRule("UpdateRunStarts", "increase(wharfinger_update_run_starts_total[1h]) > 20",
              "runs are started again and again", increase("wharfinger_update_run_starts_total", HOUR),
              above=20, link="/placements", unit=" starts"),
    AlertRule("HubStartFailures", "increase(wharfinger_start_failures_total[5m]) > 0 of a hub",
              "Temporal refuses starts, or is away; nothing is lost",
              increase("wharfinger_start_failures_total", 5 * MINUTE), severity=CRITICAL),
    AlertRule("PlacementsContended",
              'sum(rate(wharfinger_placement_attempts_total{result="contended"}[10m])) / '
              "sum(rate(wharfinger_placement_attempts_total[10m])) > 0.2",
              "several hubs, or another writer, decide the same placements",
              share(increase("wharfinger_placement_attempts_total", 10 * MINUTE, result="contended"),
                    increase("wharfinger_placement_attempts_total", 10 * MINUTE)), above=0.2),
    AlertRule("MembersAway", 'max(wharfinger_member_clusters{online="false"}) > 0 for 5 min',
              "members whose agent is away", largest("wharfinger_member_clusters", online="false"),
              hold=5 * MINUTE, link="/placements", unit=" members"),
    AlertRule("SlowDecisions",
              "histogram_quantile(0.99, rate(scheduling_cycle_duration_milliseconds_bucket[5m])) > 100",
              "deciding is slow: thousands of members, or a busy machine",
              quantile(0.99, "scheduling_cycle_duration_milliseconds", 5 * MINUTE), above=100, unit=" ms"),
)  # fmt: skip
HUB_METRICS = (
    "wharfinger_ready",
    "wharfinger_placements",
    "wharfinger_placements_unsettled",
    "wharfinger_placement_rollout_starts_total",
    "wharfinger_works",
    "wharfinger_results",
    "wharfinger_works_written_total",
    "wharfinger_update_run_starts_total",
    "wharfinger_start_failures_total",
    "wharfinger_placement_attempts_total",
    "wharfinger_member_clusters",
    "scheduling_cycle_duration_milliseconds_bucket",
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
                "NoHub", now.placements and not now.hubs, "no hub is registered: no placement is decided or delivered",
                counted(len(now.hubs), " hubs"), severity=CRITICAL, link="/placements", hold=15,
            )  # fmt: skip
