"""What the bytes of an API server's answer mean: an `ApiAnswer`, or the words for an error.

A refusal is a `Status` object, except where a proxy or the server's outermost layer answers in plain text. Nothing
here does I/O; `transport.py` and `watching.py` decide what is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from wharfinger.apiserver.client import ApiAnswer

MESSAGE_LIMIT = 1024
"""Characters of the server's own words that are kept: as many as an event may have."""

TOO_MANY_REQUESTS = 429
UNAUTHORIZED = 401
GONE = 410

_REASONS = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid"}
"""Reasons of refusals that are no `Status`."""


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
