"""The paths and queries of requests, as an API server spells them."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from wharfinger.apiserver.client import ApiResource

DRY_RUN = "dryRun=All"
_PLAIN = re.compile(r"[A-Za-z0-9._~/:-]*").fullmatch
"""Paths in which nothing is to be quoted: nearly all."""


def object_path(resource: ApiResource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a collection, an object or a part of one, quoted.

    Raises `ValueError` for a name that would lead to another path.
    """
    for part in (namespace, name):
        if "/" in part or part in {".", ".."}:
            raise ValueError(f"{part!r} is no name of an object")
    path = resource.path(namespace, name, subresource)
    return path if _PLAIN(path) else quote(path, safe="/:")


def page(limit: int, field_selector: str, token: str) -> str:
    """One page of a list. Without a token, it begins at the newest state (never `resourceVersion=0`)."""
    return urlencode(_given(limit=str(limit), fieldSelector=field_selector, **{"continue": token}))


def first_watch(field_selector: str) -> str:
    """A watch that shows all objects first, consistently, and marks their end with a bookmark."""
    return urlencode(
        _given(
            watch="1",
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
            fieldSelector=field_selector,
        )
    )


def next_watch(revision: int, field_selector: str) -> str:
    """A watch of what changes after a revision."""
    return urlencode(
        _given(watch="1", resourceVersion=str(revision), allowWatchBookmarks="true", fieldSelector=field_selector)
    )


def _given(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}
