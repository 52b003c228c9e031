"""Metric instruments, and nothing else: who counts is elsewhere, who serves them is `observe.health`.

Names are kube-scheduler's (`scheduler_*`) where the meaning is the same, `wharfinger_*` otherwise.
"""

from __future__ import annotations

from typing import TypedDict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series each, which nobody reads


def _powers(start: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(start * factor**power for power in range(count))


class _Registered(TypedDict):
    registry: CollectorRegistry


class Metrics:
    """All instruments of one process, on a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        own: _Registered = {"registry": self.registry}
        # kube-scheduler's
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
        # ours
        self.bind_conflicts = Counter(
            "wharfinger_bind_conflicts",
            "Bind transactions whose compare failed, by what had moved (pod, node, binding, terms, bound, tenant).",
            ["moved"],
            **own,
        )
        self.contended = Counter("wharfinger_contended", "Attempts that ended contended.", **own)
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
        self.cohort_pods = Histogram(
            "wharfinger_cohort_pods",
            "Pods of each cohort that was started; its count is that of the cohorts.",
            buckets=_powers(1, 2, 10),
            **own,
        )
        self.parked_chains = Gauge(
            "wharfinger_parked_chains", "Waiting pods with a workflow of their own that is parked.", **own
        )
        self.waiting_without_chain = Gauge(
            "wharfinger_waiting_without_chain", "Waiting pods that have no workflow, only their record.", **own
        )
        self.wakes = Counter("wharfinger_wakes", "Waiting pods woken, by event.", ["event"], **own)
        self.wake_decisions = Counter(
            "wharfinger_wake_decisions",
            "Decisions made to see whether a waiting pod fits now, by answer.",
            ["fits"],
            **own,
        )
        self.ready = Gauge("wharfinger_ready", "1 while the worker is ready.", **own)
        self.members = Gauge("wharfinger_members", "Ready workers this one knows, itself included.", **own)
