"""Metric instruments, and nothing else: who counts is elsewhere, `serving` serves them.

What is declared here is the table from which the reference of metrics and the dashboards are made. Names are
kube-scheduler's (`scheduler_*`) where the meaning is the same, `wharfinger_*` otherwise.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series each, which no dashboard reads


def _powers(start: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(start * factor**power for power in range(count))


class PointDurations(Collector):
    """How long all plugins of an extension point took, by point, status and profile; a `framework.timing.PointTimes`.

    A pod passes some eight points, so this counts by itself: `Histogram` takes five times as long.
    """

    NAME = "scheduler_framework_extension_point_duration_seconds"
    TEXT = "Time that all plugins of an extension point took."
    LABELS = ("extension_point", "status", "profile")
    BOUNDS = _powers(0.0001, 2, 12)

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock`: monotonic seconds."""
        self.now = clock
        self._counts: dict[tuple[str, str, str], list[int]] = {}
        """By point, status and profile: one a bucket, and one for what is beyond."""
        self._sums: dict[tuple[str, str, str], float] = {}
        """Seconds."""

    def observe(self, point: str, status: str, profile: str, seconds: float) -> None:
        """The point took so long for one pod."""
        key = point, status, profile
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(self.BOUNDS) + 1)
            self._sums[key] = 0.0
        counts[bisect_left(self.BOUNDS, seconds)] += 1
        self._sums[key] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The metric, as the registry reads it."""
        family = HistogramMetricFamily(self.NAME, self.TEXT, labels=self.LABELS)
        bounds = [*map(str, self.BOUNDS), "+Inf"]
        for key, counts in self._counts.items():
            buckets = list(zip(bounds, map(float, accumulate(counts)), strict=True))
            family.add_metric(key, buckets, self._sums[key])
        yield family


def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter as an attribute of `Instruments`; its name gets `_total` when it is scraped."""
    return cast("Counter", partial(Counter, name, text, labels))


def gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
    """Declare a gauge as an attribute of `Instruments`."""
    return cast("Gauge", partial(Gauge, name, text, labels))


def histogram(name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]) -> Histogram:
    """Declare a histogram as an attribute of `Instruments`, with the upper bounds of its buckets."""
    return cast("Histogram", partial(Histogram, name, text, labels, buckets=buckets))


class DeclaredMetric(NamedTuple):
    """A metric, as it is scraped."""

    name: str
    """A counter's ends with `_total`. A histogram has `_bucket`, `_sum` and `_count` of it."""
    kind: str
    """`counter`, `gauge` or `histogram`."""
    text: str
    labels: tuple[str, ...]


class Instruments:
    """Instruments that a class declares, on a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for name, make in vars(type(self)).items():
            if isinstance(make, partial):
                setattr(self, name, make(registry=self.registry))

    @classmethod
    def declared(cls) -> dict[str, DeclaredMetric]:
        """What is declared, by attribute."""
        found = {}
        for attribute, make in vars(cls).items():
            if isinstance(make, partial):
                name, text, labels = make.args
                kind = make.func.__name__.lower()
                found[attribute] = DeclaredMetric(name + "_total" * (kind == "counter"), kind, text, tuple(labels))
        return found


class Metrics(Instruments):
    """All instruments of one process."""

    # --- kube-scheduler's -------------------------------------------------------------------------

    schedule_attempts = counter("scheduler_schedule_attempts", "Attempts by result.", ["result", "profile"])
    attempt_duration = histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "From the start of place to its outcome.",
        ["result", "profile"],
        buckets=_powers(0.001, 2, 15),
    )
    algorithm_duration = histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "Time the decision itself took.",
        buckets=_powers(0.0001, 2, 15),
    )
    sli_duration = histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "From a pod's first queueing to its binding.",
        ["attempts"],
        buckets=_powers(0.01, 2, 20),
    )
    pod_scheduling_attempts = histogram(
        "scheduler_pod_scheduling_attempts", "Attempts that a pod took until it was bound.", buckets=_powers(1, 2, 5)
    )
    pending_pods = gauge("scheduler_pending_pods", "Pods by place in the queue.", ["queue"])
    queue_incoming = counter(
        "scheduler_queue_incoming_pods", "Pods entering a part of the queue, by cause.", ["queue", "event"]
    )
    unschedulable_pods = gauge(
        "scheduler_unschedulable_pods", "Waiting pods by the plugins that refused them.", ["plugin", "profile"]
    )
    preemption_attempts = counter(
        "scheduler_preemption_attempts", "Decisions that looked for room to make by preemption."
    )
    preemption_victims = histogram("scheduler_preemption_victims", "Victims of a nomination.", buckets=_powers(1, 2, 7))
    cache_size = gauge("scheduler_cache_size", "Objects in the cache.", ["type"])

    # --- ours -------------------------------------------------------------------------------------

    in_flight_limit = gauge(
        "wharfinger_in_flight_limit",
        "Attempts in no group that may be in flight, by how quickly Temporal takes starts.",
    )
    bind_conflicts = counter(
        "wharfinger_bind_conflicts",
        "Bind transactions whose compare failed, by what had moved (pod, node, binding, terms, bound, tenant, active).",
        ["moved"],
    )
    gangs_torn = counter(
        "wharfinger_gangs_torn",
        "Gangs of which the Kubernetes API bound some members only, because others went or changed meanwhile.",
    )
    kubernetes_requests = counter(
        "wharfinger_upstream_requests",
        "Requests to the Kubernetes API by verb (of HTTP) and code; `error`: no answer came.",
        ["verb", "code"],
    )
    kubernetes_promises = gauge(
        "wharfinger_upstream_promises",
        "Binds that are committed in etcd and that the Kubernetes API has not shown yet.",
    )
    kubernetes_oldest_promise = gauge(
        "wharfinger_upstream_oldest_promise_seconds",
        "Age of the oldest of them; minutes mean that the API refuses to answer, or a fence cannot be set.",
    )
    kubernetes_import_lag = gauge(
        "wharfinger_upstream_import_lag_seconds", "Seconds since the importer last said that the copies are complete."
    )
    kubernetes_events = counter(
        "wharfinger_upstream_events",
        "Events for the Kubernetes API, by what became of them (written, counted, queue_full, unavailable, ...).",
        ["outcome"],
    )
    kubernetes_copies = counter(
        "wharfinger_upstream_copies",
        "States of the Kubernetes API's objects that were copied, by kind and by what became of the copy.",
        ["kind", "effect"],
    )
    contended = counter("wharfinger_contended", "Attempts that ended contended.")
    fleet_attempts = counter(
        "wharfinger_fleet_attempts",
        "Outcomes of attempts (bound, refused, contended, error) by the tenant and by the fleet's revision that "
        "decided; empty for workers started by hand.",
        ["tenant", "revision", "outcome"],
    )
    evictions_overdue = counter(
        "wharfinger_evictions_overdue",
        "Attempts that found victims still there more than 30 s past the end of their grace.",
    )
    foreign_overcommit = counter(
        "wharfinger_foreign_overcommit", "Times other writers left a node with more than its allocatable."
    )
    invalid_objects = gauge("wharfinger_invalid_objects", "Stored objects that cannot be read, by kind.", ["kind"])
    watch_revision = gauge("wharfinger_watch_revision", "Newest revision of etcd that was applied.")
    relists = counter("wharfinger_relists", "Full lists, by cause.", ["cause"])
    attempt_starts = counter("wharfinger_attempt_starts", "Workflow starts, by cause.", ["cause"])
    start_failures = counter("wharfinger_start_failures", "Workflow starts that failed and are tried again.")
    start_seconds = histogram(
        "wharfinger_start_seconds", "Seconds until Temporal accepted a start.", buckets=_powers(0.001, 2, 14)
    )
    cohort_pods = histogram(
        "wharfinger_cohort_pods",
        "Pods of each group that was started; 1 = a pod that went alone. Its count is that of the groups.",
        buckets=_powers(1, 2, 10),
    )
    groups_in_flight = gauge(
        "wharfinger_groups_in_flight",
        "Groups that were started and of whose pods etcd, or a Kubernetes API, has not told all.",
    )
    parked_chains = gauge("wharfinger_parked_chains", "Waiting pods with a workflow of their own that is parked.")
    waiting_without_chain = gauge(
        "wharfinger_waiting_without_chain", "Waiting pods that have no workflow, only their record."
    )
    unserved_pods = gauge(
        "wharfinger_unserved_pods", "Pending pods of this worker's shard whose scheduler name no live instance serves."
    )
    requeued_pods = counter(
        "wharfinger_requeued_pods",
        "Pods of absent nodes that were deleted, by what follows (controller, made_anew, nothing).",
        ["then"],
    )
    taint_evictions = counter("wharfinger_taint_evictions", "Pods evicted from nodes with a NoExecute taint.")
    node_evictions_held = counter(
        "wharfinger_node_evictions_held",
        "Times a node was not cleared of its pods, because 10 % of the nodes were cleared a short time ago.",
    )
    lost_pods = gauge(
        "wharfinger_lost_pods", "Pods bound to a node that does not exist, on the nodes that this worker looks after."
    )
    wakes = counter("wharfinger_wakes", "Waiting pods woken, by event.", ["event"])
    wake_decisions = counter(
        "wharfinger_wake_decisions", "Decisions made to see whether a waiting pod fits now, by answer.", ["fits"]
    )
    config_updates = counter(
        "wharfinger_config_updates",
        "Values of the dynamic configuration by kind, and what became of them (applied, proven, refused, undone, "
        "unset, waiting).",
        ["kind", "result"],
    )
    config_problems = gauge(
        "wharfinger_config_problems",
        "1 while a value of the dynamic configuration is not in force that should be, by kind.",
        ["kind"],
    )
    ready = gauge("wharfinger_ready", "1 while the process is ready.")
    members = gauge("wharfinger_members", "Ready workers that this worker has seen, itself included.")

    # --- of hubs: the first two are KubeFleet's ---------------------------------------------------

    scheduling_cycle_duration = histogram(
        "scheduling_cycle_duration_milliseconds",
        "Time that deciding for a placement took, in milliseconds.",
        ["is_failed", "needs_requeue"],
        buckets=(10, 50, 100, 500, 1000, 5000, 10000, 50000),
    )
    scheduling_active_workers = gauge("scheduling_active_workers", "Placements that are being decided now.")
    placement_attempts = counter(
        "wharfinger_placement_attempts",
        "Attempts of placements, by result (fulfilled, unfulfilled, unchanged, gone, contended).",
        ["result"],
    )
    placement_starts = counter(
        "wharfinger_placement_starts", "Attempts of placements that were started, by cause.", ["cause"]
    )
    placements_unsettled = gauge(
        "wharfinger_placements_unsettled", "Placements of this hub that are to be judged, or whose attempt was started."
    )
    placements_seen = gauge("wharfinger_placements", "Placements that this hub looks after, by state.", ["state"])
    member_clusters = gauge(
        "wharfinger_member_clusters", "Member clusters, by whether their agent is there.", ["online"]
    )
    rollout_starts = counter(
        "wharfinger_placement_rollout_starts", "Rollouts of placements that were started, by cause.", ["cause"]
    )
    update_run_starts = counter(
        "wharfinger_update_run_starts", "Staged update runs that were started, or started again."
    )
    works_written = counter("wharfinger_works_written", "Changes of works of placements on members, by kind.", ["kind"])
    works = gauge("wharfinger_works", "Works of placements on members, by what is wanted.", ["want"])
    results = gauge(
        "wharfinger_results",
        "Members of placements, by what their agents report of the present contents (available, unavailable, failed).",
        ["state"],
    )

    # --- of hosts, and of the fleets that agents plan: `tenant` is common or a tenant -------------

    host_instances = gauge("wharfinger_host_instances", "Instances that run on this host.")
    host_ended = counter(
        "wharfinger_host_instances_ended", "Instances that ended, by how (code, signal, probe, ...).", ["how"]
    )
    host_exits_waiting = gauge("wharfinger_host_exits_waiting", "Ends of instances that are not recorded in etcd yet.")
    pokes_waiting = gauge(
        "wharfinger_fleet_pokes_waiting", "Fleets whose reconcile signal Temporal has not accepted yet."
    )
    fleet_ready = gauge("wharfinger_fleet_ready_instances", "Slots with a ready instance.", ["tenant"])
    fleet_wanted = gauge("wharfinger_fleet_wanted_instances", "Replicas of the fleet.", ["tenant"])
    fleet_outdated = gauge(
        "wharfinger_fleet_outdated_instances",
        "Ready instances that are not of the revision that is wanted.",
        ["tenant"],
    )
    fleet_rollout = gauge("wharfinger_fleet_rollout", "1 for the state that the rollout is in.", ["tenant", "state"])
    fleet_reconcile_age = gauge(
        "wharfinger_fleet_seconds_since_reconcile",
        "Since this agent last planned the fleet; of several agents, the least counts.",
        ["tenant"],
    )
    fleet_unreadable = gauge(
        "wharfinger_fleet_unreadable_records", "Records of the fleet that cannot be read.", ["tenant"]
    )
    fleet_rollouts = counter("wharfinger_fleet_rollouts", "Rollouts that ended, by outcome.", ["outcome"])

    def __init__(self) -> None:
        super().__init__()
        self.point_durations = PointDurations()
        self.registry.register(self.point_durations)

    @classmethod
    def declared(cls) -> dict[str, DeclaredMetric]:
        """What is declared, by attribute."""
        points = DeclaredMetric(PointDurations.NAME, "histogram", PointDurations.TEXT, PointDurations.LABELS)
        return {**super().declared(), "point_durations": points}
