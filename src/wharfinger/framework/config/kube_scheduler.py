"""The plugins that configurations written for kube-scheduler may name, and where they take part there.

Such a file is to be understood here too: a plugin may be named at every point where kube-scheduler's own takes part,
even where ours has nothing to do, and one that does not exist here may be disabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from wharfinger.framework.catalog import Catalog

POINTS: Mapping[str, tuple[str, ...]] = {
    "SchedulingGates": ("preEnqueue",),
    "PrioritySort": ("queueSort",),
    "NodeUnschedulable": ("filter",),
    "NodeName": ("filter",),
    "TaintToleration": ("filter", "preScore", "score"),
    "NodeAffinity": ("preFilter", "filter", "preScore", "score"),
    "NodePorts": ("preFilter", "filter"),
    "NodeResourcesFit": ("preFilter", "filter", "preScore", "score", "placementScore"),
    "VolumeRestrictions": ("preFilter", "filter"),
    "NodeVolumeLimits": ("preFilter", "filter"),
    "VolumeBinding": ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
    "VolumeZone": ("preFilter", "filter"),
    "PodTopologySpread": ("preFilter", "filter", "preScore", "score"),
    "InterPodAffinity": ("preFilter", "filter", "preScore", "score"),
    "DynamicResources": ("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"),
    "DefaultPreemption": ("preEnqueue", "postFilter"),
    "NodeResourcesBalancedAllocation": ("preScore", "score"),
    "ImageLocality": ("score",),
    "DefaultBinder": ("bind",),
    "NodeDeclaredFeatures": ("preFilter", "filter"),
    "GangScheduling": ("preEnqueue", "permit"),
    "TopologyPlacementGenerator": ("placementGenerate",),
    "PodGroupPodsCount": ("placementScore",),
}
"""Plugins of kube-scheduler 1.36 and their extension points."""

REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins that kube-scheduler had once; NodeVolumeLimits does their work."""


def why_unknown(name: str, catalog: Catalog) -> str:
    """Why a plugin cannot be named where it counts."""
    if name in REMOVED:
        return f"plugin {name} was removed from Kubernetes: NodeVolumeLimits took its place"
    if name in POINTS:
        return f"plugin {name} of kube-scheduler does not exist here: leave it out (it may be named under disabled)"
    close = get_close_matches(name[:80], catalog.names, n=1)
    if close:
        return f"there is no plugin {name[:80]}; did you mean {close[0]}?"
    return f"there is no plugin {name[:80]} (known are {', '.join(catalog.names)})"
