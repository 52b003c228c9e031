"""Metric instruments, and nothing else: who counts is elsewhere, `serving` serves them.

Names are kube-scheduler's (`scheduler_*`) where the meaning is the same, `wharfinger_*` otherwise.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TypedDict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series each, which no dashboard reads


def _powers(start: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(start * factor**power for power in range(count))


class _Registered(TypedDict):
    registry: CollectorRegistry


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
        own: _Registered = {"registry": self.registry}
        self._of_scheduling(own)
        # ours
        self.in_flight_limit = Gauge(
            "wharfinger_in_flight_limit",
            "Attempts in no group that may be in flight, by how quickly Temporal takes starts.",
            **own,
        )
        self.bind_conflicts = Counter(
            "wharfinger_bind_conflicts",
            "Bind transactions whose compare failed, by what had moved (pod, node, binding, terms, bound, tenant, "
            "active).",
            ["moved"],
            **own,
        )
        self.gangs_torn = Counter(
            "wharfinger_gangs_torn",
            "Gangs of which the Kubernetes API bound some members only, because others went or changed meanwhile.",
            **own,
        )
        self.upstream_requests = Counter(
            "wharfinger_upstream_requests",
            "Requests to the Kubernetes API by verb (of HTTP) and code; `error`: no answer came.",
            ["verb", "code"],
            **own,
        )
        self.upstream_promises = Gauge(
            "wharfinger_upstream_promises",
            "Binds that are committed in etcd and that the Kubernetes API has not shown yet.",
            **own,
        )
        self.upstream_oldest_promise = Gauge(
            "wharfinger_upstream_oldest_promise_seconds",
            "Age of the oldest of them; minutes mean that the API refuses to answer, or a fence cannot be set.",
            **own,
        )
        self.upstream_import_lag = Gauge(
            "wharfinger_upstream_import_lag_seconds",
            "Seconds since the importer last said that the copies are complete.",
            **own,
        )
        self.upstream_events = Counter(
            "wharfinger_upstream_events",
            "Events for the Kubernetes API, by what became of them (written, counted, queue_full, unavailable, ...).",
            ["outcome"],
            **own,
        )
        self.upstream_copies = Counter(
            "wharfinger_upstream_copies",
            "States of the Kubernetes API's objects that were copied, by kind and by what became of the copy.",
            ["kind", "effect"],
            **own,
        )
        self.contended = Counter("wharfinger_contended", "Attempts that ended contended.", **own)
        self.fleet_attempts = Counter(
            "wharfinger_fleet_attempts",
            "Outcomes of attempts (bound, refused, contended, error) by the tenant and by the fleet's revision that "
            "decided; empty for workers started by hand.",
            ["tenant", "revision", "outcome"],
            **own,
        )
        self.evictions_overdue = Counter(
            "wharfinger_evictions_overdue",
            "Attempts that found victims still there more than 30 s past the end of their grace.",
            **own,
        )
        self.foreign_overcommit = Counter(
            "wharfinger_foreign_overcommit",
            "Times other writers left a node with more than its allocatable.",
            **own,
        )
        self.invalid_objects = Gauge(
            "wharfinger_invalid_objects", "Stored objects that cannot be read, by kind.", ["kind"], **own
        )
        self.watch_revision = Gauge("wharfinger_watch_revision", "Newest revision of etcd that was applied.", **own)
        self.relists = Counter("wharfinger_relists", "Full lists, by cause.", ["cause"], **own)
        self.attempt_starts = Counter("wharfinger_attempt_starts", "Workflow starts, by cause.", ["cause"], **own)
        self.start_failures = Counter(
            "wharfinger_start_failures", "Workflow starts that failed and are tried again.", **own
        )
        self.start_seconds = Histogram(
            "wharfinger_start_seconds", "Seconds until Temporal accepted a start.", buckets=_powers(0.001, 2, 14), **own
        )
        self.cohort_pods = Histogram(
            "wharfinger_cohort_pods",
            "Pods of each group that was started; 1 = a pod that went alone. Its count is that of the groups.",
            buckets=_powers(1, 2, 10),
            **own,
        )
        self.groups_in_flight = Gauge(
            "wharfinger_groups_in_flight",
            "Groups that were started and of whose pods etcd, or a Kubernetes API, has not told all.",
            **own,
        )
        self.parked_chains = Gauge(
            "wharfinger_parked_chains", "Waiting pods with a workflow of their own that is parked.", **own
        )
        self.waiting_without_chain = Gauge(
            "wharfinger_waiting_without_chain", "Waiting pods that have no workflow, only their record.", **own
        )
        self.unserved_pods = Gauge(
            "wharfinger_unserved_pods",
            "Pending pods of this worker's shard whose scheduler name no live instance serves.",
            **own,
        )
        self.requeued_pods = Counter(
            "wharfinger_requeued_pods",
            "Pods of absent nodes that were deleted, by what follows (controller, made_anew, nothing).",
            ["then"],
            **own,
        )
        self.taint_evictions = Counter(
            "wharfinger_taint_evictions", "Pods evicted from nodes with a NoExecute taint.", **own
        )
        self.node_evictions_held = Counter(
            "wharfinger_node_evictions_held",
            "Times a node was not cleared of its pods, because 10 % of the nodes were cleared a short time ago.",
            **own,
        )
        self.lost_pods = Gauge(
            "wharfinger_lost_pods",
            "Pods bound to a node that does not exist, on the nodes that this worker looks after.",
            **own,
        )
        self.wakes = Counter("wharfinger_wakes", "Waiting pods woken, by event.", ["event"], **own)
        self.wake_decisions = Counter(
            "wharfinger_wake_decisions",
            "Decisions made to see whether a waiting pod fits now, by answer.",
            ["fits"],
            **own,
        )
        self.config_updates = Counter(
            "wharfinger_config_updates",
            "Values of the dynamic configuration by kind, and what became of them (applied, proven, refused, undone, "
            "unset, waiting).",
            ["kind", "result"],
            **own,
        )
        self.config_problems = Gauge(
            "wharfinger_config_problems",
            "1 while a value of the dynamic configuration is not in force that should be, by kind.",
            ["kind"],
            **own,
        )
        self._of_hubs(own)
        # of agents
        self.host_instances = Gauge("wharfinger_host_instances", "Instances that run on this host.", **own)
        self.host_ended = Counter(
            "wharfinger_host_instances_ended",
            "Instances that ended, by how (code, signal, probe, ...).",
            ["how"],
            **own,
        )
        self.host_exits_waiting = Gauge(
            "wharfinger_host_exits_waiting", "Ends of instances that are not recorded in etcd yet.", **own
        )
        self.pokes_waiting = Gauge(
            "wharfinger_fleet_pokes_waiting", "Fleets whose reconcile signal Temporal has not accepted yet.", **own
        )
        self.ready = Gauge("wharfinger_ready", "1 while the process is ready.", **own)
        self.members = Gauge("wharfinger_members", "Ready workers that this worker has seen, itself included.", **own)
        # of agents that plan fleets; `tenant` is common or a tenant
        self.fleet_ready = Gauge("wharfinger_fleet_ready_instances", "Slots with a ready instance.", ["tenant"], **own)
        self.fleet_wanted = Gauge("wharfinger_fleet_wanted_instances", "Replicas of the fleet.", ["tenant"], **own)
        self.fleet_outdated = Gauge(
            "wharfinger_fleet_outdated_instances",
            "Ready instances that are not of the revision that is wanted.",
            ["tenant"],
            **own,
        )
        self.fleet_rollout = Gauge(
            "wharfinger_fleet_rollout", "1 for the state that the rollout is in.", ["tenant", "state"], **own
        )
        self.fleet_reconcile_age = Gauge(
            "wharfinger_fleet_seconds_since_reconcile",
            "Since this agent last planned the fleet; of several agents, the least counts.",
            ["tenant"],
            **own,
        )
        self.fleet_unreadable = Gauge(
            "wharfinger_fleet_unreadable_records", "Records of the fleet that cannot be read.", ["tenant"], **own
        )
        self.fleet_rollouts = Counter(
            "wharfinger_fleet_rollouts", "Rollouts that ended, by outcome.", ["outcome"], **own
        )

    def _of_scheduling(self, own: _Registered) -> None:
        """All of them are kube-scheduler's."""
        self.schedule_attempts = Counter(
            "scheduler_schedule_attempts", "Attempts by result.", ["result", "profile"], **own
        )
        self.attempt_duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From the start of place to its outcome.",
            ["result", "profile"],
            buckets=_powers(0.001, 2, 15),
            **own,
        )
        self.algorithm_duration = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time the decision itself took.",
            buckets=_powers(0.0001, 2, 15),
            **own,
        )
        self.sli_duration = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's first queueing to its binding.",
            ["attempts"],
            buckets=_powers(0.01, 2, 20),
            **own,
        )
        self.pod_scheduling_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod took until it was bound.",
            buckets=_powers(1, 2, 5),
            **own,
        )
        self.point_durations = PointDurations()
        self.registry.register(self.point_durations)
        self.pending_pods = Gauge("scheduler_pending_pods", "Pods by place in the queue.", ["queue"], **own)
        self.queue_incoming = Counter(
            "scheduler_queue_incoming_pods", "Pods entering a part of the queue, by cause.", ["queue", "event"], **own
        )
        self.unschedulable_pods = Gauge(
            "scheduler_unschedulable_pods",
            "Waiting pods by the plugins that refused them.",
            ["plugin", "profile"],
            **own,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts", "Decisions that looked for room to make by preemption.", **own
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of a nomination.",
            buckets=_powers(1, 2, 7),
            **own,
        )
        self.cache_size = Gauge("scheduler_cache_size", "Objects in the cache.", ["type"], **own)

    def _of_hubs(self, own: _Registered) -> None:
        """The first two are KubeFleet's."""
        self.scheduling_cycle_duration = Histogram(
            "scheduling_cycle_duration_milliseconds",
            "Time that deciding for a placement took, in milliseconds.",
            ["is_failed", "needs_requeue"],
            buckets=(10, 50, 100, 500, 1000, 5000, 10000, 50000),
            **own,
        )
        self.scheduling_active_workers = Gauge(
            "scheduling_active_workers", "Placements that are being decided now.", **own
        )
        self.placement_attempts = Counter(
            "wharfinger_placement_attempts",
            "Attempts of placements, by result (fulfilled, unfulfilled, unchanged, gone, contended).",
            ["result"],
            **own,
        )
        self.placement_starts = Counter(
            "wharfinger_placement_starts", "Attempts of placements that were started, by cause.", ["cause"], **own
        )
        self.placements_unsettled = Gauge(
            "wharfinger_placements_unsettled",
            "Placements of this hub that are to be judged, or whose attempt was started.",
            **own,
        )
        self.placements_seen = Gauge(
            "wharfinger_placements", "Placements that this hub looks after, by state.", ["state"], **own
        )
        self.member_clusters = Gauge(
            "wharfinger_member_clusters", "Member clusters, by whether their agent is there.", ["online"], **own
        )
        self.rollout_starts = Counter(
            "wharfinger_placement_rollout_starts",
            "Rollouts of placements that were started, by cause.",
            ["cause"],
            **own,
        )
        self.update_run_starts = Counter(
            "wharfinger_update_run_starts", "Staged update runs that were started, or started again.", **own
        )
        self.works_written = Counter(
            "wharfinger_works_written", "Changes of works of placements on members, by kind.", ["kind"], **own
        )
        self.works = Gauge("wharfinger_works", "Works of placements on members, by what is wanted.", ["want"], **own)
        self.results = Gauge(
            "wharfinger_results",
            "Members of placements, by what their agents report of the present contents "
            "(available, unavailable, failed).",
            ["state"],
            **own,
        )
