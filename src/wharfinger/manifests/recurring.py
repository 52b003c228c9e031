"""Parts of stored pods that recur from pod to pod, and with every change of a pod, read once and kept shared.

What a controller makes differs in names only, and a pod that was bound differs in its node: nine tenths of the
work of reading it, and of the room it takes, are those of the pod before. Kept are a bounded number of parts of
bounded size, by their JSON. For parts that came from JSON or YAML text only: nothing there but plain finite values,
which their JSON tells apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from wharfinger.manifests.pod_specs import what_is_read
from wharfinger.manifests.pods import EACH_ANEW

NUMBER = 2048
"""Different parts kept of each sort; the least recently used goes."""
SIZE = 4096
"""Bytes of JSON of a part that is kept."""
_NOTHING = b"{}"


class Recurring:
    """The `pods.Parts` that remembers."""

    def labels(self, metadata: Mapping[str, Any]) -> Mapping[str, str]:
        """`metadata.labels`."""
        written = metadata.get("labels")
        known = _json(written) if written else None
        return EACH_ANEW.labels(metadata) if known is None else _labels(known)

    def controller(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """From `metadata.ownerReferences`."""
        written = metadata.get("ownerReferences")
        if written is None:
            return None
        known = _json(written)
        return EACH_ANEW.controller(metadata) if known is None else _controller(known)

    def spec_fields(self, spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """All that follows from the specification, and from namespace and labels where it has an affinity."""
        read = what_is_read(spec)
        alone = read.get("affinity") is None
        known, known_labels = _json(read), _NOTHING if alone else _json(dict(labels))
        if known is None or known_labels is None:
            return EACH_ANEW.spec_fields(read, namespace, labels)
        return _spec_fields(known, "" if alone else namespace, known_labels)


RECURRING = Recurring()


def _json(part: Any) -> bytes | None:
    """What a part is known by; None for one that is not kept."""
    try:
        text = orjson.dumps(part)
    except orjson.JSONEncodeError:  # too deep, or texts and numbers that JSON writes and orjson does not
        return None
    return text if len(text) <= SIZE else None


@lru_cache(NUMBER)
def _labels(text: bytes) -> Mapping[str, str]:
    return EACH_ANEW.labels({"labels": orjson.loads(text)})


@lru_cache(NUMBER)
def _controller(text: bytes) -> tuple[str, str] | None:
    return EACH_ANEW.controller({"ownerReferences": orjson.loads(text)})


@lru_cache(NUMBER)
def _spec_fields(text: bytes, namespace: str, labels: bytes) -> dict[str, Any]:
    return EACH_ANEW.spec_fields(orjson.loads(text), namespace, orjson.loads(labels))
