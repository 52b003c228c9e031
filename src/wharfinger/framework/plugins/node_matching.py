"""Which nodes match selectors, over all nodes at once; the column form of `objects.model.selectors`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from wharfinger.framework.columns import BoolColumn
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement, parse_integer


def matches_labels(snapshot: Snapshot, wanted: Mapping[str, str]) -> BoolColumn:
    """Nodes that carry all these labels with these values."""
    return _all(snapshot, (_has_value(snapshot, key, (value,)) for key, value in wanted.items()))


def matches_any_term(snapshot: Snapshot, terms: Sequence[NodeSelectorTerm]) -> BoolColumn:
    """Nodes that match at least one of the terms; no terms, no nodes."""
    matching = np.zeros(len(snapshot), dtype=np.bool_)
    for term in terms:
        matching |= matches_term(snapshot, term)
    return matching


def matches_term(snapshot: Snapshot, term: NodeSelectorTerm) -> BoolColumn:
    """Nodes that meet all requirements of the term; an empty term matches nothing."""
    if term.empty:
        return np.zeros(len(snapshot), dtype=np.bool_)
    conditions = [_label_meets(snapshot, requirement) for requirement in term.expressions]
    conditions += [_name_meets(snapshot, requirement) for requirement in term.fields]
    return _all(snapshot, conditions)


def matches_all(snapshot: Snapshot, requirements: Sequence[Requirement]) -> BoolColumn:
    """Nodes whose labels meet all of the requirements; none, all nodes."""
    return _all(snapshot, (_label_meets(snapshot, requirement) for requirement in requirements))


def node_matches(pod: Pod, node: Node) -> bool:
    """Whether one node matches the pod's nodeSelector and its required terms."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    terms = pod.required_node_terms
    return terms is None or any(term.matches(node.name, node.labels) for term in terms)


def _label_meets(snapshot: Snapshot, requirement: Requirement) -> BoolColumn:
    match requirement.operator:
        case Operator.IN:
            return _has_value(snapshot, requirement.key, requirement.values)
        case Operator.NOT_IN:
            return ~_has_value(snapshot, requirement.key, requirement.values)
        case Operator.EXISTS:
            present: BoolColumn = snapshot.label(requirement.key).codes != 0
            return present
        case Operator.DOES_NOT_EXIST:
            absent: BoolColumn = snapshot.label(requirement.key).codes == 0
            return absent
        case Operator.GT | Operator.LT:
            return _compares(snapshot, requirement)


def _compares(snapshot: Snapshot, requirement: Requirement) -> BoolColumn:
    bound = parse_integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return np.zeros(len(snapshot), dtype=np.bool_)
    numbers, are_numbers = snapshot.label(requirement.key).integers
    found: BoolColumn = are_numbers & (numbers > bound if requirement.operator is Operator.GT else numbers < bound)
    return found


def _name_meets(snapshot: Snapshot, requirement: Requirement) -> BoolColumn:
    # A node's name is never absent, so In and NotIn are each other's opposite; nothing else is allowed on fields.
    if requirement.operator in (Operator.IN, Operator.NOT_IN):
        named = np.zeros(len(snapshot), dtype=np.bool_)
        named[[snapshot.index[name] for name in requirement.values if name in snapshot.index]] = True
        return named if requirement.operator is Operator.IN else ~named
    return np.fromiter((requirement.matches_value(name) for name in snapshot.names), np.bool_, len(snapshot))


def _has_value(snapshot: Snapshot, key: str, values: Sequence[str]) -> BoolColumn:
    column = snapshot.label(key)
    found = np.zeros(len(snapshot), dtype=np.bool_)
    for value in values:
        code = column.code(value)
        if code > 0:
            found |= column.codes == code
    return found


def _all(snapshot: Snapshot, conditions: Iterable[BoolColumn]) -> BoolColumn:
    matching = np.ones(len(snapshot), dtype=np.bool_)
    for condition in conditions:
        matching &= condition
    return matching
