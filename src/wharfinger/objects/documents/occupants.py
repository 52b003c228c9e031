"""What a bound pod holds on its node although its object is invalid: as much of it as can be read.

`pods` refuses such an object, for no decision can be made about it; but its containers run, and room that did not
count would be given away twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import LIST_LIMIT, TEXT_LIMIT, part, quantities
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
    return _reduced(part(given), namespace, name)


def _reduced(obj: Mapping[str, Any], namespace: str, name: str) -> dict[str, Any] | None:
    written = part(obj, "spec")
    spec = {
        field: written.get(field)
        for field in ("nodeName", "hostNetwork", "volumes")
        if _valid({field: written.get(field)})
    }
    if not spec.get("nodeName"):
        return None
    spec["overhead"] = _amounts(written.get("overhead"))
    spec["resources"] = _resources(written.get("resources"))
    for field in ("containers", "initContainers"):
        spec[field] = [_container(entry) for entry in _entries(written.get(field))]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
        "status": _status(part(obj, "status")),
    }


def _status(written: Mapping[str, Any]) -> dict[str, Any]:
    """Whether it has ended, and what counts during a resize in place."""
    status: dict[str, Any] = {"phase": _text(written.get("phase")), **_reported(written)}
    for field in ("containerStatuses", "initContainerStatuses"):
        status[field] = [_reported(part(entry)) for entry in _entries(written.get(field))]
    status["conditions"] = [
        {"type": POD_RESIZE_PENDING, "reason": _text(entry.get("reason"))}
        for entry in map(part, _entries(written.get("conditions")))
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
    written = part(entry)
    container: dict[str, Any] = {
        "name": _text(written.get("name")),
        "resources": _resources(written.get("resources")),
    }
    for field in ("ports", "restartPolicy"):
        value = written.get(field)
        if value and _valid({"containers": [{field: value}], "hostNetwork": True}):
            container[field] = value
    return container


def _resources(written: object) -> dict[str, Any]:
    return {field: _amounts(part(written).get(field)) for field in ("requests", "limits")}


def _amounts(written: object) -> dict[str, Any]:
    """The amounts of a resource list that can be read."""
    return {name: amount for name, amount in part(written).items() if name != PODS and _readable(name, amount)}


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
