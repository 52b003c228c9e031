"""What a bound pod holds on its node although its object is invalid: as much of it as can be read.

`pods` refuses such an object, for no decision can be made about it; but its containers run, and room that did not
count would be given away twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import LIST_LIMIT, TEXT_LIMIT, quantities
from wharfinger.objects.documents.metadata import check_key
from wharfinger.objects.documents.pods import pod
from wharfinger.objects.model.conditions import POD_RESIZE_PENDING
from wharfinger.objects.model.node import PODS
from wharfinger.objects.model.pod import Pod, Revisions


def occupant(given: object, *, namespace: str, name: str, **revisions: Unpack[Revisions]) -> Pod | None:
    """The pod with what it holds, and nothing else of it.

    None when the object is another one than its key says, names no node, or cannot be read at all.
    """
    with suppress(InvalidObject, RecursionError):
        held = stand_in(given, namespace=namespace, name=name)
        if held is not None:
            return pod(held, default_namespace=namespace, **revisions)
    return None


def stand_in(given: object, *, namespace: str, name: str) -> dict[str, Any] | None:
    """A valid pod in the place of an invalid one: its node and what it holds there. None when it names no node.

    Raises `InvalidObject` when the object is another one than its key says.
    """
    check_key(given, namespace=namespace, name=name)
    return _reduced(_mapping(given), namespace, name)


def _reduced(obj: Mapping[str, Any], namespace: str, name: str) -> dict[str, Any] | None:
    written = _mapping(obj.get("spec"))
    spec = {
        part: written.get(part) for part in ("nodeName", "hostNetwork", "volumes") if _valid({part: written.get(part)})
    }
    if not spec.get("nodeName"):
        return None
    spec["overhead"] = _amounts(written.get("overhead"))
    spec["resources"] = _resources(written.get("resources"))
    for part in ("containers", "initContainers"):
        spec[part] = [_container(entry) for entry in _entries(written.get(part))]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
        "status": _status(_mapping(obj.get("status"))),
    }


def _status(written: Mapping[str, Any]) -> dict[str, Any]:
    """Whether it has ended, and what counts during a resize in place."""
    status: dict[str, Any] = {"phase": _text(written.get("phase")), **_reported(written)}
    for part in ("containerStatuses", "initContainerStatuses"):
        status[part] = [_reported(_mapping(entry)) for entry in _entries(written.get(part))]
    status["conditions"] = [
        {"type": POD_RESIZE_PENDING, "reason": _text(entry.get("reason"))}
        for entry in map(_mapping, _entries(written.get("conditions")))
        if entry.get("type") == POD_RESIZE_PENDING
    ]
    return status


def _reported(written: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": _text(written.get("name"))} if "name" in written else {}
    if isinstance(written.get("resources"), Mapping):
        found["resources"] = _resources(written["resources"])
        found["allocatedResources"] = _amounts(written.get("allocatedResources"))
    return found


def _container(entry: object) -> dict[str, Any]:
    written = _mapping(entry)
    container: dict[str, Any] = {
        "name": _text(written.get("name")),
        "resources": _resources(written.get("resources")),
    }
    for part in ("ports", "restartPolicy"):
        value = written.get(part)
        if value and _valid({"containers": [{part: value}], "hostNetwork": True}):
            container[part] = value
    return container


def _resources(written: object) -> dict[str, Any]:
    return {part: _amounts(_mapping(written).get(part)) for part in ("requests", "limits")}


def _amounts(written: object) -> dict[str, Any]:
    """The amounts of a resource list that can be read."""
    return {name: amount for name, amount in _mapping(written).items() if name != PODS and _readable(name, amount)}


def _readable(name: Any, amount: Any) -> bool:
    try:
        quantities({"amounts": {name: amount}}, "amounts")
    except InvalidObject:
        return False
    return True


def _valid(spec: Mapping[str, Any]) -> bool:
    """Whether a pod may have this spec."""
    obj = {"metadata": {"name": "any"}, "spec": spec}
    try:
        pod(obj)
    except InvalidObject:
        return False
    return True


def _entries(value: object) -> Sequence[object]:
    return value[:LIST_LIMIT] if isinstance(value, list | tuple) else ()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= TEXT_LIMIT and value.isascii() else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
