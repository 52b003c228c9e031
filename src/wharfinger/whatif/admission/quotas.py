"""ResourceQuotas: what a namespace may have at most, and what its objects use of that.

As in Kubernetes 1.36 (`apiserver/pkg/admission/plugin/resourcequota`, `pkg/quota/v1`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.manifests.fields import mapping, quantities, text
from wharfinger.whatif.admission.amounts import Amounts, shown
from wharfinger.whatif.admission.quota_scopes import Scope, scopes_of
from wharfinger.whatif.admission.quota_usage import DEMANDED, is_counted_for, missing_resources, usage_of
from wharfinger.whatif.admission.verdict import NotMade


@dataclass(slots=True)
class Quota:
    """A ResourceQuota, with what is used of it."""

    name: str
    hard: Amounts
    scopes: tuple[Scope, ...]
    stated: Amounts
    """`status.used`: what the cluster counted; objects that are not given may be among it."""
    counted: dict[str, int] = field(default_factory=dict)

    def concerns(self, kind: str, obj: Mapping[str, Any]) -> bool:
        """Whether the quota counts the object. Raises `InvalidObject`."""
        counts = any(is_counted_for(kind, resource) for resource in self.hard)
        return counts and all(scope.matches(kind, obj) for scope in self.scopes)

    def used(self, resource: str) -> int:
        """Nano-units in use."""
        return max(self.counted.get(resource, 0), self.stated.get(resource, 0))

    def add(self, usage: Amounts) -> None:
        """Count the usage of an object."""
        for resource, amount in usage.items():
            if resource in self.hard:
                self.counted[resource] = self.used(resource) + amount


def quota(obj: Mapping[str, Any]) -> Quota:
    """Read a ResourceQuota. Raises `InvalidObject`."""
    spec = mapping(obj, "spec")
    return Quota(
        text(mapping(obj, "metadata"), "name", "metadata."),
        quantities(spec, "hard", "spec."),
        scopes_of(spec),
        quantities(mapping(obj, "status"), "used", "status."),
    )


def count(quotas: Iterable[Quota], kind: str, obj: Mapping[str, Any]) -> None:
    """Count an object that is there already, in the quotas of its namespace. Raises `InvalidObject`."""
    for one in quotas:
        if one.concerns(kind, obj):
            for resource, amount in usage_of(kind, obj).items():
                one.counted[resource] = one.counted.get(resource, 0) + amount


def charge(quotas: Iterable[Quota], kind: str, obj: Mapping[str, Any]) -> NotMade | None:
    """Count a new object in the quotas of its namespace, or answer why it is not made; then nothing is counted.

    Raises `InvalidObject`.
    """
    concerned = [one for one in quotas if one.concerns(kind, obj)]
    if not concerned:
        return None
    for one in concerned:
        missing = missing_resources(kind, obj, [name for name in one.hard if name in DEMANDED])
        if missing:
            return NotMade(f"failed quota {one.name}: must specify {missing}")
    usage = {resource: amount for resource, amount in usage_of(kind, obj).items() if amount}
    for one in concerned:
        over = [name for name, amount in usage.items() if name in one.hard and one.used(name) + amount > one.hard[name]]
        if over:
            return NotMade(f"exceeded quota {one.name}, {_balance(one, usage, sorted(over))}")
    for one in concerned:
        one.add(usage)
    return None


def _balance(one: Quota, usage: Amounts, over: Iterable[str]) -> str:
    told = {"requested": usage.__getitem__, "used": one.used, "limited": one.hard.__getitem__}
    return ", ".join(
        f"{what}: {','.join(f'{name}={shown(name, amount(name))}' for name in over)}" for what, amount in told.items()
    )
