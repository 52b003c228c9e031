"""Lists in pages, all of one revision: for comparisons, and for servers that cannot list by a watch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from wharfinger.apiserver import addresses
from wharfinger.apiserver.client import Object, revision_of
from wharfinger.errors import UpstreamUnavailable

PAGE_DEADLINE = 60.0
"""Seconds that a page may take."""

Page = tuple[tuple[Object, ...], int]
"""Objects, and the revision of the whole list."""
FetchPage = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Given the query of a page: the list as the server prints it. Raises as `Upstream.list` does."""


async def pages(fetch: FetchPage, field_selector: str, limit: int) -> AsyncGenerator[Page, None]:
    """The pages of a list; at least one, perhaps empty."""
    token = ""
    while True:
        document = await fetch(addresses.page(limit, field_selector, token))
        try:
            revision = revision_of(document)
            objects = tuple(document.get("items") or ())
            token = document["metadata"].get("continue") or ""
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UpstreamUnavailable(f"the answer is no list of objects: {type(error).__name__}") from error
        yield objects, revision
        if not token:
            return
