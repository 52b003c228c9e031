"""What sends bytes to etcd, and the ways in which a try can fail.

Between the adapter of the etcd client (`etcd`) and the rules of trying again
(`etcd_connection`, `etcd_watch`)::

    NotSent              nothing reached etcd: next endpoint, whatever the call
    └── Dropped          ... and the connection broke while we wrote
    Unanswered           it may have: next endpoint for what can be repeated, else "perhaps applied"
    TokenRefused         nothing was done: ask for a new token, then again
    CertificateRefused   the two sides do not trust each other: next endpoint, in the end denied
"""

from __future__ import annotations

from typing import Protocol

import aiohttp

from wharfinger.registry.etcd_wire import Body


class NotSent(Exception):
    """Nothing reached etcd."""


class Dropped(NotSent):
    """The connection was gone before the request was complete."""


class Unanswered(Exception):
    """The request went out and no usable answer came back."""


class TokenRefused(Exception):
    """etcd wants a token, or another one than we sent; it did nothing."""


class CertificateRefused(Exception):
    """Our side refuses etcd's certificate, or etcd ours; it did nothing."""


class Gateway(Protocol):
    """What sends bytes to one endpoint at a time."""

    endpoint: str
    token: str | None

    async def exchange(self, path: str, body: Body, timeout: aiohttp.ClientTimeout) -> Body:
        """One call, one answer."""

    async def open_stream(self, path: str, body: Body, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """One call whose answer goes on; the caller closes it."""

    def refusal(self, message: str, code: int) -> Exception:
        """What etcd's words mean: a `StoreError`, or one of the classes above."""
