"""Bytes and mappings to the model's objects: what the informer, `apply` and the simulator call.

Whatever comes in, the only exception that comes out is `InvalidObject`, whose text is one line. The subjects are
next door: `pods`, `pod_specs`, `occupants`, `nodes`, `surroundings`, `selectors`; what many pods share is
read once (`Recurring`); the bytes' syntax is `documents`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

import orjson

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents import documents, nodes, pods, surroundings
from wharfinger.objects.documents.metadata import check_key
from wharfinger.objects.documents.occupants import occupant
from wharfinger.objects.documents.pod_specs import fields_of, what_is_read
from wharfinger.objects.documents.pods import EACH_ANEW
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, Revisions
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClasses
from wharfinger.objects.model.surroundings import Surrounding

P = ParamSpec("P")
T = TypeVar("T")


def _shallow(read: Callable[P, T]) -> Callable[P, T]:
    """Have a reader refuse what is nested too deeply."""

    @wraps(read)
    def shallow(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except RecursionError:
            raise InvalidObject("is nested too deeply") from None

    return shallow


pod_from_mapping = _shallow(pods.pod)
node_from_mapping = _shallow(nodes.node)
surrounding_from_mapping = _shallow(surroundings.surrounding)


def decode_pod(
    value: bytes,
    *,
    namespace: str = "",
    name: str = "",
    classes: PriorityClasses = NO_CLASSES,
    **revisions: Unpack[Revisions],
) -> Pod:
    """A stored pod. Raises `InvalidObject`.

    `namespace` and `name`, when given, are the key's and must be the object's (an object without a
    namespace takes the key's). `classes`: those that are known now, by which the pod then has its priority.
    """
    obj = documents.parse(value)
    check_key(obj, namespace=namespace, name=name)
    return recurring_pod(obj, default_namespace=namespace or "default", classes=classes, **revisions)


def recurring_pod(
    obj: Mapping[str, Any], *, default_namespace: str, classes: PriorityClasses, **revisions: Unpack[Revisions]
) -> Pod:
    """A pod from its mapping, whose parts are kept for the pods that are like it. Raises `InvalidObject`."""
    return pod_from_mapping(obj, default_namespace=default_namespace, parts=RECURRING, classes=classes, **revisions)


def decode_occupant(value: bytes, *, namespace: str, name: str, **revisions: Unpack[Revisions]) -> Pod | None:
    """What a stored pod that `decode_pod` refuses still holds on the node it is bound to; None when that is nothing.

    Never raises.
    """
    try:
        obj = documents.parse(value)
    except InvalidObject:
        return None
    return occupant(obj, namespace=namespace, name=name, **revisions)


def decode_node(value: bytes, *, name: str = "", **revisions: Unpack[Revisions]) -> Node:
    """A stored node. Raises `InvalidObject`; `name`, when given, is the key's and must be the object's."""
    obj = documents.parse(value)
    check_key(obj, namespace="", name=name)
    return node_from_mapping(obj, **revisions)


def decode_surrounding(value: bytes, kind: str, *, namespace: str = "", name: str = "") -> Surrounding | None:
    """A stored object of one of `surroundings.KINDS`; None for one that means nothing to any decision.

    Raises `InvalidObject`; `namespace` and `name` as for pods.
    """
    obj = documents.parse(value)
    check_key(obj, namespace=namespace, name=name)
    return surrounding_from_mapping(obj, kind, namespace or "default")


# --- what recurs -----------------------------------------------------------------------------------

NUMBER = 4096
"""Different parts kept of each sort, at most."""
SIZE = 4096
"""Bytes of JSON of a part that is kept."""
_NOTHING = b"{}"

Part = TypeVar("Part")


class Remembered(Generic[Part]):
    """The parts that were read last, in two halves: when the younger one is full, the older one is forgotten."""

    def __init__(self, number: int = NUMBER) -> None:
        self._half = number // 2
        self._young: dict[Hashable, Part] = {}
        self._old: dict[Hashable, Part] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: Hashable) -> Part | None:
        """The part, if it is remembered."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Hashable, part: Part) -> None:
        """Remember it."""
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = part

    def once(self, written: Any, read: Callable[[], Part]) -> Part:
        """What `read` makes of a part as it is written: read once for all that have the same JSON."""
        text = _json(written) if written else None
        found = self.get(text) if text is not None else None
        if found is None:
            found = read()
            if text is not None and found is not None:
                self.put(_trimmed(text), found)
        return found


class Recurring:
    """The `pods.Parts` that remembers: what recurs from pod to pod, and with every change of a pod, is read once.

    What a controller makes differs in names only, and a pod that was bound differs in its node: nine tenths of the work
    of reading it, and of the room it takes, are those of the pod before. Kept are a bounded number of parts of bounded
    size, by their JSON. For parts that came from JSON or YAML text only: nothing there but plain finite values, which
    their JSON distinguishes.
    """

    def __init__(self) -> None:
        self._labels = Remembered[Mapping[str, str]]()
        self._controllers = Remembered[tuple[str, str] | None]()
        self._specs = Remembered[dict[str, Any]]()

    def labels(self, metadata: Mapping[str, Any]) -> Mapping[str, str]:
        """`metadata.labels`."""
        return self._labels.once(metadata.get("labels"), lambda: EACH_ANEW.labels(metadata))

    def controller(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """From `metadata.ownerReferences`."""
        return self._controllers.once(metadata.get("ownerReferences"), lambda: EACH_ANEW.controller(metadata))

    def spec_fields(self, spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """All that follows from the specification, and from namespace and labels where it has an affinity."""
        read = what_is_read(spec)
        text = _json(read)
        if read.get("affinity") is None:
            namespace, others = "", _NOTHING
        else:
            others = _json(dict(labels)) or b""
        found = self._specs.get((text, namespace, others)) if text and others else None
        if found is None:
            found = fields_of(read, namespace, labels)
            if text and others:
                self._specs.put((_trimmed(text), namespace, _trimmed(others)), found)
        return found


RECURRING = Recurring()


def _json(part: Any) -> bytes | None:
    """What a part is known by; None for one that is not kept."""
    try:
        text = orjson.dumps(part)
    except orjson.JSONEncodeError:  # too deep, or texts and numbers that JSON writes and orjson does not
        return None
    return text if len(text) <= SIZE else None


def _trimmed(text: bytes) -> bytes:
    """The same without the room that orjson left behind it."""
    return bytes(memoryview(text))
