"""The order in which objects are applied: wave after wave, so that an object finds what it needs.

Which resource belongs to which wave is KubeFleet's rule. Objects of one wave may be applied at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_WAVES = (
    ("namespaces", "priorityclasses"),
    (
        "networkpolicies",
        "resourcequotas",
        "limitranges",
        "podsecuritypolicies",
        "poddisruptionbudgets",
        "serviceaccounts",
        "secrets",
        "configmaps",
        "storageclasses",
        "persistentvolumes",
        "persistentvolumeclaims",
        "customresourcedefinitions",
        "ingressclasses",
    ),
    ("clusterroles", "roles"),
    ("clusterrolebindings", "rolebindings"),
    (
        "services",
        "daemonsets",
        "pods",
        "replicationcontrollers",
        "replicasets",
        "deployments",
        "horizontalpodautoscalers",
        "statefulsets",
        "jobs",
        "cronjobs",
        "ingresses",
    ),
    ("apiservices", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
)
_WAVE_OF = {plural: number for number, plurals in enumerate(_WAVES) for plural in plurals}
_LAST = len(_WAVES)
_GROUPS = frozenset(
    {
        "",
        "networking.k8s.io",
        "scheduling.k8s.io",
        "policy",
        "storage.k8s.io",
        "apiextensions.k8s.io",
        "rbac.authorization.k8s.io",
        "apps",
        "autoscaling",
        "apiregistration.k8s.io",
        "admissionregistration.k8s.io",
        "batch",
    }
)


def in_waves(objects: Sequence[T], resource_of: Callable[[T], tuple[str, str]]) -> list[list[T]]:
    """Sort objects into waves that are applied one after the other; no wave is empty.

    A resource that is not Kubernetes' own comes last. Within a wave the order stays. To delete objects, reverse the
    waves.

    Args:
        objects: any description of the objects.
        resource_of: returns the API group and the plural name of an object's resource.
    """
    waves: dict[int, list[T]] = {}
    for one in objects:
        group, plural = resource_of(one)
        waves.setdefault(_WAVE_OF.get(plural, _LAST) if group in _GROUPS else _LAST, []).append(one)
    return [waves[number] for number in sorted(waves)]
