"""What is done about objects on a member: created, merged, replaced, left, refused or compared; and their order.

Whether it may be taken over, changed back or shared are KubeFleet's rules; whose an object is says its mark.
`member.applying` does it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from wharfinger.objects.documents.fields import part
from wharfinger.placement.applying.comparing import Difference, differences
from wharfinger.placement.applying.merge import conflicts, merged, plain, same

WHOLE = (Difference("/", "(the whole object)", ""),)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose an object on a member is, as its mark says."""

    placement: str
    """P."""
    life: str
    """Hub and member, as they are now: a mark of an earlier life of the member counts for nothing."""
    last: Mapping[str, Any]
    """The manifest that was applied last."""


@dataclass(frozen=True, slots=True)
class ObjectStep:
    """What is done about one object."""

    action: Literal["create", "put", "replace", "keep", "refuse", "report"]
    """`replace`: deleted, and created anew; `report`: nothing is written at all."""
    obj: Mapping[str, Any] | None = None
    """What is there afterwards."""
    reason: str = "Applied"
    message: str = ""
    passing: bool = False
    """Of a refusal: whether its cause, what others do with the object, may end by itself."""
    diffs: tuple[Difference, ...] = ()
    drifts: tuple[Difference, ...] = ()
    """What others had changed of what was applied. With a full comparison also what they have added."""


def step_for(
    wanted: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    owner: Owner | None,
    strategy: Mapping[str, Any],
    *,
    placement: str,
    life: str,
    group: str,
) -> ObjectStep:
    """What is done. Raises `ValueError` for objects that are nested too deeply.

    Args:
        wanted: the manifest for this member.
        live: what the member has; None = nothing.
        owner: what its mark says; None = it has none.
        strategy: complete, as `DeliverySpec` has it.
        placement: P, whose manifest it is.
        life: of the member, now.
        group: API group of the object.
    """
    reports = strategy.get("type") == "ReportDiff"
    full = strategy.get("comparisonOption") == "FullComparison"
    if owner is not None and owner.life != life:
        owner = None
    if owner is not None and owner.placement != placement:
        return _refused("OwnedByOtherPlacement", f"it is placed by {owner.placement} already", passing=True)
    if reports and live is None:
        return ObjectStep("report", reason="FoundDiff", message="it is not there", diffs=WHOLE)
    if part(wanted, "metadata").get("ownerReferences") and not strategy.get("allowCoOwnership") and not reports:
        return _refused("FailedToApply", "its manifest names owners, and co-ownership is not allowed")
    if live is None:
        return ObjectStep("create", merged(None, wanted, {}, group))
    if reports:
        found = differences(wanted, live, group=group, full=full)
        return ObjectStep("report", live, "FoundDiff" if found else "NoDiffFound", _counted(found), diffs=found)
    if owner is None:
        refused = _take_over(wanted, live, strategy, group=group, full=full)
        if refused is not None:
            return refused
    if part(live, "metadata").get("deletionTimestamp"):
        message = "it is being deleted on the member, and applied again when it is gone"
        return _refused("BeingDeleted", message, passing=True)
    if owner is not None and part(live, "metadata").get("ownerReferences") and not strategy.get("allowCoOwnership"):
        return _refused("FailedToApply", "others own it as well, and co-ownership is not allowed")
    return _applied(wanted, live, owner, strategy, group=group, full=full)


def _take_over(
    wanted: Mapping[str, Any], live: Mapping[str, Any], strategy: Mapping[str, Any], *, group: str, full: bool
) -> ObjectStep | None:
    """Why what was there already may not be taken over; None when it may."""
    when = strategy.get("whenToTakeOver")
    if when == "Never":
        return _refused("NotTakenOver", "it was there already, and whenToTakeOver is Never")
    if part(live, "metadata").get("ownerReferences") and not strategy.get("allowCoOwnership"):
        return _refused("FailedToTakeOver", "others own it, and co-ownership is not allowed")
    if when == "IfNoDiff":
        found = differences(wanted, live, group=group, full=full)
        if found:
            message = f"it was there already with {_counted(found)}, and whenToTakeOver is IfNoDiff"
            return ObjectStep("refuse", live, "FailedToTakeOver", message, diffs=found)
    return None


def _applied(
    wanted: Mapping[str, Any],
    live: Mapping[str, Any],
    owner: Owner | None,
    strategy: Mapping[str, Any],
    *,
    group: str,
    full: bool,
) -> ObjectStep:
    last = owner.last if owner is not None else None
    guarded = strategy.get("whenToApply") == "IfNotDrifted"
    unchanged = owner is not None and last == wanted
    drifts = differences(wanted, live, group=group, full=full, last=last) if unchanged else ()
    if guarded and drifts:
        message = f"it has drifted ({_counted(drifts)}), and whenToApply is IfNotDrifted"
        return ObjectStep("refuse", live, "FoundDrifts", message, drifts=drifts)
    if strategy.get("type") == "ServerSideApply" and not strategy.get("force"):
        found = conflicts(last, wanted, live, group)
        if found:
            message = f"others have set {', '.join(found[:5])}, and force is false"
            return _refused("FailedToApply", message, passing=True)
    after = merged(last, wanted, live, group)
    if full and not unchanged:
        drifts = differences(wanted, after, group=group, full=True)
    if same(after, plain(live)):
        return ObjectStep("keep", live, drifts=drifts)
    action: Literal["put", "replace"] = "replace" if _cannot_change(live, after) else "put"
    return ObjectStep(action, merged(None, wanted, {}, group) if action == "replace" else after, drifts=drifts)


def _cannot_change(live: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether it is a pod on its node that would become another one: a pod's spec is fixed, but for little."""
    if (live.get("apiVersion"), live.get("kind")) != ("v1", "Pod"):
        return False
    before, now = live.get("spec"), after.get("spec")
    if not isinstance(before, Mapping) or not isinstance(now, Mapping) or not before.get("nodeName"):
        return False
    return _fixed(before) != _fixed(now)


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in spec.items()
        if key not in ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds")
    }
    for key in ("containers", "initContainers"):
        if isinstance(spec.get(key), Sequence):
            kept[key] = [
                {name: value for name, value in one.items() if name != "image"} if isinstance(one, Mapping) else one
                for one in spec[key]
            ]
    return kept


def _refused(reason: str, message: str, *, passing: bool = False) -> ObjectStep:
    return ObjectStep("refuse", None, reason, message, passing)


def _counted(found: Sequence[Difference]) -> str:
    return f"{len(found)} difference{'s' if len(found) != 1 else ''}" if found else "no difference"


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
