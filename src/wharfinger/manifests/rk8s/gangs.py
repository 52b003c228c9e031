"""The gang of an rk8s pod, as `spec.schedulingGroup` with what a PodGroup would say: rk8s has no PodGroups.

`spec.gang` names the gang and its size. Topology constraints with `same_value` are the labels that all members' nodes
have one value each of; without a gang they mean nothing, as in rk8s. What is wrong makes the pod invalid: a pod with
half a gang would be placed wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.manifests.pods import INLINE_GROUP
from wharfinger.manifests.rk8s.fields import boolean, integer, mapping, mappings, needed_text
from wharfinger.model.gang import problem_of

_UINT32 = 2**32 - 1


def scheduling_group(spec: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """The mapping of a `v1.PodSchedulingGroup`; None for a pod of its own. `where`: the path of the spec."""
    keys = _keys(spec, where)
    if spec.get("gang") is None:
        return None
    gang, path = mapping(spec, "gang", where), f"{where}gang."
    name = needed_text(gang, "id", path)
    size = integer(gang, "size", path, low=0, high=_UINT32)
    if size is None:
        raise InvalidObject(f"{path}size is missing")
    if not name:
        raise InvalidObject(f"{path}id is empty")
    problem = problem_of(name, None, keys)
    if problem:
        raise InvalidObject(f"spec.gang: {problem}")
    return {"podGroupName": name, INLINE_GROUP: {"minCount": size, "topologyKeys": keys}}


def _keys(spec: Mapping[str, Any], where: str) -> list[str]:
    """Keys of the constraints that ask for one value."""
    found = set()
    for path, entry in mappings(spec, "topology_constraints", where):
        key = needed_text(entry, "topology_key", path)
        if boolean(entry, "same_value", path):
            found.add(key)
    return sorted(found)
