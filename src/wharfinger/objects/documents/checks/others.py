"""Nodes, namespaces, disruption budgets, classes of priorities and runtimes, LimitRanges and ResourceQuotas.

Amounts of the last two, and which of them fit together, as in Kubernetes 1.36 (`ValidateLimitRange`,
`ValidateResourceQuotaSpec`), but for the names of resources.
"""

from __future__ import annotations

from wharfinger.objects.documents.checks import words
from wharfinger.objects.documents.checks.metadata import check_label_selector, check_labels, check_metadata
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.checks.pods import PREEMPTION_POLICIES
from wharfinger.objects.documents.checks.resources import check_amount, check_overhead, nanos, shown
from wharfinger.objects.documents.checks.scheduling import check_taints, check_tolerations
from wharfinger.objects.documents.checks.workloads import check_share
from wharfinger.objects.model.quantities import NANO

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


_AMOUNTS = {
    "min": "min value",
    "defaultRequest": "default request value",
    "default": "default value",
    "max": "max value",
}
_ORDERED = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""What may not be greater than what, and the field that is named."""
_CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")
_OF_PODS = ("pods", "count/pods")


def check_limit_range(limit_range: FieldPlace) -> None:
    """A LimitRange."""
    check_metadata(limit_range["metadata"])
    types: set[str] = set()
    for limit in limit_range["spec"]["limits"].entries():
        kind = limit["type"]
        if kind.text in types:
            kind.duplicate()
        types.add(kind.text)
        for field in ("default", "defaultRequest") if kind.text == "Pod" else ():
            if limit[field].map:
                limit[field].forbidden("may not be specified when `type` is 'Pod'")
        if kind.text == "PersistentVolumeClaim" and not {"storage"} & (limit["min"].map.keys() | limit["max"].map):
            limit["limits"].required("either minimum or maximum storage value is required, but neither was provided")
        for less, more, field in _ORDERED:
            for name in sorted(limit[less].map.keys() & limit[more].map.keys()):
                _check_order(limit, less, more, field, name)
        for _, ratio in limit["maxLimitRequestRatio"].pairs():
            if nanos(ratio.value) < NANO:
                ratio.invalid(f"ratio {shown(ratio.value)} is less than 1", shown(ratio.value))


def _check_order(limit: FieldPlace, less: str, more: str, field: str, name: str) -> None:
    low, high = limit[less].map[name], limit[more].map[name]
    if nanos(low) > nanos(high):
        most = "default limit value" if (less, more) == ("defaultRequest", "default") else _AMOUNTS[more]
        said = f"{_AMOUNTS[less]} {shown(low)} is greater than {most} {shown(high)}"
        next(place for key, place in limit[field].pairs() if key == name).invalid(said, shown(limit[field].map[name]))


def check_quota(quota: FieldPlace) -> None:
    """A ResourceQuota."""
    check_metadata(quota["metadata"])
    spec = quota["spec"]
    for name, amount in spec["hard"].pairs():
        check_amount(name, amount)
    scopes = [str(scope.value) for scope in spec["scopes"].entries()]
    _check_scopes(spec["scopes"], scopes, spec)
    expressions = spec["scopeSelector"]["matchExpressions"]
    for one in expressions.entries():
        operator, values = one["operator"], one["values"]
        if operator.text in _WITH_VALUES and not values.entries():
            values.required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
        elif operator.text in _WITHOUT_VALUES and values.entries():
            values.invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
        elif operator.text not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            operator.invalid("not a valid selector operator")
    _check_scopes(expressions, [one["scopeName"].text for one in expressions.entries()], spec)


def _check_scopes(place: FieldPlace, scopes: list[str], spec: FieldPlace) -> None:
    if "BestEffort" in scopes and any(name not in _OF_PODS and "/" not in name for name in spec["hard"].map):
        place.invalid("unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _CONFLICTING):
        place.invalid("conflicting scopes")
