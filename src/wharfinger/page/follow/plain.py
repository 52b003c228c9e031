"""Plain values for JSON: texts that others wrote are cut, so that no message of a megabyte goes to every viewer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from wharfinger.objects.model.texts import shortened

LONGEST = 2000
"""Characters of one text."""


def text(value: str) -> str:
    """A text of bounded length; bytes that are no UTF-8, which keys may have, are spelt out."""
    if not value.isascii():
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return shortened(value, LONGEST)


def moment(time: datetime) -> str:
    """RFC 3339 with milliseconds, of a time in UTC."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bounded(value: Any) -> Any:
    """Plain values with texts of bounded length, at any depth."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {text(str(key)): bounded(one) for key, one in value.items()}
    return [bounded(one) for one in value] if isinstance(value, list | tuple) else value


def as_json(payload: object) -> bytes:
    """As JSON. Halves of characters, which no UTF-8 can have and keys of etcd may, become escapes."""
    try:
        return orjson.dumps(payload, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return json.dumps(payload).encode()
