"""Alerts about workers: by their metrics, and by what the page sees in etcd itself."""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.page.alerts.rules import (
    CRITICAL,
    HOUR,
    MINUTE,
    AlertRule,
    AlertSource,
    Processes,
    SeenAlert,
    increase,
    largest,
    less,
    share,
    total,
)
from wharfinger.page.follow.scraping import Scraper
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.pending import PendingPods
from wharfinger.scheduling.page.reasons import NOT_SERVED

SLOW_P99 = 5.0
"""Seconds."""
HOLD = 600.0
"""Seconds for which some alerts have to be true."""
READY = "sum(wharfinger_ready) < N"
SLOW = 'histogram_quantile(0.99, rate(scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts="1"}[5m])) > 5'
INVALID = "sum(wharfinger_invalid_objects) > 0"
LOST = "sum(wharfinger_lost_pods) > 0 for 10 min"
UNSERVED = "sum(wharfinger_unserved_pods) > 0 for 10 min"
SEEN_EXPRESSIONS = frozenset({READY, SLOW, INVALID, LOST, UNSERVED})
"""Rows of the guide that are answered by what the page sees in etcd itself."""


def _failed_tasks(them: Processes) -> float | None:
    """The SDK has the metric only once a task has failed."""
    read = [one.last for one in them if one.last is not None]
    return sum(last.total("temporal_workflow_task_execution_failed_total") or 0.0 for last in read) if read else None


RULES = (
    AlertRule("StartFailures", "increase(wharfinger_start_failures_total[5m]) > 0",
              "Temporal refuses starts, or is away; pods wait in the queue, none is lost",
              increase("wharfinger_start_failures_total", 5 * MINUTE), severity=CRITICAL),
    AlertRule("LateStarts",
              "sum(rate(wharfinger_start_seconds_sum[5m])) / sum(rate(wharfinger_start_seconds_count[5m])) > 0.5",
              "Temporal takes long to accept starts, so groups grow and pods wait: a larger Temporal",
              share(increase("wharfinger_start_seconds_sum", 5 * MINUTE),
                    increase("wharfinger_start_seconds_count", 5 * MINUTE)), above=0.5, unit=" s"),
    AlertRule("Backlog", 'scheduler_pending_pods{queue="active"} > 1000 for 5 min',
              "more comes in than is placed: another worker, or a larger Temporal",
              largest("scheduler_pending_pods", queue="active"), above=1000, hold=5 * MINUTE, link="/pending",
              unit=" pods"),
    AlertRule("Contention",
              "sum(rate(wharfinger_contended_total[5m])) / sum(rate(scheduler_schedule_attempts_total[5m])) > 0.1",
              "workers take the same nodes: foreign binds, or nearly full",
              share(increase("wharfinger_contended_total", 5 * MINUTE),
                    increase("scheduler_schedule_attempts_total", 5 * MINUTE)), above=0.1),
    AlertRule("ForeignOvercommit", "increase(wharfinger_foreign_overcommit_total[5m]) > 0",
              "another program binds pods to nodes that are full",
              increase("wharfinger_foreign_overcommit_total", 5 * MINUTE), link="/map"),
    AlertRule("EvictionsOverdue", "increase(wharfinger_evictions_overdue_total[15m]) > 0",
              "victims of a preemption do not go: the node's agent is down",
              increase("wharfinger_evictions_overdue_total", 15 * MINUTE)),
    AlertRule("ConfigurationNotInForce", "sum(wharfinger_config_problems) > 0",
              "a value of the dynamic configuration is not in force", total("wharfinger_config_problems")),
    AlertRule("NodeEvictionsHeld", "increase(wharfinger_node_evictions_held_total[15m]) > 0",
              "more than 10 % of the nodes are lost or tainted: look at the network first",
              increase("wharfinger_node_evictions_held_total", 15 * MINUTE), link="/map", severity=CRITICAL),
    AlertRule("Relists", 'increase(wharfinger_relists_total{cause!="start"}[1h]) > 3',
              "watches are cut off or compacted away: etcd or the network is slow",
              less(increase("wharfinger_relists_total", HOUR),
                   increase("wharfinger_relists_total", HOUR, cause="start")), above=3),
    AlertRule("WorkflowTaskFailures", "temporal_workflow_task_execution_failed_total",
              "a task that fails is a workflow that does not go on", _failed_tasks, severity=CRITICAL,
              unit=" tasks"),
)  # fmt: skip


class WorkerAlerts(AlertSource):
    """Evaluated on workers."""

    name = "workers"
    rules = RULES

    def __init__(self, following: Following, pending: PendingPods, scraper: Scraper) -> None:
        super().__init__(scraper)
        self._following = following
        self._pending = pending

    def seen(self) -> Iterable[SeenAlert]:
        """Those that the page sees by itself."""
        model, cache = self._following.model, self._following.cache
        instances = model.instances
        waiting = [f"{tenant}/{slot}" for (tenant, slot, _), one in instances.items() if one.state != "ready"]
        ready = sum(one.state == "ready" for one in instances.values())
        yield SeenAlert(
            "NoWorkers", ready == 0, "no worker is ready: nothing is placed", f"{ready} ready",
            severity=CRITICAL, link="/fleets", expression=READY,
        )  # fmt: skip
        yield SeenAlert(
            "WorkersNotReady", bool(waiting), "fewer workers serve than are there; the list of workers says why",
            ", ".join(waiting[:3]) + (" ..." if len(waiting) > 3 else ""), link="/fleets", hold=15, expression=READY,
        )  # fmt: skip
        p99 = model.latency_of_fitting.quantiles(self._following.clock(), (0.99,))[0]
        yield SeenAlert(
            "SlowPlacement", p99 is not None and p99 > SLOW_P99,
            "pods are bound late though no attempt refused them: workers do not keep up, or plugins take long",
            f"p99 {p99:.1f} s" if p99 is not None else "no such pod was bound lately", link="/pending",
            expression=SLOW,
        )  # fmt: skip
        lost = sum(len(info.pods) for info in cache.absent_nodes.values())
        yield SeenAlert(
            "LostPods", lost > 0, "pods are bound to nodes that do not exist", f"{lost} pod{'s' * (lost != 1)}",
            link="/map", hold=HOLD,
            expression=LOST,
        )  # fmt: skip
        unserved = sum(len(pods) for key, pods in self._pending.groups() if key.reason == NOT_SERVED)
        yield SeenAlert(
            "UnservedPods", unserved > 0, "pods name a scheduler that no live worker of their pool serves",
            f"{unserved} pod{'s' * (unserved != 1)}", link="/pending", hold=HOLD, expression=UNSERVED,
        )  # fmt: skip
        invalid = len(self._following.view.invalid.reasons)
        yield SeenAlert(
            "InvalidObjects", invalid > 0, "stored objects cannot be read: `wharfinger get KIND --invalid` names them",
            f"{invalid} object{'s' * (invalid != 1)}", expression=INVALID,
        )  # fmt: skip
        silent = self._following.silent_seconds
        yield SeenAlert(
            "EtcdSilent", silent > 0, "etcd does not answer: what is shown is as it was", f"{silent:.0f} s",
            severity=CRITICAL,
        )  # fmt: skip
