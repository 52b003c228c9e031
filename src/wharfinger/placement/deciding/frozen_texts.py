"""The texts whose digests identify a policy and a selection in etcd. They never change: hubs of all releases agree.

The form is that of the first release, which took the `repr()` of its dataclasses. The names in it are constants: a
class or a field that is renamed in the code changes no text. A field that a later release adds is written behind the
others, and only where it differs from its default (docs/decisions/0032-a-digest-is-of-a-frozen-text.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wharfinger.objects.model.selectors import LabelSelector, Requirement, Toleration
from wharfinger.placement.model.delivery import ResourceSelector
from wharfinger.placement.model.placement import (
    ClusterPreference,
    ClusterSpread,
    ClusterTerm,
    PlacementPolicy,
    PropertyRequirement,
)

_TYPES = {
    "PickAll": "<PlacementType.PICK_ALL: 'PickAll'>",
    "PickN": "<PlacementType.PICK_N: 'PickN'>",
    "PickFixed": "<PlacementType.PICK_FIXED: 'PickFixed'>",
}
_OPERATORS = {
    "In": "<Operator.IN: 'In'>",
    "NotIn": "<Operator.NOT_IN: 'NotIn'>",
    "Exists": "<Operator.EXISTS: 'Exists'>",
    "DoesNotExist": "<Operator.DOES_NOT_EXIST: 'DoesNotExist'>",
    "Gt": "<Operator.GT: 'Gt'>",
    "Lt": "<Operator.LT: 'Lt'>",
}
_SCOPES = {
    "NamespaceOnly": "<SelectionScope.ALONE: 'NamespaceOnly'>",
    "NamespaceWithResources": "<SelectionScope.WITH_RESOURCES: 'NamespaceWithResources'>",
    "NamespaceWithResourceSelectors": "<SelectionScope.WITH_SELECTED: 'NamespaceWithResourceSelectors'>",
}


def policy_text(policy: PlacementPolicy) -> str:
    """A policy without its number of members, which does not make it another one."""
    return (
        f"PlacementPolicy(type={_TYPES[policy.type]}, number=None, names={_texts(policy.names)}, "
        f"required={_tuple(map(_term, policy.required))}, preferred={_tuple(map(_preference, policy.preferred))}, "
        f"tolerations={_tuple(map(_toleration, policy.tolerations))}, spread={_tuple(map(_spread, policy.spread))})"
    )


def selection_text(selectors: Sequence[ResourceSelector], found: Sequence[tuple[str, int]]) -> str:
    """Selectors, and keys of selected objects with their revisions."""
    keys = _tuple(f"({_text(key)}, {revision!r})" for key, revision in found)
    listed = f"[{keys[1:-1].removesuffix(',')}]"
    return f"({_tuple(map(_selector, selectors))}, {listed})"


def _term(term: ClusterTerm) -> str:
    return f"ClusterTerm(labels={_labels(term.labels)}, properties={_tuple(map(_property, term.properties))})"


def _property(one: PropertyRequirement) -> str:
    name, operator, values = _text(one.name), _text(one.operator), _texts(one.values)
    return f"PropertyRequirement(name={name}, operator={operator}, values={values})"


def _preference(one: ClusterPreference) -> str:
    by = one.sorter
    sorter = f"PropertySorter(name={_text(by.name)}, order={_text(by.order)})" if by is not None else "None"
    return f"ClusterPreference(weight={one.weight!r}, labels={_labels(one.labels)}, sorter={sorter})"


def _toleration(one: Toleration) -> str:
    key, operator, value, effect = map(_text, (one.key, one.operator, one.value, one.effect))
    return f"Toleration(key={key}, operator={operator}, value={value}, effect={effect}, seconds={one.seconds!r})"


def _spread(one: ClusterSpread) -> str:
    return f"ClusterSpread(key={_text(one.key)}, max_skew={one.max_skew!r}, hard={one.hard!r})"


def _selector(one: ResourceSelector) -> str:
    group, version, kind, name = map(_text, (one.group, one.version, one.kind, one.name))
    return (
        f"ResourceSelector(group={group}, version={version}, kind={kind}, name={name}, "
        f"labels={_labels(one.labels)}, scope={_SCOPES[one.scope]})"
    )


def _labels(selector: LabelSelector | None) -> str:
    if selector is None:
        return "None"
    return f"LabelSelector(requirements={_tuple(map(_requirement, selector.requirements))})"


def _requirement(one: Requirement) -> str:
    return f"Requirement(key={_text(one.key)}, operator={_OPERATORS[one.operator]}, values={_texts(one.values)})"


def _text(value: str) -> str:
    return repr(str(value))


def _texts(values: Iterable[str]) -> str:
    return _tuple(map(_text, values))


def _tuple(written: Iterable[str]) -> str:
    entries = tuple(written)
    return f"({entries[0]},)" if len(entries) == 1 else f"({', '.join(entries)})"
