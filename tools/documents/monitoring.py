"""What Prometheus and Grafana load beside the rules, and the pages about metrics and alerts.

`python -m tools.documents.monitoring` writes the dashboards, and the rules as an object for the Prometheus operator.
Dashboards and the reference of metrics are made from what `telemetry` and the archive declare, in the order of the
table below. Alerts are those of `deploy/monitoring/rules.yaml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from wharfinger.kubernetes.page.view import KubernetesAlerts
from wharfinger.page.alerts.etcd_health import EtcdAlerts
from wharfinger.placement.page.hub_alerts import HubAlerts
from wharfinger.replay.archive.archiving import ArchiveMetrics
from wharfinger.scheduling.page.worker_alerts import WorkerAlerts
from wharfinger.telemetry import DeclaredMetric, Metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/monitoring"
OPERATOR = ROOT / "deploy/kubernetes/monitoring/rules.yaml"
SITE = "https://wharfinger.dev/docs/"
"""Where the rules say that the documents are."""


class Row(NamedTuple):
    """Metrics that stand together."""

    title: str
    metrics: tuple[str, ...]
    """Attributes of `Metrics`; `archive.` stands before those of `ArchiveMetrics`; else a name of `FOREIGN`."""


class Dashboard(NamedTuple):
    """A dashboard, and a part of the reference."""

    name: str
    title: str
    rows: tuple[Row, ...]


def _row(title: str, metrics: str) -> Row:
    return Row(title, tuple(metrics.split()))


TABLE = (
    Dashboard(
        "pods",
        "Pods",
        (
            _row(
                "Attempts and binds",
                "schedule_attempts sli_duration pod_scheduling_attempts attempt_duration algorithm_duration "
                "point_durations fleet_attempts",
            ),
            _row(
                "Queue",
                "pending_pods queue_incoming unschedulable_pods unserved_pods wakes wake_decisions parked_chains "
                "waiting_without_chain",
            ),
            _row(
                "Starts in Temporal",
                "attempt_starts start_seconds start_failures cohort_pods groups_in_flight in_flight_limit",
            ),
            _row(
                "Conflicts and preemption",
                "bind_conflicts contended foreign_overcommit preemption_attempts preemption_victims evictions_overdue",
            ),
            _row("Nodes that are gone", "lost_pods requeued_pods taint_evictions node_evictions_held"),
        ),
    ),
    Dashboard(
        "placements-and-fleets",
        "Placements and fleets",
        (
            _row(
                "Placements",
                "placements_seen placements_unsettled placement_attempts placement_starts scheduling_cycle_duration "
                "scheduling_active_workers",
            ),
            _row("Delivery", "member_clusters works works_written results rollout_starts update_run_starts"),
            _row(
                "Fleets",
                "fleet_wanted fleet_ready fleet_outdated fleet_rollout fleet_rollouts fleet_reconcile_age "
                "fleet_unreadable pokes_waiting",
            ),
            _row("Hosts", "host_instances host_ended host_exits_waiting"),
        ),
    ),
    Dashboard(
        "health",
        "Health",
        (
            _row("Processes", "ready members config_problems config_updates invalid_objects cache_size"),
            _row("Temporal, as its SDK reports it", "workflow_tasks_late workflow_tasks_failed"),
            _row("Watches, and etcd as it reports itself", "watch_revision relists etcd_size etcd_leader etcd_fsync"),
            _row(
                "Kubernetes API",
                "kubernetes_import_lag kubernetes_promises kubernetes_oldest_promise kubernetes_requests "
                "kubernetes_events kubernetes_copies gangs_torn",
            ),
            _row(
                "Archive",
                "archive.age archive.passes archive.gaps archive.lost archive.size archive.revision",
            ),
        ),
    ),
)
"""Every metric, once."""
FOREIGN = {
    "workflow_tasks_late": DeclaredMetric(
        "temporal_workflow_task_schedule_to_start_latency",
        "histogram",
        "How long workflow tasks waited for a worker. When it grows, workers cannot keep up.",
        (),
    ),
    "workflow_tasks_failed": DeclaredMetric(
        "temporal_workflow_task_execution_failed_total",
        "counter",
        "Workflow tasks that failed. The metric should not be there: such a workflow does not go on.",
        (),
    ),
    "etcd_size": DeclaredMetric(
        "etcd_mvcc_db_total_size_in_use_in_bytes", "gauge", "What is in use of `etcd_server_quota_backend_bytes`.", ()
    ),
    "etcd_leader": DeclaredMetric("etcd_server_has_leader", "gauge", "1 while the member has a leader.", ()),
    "etcd_fsync": DeclaredMetric(
        "etcd_disk_wal_fsync_duration_seconds", "histogram", "How long the disk takes for a write.", ()
    ),
}
"""Metrics of others that are shown, too."""
LARGEST = frozenset(
    {
        "archive.age", "archive.gaps", "archive.lost", "archive.revision", "archive.size", "cache_size", "etcd_size",
        "fleet_outdated", "fleet_ready", "fleet_rollout", "fleet_unreadable", "fleet_wanted", "invalid_objects",
        "kubernetes_import_lag", "kubernetes_oldest_promise", "kubernetes_promises", "member_clusters", "members",
        "results", "watch_revision", "works",
    }
)  # fmt: skip
"""Gauges that several processes report of the same thing. Others are summed."""
SMALLEST = frozenset({"fleet_reconcile_age"})
BY_INSTANCE = frozenset({"ready", "etcd_leader"})
SPLIT = {"point_durations": "extension_point"}
"""Histograms of which a label is shown, too."""
SAID = frozenset({"online", "fits"})
"""Labels whose values say nothing alone."""
TITLES = {
    "sli_duration": "From a pod's first queueing to its bind",
    "start_seconds": "Until Temporal accepts a start",
    "workflow_tasks_late": "Workflow tasks until they are taken",
    "workflow_tasks_failed": "Failed workflow tasks a second",
    "etcd_size": "etcd: bytes in use",
    "etcd_leader": "etcd: member has a leader",
    "etcd_fsync": "etcd: time of a write to its log",
}
"""Where the name of the metric in words is none."""
UNITS = {"seconds": "s", "milliseconds": "ms", "bytes": "bytes", "latency": "s"}
"""By the end of a metric's name."""


@cache
def metrics() -> Mapping[str, DeclaredMetric]:
    """Every metric, by its name in the table."""
    archive = {f"archive.{attribute}": one for attribute, one in ArchiveMetrics.declared().items()}
    return Metrics.declared() | archive | FOREIGN


# --- dashboards -----------------------------------------------------------------------------------


def dashboard(one: Dashboard) -> dict[str, Any]:
    """As Grafana imports it."""
    numbers = count(1)
    return {
        "uid": f"wharfinger-{one.name}",
        "title": f"wharfinger: {one.title.lower()}",
        "tags": ["wharfinger"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "job",
                    "label": "Job",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": {"query": "label_values(wharfinger_ready, job)", "refId": "job"},
                    "refresh": 2,
                    "includeAll": True,
                    "multi": True,
                    "allValue": ".+",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": list(_panels(one.rows, numbers)),
    }


SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 8, 8
"""Of a panel; a dashboard is 24 wide."""


def _panels(rows: Sequence[Row], numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    top = 0
    for row in rows:
        at = {"x": 0, "y": top, "w": 24, "h": 1}
        yield {"id": next(numbers), "type": "row", "title": row.title, "collapsed": False, "gridPos": at, "panels": []}
        top += 1
        for number, name in enumerate(row.metrics):
            column, line = number % (24 // WIDTH), number // (24 // WIDTH)
            at = {"x": column * WIDTH, "y": top + line * HEIGHT, "w": WIDTH, "h": HEIGHT}
            yield _panel(name, next(numbers), at)
        top += -(-len(row.metrics) * WIDTH // 24) * HEIGHT


def _panel(name: str, number: int, at: Mapping[str, int]) -> dict[str, Any]:
    metric = metrics()[name]
    targets = [
        {"refId": chr(ord("A") + at_), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        for at_, (expression, legend) in enumerate(queries(name))
    ]
    unit = "cps" if metric.kind == "counter" else UNITS.get(metric.name.rpartition("_")[2], "short")
    return {
        "id": number,
        "type": "timeseries",
        "title": title(name),
        "description": f"{metric.text} ({metric.name})",
        "datasource": SOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 5}}, "overrides": []},
        "options": {"legend": {"showLegend": True, "displayMode": "list"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def title(name: str) -> str:
    """The name of a metric in words, without what all have in common."""
    if name in TITLES:
        return TITLES[name]
    metric = metrics()[name]
    words = re.sub(r"^(wharfinger|scheduler)_|_(total|seconds|milliseconds)$", "", metric.name).replace("_", " ")
    return f"{words[0].upper()}{words[1:]}" + " a second" * (metric.kind == "counter")


def queries(name: str) -> list[tuple[str, str]]:
    """What a panel asks, and the legends of the answers."""
    metric = metrics()[name]
    chosen = "" if metric.name.startswith("etcd_") else '{job=~"$job"}'
    if metric.kind == "histogram":
        label = SPLIT.get(name)
        by, legend = (f"le, {label}", f" {_value(label)}") if label else ("le", "")
        rate = f"sum by ({by}) (rate({metric.name}_bucket{chosen}[$__rate_interval]))"
        return [(f"histogram_quantile({percent / 100:g}, {rate})", f"p{percent}{legend}") for percent in (50, 99)]
    labels = ("instance",) if name in BY_INSTANCE else metric.labels
    by = f" by ({', '.join(labels)})" if labels else ""
    legend = " ".join(map(_value, labels)) or title(name).removesuffix(" a second")
    if metric.kind == "counter":
        return [(f"sum{by} (rate({metric.name}{chosen}[$__rate_interval]))", legend)]
    combined = "max" if name in LARGEST else "min" if name in SMALLEST or name in BY_INSTANCE else "sum"
    return [(f"{combined}{by} ({metric.name}{chosen})", legend)]


def _value(label: str) -> str:
    return f"{label}: {{{{{label}}}}}" if label in SAID else f"{{{{{label}}}}}"


# --- rules ----------------------------------------------------------------------------------------


def rules() -> dict[str, Any]:
    """The file, as it is read."""
    found = yaml.safe_load((FOLDER / "rules.yaml").read_text())
    assert isinstance(found, dict)
    return found


def _of_operator() -> str:
    head = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "wharfinger",
            "namespace": "wharfinger",
            "labels": {"app.kubernetes.io/name": "wharfinger"},
        },
    }
    said = yaml.safe_dump({**head, "spec": rules()}, sort_keys=False, width=120)
    return f"# Made of deploy/monitoring/rules.yaml by `make monitoring`.\n{said}"


def written() -> dict[Path, str]:
    """The files that are made, with their contents."""
    boards = {
        FOLDER / f"dashboards/{one.name}.json": json.dumps(dashboard(one), indent=1, ensure_ascii=False) + "\n"
        for one in TABLE
    }
    return {**boards, OPERATOR: _of_operator()}


# --- pages ----------------------------------------------------------------------------------------


def metrics_page() -> str:
    """Every metric, for readers."""
    return "\n".join(_metrics_lines())


def _metrics_lines() -> Iterator[str]:
    yield from (
        "# Metrics",
        "",
        "Made from what processes declare, in the order of the [dashboards](../operations.md#dashboards).",
        "A histogram has `_bucket`, `_sum` and `_count` behind its name. Labels have few values; none names a pod.",
        "",
    )
    for board in TABLE:
        yield from (f"## {board.title}", "")
        for row in board.rows:
            yield from (f"### {row.title}", "", "| metric | type | labels | what | alerts |")
            yield "| --- | --- | --- | --- | --- |"
            for name in row.metrics:
                metric = metrics()[name]
                labels = ", ".join(f"`{label}`" for label in metric.labels)
                alerts = ", ".join(f"[{one}](alerts.md#{one.lower()})" for one in _alerts_on(metric))
                yield f"| `{metric.name}` | {metric.kind} | {labels} | {_cell(metric.text)} | {alerts} |"
            yield ""


def _alerts_on(metric: DeclaredMetric) -> list[str]:
    named = re.compile(rf"\b{metric.name}(_bucket|_sum|_count)?\b")
    found = (rule for group in rules()["groups"] for rule in group["rules"])
    return [rule["alert"] for rule in found if named.search(rule["expr"])]


def alerts_page() -> str:
    """Every alert, for readers."""
    return "\n".join(_alerts_lines())


def _alerts_lines() -> Iterator[str]:
    on_page = frozenset[str]().union(
        *(source.evaluated() for source in (WorkerAlerts, KubernetesAlerts, HubAlerts, EtcdAlerts))
    )
    yield from (
        "# Alerts",
        "",
        "Made from `deploy/monitoring/rules.yaml`. [Operating wharfinger](../operations.md#watch) says how Prometheus",
        "loads them. The [web page](../ui.md) evaluates those that are states, and names the others.",
        "",
    )
    for group in rules()["groups"]:
        yield from (f"## {group['name']}", "")
        for rule in group["rules"]:
            about = rule["annotations"]
            hold = f", for {rule['for']}" if "for" in rule else ""
            shown = "Prometheus and the web page evaluate it" if rule["alert"] in on_page else "Prometheus evaluates it"
            yield from (f"### {rule['alert']}", "")
            yield from (f"{_sentence(about['summary'])} {about['description']}{_guide(about)}", "")
            yield from ("```promql", rule["expr"], "```", "", f"{rule['labels']['severity']}{hold}; {shown}", "")


def _guide(about: Mapping[str, str]) -> str:
    if "runbook_url" not in about:
        return ""
    page = about["runbook_url"].removeprefix(SITE).replace(".html", ".md")
    return f" [What to do](../{page})."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for path, text in written().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
