"""The configuration that counts where none is given, by the format of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.objects.model.formats import ClusterFormat

_RK8S: Mapping[str, int | None] = {
    "SchedulingGates": None,
    "PrioritySort": None,
    "UnsupportedFeatures": None,
    "NodeUnschedulable": None,
    "NodeName": None,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "GpuMemory": 1,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "DefaultBinder": None,
}
"""libscheduler's plugins with its weights. It neither preempts nor spreads pods, and its pods have no host ports."""

_DEFAULTS: Mapping[ClusterFormat, Mapping[str, Any]] = {
    ClusterFormat.KUBERNETES: {},
    ClusterFormat.RK8S: {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "multiPoint": {
                        "enabled": [
                            {"name": name} if weight is None else {"name": name, "weight": weight}
                            for name, weight in _RK8S.items()
                        ],
                        "disabled": [{"name": "*"}],
                    }
                },
            }
        ],
    },
}


def default_configuration(format_: ClusterFormat) -> Mapping[str, Any]:
    """A KubeSchedulerConfiguration v1, before its own defaults."""
    return _DEFAULTS[format_]
