"""Opens envelopes: objects that wait in another object on the hub, so that they have no effect there.

Rules are KubeFleet's. What is wrong with an envelope is a sentence, never an exception. `selecting` decides which
envelopes are delivered; `overriding` changes what was in them like any other object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.objects.model.placement_kinds import PLACEMENT_GROUP
from wharfinger.placement.deciding.selecting import ENVELOPES, place_of
from wharfinger.placement.model.delivery import ObjectId

MOST_ENVELOPED = 5_000
"""Objects in all envelopes of one placement."""
_SHOWN = 80
"""Characters of a key or name that a sentence contains."""


@dataclass(slots=True)
class _Opening:
    """What was found so far."""

    found: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sources: dict[ObjectId, str] = field(default_factory=dict)

    def take(self, obj: Mapping[str, Any], where: str) -> None:
        """Add an object, unless it is there already: in another version it is the same object.

        `where` names the key of an envelope; it is empty for an object that is selected itself.
        """
        about = ObjectId.of(obj)
        identity = about._replace(version="")
        first = self.sources.get(identity)
        if first is None:
            self.sources[identity] = where
            self.found.append(dict(obj))
        elif where and first:
            self.problems.append(f"{where} is {_named(about)}, which is also in {first}")
        elif where or first:
            self.problems.append(f"{where or first} is {_named(about)}, which is also selected itself")
        else:
            self.problems.append(f"{_named(about)} is selected twice")


def opened(objects: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The objects with the contents of envelopes in the envelopes' places, and what is wrong with these.

    Objects with a problem are left out. The contents of one envelope come in the order of `selecting`.
    """
    opening = _Opening()
    room = MOST_ENVELOPED
    for obj in objects:
        about = ObjectId.of(obj)
        if not is_envelope(about):
            opening.take(obj, "")
            continue
        envelope = _named(about)
        data = obj.get("data")
        if data is None:
            continue
        if not isinstance(data, Mapping):
            opening.problems.append(f"{envelope}: data is no mapping")
            continue
        room -= len(data)
        if room < 0:
            opening.problems.append(f"{envelope}: there are more than {MOST_ENVELOPED} objects in all envelopes")
            break
        readable: list[tuple[str, Mapping[str, Any]]] = []
        for key, content in sorted(data.items(), key=lambda item: str(item[0])):
            where = f"{envelope}: data[{_short(key)}]"
            problem = _problem(content, about)
            if problem:
                opening.problems.append(f"{where} {problem}")
            else:
                readable.append((where, content))
        for where, content in sorted(readable, key=lambda one: place_of(ObjectId.of(one[1]))):
            opening.take(content, where)
    return opening.found, opening.problems


def is_envelope(about: ObjectId) -> bool:
    """Whether an object is an envelope."""
    return about.group == PLACEMENT_GROUP and about.kind in ENVELOPES


def _problem(content: object, envelope: ObjectId) -> str:
    """Why an object cannot be in this envelope; empty when it can."""
    if not isinstance(content, Mapping):
        return "is no object"
    metadata = content.get("metadata")
    if not isinstance(metadata, Mapping):
        return "has no metadata"
    about = ObjectId.of(content)
    for missing, value in (("apiVersion", about.version), ("kind", about.kind)):
        if not value:
            return f"has no {missing}"
    if not about.name:
        if metadata.get("generateName"):
            return "has metadata.generateName, which is not supported in envelopes; give it a metadata.name"
        return "has no metadata.name"
    namespace = metadata.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        return "has a metadata.namespace that is no text"
    if envelope.kind == ENVELOPES[0]:
        if about.namespace:
            return f"is {_named(about)}, a namespaced object; it needs a ResourceEnvelope in its namespace"
        return ""
    if not about.namespace:
        return f"is {_named(about)}, an object without a namespace; it needs a ClusterResourceEnvelope"
    if about.namespace != envelope.namespace:
        return f"is {_named(about)}, an object of another namespace than its envelope"
    return ""


def _named(about: ObjectId) -> str:
    place = f"{about.namespace}/{about.name}" if about.namespace else about.name
    return f"{_short(about.kind)} {_short(place)}"


def _short(written: object) -> str:
    shown = str(written)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
