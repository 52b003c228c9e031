"""Nodes, namespaces, disruption budgets, and classes of priorities and runtimes."""

from __future__ import annotations

from wharfinger.manifests.checks import words
from wharfinger.manifests.checks.metadata import check_label_selector, check_labels, check_metadata
from wharfinger.manifests.checks.place import FieldPlace
from wharfinger.manifests.checks.pods import PREEMPTION_POLICIES
from wharfinger.manifests.checks.resources import check_amount, check_overhead
from wharfinger.manifests.checks.scheduling import check_taints, check_tolerations
from wharfinger.manifests.checks.workloads import check_share

_HIGHEST = 1_000_000_000
"""The highest priority that users may give."""
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_SYSTEM_PREFIX = "system-"


def check_node(node: FieldPlace) -> None:
    """A Node."""
    check_metadata(node["metadata"], namespaced=False)
    check_taints(node["spec"]["taints"])
    for field in ("capacity", "allocatable"):
        for name, amount in node["status"][field].pairs():
            check_amount(name, amount)


def check_namespace(namespace: FieldPlace) -> None:
    """A Namespace."""
    check_metadata(namespace["metadata"], words.dns_label, namespaced=False)


def check_disruption_budget(budget: FieldPlace) -> None:
    """A PodDisruptionBudget."""
    check_metadata(budget["metadata"])
    spec = budget["spec"]
    if spec["minAvailable"].given and spec["maxUnavailable"].given:
        spec.invalid("minAvailable and maxUnavailable cannot be both set")
    check_share(spec["minAvailable"])
    check_share(spec["maxUnavailable"])
    check_label_selector(spec["selector"])
    spec["unhealthyPodEvictionPolicy"].one_of("AlwaysAllow", "IfHealthyBudget")


def check_priority_class(priority_class: FieldPlace) -> None:
    """A PriorityClass."""
    check_metadata(priority_class["metadata"], namespaced=False)
    name, value = priority_class["metadata"]["name"], priority_class["value"]
    if name.text.startswith(_SYSTEM_PREFIX):
        if _SYSTEM.get(name.text) != value.value:
            name.forbidden(
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. "
                f"error: {name.text} is not a known system priority class"
            )
    elif (value.value or 0) > _HIGHEST:
        value.forbidden(f"maximum allowed value of a user defined priority is {_HIGHEST}")
    priority_class["preemptionPolicy"].one_of(*PREEMPTION_POLICIES)


def check_runtime_class(runtime_class: FieldPlace) -> None:
    """A RuntimeClass."""
    check_metadata(runtime_class["metadata"], namespaced=False)
    handler = runtime_class["handler"]
    if handler.text:
        handler.each(words.dns_label(handler.text))
    else:
        handler.required()
    check_overhead(runtime_class["overhead"]["podFixed"])
    check_labels(runtime_class["scheduling"]["nodeSelector"])
    check_tolerations(runtime_class["scheduling"]["tolerations"])
