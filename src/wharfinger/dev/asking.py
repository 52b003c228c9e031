"""Asking our own servers over HTTP: where on this machine they are found, and whether they answer."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException

LONGEST = 16 * 2**20
"""Bytes of an answer that are read."""
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy of the environment is for others: it could not find our loopback address."""


def found_at(listening: str) -> str:
    """The IPv4 address at which clients on this machine find what listens on `listening`."""
    return "127.0.0.1" if listening == "0.0.0.0" else listening  # noqa: S104 - asked about, not listened on


def answer(url: str, *, within: float) -> bytes | None:
    """The body of a 200 answer; None for any other, and for none within so many seconds."""
    try:
        with _direct.open(url, timeout=within) as response:
            body: bytes = response.read(LONGEST)
            return body if response.status == 200 else None
    except (OSError, HTTPException):
        return None
