"""Conditions of pods and their reasons, as Kubernetes names them: read from a status, and written into it."""

from __future__ import annotations

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
"""The pod is about to be evicted."""
POD_RESIZE_PENDING = "PodResizePending"
"""The kubelet has not granted a resize in place yet."""

SCHEDULING_GATED = "SchedulingGated"
"""Of PodScheduled: the pod is held back before it is looked at."""
UNSCHEDULABLE = "Unschedulable"
"""Of PodScheduled: no node will do now."""
SCHEDULER_ERROR = "SchedulerError"
"""Of PodScheduled: a plugin raised, or something else that should not happen."""
PREEMPTION = "PreemptionByScheduler"
"""Of DisruptionTarget: the pod makes room for one of more importance."""
TAINT = "DeletionByTaintManager"
"""Of DisruptionTarget: the pod does not tolerate a NoExecute taint of its node."""
INFEASIBLE = "Infeasible"
"""Of PodResizePending: the node can never grant it."""
