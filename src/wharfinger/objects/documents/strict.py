"""Strict validation of manifests, as `kubectl apply` does it: unknown fields and duplicate ones.

Only fields that Kubernetes does not have are unknown (`kubernetes_fields`); keys of maps are free. Kinds and versions
that are not listed, such as those of other makers, have no unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.duplicates import doubled_keys
from wharfinger.objects.documents.kubernetes_fields import kubernetes_fields
from wharfinger.objects.documents.spelling import LONGEST, folded, shown

MOST = 100
"""Findings of one object that are named."""
_SIMILAR = 0.75
"""Of two words, from which on one may be meant by the other."""


def findings(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """All unknown and duplicate fields of an object, each with its path; beyond `MOST`, that there are more.

    Raises `InvalidObject` for what is nested too deeply.
    """
    kind = kubernetes_fields().kinds.get(f"{obj.get('apiVersion')} {obj.get('kind')}", "")
    try:
        found = list(islice(_all(obj, kind), MOST + 1))
    except RecursionError:
        raise InvalidObject("is nested too deeply") from None
    return tuple(found) if len(found) <= MOST else (*found[:MOST], "and more")


def _all(obj: Mapping[str, Any], kind: str) -> Iterator[str]:
    for where, key, line in doubled_keys(obj):
        yield f"{where}{shown(key)}: duplicate field" + (f" (again at {line})" if line else "")
    if kind:
        yield from _unknown(obj, kind, "")


def _unknown(obj: Mapping[str, Any], kind: str, where: str) -> Iterator[str]:
    fields = kubernetes_fields().types[kind]
    for key, value in obj.items():
        below = fields.get(key)
        if below is None:
            meant = _meant(key, fields)
            yield f"{where}{shown(key)}: unknown field" + (f"; did you mean {meant}?" if meant else "")
        elif not below or not value:
            continue
        elif isinstance(value, Mapping):
            yield from _unknown(value, below, f"{where}{key}.")
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                if isinstance(entry, Mapping):
                    yield from _unknown(entry, below, f"{where}{key}[{index}].")


def _meant(key: object, fields: Iterable[str]) -> str:
    """The field that the key may stand for: another spelling, else one that is similar; empty for none."""
    if not isinstance(key, str) or len(key) > LONGEST:
        return ""
    by_case = {field.lower(): field for field in fields}
    for spelling in (_letters, folded):
        meant = {spelling(field): field for field in fields}.get(spelling(key))
        if meant is not None:
            return meant
    close = get_close_matches(key.lower(), by_case, n=1, cutoff=_SIMILAR)
    return by_case[close[0]] if close else ""


def _letters(key: str) -> str:
    return "".join([char for char in key.lower() if char.isalnum()])
