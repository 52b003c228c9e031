"""Placements, as a program sees them: what was decided and why, what would be, how they are delivered, and runs.

A placement is named by its reference: `cluster/<name>`, `ns/<namespace>/<name>`, or the name of a
ClusterResourcePlacement alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError

from wharfinger.errors import NotFound, ServerError, WharfingerError
from wharfinger.etcd.store import Store
from wharfinger.objects.documents import documents
from wharfinger.objects.model.texts import one_line
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DecisionRecord
from wharfinger.placement.contracts.placement_rollouts import RolloutResult
from wharfinger.placement.contracts.placements import PlacementAttemptResult, StreamRevisions
from wharfinger.placement.reading import observe_placements as placements
from wharfinger.placement.reading.observe_placements import DecidedAgain, reference_of
from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries
from wharfinger.placement.reading.placement_plans import SupposedPlacement, Supposition, supposed
from wharfinger.placement.reading.placement_starts import TemporalPlacements
from wharfinger.process.names import (
    SEARCH_OUTCOME,
    SEARCH_PLACEMENT,
    placement_attribute,
    placement_rollout_id,
    placement_workflow_id,
    quoted,
)

OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
RPC_TIMEOUT = timedelta(seconds=5)
LONGEST = 300
"""Characters of what an attempt says."""
_ENDED = frozenset({WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.FAILED})
_CLOSED = frozenset(WorkflowExecutionStatus) - {WorkflowExecutionStatus.RUNNING}


@dataclass(frozen=True, slots=True)
class PlacementAttempt:
    """One run."""

    run_id: str
    time: str
    """RFC 3339, UTC, of its start."""
    outcome: str
    why: str

    def mapping(self) -> dict[str, str]:
        """As printed for programs."""
        return {"run": self.run_id, "time": self.time, "outcome": self.outcome, "why": self.why}


@dataclass(frozen=True, slots=True)
class PlacementExplanation:
    """A stored decision, and whether it would be made again."""

    record: DecisionRecord
    """`record.decision` names who was chosen, and has a verdict on everybody else."""
    again: DecidedAgain


class Placements(PlacementDeliveries):
    """The placements of a cluster; `Wharfinger.placements`."""

    def __init__(self, client: Client, store: Store, *, cluster: str, who: str = "") -> None:
        super().__init__(store, who=who)
        self._client = client
        self._cluster = cluster

    async def decide(self, placement: str, *, timeout: float | None = None) -> PlacementAttemptResult:
        """Have a placement decided, and wait for it: starts an attempt, or joins the open one.

        `timeout` (seconds, None = for ever) ends the wait with `TimeoutError`, not the attempt. Raises `UsageError`,
        `NotFound`, `WharfingerError` when the attempts ended without an outcome, and `ServerError`.
        """
        reference = reference_of(placement)
        kv = (await self._store.get(placement_keys.placement(reference))).kv
        if kv is None:
            raise NotFound(f"there is no placement {reference}")
        seen = StreamRevisions(objects=kv.mod_revision)
        try:
            await TemporalPlacements(self._client, cluster=self._cluster).start(
                reference, seen, "asked for by a client"
            )
            handle = self._client.get_workflow_handle(
                placement_workflow_id(self._cluster, reference), result_type=PlacementAttemptResult
            )
            async with asyncio.timeout(timeout):
                result: PlacementAttemptResult = await handle.result()
                return result
        except WorkflowFailureError as error:
            raise WharfingerError(f"placement {reference} was not decided: {error.cause}") from error
        except RPCError as error:
            raise ServerError(f"Temporal did not start an attempt of placement {reference}: {error}") from error

    async def decision(self, placement: str) -> DecisionRecord:
        """The stored decision. Raises `UsageError`, `NotFound`, and the store's errors."""
        return await placements.record_of(self._store, reference_of(placement))

    async def explain(self, placement: str) -> PlacementExplanation:
        """The stored decision, made again from what it was made from and compared. Raises as `decision` does."""
        record = await self.decision(placement)
        again = await placements.decided_again(self._store, reference_of(placement), record)
        return PlacementExplanation(record, again)

    async def attempts(self, placement: str, *, limit: int = 20) -> list[PlacementAttempt]:
        """The newest attempts, the newest first, as far as Temporal keeps them. Raises `ServerError`."""
        reference = reference_of(placement)
        workflow_id = placement_workflow_id(self._cluster, reference)
        return await self._runs(reference, workflow_id, PlacementAttemptResult, _CLOSED, limit)

    async def rollouts(self, placement: str, *, limit: int = 20) -> list[PlacementAttempt]:
        """The newest runs of rollouts, the newest first, as far as Temporal keeps them. Raises `ServerError`."""
        reference = reference_of(placement)
        workflow_id = placement_rollout_id(self._cluster, reference)
        return await self._runs(reference, workflow_id, RolloutResult, _ENDED, limit)

    async def _runs(
        self,
        reference: str,
        workflow_id: str,
        result_type: type[PlacementAttemptResult | RolloutResult],
        by_outcome: Container[WorkflowExecutionStatus | None],
        limit: int,
    ) -> list[PlacementAttempt]:
        """The newest runs; `by_outcome`: statuses of those whose recorded outcome is shown instead of the status."""
        query = f"{SEARCH_PLACEMENT} = {quoted(placement_attribute(reference))} AND WorkflowId = {quoted(workflow_id)}"
        try:
            return [
                await self._run(run, result_type, shows_outcome=run.status in by_outcome)
                async for run in self._client.list_workflows(query, limit=limit)
            ]
        except RPCError as error:
            raise ServerError(f"Temporal did not answer: {error}") from error

    async def _run(
        self, run: WorkflowExecution, result_type: type[PlacementAttemptResult | RolloutResult], *, shows_outcome: bool
    ) -> PlacementAttempt:
        why = ""
        if run.status in _ENDED:
            handle = self._client.get_workflow_handle(run.id, run_id=run.run_id, result_type=result_type)
            try:
                why = (await handle.result(follow_runs=False, rpc_timeout=RPC_TIMEOUT)).why
            except WorkflowFailureError as error:
                why = str(error.cause)
        outcome = run.typed_search_attributes.get(OUTCOME_KEY) if shows_outcome else None
        status = run.status.name.lower().replace("_", " ") if run.status is not None else ""
        started = run.start_time.isoformat(timespec="seconds").replace("+00:00", "Z")
        return PlacementAttempt(run.run_id, started, outcome or status, one_line(why, LONGEST))

    async def plan(
        self, objects: Iterable[Mapping[str, Any]] = (), *, leave: Iterable[str] = (), drain: Iterable[str] = ()
    ) -> list[SupposedPlacement]:
        """Which placements would get other members; nothing is changed.

        Args:
            objects: placements and members as they would be; new members are taken to be online.
            leave: names of members that would leave.
            drain: names of members that would be drained.

        Raises `UsageError` for objects that are not valid, `NotFound` for unknown members, and the store's errors.
        """
        view = await placements.read_all(self._store)
        supposition = Supposition(view)
        for number, obj in enumerate(objects):
            supposition.suppose_file(f"object {number}", documents.to_json(obj))
        for name in leave:
            supposition.suppose_leaving(name)
        for name in drain:
            supposition.suppose_drain(name, "drain")
        return supposed(view)
