"""A `v1.Node` as a mapping to the model's node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import boolean, integer, mapping, mappings, quantities, text, text_map, texts
from wharfinger.objects.documents.metadata import METADATA, check_kind, checked_object, object_name, object_uid
from wharfinger.objects.documents.selectors import taints
from wharfinger.objects.documents.spelling import (
    CONTAINER_IMAGE,
    NODE,
    NODE_CONDITION,
    NODE_SPEC,
    NODE_STATUS,
    OBJECT_META,
)
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.quantities import LIMIT
from wharfinger.objects.model.resources import node_allocatable

RESOURCE_LIMIT = 128
"""Resources that one node may offer; no real node has half of them. Each is a column over all nodes."""


def node(given: object, *, create_revision: int = 0, mod_revision: int = 0) -> Node:
    """Read a node; raises `InvalidObject`."""
    obj = checked_object(given)
    check_kind(obj, "Node")
    if not NODE.fits(obj):
        NODE.examine(obj)
    metadata = mapping(obj, "metadata")
    if not OBJECT_META.fits(metadata):
        OBJECT_META.examine(metadata, METADATA)
    spec = mapping(obj, "spec")
    if spec:
        NODE_SPEC.check_all(spec, "spec.")
    status = mapping(obj, "status")
    if not NODE_STATUS.fits(status):
        NODE_STATUS.examine(status, "status.")
    return Node(
        name=object_name(metadata),
        uid=object_uid(metadata),
        create_revision=create_revision,
        mod_revision=mod_revision,
        labels=text_map(metadata, "labels", METADATA),
        taints=taints(spec),
        unschedulable=boolean(spec, "unschedulable", "spec."),
        allocatable=_allocatable(status),
        images=_images(status),
        conditions=_conditions(status),
        declared_features=frozenset(texts(status, "declaredFeatures", "status.")),
    )


def capacity(obj: Mapping[str, Any]) -> Mapping[str, int]:
    """What a node has in all, in the units of its allocatable; empty where it does not say. Raises `InvalidObject`."""
    try:
        return node_allocatable(quantities(mapping(obj, "status"), "capacity", "status."))
    except ValueError as error:
        raise InvalidObject(f"status.capacity: {error}") from None


def _allocatable(status: Mapping[str, Any]) -> Mapping[str, int]:
    """What the node offers; its capacity where it says nothing else, as the API server has it."""
    field = "capacity" if status.get("allocatable") is None else "allocatable"
    if status.get(field) is None:
        raise InvalidObject("status.allocatable is missing")
    offered = quantities(status, field, "status.")
    if len(offered) > RESOURCE_LIMIT:
        raise InvalidObject(f"status.{field} has more than {RESOURCE_LIMIT} entries")
    try:
        return node_allocatable(offered)
    except ValueError as error:
        raise InvalidObject(f"status.{field}: {error}") from None


def _images(status: Mapping[str, Any]) -> Mapping[str, int]:
    images: dict[str, int] = {}
    for index, entry in enumerate(mappings(status, "images", "status.")):
        where = f"status.images[{index}]."
        if not CONTAINER_IMAGE.fits(entry):
            CONTAINER_IMAGE.examine(entry, where)
        size = integer(entry, "sizeBytes", where, low=0, high=LIMIT) or 0
        for name in texts(entry, "names", where):
            images[name] = size
    return images


def _conditions(status: Mapping[str, Any]) -> Mapping[str, str]:
    conditions: dict[str, str] = {}
    for index, entry in enumerate(mappings(status, "conditions", "status.")):
        where = f"status.conditions[{index}]."
        if not NODE_CONDITION.fits(entry):
            NODE_CONDITION.examine(entry, where)
        conditions[text(entry, "type", where)] = text(entry, "status", where)
    return conditions
