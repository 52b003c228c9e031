"""Starts attempts of placements: those of hubs (`hub_loops.judging.PlacementStarter`) and of clients."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from wharfinger.client.starts import TASK_TIMEOUT
from wharfinger.contracts.names import (
    SCHEDULE_PLACEMENT,
    SEARCH_PLACEMENT,
    placement_attribute,
    placement_queue,
    placement_workflow_id,
)
from wharfinger.contracts.placements import PlacementAttemptInput, StreamRevisions, placement_retry

PLACEMENT_KEY = SearchAttributeKey.for_keyword(SEARCH_PLACEMENT)
RPC_TIMEOUT = timedelta(seconds=5)
"""For one try; the caller tries again."""


class TemporalPlacements:
    """Attempts of one cluster's placements."""

    def __init__(self, client: Client, *, cluster: str) -> None:
        self._client = client
        self._cluster = cluster

    async def start(self, reference: str, seen: StreamRevisions, cause: str) -> None:
        """See `PlacementStarter.start`."""
        attribute = SearchAttributePair(PLACEMENT_KEY, placement_attribute(reference))
        await self._client.start_workflow(
            SCHEDULE_PLACEMENT,
            PlacementAttemptInput(placement=reference, seen=seen, cause=cause).model_dump(exclude_defaults=True),
            id=placement_workflow_id(self._cluster, reference),
            task_queue=placement_queue(self._cluster),
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            retry_policy=placement_retry(),
            task_timeout=TASK_TIMEOUT,
            search_attributes=TypedSearchAttributes([attribute]),
            static_summary=f"placement {reference}",
            static_details="Decides which member clusters the placement gets.",
            rpc_timeout=RPC_TIMEOUT,
        )
