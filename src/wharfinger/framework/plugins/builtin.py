"""The built-in plugins: first kube-scheduler 1.36's, in the order and with the weights of its default profile."""

from __future__ import annotations

from pydantic import BaseModel

from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from wharfinger.framework.plugins.default_preemption import DefaultPreemption
from wharfinger.framework.plugins.gpu_memory import GpuMemory
from wharfinger.framework.plugins.image_locality import ImageLocality
from wharfinger.framework.plugins.inter_pod_affinity import InterPodAffinity
from wharfinger.framework.plugins.node_affinity import NodeAffinity
from wharfinger.framework.plugins.node_declared_features import NodeDeclaredFeatures
from wharfinger.framework.plugins.node_fields import NodeName, NodePorts, NodeUnschedulable
from wharfinger.framework.plugins.node_independent import DefaultBinder, PrioritySort, SchedulingGates
from wharfinger.framework.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from wharfinger.framework.plugins.node_resources_fit import NodeResourcesFit
from wharfinger.framework.plugins.node_volume_limits import NodeVolumeLimits
from wharfinger.framework.plugins.pod_topology_spread import PodTopologySpread
from wharfinger.framework.plugins.taint_toleration import TaintToleration
from wharfinger.framework.plugins.unsupported_features import UnsupportedFeatures
from wharfinger.framework.plugins.volume_binding import VolumeBinding
from wharfinger.framework.plugins.volume_restrictions import VolumeRestrictions
from wharfinger.framework.plugins.volume_zone import VolumeZone
from wharfinger.objects.model.node import GPU_MEMORY


def catalog() -> Catalog:
    """All built-in plugins."""
    return Catalog(
        (
            CatalogEntry(names.SCHEDULING_GATES, SchedulingGates),
            CatalogEntry(names.PRIORITY_SORT, PrioritySort),
            CatalogEntry(names.UNSUPPORTED_FEATURES, UnsupportedFeatures, essential=True),
            CatalogEntry(names.NODE_UNSCHEDULABLE, NodeUnschedulable),
            CatalogEntry(names.NODE_NAME, NodeName),
            CatalogEntry(names.TAINT_TOLERATION, TaintToleration, weight=3),
            CatalogEntry(names.NODE_AFFINITY, NodeAffinity, NodeAffinityArgs, weight=2),
            CatalogEntry(names.NODE_PORTS, NodePorts),
            CatalogEntry(names.NODE_RESOURCES_FIT, NodeResourcesFit, NodeResourcesFitArgs, leave_out=_ignoring),
            CatalogEntry(names.VOLUME_RESTRICTIONS, VolumeRestrictions),
            CatalogEntry(names.NODE_VOLUME_LIMITS, NodeVolumeLimits),
            CatalogEntry(names.VOLUME_BINDING, VolumeBinding, VolumeBindingArgs),
            CatalogEntry(names.VOLUME_ZONE, VolumeZone),
            CatalogEntry(names.POD_TOPOLOGY_SPREAD, PodTopologySpread, PodTopologySpreadArgs, weight=2),
            CatalogEntry(names.INTER_POD_AFFINITY, InterPodAffinity, InterPodAffinityArgs, weight=2),
            CatalogEntry(names.DEFAULT_PREEMPTION, DefaultPreemption, DefaultPreemptionArgs),
            CatalogEntry(
                names.NODE_RESOURCES_BALANCED_ALLOCATION,
                NodeResourcesBalancedAllocation,
                NodeResourcesBalancedAllocationArgs,
            ),
            CatalogEntry(names.IMAGE_LOCALITY, ImageLocality),
            CatalogEntry(names.DEFAULT_BINDER, DefaultBinder),
            CatalogEntry(names.NODE_DECLARED_FEATURES, NodeDeclaredFeatures),
            CatalogEntry(names.GPU_MEMORY, GpuMemory, by_default=False, manages=(GPU_MEMORY,)),
        )
    )


def _ignoring(args: BaseModel, resources: frozenset[str]) -> BaseModel:
    """NodeResourcesFit's arguments with more resources that it ignores."""
    assert isinstance(args, NodeResourcesFitArgs)
    return args.model_copy(update={"ignored_resources": (*args.ignored_resources, *sorted(resources))})
