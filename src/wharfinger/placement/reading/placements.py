"""Placements, as a program sees them: what was decided and why, what would be, how they are delivered, and runs.

A placement is named by its reference: `cluster/<name>`, `ns/<namespace>/<name>`, or the name of a
ClusterResourcePlacement alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError
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
from wharfinger.placement.reading import placement_attempts
from wharfinger.placement.reading.observe_placements import DecidedAgain, reference_of
from wharfinger.placement.reading.placement_attempts import LONGEST, OUTCOME_KEY, RPC_TIMEOUT, PlacementAttempt
from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries
from wharfinger.placement.reading.placement_plans import Supposition
from wharfinger.placement.reading.placement_starts import TemporalPlacements
from wharfinger.placement.reading.supposed_placements import SupposedPlacement, supposed
from wharfinger.process.names import SEARCH_PLACEMENT, placement_attribute, placement_rollout_id, placement_workflow_id
from wharfinger.process.search import quoted


async def rollouts(client: Client, cluster: str, reference: str, limit: int) -> list[PlacementAttempt]:
    """The newest runs of rollouts of a placement, the newest first. Raises `RPCError`."""
    workflow_id = placement_rollout_id(cluster, reference)
    query = f"{SEARCH_PLACEMENT} = {quoted(placement_attribute(reference))} AND WorkflowId = {quoted(workflow_id)}"
    return [await _read(client, run) async for run in client.list_workflows(query, limit=limit)]


async def _read(client: Client, run: WorkflowExecution) -> PlacementAttempt:
    status = run.status.name.lower().replace("_", " ") if run.status is not None else ""
    outcome = run.typed_search_attributes.get(OUTCOME_KEY) or ""
    if run.status is not WorkflowExecutionStatus.COMPLETED:
        outcome = status if run.status is not WorkflowExecutionStatus.FAILED else outcome or status
    why = ""
    if run.status in (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.FAILED):
        handle = client.get_workflow_handle(run.id, run_id=run.run_id, result_type=RolloutResult)
        try:
            result = await handle.result(follow_runs=False, rpc_timeout=RPC_TIMEOUT)
            why = result.why
        except WorkflowFailureError as error:
            why = str(error.cause)
    started = run.start_time.isoformat(timespec="seconds").replace("+00:00", "Z")
    return PlacementAttempt(run.run_id, started, outcome or status, one_line(why, LONGEST))


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
        try:
            return await placement_attempts.attempts(self._client, self._cluster, reference_of(placement), limit)
        except RPCError as error:
            raise ServerError(f"Temporal did not answer: {error}") from error

    async def rollouts(self, placement: str, *, limit: int = 20) -> list[PlacementAttempt]:
        """The newest runs of rollouts, the newest first, as far as Temporal keeps them. Raises `ServerError`."""
        reference = reference_of(placement)
        try:
            return await rollouts(self._client, self._cluster, reference, limit)
        except RPCError as error:
            raise ServerError(f"Temporal did not answer: {error}") from error

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
