"""A recorder in place of an API server: what is written to it, answered by what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from wharfinger.apiserver.client import ApiAnswer, ApiClient, ApiResource, Object, PatchType


class Written(NamedTuple):
    verb: str
    resource: ApiResource
    namespace: str
    name: str
    body: Mapping[str, Any]


@dataclass
class UpstreamRecorder:
    """Only `create` and `patch`; whatever else is asked is an error of the test."""

    answers: Callable[[Written], ApiAnswer | Exception] = lambda written: ApiAnswer(201)
    open: asyncio.Event | None = None
    """While it is not set, requests wait."""
    written: list[Written] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    @property
    def apiserver(self) -> ApiClient:
        return cast("ApiClient", self)

    async def create(self, resource: ApiResource, body: Object, *, namespace: str = "", **rest: object) -> ApiAnswer:
        assert not rest
        return await self._ask(Written("create", resource, namespace, body.get("metadata", {}).get("name", ""), body))

    async def patch(
        self,
        resource: ApiResource,
        name: str,
        body: Object,
        *,
        namespace: str = "",
        type_: PatchType = PatchType.STRATEGIC,
        **rest: object,
    ) -> ApiAnswer:
        assert not rest
        return await self._ask(Written("patch", resource, namespace, name, body))

    async def _ask(self, written: Written) -> ApiAnswer:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.open is not None:
                await self.open.wait()
            self.written.append(written)
            answer = self.answers(written)
        finally:
            self.at_once -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer
