"""Which binds this worker has on the way, and which the API has carried out: none of them is sent a second time.

A bind that takes longer than its activity may take is tried again while the first try still sends; and a promise stands
until its pod was copied, which is later than the API's answer. Without this, the second try would have each pod refused
as changed, and read. Only `promising` uses it. It is an economy: another worker, or this one after a restart, may send
any promise again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from wharfinger.apiserver.client import ApiAnswer
from wharfinger.scheduling.model.promises import Promise

REMEMBERED = 5_000
"""Binds that were carried out, the last ones. About 0.5 KB each."""
_Bind = tuple[str, int, str, str]


class SentOnce:
    """The binds of one worker."""

    def __init__(self) -> None:
        self._done: OrderedDict[_Bind, ApiAnswer] = OrderedDict()
        self._on_the_way: dict[_Bind, asyncio.Future[None]] = {}

    async def answer(self, promise: Promise, send: Callable[[], Awaitable[ApiAnswer]]) -> ApiAnswer:
        """The API's answer to a bind: that of an earlier try which it carried out, or what `send` brings now.

        Raises what `send` raises. Each caller sends for itself where a try that it has waited for came to nothing.
        """
        bind = (promise.uid, promise.revision, promise.node, promise.attempt)
        while (other := self._on_the_way.get(bind)) is not None:
            await asyncio.wait([other])
        if (known := self._done.get(bind)) is not None:
            return known
        ended = self._on_the_way[bind] = asyncio.get_running_loop().create_future()
        try:
            answer = await send()
        finally:
            del self._on_the_way[bind]
            ended.set_result(None)
        if answer.done:
            self._done[bind] = ApiAnswer(answer.code)
            if len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
        return answer
