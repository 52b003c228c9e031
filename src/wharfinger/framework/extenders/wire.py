"""The bytes between a scheduler and its extenders: requests as kube-scheduler writes them, answers as it reads them.

Source: `k8s.io/kube-scheduler/extender/v1` of 1.36, whose types have no JSON names: Go writes `NodeNames`, and reads
`nodenames` too, so that extenders in any language may answer in lower case. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from wharfinger.framework.extenders.extender_chain import FilterAnswer, MetaVictims
from wharfinger.framework.extenders.extender_verdicts import CandidateVictims
from wharfinger.objects.model.pod import PodKey

Json = Mapping[str, Any] | bytes
"""An object of Kubernetes: decoded, or the bytes of its JSON."""
_INT64 = range(-(2**63), 2**63)


class WrongAnswer(ValueError):
    """An answer that is not what the verb answers with; the text is for people."""


# --- requests -------------------------------------------------------------------------------------


def arguments(pod: Json, names: Sequence[str], nodes: Sequence[Json] | None) -> bytes:
    """Of `filter` and `prioritize`. `nodes`: the objects, of an extender that keeps none itself; else None."""
    sent = None if nodes is None else {"metadata": {}, "items": [_inserted(node) for node in nodes]}
    return orjson.dumps({"Pod": _inserted(pod), "Nodes": sent, "NodeNames": list(names) if nodes is None else None})


def preemption_arguments(
    pod: Json, candidates: Iterable[CandidateVictims], pod_object: Callable[[PodKey], Json] | None
) -> bytes:
    """Of `preempt`. `pod_object`: the objects of victims, for an extender that keeps none itself; else None."""

    def victims(one: CandidateVictims) -> dict[str, Any]:
        pods: list[Any]
        if pod_object is None:
            pods = [{"UID": victim.uid} for victim in one.victims]
        else:
            pods = [_inserted(pod_object(victim.key)) for victim in one.victims]
        return {"Pods": pods, "NumPDBViolations": one.violations}

    by_node = {one.node: victims(one) for one in sorted(candidates, key=lambda one: one.node)}
    whole, meta = (None, by_node) if pod_object is None else (by_node, None)
    return orjson.dumps({"Pod": _inserted(pod), "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta})


def binding_arguments(pod: PodKey, uid: str, node: str) -> bytes:
    """Of `bind`."""
    return orjson.dumps({"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": uid, "Node": node})


def _inserted(thing: Json) -> Any:
    return orjson.Fragment(thing) if isinstance(thing, bytes) else thing


# --- answers --------------------------------------------------------------------------------------


def filter_answer(content: bytes, *, node_cache_capable: bool) -> FilterAnswer:
    """What `filter` answered. Raises `WrongAnswer`, also with the error that the extender names.

    Without nodes and names no node passes, and names count only from an extender that was sent names.
    """
    fields = _fields(_parsed(content), "the answer")
    said = _text(fields, "Error")
    if said:
        raise WrongAnswer(said)
    named = fields.get("nodenames")
    names = None if named is None else tuple(_string(name, "NodeNames") for name in _list(named, "NodeNames"))
    nodes = _node_list(fields)
    passed = names if node_cache_capable and names is not None else nodes or ()
    return FilterAnswer(passed, _reasons(fields, "FailedNodes"), _reasons(fields, "FailedAndUnresolvableNodes"))


def priorities(content: bytes) -> list[tuple[str, int]]:
    """What `prioritize` answered: nodes and their points, as they came. Raises `WrongAnswer`."""
    entries = _list(_parsed(content), "the answer")
    read = [_fields(entry, f"the answer's entry {number}") for number, entry in enumerate(entries)]
    return [(_text(entry, "Host"), _integer(entry, "Score")) for entry in read]


def preemption_answer(content: bytes) -> dict[str, MetaVictims]:
    """What `preempt` answered, by node. Raises `WrongAnswer`."""
    fields = _fields(_parsed(content), "the answer")
    found: dict[str, MetaVictims] = {}
    for node, victims in _mapping(fields, "NodeNameToMetaVictims").items():
        entry = _fields(victims, f"NodeNameToMetaVictims of {node}")
        pods = [_fields(pod, f"a victim on {node}") for pod in _list(entry.get("pods"), f"the victims on {node}")]
        found[node] = MetaVictims(tuple(_text(pod, "UID") for pod in pods), _integer(entry, "NumPDBViolations"))
    return found


def binding_answer(content: bytes) -> str:
    """The error that `bind` answered with; empty = the pod is bound. Raises `WrongAnswer`."""
    return _text(_fields(_parsed(content), "the answer"), "Error")


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise WrongAnswer(f"the answer is no JSON: {error.msg}") from None


def _fields(value: Any, what: str) -> dict[str, Any]:
    """The fields by their names in lower case; those that are spelled exactly do not go before others, as in Go."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WrongAnswer(f"{what} is no object")
    return {name.lower(): field for name, field in value.items()}


def _node_list(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    nodes = fields.get("nodes")
    if nodes is None:
        return None
    items = _list(_fields(nodes, "Nodes").get("items"), "Nodes.items")
    metadata = [_fields(_fields(item, "a node").get("metadata"), "the metadata of a node") for item in items]
    return tuple(_text(each, "name") for each in metadata)


def _reasons(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    return {node: _string(reason, name) for node, reason in _mapping(fields, name).items()}


def _mapping(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name.lower())
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WrongAnswer(f"{name} is no object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise WrongAnswer(f"{what} is no list")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    return _string(fields.get(name.lower()), name)


def _string(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongAnswer(f"{what} holds no text")
    return value


def _integer(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name.lower())
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value not in _INT64:
        raise WrongAnswer(f"{name} is no whole number")
    return value
