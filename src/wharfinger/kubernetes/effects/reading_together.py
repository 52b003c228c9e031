"""Reads of copies and promises that are asked for at the same time, in few transactions.

A cohort whose bind is tried again asks for each of its promises, two hundred at once: one transaction each would cost
etcd and the worker more than the binds. `Adopter` reads so. Reads are linearizable, and none is older than its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from wharfinger.etcd.store import Get, KeyValue, Store

MOST = 64
"""Keys in one transaction."""


class _Asked(NamedTuple):
    keys: tuple[str, ...]
    answer: asyncio.Future[tuple[KeyValue | None, ...]]


class ReadingTogether:
    """Reads of one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: list[_Asked] = []
        self._reading: set[asyncio.Task[None]] = set()

    async def read(self, *keys: str) -> tuple[KeyValue | None, ...]:
        """What etcd has under these keys, at most `MOST` of them, at one revision. Raises `StoreError`."""
        answer: asyncio.Future[tuple[KeyValue | None, ...]] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(keys, answer))
        if len(self._asked) == 1:
            asyncio.get_running_loop().call_soon(self._begin)
        return await answer

    def _begin(self) -> None:
        """Everything that was asked for until the loop came round."""
        asked, self._asked = self._asked, []
        begin = size = 0
        for number, one in enumerate(asked):
            if number > begin and size + len(one.keys) > MOST:
                self._send(asked[begin:number])
                begin, size = number, 0
            size += len(one.keys)
        self._send(asked[begin:])

    def _send(self, asked: Sequence[_Asked]) -> None:
        task = asyncio.get_running_loop().create_task(self._read(asked))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read(self, asked: Sequence[_Asked]) -> None:
        waiting = [one for one in asked if not one.answer.done()]
        if not waiting:
            return
        try:
            reads = (await self._store.txn([], [Get(key) for one in waiting for key in one.keys])).reads
        except BaseException as error:  # those that wait must be answered, whatever it is
            for one in waiting:
                if not one.answer.done():
                    one.answer.set_exception(error) if isinstance(error, Exception) else one.answer.cancel()
            if not isinstance(error, Exception):
                raise
            return
        at = 0
        for one in waiting:
            if not one.answer.done():
                one.answer.set_result(tuple(reads[at : at + len(one.keys)]))
            at += len(one.keys)
