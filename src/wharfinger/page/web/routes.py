"""An address of the page's JSON, the handler that answers it, and what a handler is given: the request and its body."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from wharfinger.errors import NotFound
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.page.access.guard import Viewer
from wharfinger.page.web.inputs import LONGEST_NAME, BadInput, selector_of

MOST_FORM = 64 * 1024
"""Bytes of a form."""

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

    @property
    def namespace(self) -> str:
        """The one whose objects are asked for; empty = all. Raises `BadInput`."""
        return self.optional_name("namespace")

    @property
    def pod(self) -> PodKey:
        """Namespace and name out of the address, of a pod or a gang. Raises `BadInput`."""
        return PodKey(self.name("namespace", "namespace"), self.name("name"))

    def name(self, what: str, part: str = "name") -> str:
        """The name in this part of the address. `what`: of what, for people. Raises `BadInput`."""
        return _name(self.names[part], what)

    def optional_name(self, parameter: str) -> str:
        """A parameter that is a name, and may be left out; empty then. Raises `BadInput`."""
        return _name(text, parameter) if (text := self.query.get(parameter, "")) else ""

    def number(self, parameter: str, usual: int, *, least: int, most: int) -> int:
        """A parameter that is a whole number in a range. Raises `BadInput`."""
        text = self.query.get(parameter, "")
        if not text:
            return usual
        if not (text.isascii() and text.isdigit() and len(text) <= 9) or not least <= int(text) <= most:
            raise BadInput(f"{parameter}: a number from {least} to {most} is asked for")
        return int(text)

    def selector(self) -> LabelSelector:
        """The parameter `selector`. Raises `BadInput`."""
        return selector_of(self.query.get("selector", ""))

    def verb(self, known: Container[str]) -> str:
        """The action that the address names. Raises `NotFound` for one that is not known."""
        verb = self.names["verb"]
        if verb not in known:
            raise NotFound(f"there is no action {verb[:40]!r}")
        return verb

    async def form(self) -> bytes:
        """The body. Raises `BadInput` for one that is too long."""
        return await body_of(self.request, MOST_FORM)


def _name(text: str, what: str) -> str:
    """A name of an object, or of a namespace."""
    if len(text) not in range(1, LONGEST_NAME + 1) or "/" in text or not text.isprintable():
        raise BadInput(f"{what}: that is no name")
    return text


Handler = Callable[[PageRequest], Answer]
"""Answers at once, or gives what is to be awaited."""


class Route:
    """An address with its handler; names in braces stand for one part each."""

    def __init__(self, method: str, path: str, handler: Handler, *, acts: bool = False) -> None:
        """`acts`: whether it changes something, so that not all viewers may ask for it."""
        self.acts = acts
        self.method = method
        self._handler = handler
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

    async def answer(self, asked: PageRequest) -> Answer:
        """What the handler answers."""
        found = self._handler(asked)
        return await found if isawaitable(found) else found


def get(path: str, handler: Handler) -> Route:
    """A route below `/api/v1/` that changes nothing."""
    return Route("GET", f"/api/v1/{path}", handler)


async def body_of(request: web.Request, most: int) -> bytes:
    """The body. Raises `BadInput` for one that is too long."""
    found = bytearray()
    async for chunk in request.content.iter_chunked(1 << 14):
        found += chunk
        if len(found) > most:
            raise BadInput(f"at most {most} bytes are read")
    return bytes(found)
