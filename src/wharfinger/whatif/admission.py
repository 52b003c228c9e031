"""What an API server would have written into a pod before anybody scheduled it: its priority.

Pods that were read from a cluster have it already; manifests only name a class.
"""

from __future__ import annotations

from wharfinger.manifests.fields import integer, mapping, text
from wharfinger.whatif.inventory import Inventory, Obj, Ref

_BUILT_IN = ("system-cluster-critical", "system-node-critical")
_INT32 = 2**31


class PriorityClasses:
    """The classes there are. Raises `InvalidObject` when one cannot be read."""

    def __init__(self, inventory: Inventory) -> None:
        self._classes = {ref.name: obj for ref, obj in inventory.of_kind("PriorityClass")}
        default = [obj for obj in self._classes.values() if obj.get("globalDefault") is True]
        self._default = max(default, key=_value, default=None)
        self.unknown: dict[str, Ref] = {}
        """Classes that pods name and nobody gave, each with a pod that names it."""

    def admit(self, ref: Ref, pod: Obj) -> Obj:
        """The pod with the priority and the preemption policy of its class. Raises `InvalidObject`."""
        spec = mapping(pod, "spec")
        name = text(spec, "priorityClassName", "spec.")
        chosen = self._classes.get(name) if name else self._default
        if chosen is None and name and name not in _BUILT_IN and spec.get("priority") is None:
            self.unknown.setdefault(name, ref)
        if chosen is None:
            return pod
        policy = text(chosen, "preemptionPolicy")
        filled = {"priority": _value(chosen), **({"preemptionPolicy": policy} if policy else {})}
        written = {key: value for key, value in spec.items() if value is not None}
        return {**pod, "spec": {**filled, **written}}


def _value(priority_class: Obj) -> int:
    return integer(priority_class, "value", "", low=-_INT32, high=_INT32 - 1) or 0
