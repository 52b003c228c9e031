"""Metric instruments, and nothing else: who counts is elsewhere, `serving` serves them.

Names are kube-scheduler's (`scheduler_*`) where the meaning is the same, `wharfinger_*` otherwise.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import cast

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
        family = HistogramMetricFamily(
            self.NAME,
            "Time that all plugins of an extension point took.",
            labels=("extension_point", "status", "profile"),
        )
        bounds = [*map(str, self.BOUNDS), "+Inf"]
        for key, counts in self._counts.items():
            buckets = list(zip(bounds, map(float, accumulate(counts)), strict=True))
            family.add_metric(key, buckets, self._sums[key])
        yield family


def _counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter, which each `Metrics` makes on its registry; likewise the next two."""
    return cast("Counter", partial(Counter, name, text, labels))


def _gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
    return cast("Gauge", partial(Gauge, name, text, labels))


def _histogram(name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]) -> Histogram:
    return cast("Histogram", partial(Histogram, name, text, labels, buckets=buckets))


class Metrics:
    """All instruments of one process, on a registry of their own."""

    # --- kube-scheduler's -------------------------------------------------------------------------

    schedule_attempts = _counter("scheduler_schedule_attempts", "Attempts by result.", ["result", "profile"])
    attempt_duration = _histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "From the start of place to its outcome.",
        ["result", "profile"],
        buckets=_powers(0.001, 2, 15),
    )
    algorithm_duration = _histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "Time the decision itself took.",
        buckets=_powers(0.0001, 2, 15),
    )
    sli_duration = _histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "From a pod's first queueing to its binding.",
        ["attempts"],
        buckets=_powers(0.01, 2, 20),
    )
    pod_scheduling_attempts = _histogram(
        "scheduler_pod_scheduling_attempts", "Attempts that a pod took until it was bound.", buckets=_powers(1, 2, 5)
    )
    pending_pods = _gauge("scheduler_pending_pods", "Pods by place in the queue.", ["queue"])
    queue_incoming = _counter(
        "scheduler_queue_incoming_pods", "Pods entering a part of the queue, by cause.", ["queue", "event"]
    )
    unschedulable_pods = _gauge(
        "scheduler_unschedulable_pods", "Waiting pods by the plugins that refused them.", ["plugin", "profile"]
    )
    preemption_attempts = _counter(
        "scheduler_preemption_attempts", "Decisions that looked for room to make by preemption."
    )
    preemption_victims = _histogram(
        "scheduler_preemption_victims", "Victims of a nomination.", buckets=_powers(1, 2, 7)
    )
    cache_size = _gauge("scheduler_cache_size", "Objects in the cache.", ["type"])

    # --- ours -------------------------------------------------------------------------------------

    in_flight_limit = _gauge(
        "wharfinger_in_flight_limit",
        "Attempts in no group that may be in flight, by how quickly Temporal takes starts.",
    )
    bind_conflicts = _counter(
        "wharfinger_bind_conflicts",
        "Bind transactions whose compare failed, by what had moved (pod, node, binding, terms, bound, tenant, active).",
        ["moved"],
    )
    gangs_torn = _counter(
        "wharfinger_gangs_torn",
        "Gangs of which the Kubernetes API bound some members only, because others went or changed meanwhile.",
    )
    kubernetes_requests = _counter(
        "wharfinger_upstream_requests",
        "Requests to the Kubernetes API by verb (of HTTP) and code; `error`: no answer came.",
        ["verb", "code"],
    )
    kubernetes_promises = _gauge(
        "wharfinger_upstream_promises",
        "Binds that are committed in etcd and that the Kubernetes API has not shown yet.",
    )
    kubernetes_oldest_promise = _gauge(
        "wharfinger_upstream_oldest_promise_seconds",
        "Age of the oldest of them; minutes mean that the API refuses to answer, or a fence cannot be set.",
    )
    kubernetes_import_lag = _gauge(
        "wharfinger_upstream_import_lag_seconds", "Seconds since the importer last said that the copies are complete."
    )
    kubernetes_events = _counter(
        "wharfinger_upstream_events",
        "Events for the Kubernetes API, by what became of them (written, counted, queue_full, unavailable, ...).",
        ["outcome"],
    )
    kubernetes_copies = _counter(
        "wharfinger_upstream_copies",
        "States of the Kubernetes API's objects that were copied, by kind and by what became of the copy.",
        ["kind", "effect"],
    )
    contended = _counter("wharfinger_contended", "Attempts that ended contended.")
    fleet_attempts = _counter(
        "wharfinger_fleet_attempts",
        "Outcomes of attempts (bound, refused, contended, error) by the tenant and by the fleet's revision that "
        "decided; empty for workers started by hand.",
        ["tenant", "revision", "outcome"],
    )
    evictions_overdue = _counter(
        "wharfinger_evictions_overdue",
        "Attempts that found victims still there more than 30 s past the end of their grace.",
    )
    foreign_overcommit = _counter(
        "wharfinger_foreign_overcommit", "Times other writers left a node with more than its allocatable."
    )
    invalid_objects = _gauge("wharfinger_invalid_objects", "Stored objects that cannot be read, by kind.", ["kind"])
    watch_revision = _gauge("wharfinger_watch_revision", "Newest revision of etcd that was applied.")
    relists = _counter("wharfinger_relists", "Full lists, by cause.", ["cause"])
    attempt_starts = _counter("wharfinger_attempt_starts", "Workflow starts, by cause.", ["cause"])
    start_failures = _counter("wharfinger_start_failures", "Workflow starts that failed and are tried again.")
    start_seconds = _histogram(
        "wharfinger_start_seconds", "Seconds until Temporal accepted a start.", buckets=_powers(0.001, 2, 14)
    )
    cohort_pods = _histogram(
        "wharfinger_cohort_pods",
        "Pods of each group that was started; 1 = a pod that went alone. Its count is that of the groups.",
        buckets=_powers(1, 2, 10),
    )
    groups_in_flight = _gauge(
        "wharfinger_groups_in_flight",
        "Groups that were started and of whose pods etcd, or a Kubernetes API, has not told all.",
    )
    parked_chains = _gauge("wharfinger_parked_chains", "Waiting pods with a workflow of their own that is parked.")
    waiting_without_chain = _gauge(
        "wharfinger_waiting_without_chain", "Waiting pods that have no workflow, only their record."
    )
    unserved_pods = _gauge(
        "wharfinger_unserved_pods", "Pending pods of this worker's shard whose scheduler name no live instance serves."
    )
    requeued_pods = _counter(
        "wharfinger_requeued_pods",
        "Pods of absent nodes that were deleted, by what follows (controller, made_anew, nothing).",
        ["then"],
    )
    taint_evictions = _counter("wharfinger_taint_evictions", "Pods evicted from nodes with a NoExecute taint.")
    node_evictions_held = _counter(
        "wharfinger_node_evictions_held",
        "Times a node was not cleared of its pods, because 10 % of the nodes were cleared a short time ago.",
    )
    lost_pods = _gauge(
        "wharfinger_lost_pods", "Pods bound to a node that does not exist, on the nodes that this worker looks after."
    )
    wakes = _counter("wharfinger_wakes", "Waiting pods woken, by event.", ["event"])
    wake_decisions = _counter(
        "wharfinger_wake_decisions", "Decisions made to see whether a waiting pod fits now, by answer.", ["fits"]
    )
    config_updates = _counter(
        "wharfinger_config_updates",
        "Values of the dynamic configuration by kind, and what became of them (applied, proven, refused, undone, "
        "unset, waiting).",
        ["kind", "result"],
    )
    config_problems = _gauge(
        "wharfinger_config_problems",
        "1 while a value of the dynamic configuration is not in force that should be, by kind.",
        ["kind"],
    )
    ready = _gauge("wharfinger_ready", "1 while the process is ready.")
    members = _gauge("wharfinger_members", "Ready workers that this worker has seen, itself included.")

    # --- of hubs: the first two are KubeFleet's ---------------------------------------------------

    scheduling_cycle_duration = _histogram(
        "scheduling_cycle_duration_milliseconds",
        "Time that deciding for a placement took, in milliseconds.",
        ["is_failed", "needs_requeue"],
        buckets=(10, 50, 100, 500, 1000, 5000, 10000, 50000),
    )
    scheduling_active_workers = _gauge("scheduling_active_workers", "Placements that are being decided now.")
    placement_attempts = _counter(
        "wharfinger_placement_attempts",
        "Attempts of placements, by result (fulfilled, unfulfilled, unchanged, gone, contended).",
        ["result"],
    )
    placement_starts = _counter(
        "wharfinger_placement_starts", "Attempts of placements that were started, by cause.", ["cause"]
    )
    placements_unsettled = _gauge(
        "wharfinger_placements_unsettled", "Placements of this hub that are to be judged, or whose attempt was started."
    )
    placements_seen = _gauge("wharfinger_placements", "Placements that this hub looks after, by state.", ["state"])
    member_clusters = _gauge(
        "wharfinger_member_clusters", "Member clusters, by whether their agent is there.", ["online"]
    )
    rollout_starts = _counter(
        "wharfinger_placement_rollout_starts", "Rollouts of placements that were started, by cause.", ["cause"]
    )
    update_run_starts = _counter(
        "wharfinger_update_run_starts", "Staged update runs that were started, or started again."
    )
    works_written = _counter(
        "wharfinger_works_written", "Changes of works of placements on members, by kind.", ["kind"]
    )
    works = _gauge("wharfinger_works", "Works of placements on members, by what is wanted.", ["want"])
    results = _gauge(
        "wharfinger_results",
        "Members of placements, by what their agents report of the present contents (available, unavailable, failed).",
        ["state"],
    )

    # --- of hosts, and of the fleets that agents plan: `tenant` is common or a tenant -------------

    host_instances = _gauge("wharfinger_host_instances", "Instances that run on this host.")
    host_ended = _counter(
        "wharfinger_host_instances_ended", "Instances that ended, by how (code, signal, probe, ...).", ["how"]
    )
    host_exits_waiting = _gauge("wharfinger_host_exits_waiting", "Ends of instances that are not recorded in etcd yet.")
    pokes_waiting = _gauge(
        "wharfinger_fleet_pokes_waiting", "Fleets whose reconcile signal Temporal has not accepted yet."
    )
    fleet_ready = _gauge("wharfinger_fleet_ready_instances", "Slots with a ready instance.", ["tenant"])
    fleet_wanted = _gauge("wharfinger_fleet_wanted_instances", "Replicas of the fleet.", ["tenant"])
    fleet_outdated = _gauge(
        "wharfinger_fleet_outdated_instances",
        "Ready instances that are not of the revision that is wanted.",
        ["tenant"],
    )
    fleet_rollout = _gauge("wharfinger_fleet_rollout", "1 for the state that the rollout is in.", ["tenant", "state"])
    fleet_reconcile_age = _gauge(
        "wharfinger_fleet_seconds_since_reconcile",
        "Since this agent last planned the fleet; of several agents, the least counts.",
        ["tenant"],
    )
    fleet_unreadable = _gauge(
        "wharfinger_fleet_unreadable_records", "Records of the fleet that cannot be read.", ["tenant"]
    )
    fleet_rollouts = _counter("wharfinger_fleet_rollouts", "Rollouts that ended, by outcome.", ["outcome"])

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.point_durations = PointDurations()
        self.registry.register(self.point_durations)
        for name, make in vars(type(self)).items():
            if isinstance(make, partial):
                setattr(self, name, make(registry=self.registry))
