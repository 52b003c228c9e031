"""Bytes and mappings to the model's objects: what the informer, `apply` and the simulator call.

Whatever comes in, the only exception that comes out is `InvalidObject`, whose text is one line. The subjects are
next door: `pods`, `pod_specs`, `affinity`, `occupants`, `nodes`, `surroundings`, `selectors`; what many pods share is
read once (`recurring`); the bytes' syntax is `documents`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.manifests import documents, nodes, pods, surroundings
from wharfinger.manifests.metadata import check_key
from wharfinger.manifests.occupants import occupant
from wharfinger.manifests.pods import EACH_ANEW
from wharfinger.manifests.recurring import RECURRING
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod
from wharfinger.model.priority import NO_CLASSES, PriorityClasses
from wharfinger.model.surroundings import Surrounding


def decode_pod(
    value: bytes,
    *,
    namespace: str = "",
    name: str = "",
    create_revision: int = 0,
    mod_revision: int = 0,
    classes: PriorityClasses = NO_CLASSES,
) -> Pod:
    """A stored pod. Raises `InvalidObject`.

    `namespace` and `name`, when given, are the key's and must be the object's (an object without a
    namespace takes the key's). `classes`: those that are known now, by which the pod then has its priority.
    """
    obj = documents.parse(value)
    check_key(obj, namespace=namespace, name=name)
    return recurring_pod(
        obj,
        create_revision=create_revision,
        mod_revision=mod_revision,
        default_namespace=namespace or "default",
        classes=classes,
    )


def recurring_pod(
    obj: Mapping[str, Any],
    *,
    create_revision: int,
    mod_revision: int,
    default_namespace: str,
    classes: PriorityClasses,
) -> Pod:
    """A pod from its mapping, whose parts are kept for the pods that are like it. Raises `InvalidObject`."""
    return _pod(obj, create_revision, mod_revision, default_namespace, RECURRING, classes=classes)


def decode_occupant(
    value: bytes, *, namespace: str, name: str, create_revision: int = 0, mod_revision: int = 0
) -> Pod | None:
    """What a stored pod that `decode_pod` refuses still holds on the node it is bound to; None when that is nothing.

    Never raises.
    """
    try:
        obj = documents.parse(value)
    except InvalidObject:
        return None
    return occupant(obj, namespace=namespace, name=name, create_revision=create_revision, mod_revision=mod_revision)


def decode_node(value: bytes, *, name: str = "", create_revision: int = 0, mod_revision: int = 0) -> Node:
    """A stored node. Raises `InvalidObject`; `name`, when given, is the key's and must be the object's."""
    obj = documents.parse(value)
    check_key(obj, namespace="", name=name)
    return node_from_mapping(obj, create_revision=create_revision, mod_revision=mod_revision)


def decode_surrounding(value: bytes, kind: str, *, namespace: str = "", name: str = "") -> Surrounding | None:
    """A stored object of one of `surroundings.KINDS`; None for one that means nothing to any decision.

    Raises `InvalidObject`; `namespace` and `name` as for pods.
    """
    obj = documents.parse(value)
    check_key(obj, namespace=namespace, name=name)
    return surrounding_from_mapping(obj, kind, default_namespace=namespace or "default")


def pod_from_mapping(
    obj: Mapping[str, Any], *, create_revision: int = 0, mod_revision: int = 0, default_namespace: str = "default"
) -> Pod:
    """A pod from its mapping. Raises `InvalidObject`."""
    return _pod(obj, create_revision, mod_revision, default_namespace, EACH_ANEW)


def _pod(
    obj: Mapping[str, Any],
    create_revision: int,
    mod_revision: int,
    default_namespace: str,
    parts: pods.Parts,
    *,
    classes: PriorityClasses = NO_CLASSES,
) -> Pod:
    try:
        return pods.pod(
            obj,
            create_revision=create_revision,
            mod_revision=mod_revision,
            default_namespace=default_namespace,
            parts=parts,
            classes=classes,
        )
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None


def node_from_mapping(obj: Mapping[str, Any], *, create_revision: int = 0, mod_revision: int = 0) -> Node:
    """A node from its mapping. Raises `InvalidObject`."""
    try:
        return nodes.node(obj, create_revision=create_revision, mod_revision=mod_revision)
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None


def surrounding_from_mapping(
    obj: Mapping[str, Any], kind: str, *, default_namespace: str = "default"
) -> Surrounding | None:
    """An object of one of `surroundings.KINDS` from its mapping; None for one that means nothing to any decision.

    Raises `InvalidObject`.
    """
    try:
        return surroundings.surrounding(obj, kind, default_namespace)
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None
