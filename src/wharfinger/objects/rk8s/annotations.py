"""What a pod of rk8s may ask for by annotations, because its specification has no place for it.

rk8s keeps annotations and gives them no meaning. A pod without them has priority 0 and no gate, as in rk8s' store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject

PRIORITY = "wharfinger.dev/priority"
"""A whole number: more important pods come first."""
GATES = "wharfinger.dev/scheduling-gates"
"""Names, with commas between: the pod waits until the annotation is gone, or empty."""
_DIGITS = 10


def with_annotated(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
    """The mapping of a `v1.PodSpec` with what the pod's annotations ask for. Raises `InvalidObject`."""
    if PRIORITY not in annotations and GATES not in annotations:
        return spec
    found = dict(spec)
    if PRIORITY in annotations:
        found["priority"] = _number(annotations[PRIORITY])
    gates = [name.strip() for name in annotations.get(GATES, "").split(",") if name.strip()]
    if gates:
        found["schedulingGates"] = [{"name": name} for name in gates]
    return found


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS and abs(int(text)) < 2**31):
        raise InvalidObject(f"metadata.annotations[{PRIORITY!r}] {text[:40]!r} is no whole number of 32 bits")
    return int(text)
