"""Alerts about workers: by their metrics, and by what the page sees in etcd itself."""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.page.alerts.rules import CRITICAL, AlertRule, AlertSource, Processes, SeenAlert, counted, largest, total
from wharfinger.page.follow.scraping import Scraper
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.pending import PendingPods
from wharfinger.scheduling.page.reasons import NOT_SERVED


def _failed_tasks(them: Processes) -> float | None:
    """The SDK has the metric only once a task has failed."""
    read = [one.last for one in them if one.last is not None]
    return sum(last.total("temporal_workflow_task_execution_failed_total") or 0.0 for last in read) if read else None


RULES = (
    AlertRule("Backlog", largest("scheduler_pending_pods", queue="active"), 1000, " pods", "/pending"),
    AlertRule("ConfigurationNotInForce", total("wharfinger_config_problems")),
    AlertRule("WorkflowTaskFailures", _failed_tasks, unit=" tasks"),
)


class WorkerAlerts(AlertSource):
    """Evaluated on workers."""

    name = "workers"
    rules = RULES
    seen_rules = ("NoWorkers", "WorkersNotReady", "LostPods", "UnservedPods", "InvalidObjects")

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
        yield SeenAlert("NoWorkers", ready == 0, f"{ready} ready", "/fleets", hold=0)
        some = ", ".join(waiting[:3]) + (" ..." if len(waiting) > 3 else "")
        yield SeenAlert("WorkersNotReady", bool(waiting), some, "/fleets", hold=15)
        lost = sum(len(info.pods) for info in cache.absent_nodes.values())
        yield SeenAlert("LostPods", lost > 0, counted(lost, " pods"), "/map")
        unserved = sum(len(pods) for key, pods in self._pending.groups() if key.reason == NOT_SERVED)
        yield SeenAlert("UnservedPods", unserved > 0, counted(unserved, " pods"), "/pending")
        invalid = len(self._following.view.invalid.reasons)
        yield SeenAlert("InvalidObjects", invalid > 0, counted(invalid, " objects"))
        silent = self._following.silent_seconds
        yield SeenAlert(
            "EtcdSilent",
            silent > 0,
            f"{silent:.0f} s",
            means="etcd does not answer: what is shown is as it was",
            severity=CRITICAL,
        )
