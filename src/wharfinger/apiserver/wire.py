"""Requests and answers as an API server spells them: paths, queries, and what the bytes of an answer mean.

A refusal is a `Status` object, except where a proxy or the server's outermost layer answers in plain text. Nothing
here does I/O; `transport.py` and `watching.py` decide what is raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from wharfinger.apiserver.client import ApiAnswer, ApiResource

DRY_RUN = "dryRun=All"
_PLAIN = re.compile(r"[A-Za-z0-9._~/:-]*").fullmatch
"""Paths in which nothing is to be quoted: nearly all."""
MESSAGE_LIMIT = 1024
"""Characters of the server's own words that are kept: as many as an event may have."""
TOO_MANY_REQUESTS = 429
UNAUTHORIZED = 401
GONE = 410
_REASONS = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid"}
"""Reasons of refusals that are no `Status`."""


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


def refusal(code: int, body: bytes) -> ApiAnswer:
    """An answer that is no success, with the server's reason and words."""
    reason, message = _words(body)
    return ApiAnswer(code, None, reason or _REASONS.get(code, ""), message)


def refusal_of(status: Mapping[str, Any]) -> ApiAnswer:
    """The same of a decoded `Status`, such as a watch sends in an ERROR event."""
    code = status.get("code")
    message = one_line(str(status.get("message") or ""))
    return ApiAnswer(code if isinstance(code, int) else 0, None, str(status.get("reason") or ""), message)


def success(code: int, body: bytes) -> ApiAnswer:
    """A success with the object that it brought. Raises `ValueError` for what is no JSON object."""
    if not body:
        return ApiAnswer(code)
    decoded = orjson.loads(body)
    if not isinstance(decoded, dict):
        raise ValueError("the answer is no JSON object")
    return ApiAnswer(code, decoded)


def _words(body: bytes) -> tuple[str, str]:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", one_line(body[: 4 * MESSAGE_LIMIT].decode("utf-8", "replace"))
    if not isinstance(status, dict):
        return "", ""
    return str(status.get("reason") or ""), one_line(str(status.get("message") or ""))


def one_line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text without line breaks and control characters, cut to `limit` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * limit]).split())
    return line if len(line) <= limit else line[: limit - 4] + " ..."


def seconds_to_wait(retry_after: str | None, now: float) -> float | None:
    """What a `Retry-After` header asks for, in seconds or as a date; None without it, or if it is unreadable.

    `now`: seconds since the epoch.
    """
    if not retry_after:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None
