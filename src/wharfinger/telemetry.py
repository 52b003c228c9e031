"""Metric instruments, and nothing else: who counts is elsewhere, `serving` serves them.

Names are kube-scheduler's (`scheduler_*`) where the meaning is the same, `wharfinger_*` otherwise.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

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


class Metrics:
    """All instruments of one process, on a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._counter = partial(Counter, registry=self.registry)
        self._gauge = partial(Gauge, registry=self.registry)
        self._histogram = partial(Histogram, registry=self.registry)
        self._of_scheduling()
        # ours
        self.in_flight_limit = self._gauge(
            "wharfinger_in_flight_limit",
            "Attempts in no group that may be in flight, by how quickly Temporal takes starts.",
        )
        self.bind_conflicts = self._counter(
            "wharfinger_bind_conflicts",
            "Bind transactions whose compare failed, by what had moved (pod, node, binding, terms, bound, tenant, "
            "active).",
            ["moved"],
        )
        self.gangs_torn = self._counter(
            "wharfinger_gangs_torn",
            "Gangs of which the Kubernetes API bound some members only, because others went or changed meanwhile.",
        )
        self.kubernetes_requests = self._counter(
            "wharfinger_upstream_requests",
            "Requests to the Kubernetes API by verb (of HTTP) and code; `error`: no answer came.",
            ["verb", "code"],
        )
        self.kubernetes_promises = self._gauge(
            "wharfinger_upstream_promises",
            "Binds that are committed in etcd and that the Kubernetes API has not shown yet.",
        )
        self.kubernetes_oldest_promise = self._gauge(
            "wharfinger_upstream_oldest_promise_seconds",
            "Age of the oldest of them; minutes mean that the API refuses to answer, or a fence cannot be set.",
        )
        self.kubernetes_import_lag = self._gauge(
            "wharfinger_upstream_import_lag_seconds",
            "Seconds since the importer last said that the copies are complete.",
        )
        self.kubernetes_events = self._counter(
            "wharfinger_upstream_events",
            "Events for the Kubernetes API, by what became of them (written, counted, queue_full, unavailable, ...).",
            ["outcome"],
        )
        self.kubernetes_copies = self._counter(
            "wharfinger_upstream_copies",
            "States of the Kubernetes API's objects that were copied, by kind and by what became of the copy.",
            ["kind", "effect"],
        )
        self.contended = self._counter("wharfinger_contended", "Attempts that ended contended.")
        self.fleet_attempts = self._counter(
            "wharfinger_fleet_attempts",
            "Outcomes of attempts (bound, refused, contended, error) by the tenant and by the fleet's revision that "
            "decided; empty for workers started by hand.",
            ["tenant", "revision", "outcome"],
        )
        self.evictions_overdue = self._counter(
            "wharfinger_evictions_overdue",
            "Attempts that found victims still there more than 30 s past the end of their grace.",
        )
        self.foreign_overcommit = self._counter(
            "wharfinger_foreign_overcommit", "Times other writers left a node with more than its allocatable."
        )
        self.invalid_objects = self._gauge(
            "wharfinger_invalid_objects", "Stored objects that cannot be read, by kind.", ["kind"]
        )
        self.watch_revision = self._gauge("wharfinger_watch_revision", "Newest revision of etcd that was applied.")
        self.relists = self._counter("wharfinger_relists", "Full lists, by cause.", ["cause"])
        self.attempt_starts = self._counter("wharfinger_attempt_starts", "Workflow starts, by cause.", ["cause"])
        self.start_failures = self._counter(
            "wharfinger_start_failures", "Workflow starts that failed and are tried again."
        )
        self.start_seconds = self._histogram(
            "wharfinger_start_seconds", "Seconds until Temporal accepted a start.", buckets=_powers(0.001, 2, 14)
        )
        self.cohort_pods = self._histogram(
            "wharfinger_cohort_pods",
            "Pods of each group that was started; 1 = a pod that went alone. Its count is that of the groups.",
            buckets=_powers(1, 2, 10),
        )
        self.groups_in_flight = self._gauge(
            "wharfinger_groups_in_flight",
            "Groups that were started and of whose pods etcd, or a Kubernetes API, has not told all.",
        )
        self.parked_chains = self._gauge(
            "wharfinger_parked_chains", "Waiting pods with a workflow of their own that is parked."
        )
        self.waiting_without_chain = self._gauge(
            "wharfinger_waiting_without_chain", "Waiting pods that have no workflow, only their record."
        )
        self.unserved_pods = self._gauge(
            "wharfinger_unserved_pods",
            "Pending pods of this worker's shard whose scheduler name no live instance serves.",
        )
        self.requeued_pods = self._counter(
            "wharfinger_requeued_pods",
            "Pods of absent nodes that were deleted, by what follows (controller, made_anew, nothing).",
            ["then"],
        )
        self.taint_evictions = self._counter(
            "wharfinger_taint_evictions", "Pods evicted from nodes with a NoExecute taint."
        )
        self.node_evictions_held = self._counter(
            "wharfinger_node_evictions_held",
            "Times a node was not cleared of its pods, because 10 % of the nodes were cleared a short time ago.",
        )
        self.lost_pods = self._gauge(
            "wharfinger_lost_pods",
            "Pods bound to a node that does not exist, on the nodes that this worker looks after.",
        )
        self.wakes = self._counter("wharfinger_wakes", "Waiting pods woken, by event.", ["event"])
        self.wake_decisions = self._counter(
            "wharfinger_wake_decisions", "Decisions made to see whether a waiting pod fits now, by answer.", ["fits"]
        )
        self.config_updates = self._counter(
            "wharfinger_config_updates",
            "Values of the dynamic configuration by kind, and what became of them (applied, proven, refused, undone, "
            "unset, waiting).",
            ["kind", "result"],
        )
        self.config_problems = self._gauge(
            "wharfinger_config_problems",
            "1 while a value of the dynamic configuration is not in force that should be, by kind.",
            ["kind"],
        )
        self.ready = self._gauge("wharfinger_ready", "1 while the process is ready.")
        self.members = self._gauge("wharfinger_members", "Ready workers that this worker has seen, itself included.")
        self._of_hubs()
        self._of_agents()

    def _of_agents(self) -> None:
        """Of hosts, and of the fleets that agents plan: `tenant` is common or a tenant."""
        self.host_instances = self._gauge("wharfinger_host_instances", "Instances that run on this host.")
        self.host_ended = self._counter(
            "wharfinger_host_instances_ended", "Instances that ended, by how (code, signal, probe, ...).", ["how"]
        )
        self.host_exits_waiting = self._gauge(
            "wharfinger_host_exits_waiting", "Ends of instances that are not recorded in etcd yet."
        )
        self.pokes_waiting = self._gauge(
            "wharfinger_fleet_pokes_waiting", "Fleets whose reconcile signal Temporal has not accepted yet."
        )
        self.fleet_ready = self._gauge("wharfinger_fleet_ready_instances", "Slots with a ready instance.", ["tenant"])
        self.fleet_wanted = self._gauge("wharfinger_fleet_wanted_instances", "Replicas of the fleet.", ["tenant"])
        self.fleet_outdated = self._gauge(
            "wharfinger_fleet_outdated_instances",
            "Ready instances that are not of the revision that is wanted.",
            ["tenant"],
        )
        self.fleet_rollout = self._gauge(
            "wharfinger_fleet_rollout", "1 for the state that the rollout is in.", ["tenant", "state"]
        )
        self.fleet_reconcile_age = self._gauge(
            "wharfinger_fleet_seconds_since_reconcile",
            "Since this agent last planned the fleet; of several agents, the least counts.",
            ["tenant"],
        )
        self.fleet_unreadable = self._gauge(
            "wharfinger_fleet_unreadable_records", "Records of the fleet that cannot be read.", ["tenant"]
        )
        self.fleet_rollouts = self._counter(
            "wharfinger_fleet_rollouts", "Rollouts that ended, by outcome.", ["outcome"]
        )

    def _of_scheduling(self) -> None:
        """All of them are kube-scheduler's."""
        self.schedule_attempts = self._counter(
            "scheduler_schedule_attempts", "Attempts by result.", ["result", "profile"]
        )
        self.attempt_duration = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From the start of place to its outcome.",
            ["result", "profile"],
            buckets=_powers(0.001, 2, 15),
        )
        self.algorithm_duration = self._histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time the decision itself took.",
            buckets=_powers(0.0001, 2, 15),
        )
        self.sli_duration = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's first queueing to its binding.",
            ["attempts"],
            buckets=_powers(0.01, 2, 20),
        )
        self.pod_scheduling_attempts = self._histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod took until it was bound.",
            buckets=_powers(1, 2, 5),
        )
        self.point_durations = PointDurations()
        self.registry.register(self.point_durations)
        self.pending_pods = self._gauge("scheduler_pending_pods", "Pods by place in the queue.", ["queue"])
        self.queue_incoming = self._counter(
            "scheduler_queue_incoming_pods", "Pods entering a part of the queue, by cause.", ["queue", "event"]
        )
        self.unschedulable_pods = self._gauge(
            "scheduler_unschedulable_pods", "Waiting pods by the plugins that refused them.", ["plugin", "profile"]
        )
        self.preemption_attempts = self._counter(
            "scheduler_preemption_attempts", "Decisions that looked for room to make by preemption."
        )
        self.preemption_victims = self._histogram(
            "scheduler_preemption_victims", "Victims of a nomination.", buckets=_powers(1, 2, 7)
        )
        self.cache_size = self._gauge("scheduler_cache_size", "Objects in the cache.", ["type"])

    def _of_hubs(self) -> None:
        """The first two are KubeFleet's."""
        self.scheduling_cycle_duration = self._histogram(
            "scheduling_cycle_duration_milliseconds",
            "Time that deciding for a placement took, in milliseconds.",
            ["is_failed", "needs_requeue"],
            buckets=(10, 50, 100, 500, 1000, 5000, 10000, 50000),
        )
        self.scheduling_active_workers = self._gauge(
            "scheduling_active_workers", "Placements that are being decided now."
        )
        self.placement_attempts = self._counter(
            "wharfinger_placement_attempts",
            "Attempts of placements, by result (fulfilled, unfulfilled, unchanged, gone, contended).",
            ["result"],
        )
        self.placement_starts = self._counter(
            "wharfinger_placement_starts", "Attempts of placements that were started, by cause.", ["cause"]
        )
        self.placements_unsettled = self._gauge(
            "wharfinger_placements_unsettled",
            "Placements of this hub that are to be judged, or whose attempt was started.",
        )
        self.placements_seen = self._gauge(
            "wharfinger_placements", "Placements that this hub looks after, by state.", ["state"]
        )
        self.member_clusters = self._gauge(
            "wharfinger_member_clusters", "Member clusters, by whether their agent is there.", ["online"]
        )
        self.rollout_starts = self._counter(
            "wharfinger_placement_rollout_starts", "Rollouts of placements that were started, by cause.", ["cause"]
        )
        self.update_run_starts = self._counter(
            "wharfinger_update_run_starts", "Staged update runs that were started, or started again."
        )
        self.works_written = self._counter(
            "wharfinger_works_written", "Changes of works of placements on members, by kind.", ["kind"]
        )
        self.works = self._gauge("wharfinger_works", "Works of placements on members, by what is wanted.", ["want"])
        self.results = self._gauge(
            "wharfinger_results",
            "Members of placements, by what their agents report of the present contents "
            "(available, unavailable, failed).",
            ["state"],
        )
