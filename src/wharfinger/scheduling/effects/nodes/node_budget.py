"""How many nodes may be cleared of their pods at a time: a record in etcd that all workers share by compare-and-set.

At most a tenth of the nodes, present and lost, is admitted within the window. A network split makes many nodes look
lost at once; their pods still run there, so a scheduler that trusted that sight would double the load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime

from pydantic import ValidationError

from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, KeyValue, Put, Store
from wharfinger.objects.model.node_evictions import Admission, admission, recently
from wharfinger.process.records import NodeBudgetRecord

log = logging.getLogger(__name__)

TRIES = 10
"""Compare-and-sets; each fails only because another worker admitted a node in between."""
PAUSE = 0.02
"""Seconds of the first pause between two of them; each is that much longer than the one before."""


class NodeBudget:
    """Admits nodes."""

    def __init__(
        self, store: Store, *, window: float, known: Callable[[Iterable[str]], int], utc_now: Callable[[], datetime]
    ) -> None:
        """`window` in seconds; `known`: the number of nodes, present and lost, and the given ones."""
        self._store = store
        self._window = window
        self._known = known
        self._utc_now = utc_now
        self._turn = asyncio.Lock()
        """Many nodes ask at once when many are lost; one process then need not contend with itself."""

    async def admit(self, node: str) -> Admission:
        """Admit the node, or say when to ask again. Safe to run again: an admitted node stays so in the window.

        Raises `StoreError`; so it does where others write all the time, and Temporal tries it again.
        """
        async with self._turn:
            for number in range(TRIES):
                await asyncio.sleep(PAUSE * number)
                kv = (await self._store.get(keys.NODE_BUDGET)).kv
                now = self._utc_now().timestamp()
                recent = recently(_admitted(kv), now=now, window=self._window)
                found = admission(recent, node, now=now, window=self._window, known=self._known(recent))
                if found.wait:
                    return found
                record = NodeBudgetRecord(admitted=dict(found.admitted))
                compares = [Compare(keys.NODE_BUDGET, "mod", kv.mod_revision if kv is not None else 0)]
                if (await self._store.txn(compares, [Put(keys.NODE_BUDGET, record.to_bytes())])).succeeded:
                    return found
            raise Unavailable(f"others changed {keys.NODE_BUDGET} {TRIES} times in a row")


def _admitted(kv: KeyValue | None) -> dict[str, float]:
    if kv is None:
        return {}
    try:
        return NodeBudgetRecord.model_validate_json(kv.value).admitted
    except ValidationError:
        log.warning("node_budget_unreadable key=%s effect=starts_anew", keys.NODE_BUDGET)
        return {}
