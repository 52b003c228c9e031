"""Clears one node of the pods that cannot stay: the node does not exist, or it has a NoExecute taint.

::

    look_at_node ── done ──────────────────────────────► completes: returned, cleared or settled
      ▲   │ └────── wait ── timer, `poke`, `returned` ─► looks again
      │   └──────── clear ► clear_node ── held ────────► waits until more nodes may be cleared, looks again
      │                       │  └─────── nothing done ► completes; a worker starts it again while there is need
      └───── some removed ────┘

There is one open run a node, and none at rest. The workers start it again until etcd shows that nothing is left to be
done, so a lost signal or run only costs time. Everything is read from etcd; the history only carries since when.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeKey

    from wharfinger.objects.model.texts import shortened
    from wharfinger.process.failures import parsed
    from wharfinger.process.names import NODE_EVICTION, SEARCH_OUTCOME
    from wharfinger.scheduling.contracts.node_eviction import (
        CLEAR_HEARTBEAT,
        CLEAR_TIMEOUT,
        LOOK_TIMEOUT,
        Cleared,
        ClearInput,
        Looked,
        LookInput,
        NodeEvictions,
        NodeInput,
        NodeResult,
    )
    from wharfinger.scheduling.contracts.scheduling import COMMIT_RETRY
    from wharfinger.workflows.bugs import BUGS

OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
SUMMARY_LIMIT = 120
"""Characters of a summary in the UI's event list (the server takes 400 bytes)."""
RETURNED_MEANWHILE = "returned-while-looking"
"""A look is repeated when the node returned before its answer came."""
LONGEST = 600.0
"""Seconds until it looks again by itself, because a signal may be lost."""


@workflow.defn(name=NODE_EVICTION, failure_exception_types=BUGS)
class NodeEviction:
    """One node. Input: `NodeInput`, or a mapping with `node`."""

    def __init__(self) -> None:
        self._signalled = False
        self._absent_since = 0.0
        self._tainted_since: dict[str, str] = {}
        self._was_absent = False
        self._returned = False
        """Whether the node was there again since it was looked at."""
        self._removed = 0

    @workflow.signal
    def poke(self) -> None:
        """The reconcile signal: the node, its taints or its pods have changed, so the run looks again."""
        self._signalled = True

    @workflow.signal
    def returned(self) -> None:
        """The node was there again: should it be absent now, the wait begins anew."""
        self._absent_since = 0.0
        self._was_absent = self._signalled = self._returned = True

    @workflow.run
    async def run(self, request: Any = None) -> NodeResult:
        """Look, wait and clear until nothing is left to be done."""
        given = parsed(NodeInput, request, "a mapping with the name of a node")
        self._absent_since, self._tainted_since, self._removed = given.absent_since, given.tainted_since, given.removed
        while True:
            looked = await self._look(given.node)
            if looked.action == "done":
                return self._result(looked, looked.why)
            if looked.action == "wait":
                await self._wait(looked.seconds, looked.why)
            elif looked.absent and self._returned and workflow.patched(RETURNED_MEANWHILE):
                continue  # the look was asked for before that
            else:
                cleared = await self._clear(given.node, looked)
                self._removed += cleared.removed
                notes = "; ".join(cleared.notes)
                if not (cleared.again or cleared.held or cleared.removed or cleared.made_anew):
                    return self._result(looked, notes or "no pod had to be removed")
                await self._wait(cleared.held, notes)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(
                    NodeInput(
                        node=given.node,
                        absent_since=self._absent_since,
                        tainted_since=self._tainted_since,
                        removed=self._removed,
                    )
                )

    async def _look(self, node: str) -> Looked:
        self._signalled = self._returned = False
        absent_for = workflow.time() - self._absent_since if self._absent_since else 0.0
        looked = await self._activity(
            NodeEvictions.look_at_node,
            LookInput(
                node=node,
                now=workflow.time(),
                absent_for=max(0.0, absent_for),
                tainted_since=self._tainted_since,
            ),
            timeout=LOOK_TIMEOUT,
            summary=f"node {node}",
        )
        assert isinstance(looked, Looked)
        self._tainted_since = looked.tainted_since
        self._was_absent = self._was_absent or looked.absent
        if not looked.absent:
            self._absent_since = 0.0
        elif not self._absent_since:
            self._absent_since = workflow.time()
        return looked

    async def _clear(self, node: str, looked: Looked) -> Cleared:
        cleared = await self._activity(
            NodeEvictions.clear_node,
            ClearInput(node=node, now=workflow.time(), absent=looked.absent, tainted_since=looked.tainted_since),
            timeout=CLEAR_TIMEOUT,
            heartbeat=CLEAR_HEARTBEAT,
            summary=looked.why,
        )
        assert isinstance(cleared, Cleared)
        return cleared

    async def _activity(
        self, method: Any, request: Any, *, timeout: timedelta, summary: str, heartbeat: timedelta | None = None
    ) -> Any:
        try:
            return await workflow.execute_activity_method(
                method,
                request,
                start_to_close_timeout=timeout,
                heartbeat_timeout=heartbeat,
                retry_policy=COMMIT_RETRY,
                summary=shortened(summary, SUMMARY_LIMIT),
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            raise

    async def _wait(self, seconds: float, why: str) -> None:
        """Wait for a signal, that long at most."""
        if seconds <= 0 or self._signalled:
            return
        workflow.set_current_details(f"Since {workflow.now():%Y-%m-%d %H:%M:%S} UTC: {why}")
        try:
            await workflow.wait_condition(
                lambda: self._signalled,
                timeout=timedelta(seconds=min(seconds, LONGEST)),
                timeout_summary=shortened(why, SUMMARY_LIMIT),
            )
        except TimeoutError:
            return

    def _result(self, looked: Looked, why: str) -> NodeResult:
        returned = self._was_absent and not looked.absent
        result = NodeResult(
            outcome="cleared" if self._removed else "returned" if returned else "settled",
            removed=self._removed,
            why=why,
        )
        workflow.upsert_search_attributes([OUTCOME_KEY.value_set(result.outcome)])
        workflow.set_current_details(f"{result.why}; {result.removed} pods were removed")
        return result
