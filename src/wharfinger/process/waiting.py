"""Waits for a goal: everything is read again after each change that a watch of etcd reports, also after an outage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from wharfinger.errors import Compacted, Unavailable
from wharfinger.etcd.store import Store
from wharfinger.process.following import KeyWatch

READ_AGAIN = 10.0
"""Seconds after which everything is read again though no change was seen."""
APART = 0.5
"""Seconds between two readings, at least."""
LAST_LOOK = 2.0
"""Seconds that a reading may take though the time is over."""
UNANSWERED = "etcd has not answered"

Opening = Callable[[float], AbstractAsyncContextManager[Store]]
"""Opens the store within so many seconds, or raises `Unavailable`; called again after an outage."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a goal is reached, with a sentence."""

    kind: Literal["reached", "failed", "waiting"]
    """`failed`: it cannot be reached any more."""
    why: str

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.kind == "reached"


def opened(store: Store) -> Opening:
    """A store that is open already, and stays so."""
    return lambda _: nullcontext(store)


async def wait_until(
    opening: Opening,
    watch: Callable[[Store], AbstractAsyncContextManager[KeyWatch]],
    look: Callable[[Store], Awaitable[Verdict]],
    seconds: float,
    *,
    apart: float = APART,
    say: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Look until it is reached, cannot be reached any more, or the time is over: then the verdict is `waiting`.

    `watch`: watches the keys whose changes let it look again. `say` gets what is waited for, once for each new
    sentence, and why etcd does not answer, once for each outage. Where etcd answers, it looks at least once. A time
    that is over in an outage ends with why etcd does not answer, and what was seen before. Raises what `look` raises,
    but for `Unavailable` and `Compacted`.
    """
    deadline = time.monotonic() + seconds
    verdict: Verdict | None = None
    said, away = "", False
    while True:
        try:
            within = max(deadline - time.monotonic(), LAST_LOOK)
            async with opening(within) as store, watch(store) as seen:
                while True:
                    async with asyncio.timeout(max(deadline - time.monotonic(), LAST_LOOK)):
                        verdict = await look(store)
                    away, left = False, deadline - time.monotonic()
                    if verdict.kind != "waiting" or left <= 0:
                        return verdict
                    if verdict.why != said:
                        said = verdict.why
                        say(said)
                    await seen.changed(min(left, READ_AGAIN))
                    await asyncio.sleep(max(0.0, min(apart, deadline - time.monotonic())))
        except (Unavailable, Compacted, TimeoutError) as error:
            left, why = deadline - time.monotonic(), str(error) or UNANSWERED
            if left <= 0:
                return Verdict("waiting", why if verdict is None else f"{why}; before: {verdict.why}")
            if not away and isinstance(error, Unavailable):
                away, said = True, why
                say(why)
            await asyncio.sleep(min(left, apart))
