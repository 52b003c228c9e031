"""Sending a transaction that binds pods, and what this worker may believe of them while it is out and afterwards.

From the moment a transaction is sent, only etcd ends the assumption of its pods: an answer that got lost is settled in
the background (`in_doubt`). What it compared and wrote is known once it is confirmed, together with the pods behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from wharfinger.cache.cache import Cache
from wharfinger.engine.pods import across_nodes
from wharfinger.engine.pods.commit import Commit, Transaction
from wharfinger.engine.pods.in_doubt import InDoubtResolver
from wharfinger.errors import RequestTooLarge, Unavailable
from wharfinger.registry.store import Store, TxnResult


class Committer:
    """Sends the transactions of one worker's binds."""

    def __init__(self, *, store: Store, cache: Cache, in_doubt: InDoubtResolver) -> None:
        self._store = store
        self._cache = cache
        self._in_doubt = in_doubt

    async def send(self, commits: Sequence[Commit], transaction: Transaction) -> TxnResult:
        """Bind the pods of these commits, whose transaction it is, or none of them.

        Where it did not happen the seats are kept, unsent; where it may never happen as it is (`RequestTooLarge`) too.
        Raises `StoreError`: of an `Unavailable` that may have happened the end is found out in the background.
        """
        for commit in commits:
            self._cache.assume_sent(commit.found.pod, commit.node.name)
        try:
            answer = await self._store.txn(transaction.conditions, transaction.writes, transaction.reads)
        except RequestTooLarge:
            self._unsend(commits)
            raise
        except Unavailable as error:
            if error.maybe_applied:
                self._settle(commits)
            else:
                self._forget(commits)
            raise
        except asyncio.CancelledError:
            self._settle(commits)
            raise
        except Exception:  # a refusal: nothing was written
            self._forget(commits)
            raise
        if not answer.succeeded:
            self._unsend(commits)
        return answer

    def happened(self, commits: Sequence[Commit], revision: int) -> None:
        """Our own commit: the versions it compared advance together with the pods behind them, never without."""
        for commit in commits:
            if commit.holds:  # the record that the watch shows takes the place of the assumption
                self._cache.settle(commit.found.pod.identity, revision)
        if self._cache.progress.revision >= revision:  # the watch has shown both already, and what came then
            return
        for commit in commits:
            pod, node_name = commit.found.pod, commit.node.name
            if commit.holds:
                self._cache.bindings.set(node_name, revision)
                continue
            self._cache.assume_sent(pod, node_name)
            self._cache.confirm(pod.identity, revision)
            self._cache.bindings.set(node_name, revision)
        ruled = [(commit.found.pod, commit.rules) for commit in commits if not commit.holds]
        across_nodes.advance(ruled, self._cache, revision)

    def _unsend(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            self._cache.assume(commit.found.pod, commit.node.name)

    def _settle(self, commits: Sequence[Commit]) -> None:
        self._in_doubt.begin([commit.found.pod.identity for commit in commits])

    def _forget(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            self._cache.forget(commit.found.pod.identity)
