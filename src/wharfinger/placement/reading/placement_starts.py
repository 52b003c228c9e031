"""Starts attempts and rollouts of placements: for hubs and for clients."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from wharfinger.placement.contracts.placement_rollouts import RolloutInput
from wharfinger.placement.contracts.placements import PlacementAttemptInput, StreamRevisions, placement_retry
from wharfinger.placement.contracts.update_runs import UpdateRunInput
from wharfinger.process.names import (
    ROLL_OUT_PLACEMENT,
    SCHEDULE_PLACEMENT,
    SEARCH_PLACEMENT,
    STAGED_UPDATE_RUN,
    placement_attribute,
    placement_queue,
    placement_rollout_id,
    placement_workflow_id,
    update_run_id,
)
from wharfinger.scheduling.effects.open_runs import RPC_TIMEOUT, TASK_TIMEOUT

PLACEMENT_KEY = SearchAttributeKey.for_keyword(SEARCH_PLACEMENT)


class TemporalPlacements:
    """Attempts and rollouts of one cluster's placements."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._client = client
        self._cluster = cluster

    async def start(self, reference: str, seen: StreamRevisions, cause: str) -> None:
        """Start an attempt, or join the open run. Raises `RPCError`, `TimeoutError`, `RuntimeError`."""
        await self._start(
            SCHEDULE_PLACEMENT,
            PlacementAttemptInput(placement=reference, seen=seen, cause=cause),
            placement_workflow_id(self._cluster, reference),
            "Decides which member clusters the placement gets.",
        )

    async def start_rollout(self, reference: str, seen: StreamRevisions, cause: str) -> None:
        """Start a rollout, or join the open run; raises as `start`."""
        await self._start(
            ROLL_OUT_PLACEMENT,
            RolloutInput(placement=reference, seen=seen, cause=cause),
            placement_rollout_id(self._cluster, reference),
            "Brings to member clusters what was decided, within the placement's budget.",
        )

    async def start_update_run(
        self, reference: str, run: str, identity: int, seen: StreamRevisions, cause: str
    ) -> None:
        """Start an update run, or join the open one; raises as `start`."""
        await self._start(
            STAGED_UPDATE_RUN,
            UpdateRunInput(placement=reference, run=run, identity=identity, seen=seen, cause=cause),
            update_run_id(self._cluster, reference, run, identity),
            f"Delivers one snapshot stage by stage, as update run {run} says.",
        )

    async def _start(
        self,
        workflow: str,
        given: PlacementAttemptInput | RolloutInput | UpdateRunInput,
        workflow_id: str,
        details: str,
    ) -> None:
        attribute = SearchAttributePair(PLACEMENT_KEY, placement_attribute(given.placement))
        await self._client.start_workflow(
            workflow,
            given.model_dump(exclude_defaults=True),
            id=workflow_id,
            task_queue=placement_queue(self._cluster),
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            retry_policy=placement_retry(),
            task_timeout=TASK_TIMEOUT,
            search_attributes=TypedSearchAttributes([attribute]),
            static_summary=f"placement {given.placement}",
            static_details=details,
            rpc_timeout=RPC_TIMEOUT,
        )
