"""One request and its answer: rate limit, deadline, second try after a 401, and what the answer means.

This file implements the rules of `client.ApiClient` for errors. A write whose answer is lost may be applied:
`maybe_applied` is true from the moment at which its body is handed to the connection. It is false if the server
answered that it did nothing (429, a redirect), and for a dry run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from wharfinger.apiserver.client import JSON, ApiAnswer, ReadRefused
from wharfinger.apiserver.connection import ApiConnection, Broken
from wharfinger.apiserver.credentials import ApiClocks
from wharfinger.apiserver.kept_connections import RequestBody
from wharfinger.apiserver.pacing import OTHER, TokenBucket
from wharfinger.apiserver.whole_answers import WholeAnswer
from wharfinger.apiserver.wire import GONE, TOO_MANY_REQUESTS, UNAUTHORIZED, one_line, refusal, seconds_to_wait, success
from wharfinger.errors import HistoryGone, UpstreamDenied, UpstreamError, UpstreamUnavailable

ANSWER_LIMIT = 64 * 2**20
"""Bytes of one answer that is no watch; a page of 500 pods has about 2 MiB."""
WORDS = 300
"""Characters of the server's message in the text of an error."""

Observe = Callable[[str, int, float], None]
"""Given the method, the code (0 = no answer) and the seconds until the answer of each request."""


@dataclass(slots=True)
class ApiRequest:
    """A request, and whether its body was sent."""

    method: str
    path: str
    """With its query."""
    data: bytes | None = None
    type: str = JSON
    applies: bool = False
    """Whether it changes something when it is carried out."""
    cost: int = OTHER
    """In the bucket, while others wait."""
    content: RequestBody | None = None
    """The body of the last try."""

    @property
    def maybe_applied(self) -> bool:
        """Whether it may have been carried out, as long as no answer is known."""
        return self.applies and self.content is not None and self.content.sent


class Exchange:
    """Sends requests over a connection and decides what their answers mean."""

    def __init__(
        self,
        connection: ApiConnection,
        *,
        clocks: ApiClocks,
        observe: Observe | None,
        answer_limit: int = ANSWER_LIMIT,
    ) -> None:
        self._connection = connection
        self._clocks = clocks
        self._observe = observe
        self._limit = answer_limit

    async def send(self, request: ApiRequest, deadline: float, *, pace: TokenBucket | None) -> ApiAnswer:
        """The server's answer. `pace`: where a token is taken first. Raises `UpstreamUnavailable`, `UpstreamDenied`."""
        began = self._clocks.monotonic()
        try:
            async with asyncio.timeout(deadline):
                if pace is not None and not await pace.turn(deadline, request.cost):
                    raise Broken("more requests wait for our own limit (qps, burst) than its deadline allows")
                answer = await self._whole(request)
        except TimeoutError:
            reason = f"no answer within {deadline:g} s"
        except Broken as error:
            reason = str(error)
        else:
            self._note(request, answer.status, began)
            return self._decide(request, answer)
        self._note(request, 0, began)
        # outside the handlers: what they caught may carry headers
        raise UpstreamUnavailable(f"{self._named(request)}: {reason}", maybe_applied=request.maybe_applied)

    async def stream(self, request: ApiRequest, timeouts: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """An answer that goes on, at its first line.

        Raises `ReadRefused` or `HistoryGone` for a refusal, `UpstreamUnavailable` and `UpstreamDenied`.
        """
        began = self._clocks.monotonic()
        try:
            response = await self._open(request, timeouts)
            body = b"" if response.status == 200 else await self._connection.body(response, self._limit)
        except Broken as error:
            reason = str(error)
        else:
            self._note(request, response.status, began)
            if response.status == 200:
                return response
            answer = WholeAnswer(response.status, body, response.headers.get("Retry-After"))
            raise self.unread(request, self._decide(request, answer))
        self._note(request, 0, began)
        raise UpstreamUnavailable(f"{self._named(request)}: {reason}")

    def unread(self, request: ApiRequest, answer: ApiAnswer) -> UpstreamError:
        """The error for a list or a watch that the server refuses."""
        text = f"{self._named(request)}: refused with code {answer.code}: {one_line(answer.message, WORDS)}"
        return HistoryGone(text) if answer.code == GONE else ReadRefused(text, answer.code)

    async def _whole(self, request: ApiRequest) -> WholeAnswer:
        for again in (False, True):
            request.content = RequestBody(request.data, request.type) if request.data is not None else None
            answer = await self._connection.whole(request.method, request.path, request.content, self._limit)
            if answer.status != UNAUTHORIZED:
                return answer
            if not again:
                self._connection.refused()
        raise self._denied(request, answer.body)

    async def _open(self, request: ApiRequest, timeouts: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        response = await self._connection.open(request.method, request.path, timeout=timeouts)
        if response.status != UNAUTHORIZED:
            return response
        response.close()
        self._connection.refused()
        response = await self._connection.open(request.method, request.path, timeout=timeouts)
        if response.status != UNAUTHORIZED:
            return response
        raise self._denied(request, await self._connection.body(response, self._limit))

    def _denied(self, request: ApiRequest, body: bytes) -> UpstreamDenied:
        return UpstreamDenied(
            f"{self._named(request)}: the API server does not accept our credentials (401), also after they were read "
            f"again: {self._words(body)}; check the user of the kubeconfig"
        )

    def _decide(self, request: ApiRequest, given: WholeAnswer) -> ApiAnswer:
        code, body = given.status, given.body
        if 200 <= code < 300:
            try:
                return success(code, body)
            except ValueError:
                reason = f"code {code} and no JSON object: is this an API server?"
            raise UpstreamUnavailable(f"{self._named(request)}: {reason}", maybe_applied=request.maybe_applied)
        if 400 <= code < 500 and code != TOO_MANY_REQUESTS:
            answer = refusal(code, body)
            return ApiAnswer(code, None, answer.reason, self._connection.hide(answer.message))
        if 300 <= code < 400:
            text = f"{self._named(request)}: redirected with code {code}, which is not followed: correct its address"
            raise UpstreamUnavailable(text)
        raise UpstreamUnavailable(
            f"{self._named(request)}: code {code}: {self._words(body)}",
            maybe_applied=code != TOO_MANY_REQUESTS and request.maybe_applied,
            retry_after=seconds_to_wait(given.retry_after, self._clocks.now()),
        )

    def _words(self, body: bytes) -> str:
        return one_line(self._connection.hide(refusal(0, body).message), WORDS)

    def _named(self, request: ApiRequest) -> str:
        return f"{request.method} {request.path} at {self._connection.server}"

    def _note(self, request: ApiRequest, code: int, began: float) -> None:
        if self._observe is not None:
            self._observe(request.method, code, self._clocks.monotonic() - began)
