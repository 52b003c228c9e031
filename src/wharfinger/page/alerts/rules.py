"""The alerts of the operations guide as rules: each row of its tables is evaluated, or is named with why it is not.

`expression` is the first cell of the row in docs/operations.md, without what only makes it code; a test compares them.
`page.alerts.evaluation` evaluates the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from wharfinger.page.alerts.expressions import (
    Processes,
    Value,
    how_many,
    increase,
    largest,
    largest_rate,
    less,
    quantile,
    rate,
    share,
    total,
)
from wharfinger.page.follow.scraping import ScrapedProcess

CRITICAL, WARNING = "critical", "warning"
WORKERS, KUBERNETES, HUBS, ETCD, SEEN = "workers", "kubernetes", "hubs", "etcd", "seen"
"""What an alert is evaluated on: metrics of workers, the same where a Kubernetes API is the store, of hubs, of etcd; or
what the page itself sees in etcd.
"""
MINUTE, HOUR = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert that metrics answer."""

    name: str
    expression: str
    """As the guide has it."""
    means: str
    source: str
    value: Value
    above: float = 0.0
    hold: float = 0.0
    """Seconds for which the value has to be above."""
    severity: str = WARNING
    link: str = ""
    unit: str = ""


def _without_leader(one: ScrapedProcess) -> bool | None:
    leader = one.last.total("etcd_server_has_leader") if one.last is not None else None
    return None if leader is None else leader == 0


def _not_ready(one: ScrapedProcess) -> bool | None:
    ready = one.last.total("wharfinger_ready") if one.last is not None else None
    return None if ready is None else ready == 0


def _fullest(them: Processes) -> float | None:
    """Of etcd's members, how much of its quota is in use where it is most."""
    shares = []
    for one in them:
        used = one.last.total("etcd_mvcc_db_total_size_in_use_in_bytes") if one.last is not None else None
        quota = one.last.total("etcd_server_quota_backend_bytes") if one.last is not None else None
        if used is not None and quota:
            shares.append(used / quota)
    return max(shares, default=None)


def _failed_tasks(them: Processes) -> float | None:
    """The SDK has the metric only once a task has failed."""
    read = [one.last for one in them if one.last is not None]
    return sum(last.total("temporal_workflow_task_execution_failed_total") or 0.0 for last in read) if read else None


_WORKER = (
    AlertRule("StartFailures", "increase(wharfinger_start_failures_total[5m]) > 0",
              "Temporal refuses starts, or is away; pods wait in the queue, none is lost", WORKERS,
              increase("wharfinger_start_failures_total", 5 * MINUTE), severity=CRITICAL),
    AlertRule("LateStarts",
              "sum(rate(wharfinger_start_seconds_sum[5m])) / sum(rate(wharfinger_start_seconds_count[5m])) > 0.5",
              "Temporal takes long to accept starts, so groups grow and pods wait: a larger Temporal", WORKERS,
              share(increase("wharfinger_start_seconds_sum", 5 * MINUTE),
                    increase("wharfinger_start_seconds_count", 5 * MINUTE)), above=0.5, unit=" s"),
    AlertRule("Backlog", 'scheduler_pending_pods{queue="active"} > 1000 for 5 min',
              "more comes in than is placed: another worker, or a larger Temporal", WORKERS,
              largest("scheduler_pending_pods", queue="active"), above=1000, hold=5 * MINUTE, link="/pending",
              unit=" pods"),
    AlertRule("Contention",
              "sum(rate(wharfinger_contended_total[5m])) / sum(rate(scheduler_schedule_attempts_total[5m])) > 0.1",
              "workers take the same nodes: foreign binds, or nearly full", WORKERS,
              share(increase("wharfinger_contended_total", 5 * MINUTE),
                    increase("scheduler_schedule_attempts_total", 5 * MINUTE)), above=0.1),
    AlertRule("ForeignOvercommit", "increase(wharfinger_foreign_overcommit_total[5m]) > 0",
              "another program binds pods to nodes that are full", WORKERS,
              increase("wharfinger_foreign_overcommit_total", 5 * MINUTE), link="/map"),
    AlertRule("EvictionsOverdue", "increase(wharfinger_evictions_overdue_total[15m]) > 0",
              "victims of a preemption do not go: the node's agent is down", WORKERS,
              increase("wharfinger_evictions_overdue_total", 15 * MINUTE)),
    AlertRule("ConfigurationNotInForce", "sum(wharfinger_config_problems) > 0",
              "a value of the dynamic configuration is not in force", WORKERS, total("wharfinger_config_problems")),
    AlertRule("NodeEvictionsHeld", "increase(wharfinger_node_evictions_held_total[15m]) > 0",
              "more than 10 % of the nodes are lost or tainted: look at the network first", WORKERS,
              increase("wharfinger_node_evictions_held_total", 15 * MINUTE), link="/map", severity=CRITICAL),
    AlertRule("Relists", 'increase(wharfinger_relists_total{cause!="start"}[1h]) > 3',
              "watches are cut off or compacted away: etcd or the network is slow", WORKERS,
              less(increase("wharfinger_relists_total", HOUR),
                   increase("wharfinger_relists_total", HOUR, cause="start")), above=3),
    AlertRule("WorkflowTaskFailures", "temporal_workflow_task_execution_failed_total",
              "a task that fails is a workflow that does not go on", WORKERS, _failed_tasks, severity=CRITICAL,
              unit=" tasks"),
)  # fmt: skip
_UPSTREAM = (
    AlertRule("CopiesOld", "max(wharfinger_upstream_import_lag_seconds) > 10",
              "the copies are old: nothing is placed", KUBERNETES, largest("wharfinger_upstream_import_lag_seconds"),
              above=10, severity=CRITICAL, unit=" s", link="/kubernetes"),
    AlertRule("PromisesOld", "max(wharfinger_upstream_oldest_promise_seconds) > 60 for 5 min",
              "a bind is committed, and the API does not show it; its room is held", KUBERNETES,
              largest("wharfinger_upstream_oldest_promise_seconds"), above=60, hold=5 * MINUTE, unit=" s",
              link="/kubernetes"),
    AlertRule("GangsTorn", "increase(wharfinger_gangs_torn_total[1h]) > 0",
              "the API bound only some members of a gang", KUBERNETES, increase("wharfinger_gangs_torn_total", HOUR),
              link="/gangs"),
    AlertRule("EventsDropped",
              'sum(increase(wharfinger_upstream_events_total{outcome=~"queue_full|unavailable|refused|failed"}[15m]))'
              " > 0",
              "events were dropped; pods are bound all the same", KUBERNETES,
              increase("wharfinger_upstream_events_total", 15 * MINUTE,
                       outcome=re.compile("queue_full|unavailable|refused|failed")), unit=" events"),
    AlertRule("ApiServerFails",
              'sum(rate(wharfinger_upstream_requests_total{code=~"429|5..|error"}[5m])) > 1',
              "the API server is overloaded, or does not answer", KUBERNETES,
              rate("wharfinger_upstream_requests_total", 5 * MINUTE, code=re.compile("429|5..|error")), above=1,
              unit=" a second"),
)  # fmt: skip
_HUB = (
    AlertRule("HubNotReady", "wharfinger_ready == 0 of a hub",
              "`/readyz` says what it waits for; other hubs go on", HUBS, how_many(_not_ready), unit=" hubs"),
    AlertRule("PlacementsUnfulfilled", 'sum(wharfinger_placements{state="unfulfilled"}) > 0 for 10 min',
              "policies that too few members fulfil", HUBS, total("wharfinger_placements", state="unfulfilled"),
              hold=10 * MINUTE, link="/placements", unit=" placements"),
    AlertRule("PlacementsUndecided", 'sum(wharfinger_placements{state="undecided"}) > 0 for 5 min',
              "placements without a decision: a hub's log, or Temporal", HUBS,
              total("wharfinger_placements", state="undecided"), hold=5 * MINUTE, link="/placements",
              unit=" placements"),
    AlertRule("PlacementsUnreadable", 'sum(wharfinger_placements{state="unreadable"}) > 0',
              "objects that cannot be read stay as they were", HUBS,
              total("wharfinger_placements", state="unreadable"), link="/placements", unit=" placements"),
    AlertRule("PlacementsUnsettled", "sum(wharfinger_placements_unsettled) > 0 for 10 min",
              "attempts or rollouts are started and change nothing: Temporal is away, or two hubs see different things",
              HUBS, total("wharfinger_placements_unsettled"), hold=10 * MINUTE, link="/placements",
              unit=" placements"),
    AlertRule("RolloutStarts", "sum by (cause) (rate(wharfinger_placement_rollout_starts_total[10m])) > 1",
              "rollouts are started again and again", HUBS,
              largest_rate("wharfinger_placement_rollout_starts_total", "cause", 10 * MINUTE), above=1,
              unit=" a second"),
    AlertRule("RemovalsStuck", 'max(wharfinger_works{want=~"absent|release"}) > 0 for 1 h',
              "something cannot be removed: a member without an agent, or an object with finalizers", HUBS,
              largest("wharfinger_works", want=re.compile("absent|release")), hold=HOUR, link="/placements",
              unit=" works"),
    AlertRule("ResultsFailed", 'max(wharfinger_results{state="failed"}) > 0 for 5 min',
              "a placement cannot be applied on a member", HUBS, largest("wharfinger_results", state="failed"),
              hold=5 * MINUTE, link="/placements", unit=" members"),
    AlertRule("ResultsUnavailable", 'max(wharfinger_results{state="unavailable"}) > 0 for 15 min',
              "objects are applied on a member and do not become available", HUBS,
              largest("wharfinger_results", state="unavailable"), hold=15 * MINUTE, link="/placements",
              unit=" members"),
    AlertRule("Removals", 'sum(rate(wharfinger_works_written_total{kind="remove"}[5m])) > 1',
              "placements are leaving members in numbers", HUBS,
              rate("wharfinger_works_written_total", 5 * MINUTE, kind="remove"), above=1, unit=" a second"),
    AlertRule("UpdateRunStarts", "increase(wharfinger_update_run_starts_total[1h]) > 20",
              "runs are started again and again", HUBS, increase("wharfinger_update_run_starts_total", HOUR),
              above=20, link="/placements", unit=" starts"),
    AlertRule("HubStartFailures", "increase(wharfinger_start_failures_total[5m]) > 0 of a hub",
              "Temporal refuses starts, or is away; nothing is lost", HUBS,
              increase("wharfinger_start_failures_total", 5 * MINUTE), severity=CRITICAL),
    AlertRule("PlacementsContended",
              'sum(rate(wharfinger_placement_attempts_total{result="contended"}[10m])) / '
              "sum(rate(wharfinger_placement_attempts_total[10m])) > 0.2",
              "several hubs, or another writer, decide the same placements", HUBS,
              share(increase("wharfinger_placement_attempts_total", 10 * MINUTE, result="contended"),
                    increase("wharfinger_placement_attempts_total", 10 * MINUTE)), above=0.2),
    AlertRule("MembersAway", 'max(wharfinger_member_clusters{online="false"}) > 0 for 5 min',
              "members whose agent is away", HUBS, largest("wharfinger_member_clusters", online="false"),
              hold=5 * MINUTE, link="/placements", unit=" members"),
    AlertRule("SlowDecisions",
              "histogram_quantile(0.99, rate(scheduling_cycle_duration_milliseconds_bucket[5m])) > 100",
              "deciding is slow: thousands of members, or a busy machine", HUBS,
              quantile(0.99, "scheduling_cycle_duration_milliseconds", 5 * MINUTE), above=100, unit=" ms"),
)  # fmt: skip
_ETCD_SLOW = (
    "etcd_server_has_leader == 0, "
    "histogram_quantile(0.99, rate(etcd_disk_wal_fsync_duration_seconds_bucket[5m])) > 0.02 (etcd's)"
)
_OF_ETCD = (
    AlertRule("EtcdFull", "etcd_mvcc_db_total_size_in_use_in_bytes / etcd_server_quota_backend_bytes > 0.7 (etcd's)",
              "etcd is full: at its quota it refuses every write but deletes", ETCD, _fullest, above=0.7,
              severity=CRITICAL, unit=" of the quota"),
    AlertRule("EtcdWithoutLeader", _ETCD_SLOW, "no quorum", ETCD, how_many(_without_leader), severity=CRITICAL,
              unit=" servers without a leader"),
    AlertRule("EtcdDiskSlow", _ETCD_SLOW, "the disk is too slow", ETCD,
              quantile(0.99, "etcd_disk_wal_fsync_duration_seconds", 5 * MINUTE), above=0.02, unit=" s"),
)  # fmt: skip

RULES = (*_WORKER, *_UPSTREAM, *_HUB, *_OF_ETCD)
"""Those that metrics answer."""

READY = "sum(wharfinger_ready) < N"
SLOW = 'histogram_quantile(0.99, rate(scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts="1"}[5m])) > 5'
INVALID = "sum(wharfinger_invalid_objects) > 0"
LOST = "sum(wharfinger_lost_pods) > 0 for 10 min"
UNSERVED = "sum(wharfinger_unserved_pods) > 0 for 10 min"
SEEN_EXPRESSIONS = frozenset({READY, SLOW, INVALID, LOST, UNSERVED})
"""Rows of the guide that the page answers by what it sees in etcd itself."""

NOT_EVALUATED: Mapping[str, tuple[str, str, str]] = {
    "max(wharfinger_archive_seconds_since_pass) > 600": (
        "ArchiveBehind",
        "the archive falls behind, and what etcd compacts meanwhile becomes a gap",
        "the page does not know where an archive is written: Prometheus scrapes --metrics-bind-address of it",
    ),
    "increase(wharfinger_archive_gaps[1d]) > 0": (
        "ArchiveGap",
        "decisions in the gap cannot be made again",
        "the page does not know where an archive is written: Prometheus scrapes --metrics-bind-address of it",
    ),
    "increase(wharfinger_archive_lost_runs[1d]) > 0": (
        "ArchiveLostRuns",
        "Temporal had deleted runs before they were archived",
        "the page does not know where an archive is written: Prometheus scrapes --metrics-bind-address of it",
    ),
    "restarts of workers, as your supervisor counts them": (
        "WorkerRestarts",
        "a worker that ends says why in the last line of its log",
        "a supervisor counts them, and the page asks none; Fleets shows how often each slot of a fleet crashed",
    ),
    "temporal_workflow_task_schedule_to_start_latency": (
        "WorkflowTasksLate",
        "that grows means that workers cannot keep up",
        "the guide gives no bound for it: how long is usual depends on the Temporal cluster",
    ),
}
"""Rows that nothing here answers: name, what it means, and why."""

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
