"""Parts of stored pods that recur from pod to pod, and with every change of a pod, read once and kept shared.

What a controller makes differs in names only, and a pod that was bound differs in its node: nine tenths of the
work of reading it, and of the room it takes, are those of the pod before. Kept are a bounded number of parts of
bounded size, by their JSON. For parts that came from JSON or YAML text only: nothing there but plain finite values,
which their JSON distinguishes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

import orjson

from wharfinger.manifests.pod_specs import fields_of, what_is_read
from wharfinger.manifests.pods import EACH_ANEW

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


class Recurring:
    """The `pods.Parts` that remembers."""

    def __init__(self) -> None:
        self._labels = Remembered[Mapping[str, str]]()
        self._controllers = Remembered[tuple[str, str]]()
        self._specs = Remembered[dict[str, Any]]()

    def labels(self, metadata: Mapping[str, Any]) -> Mapping[str, str]:
        """`metadata.labels`."""
        written = metadata.get("labels")
        text = _json(written) if written else None
        found = self._labels.get(text) if text is not None else None
        if found is None:
            found = EACH_ANEW.labels(metadata)
            if text is not None:
                self._labels.put(_trimmed(text), found)
        return found

    def controller(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """From `metadata.ownerReferences`."""
        written = metadata.get("ownerReferences")
        text = _json(written) if written else None
        found = self._controllers.get(text) if text is not None else None
        if found is None:
            found = EACH_ANEW.controller(metadata)
            if text is not None and found is not None:
                self._controllers.put(_trimmed(text), found)
        return found

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
