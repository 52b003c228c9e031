"""The built-in plugins in the order and with the weights of the default profile (as in kube-scheduler 1.36)."""

from __future__ import annotations

from wharfinger.framework.catalog import Catalog, Entry
from wharfinger.plugins import names
from wharfinger.plugins.arguments import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
)
from wharfinger.plugins.default_binder import DefaultBinder
from wharfinger.plugins.default_preemption import DefaultPreemption
from wharfinger.plugins.image_locality import ImageLocality
from wharfinger.plugins.inter_pod_affinity import InterPodAffinity
from wharfinger.plugins.node_affinity import NodeAffinity
from wharfinger.plugins.node_name import NodeName
from wharfinger.plugins.node_ports import NodePorts
from wharfinger.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from wharfinger.plugins.node_resources_fit import NodeResourcesFit
from wharfinger.plugins.node_unschedulable import NodeUnschedulable
from wharfinger.plugins.pod_topology_spread import PodTopologySpread
from wharfinger.plugins.priority_sort import PrioritySort
from wharfinger.plugins.scheduling_gates import SchedulingGates
from wharfinger.plugins.taint_toleration import TaintToleration
from wharfinger.plugins.unsupported_features import UnsupportedFeatures


def catalog() -> Catalog:
    """All built-in plugins."""
    return Catalog(
        (
            Entry(names.SCHEDULING_GATES, SchedulingGates),
            Entry(names.PRIORITY_SORT, PrioritySort),
            Entry(names.UNSUPPORTED_FEATURES, UnsupportedFeatures, essential=True),
            Entry(names.NODE_UNSCHEDULABLE, NodeUnschedulable),
            Entry(names.NODE_NAME, NodeName),
            Entry(names.TAINT_TOLERATION, TaintToleration, weight=3),
            Entry(names.NODE_AFFINITY, NodeAffinity, NodeAffinityArgs, weight=2),
            Entry(names.NODE_PORTS, NodePorts),
            Entry(names.NODE_RESOURCES_FIT, NodeResourcesFit, NodeResourcesFitArgs),
            Entry(names.POD_TOPOLOGY_SPREAD, PodTopologySpread, PodTopologySpreadArgs, weight=2),
            Entry(names.INTER_POD_AFFINITY, InterPodAffinity, InterPodAffinityArgs, weight=2),
            Entry(names.DEFAULT_PREEMPTION, DefaultPreemption, DefaultPreemptionArgs),
            Entry(
                names.NODE_RESOURCES_BALANCED_ALLOCATION,
                NodeResourcesBalancedAllocation,
                NodeResourcesBalancedAllocationArgs,
            ),
            Entry(names.IMAGE_LOCALITY, ImageLocality),
            Entry(names.DEFAULT_BINDER, DefaultBinder),
        )
    )
