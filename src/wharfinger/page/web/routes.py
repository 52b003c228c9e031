"""An address of the page's JSON, the handler that answers it, and what a handler is given: the request and its body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from wharfinger.page.access.guard import Viewer
from wharfinger.page.web.inputs import BadInput

Answer = Any


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request to one address."""

    request: web.Request
    viewer: Viewer
    names: Mapping[str, str]
    """Out of the address."""

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters."""
        return self.request.query


Handler = Callable[[PageRequest], Awaitable[Answer]]


class Route:
    """An address with its handler; names in braces stand for one part each."""

    def __init__(self, method: str, path: str, handler: Handler, *, acts: bool = False) -> None:
        """`acts`: whether it changes something, so that not all viewers may ask for it."""
        self.acts = acts
        self.method = method
        self.handler = handler
        self.path = path
        self._parts = path.split("/")

    def match(self, raw_path: str) -> dict[str, str] | None:
        """The names, of an address as it was sent; None for another address."""
        parts = raw_path.split("/")
        if len(parts) != len(self._parts):
            return None
        names: dict[str, str] = {}
        for wanted, part in zip(self._parts, parts, strict=True):
            if wanted.startswith("{"):
                names[wanted[1:-1]] = unquote(part)
            elif wanted != part:
                return None
        return names


async def body_of(request: web.Request, most: int) -> bytes:
    """The body. Raises `BadInput` for one that is too long."""
    found = bytearray()
    async for chunk in request.content.iter_chunked(1 << 14):
        found += chunk
        if len(found) > most:
            raise BadInput(f"at most {most} bytes are read")
    return bytes(found)
