"""RuntimeClasses: the overhead, node selector and tolerations that their pods get.

As in Kubernetes 1.36 (`plugin/pkg/admission/runtimeclass`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.objects.documents.fields import mapping, mappings, quantities, text, text_map
from wharfinger.whatif.admission.verdict import NotMade


def name_in(spec: Mapping[str, Any]) -> str:
    """The RuntimeClass that a pod names; empty for none. Raises `InvalidObject`."""
    return text(spec, "runtimeClassName", "spec.")


def check_class(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a RuntimeClass whose fields cannot be read. Raises `InvalidObject`."""
    scheduling = mapping(obj, "scheduling")
    quantities(mapping(obj, "overhead"), "podFixed", "overhead.")
    text_map(scheduling, "nodeSelector", "scheduling.")
    mappings(scheduling, "tolerations", "scheduling.")
    return obj


def without_class(spec: Mapping[str, Any]) -> Mapping[str, Any] | NotMade:
    """A pod that names no class may have no overhead of its own."""
    if spec.get("overhead"):
        return NotMade("its overhead is set, and no RuntimeClass defines it")
    return spec


def with_class(spec: Mapping[str, Any], runtime_class: Mapping[str, Any]) -> Mapping[str, Any] | NotMade:
    """The specification of a pod of the class, or why it is not made. Raises `InvalidObject`."""
    name = name_in(spec)
    overhead = mapping(mapping(runtime_class, "overhead"), "podFixed", "overhead.")
    own = quantities(spec, "overhead", "spec.")
    if own and own != quantities({"podFixed": overhead}, "podFixed"):
        return NotMade(f"its overhead does not match that of RuntimeClass {name}")
    scheduling = mapping(runtime_class, "scheduling")
    wanted = text_map(scheduling, "nodeSelector", "scheduling.")
    selector = text_map(spec, "nodeSelector", "spec.")
    for key, value in wanted.items():
        if selector.get(key, value) != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            return NotMade(f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
    tolerations = list(mappings(spec, "tolerations", "spec."))
    tolerations += [one for one in mappings(scheduling, "tolerations", "scheduling.") if one not in tolerations]
    completed = {"overhead": overhead, "nodeSelector": {**selector, **wanted}, "tolerations": tolerations}
    return {**spec, **{field: value for field, value in completed.items() if value}}
