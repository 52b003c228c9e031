"""Attempts of one placement, as Temporal keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import SearchAttributeKey

from wharfinger.objects.model.texts import one_line
from wharfinger.placement.contracts.placements import PlacementAttemptResult
from wharfinger.process.names import SEARCH_OUTCOME, SEARCH_PLACEMENT, placement_attribute, placement_workflow_id
from wharfinger.process.search import quoted

OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
RPC_TIMEOUT = timedelta(seconds=5)
LONGEST = 300
"""Characters of what an attempt says."""


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


async def attempts(client: Client, cluster: str, reference: str, limit: int) -> list[PlacementAttempt]:
    """The newest attempts of a placement, the newest first. Raises `RPCError`."""
    workflow_id = placement_workflow_id(cluster, reference)
    query = f"{SEARCH_PLACEMENT} = {quoted(placement_attribute(reference))} AND WorkflowId = {quoted(workflow_id)}"
    return [await _read(client, run) async for run in client.list_workflows(query, limit=limit)]


async def _read(client: Client, run: WorkflowExecution) -> PlacementAttempt:
    outcome = run.typed_search_attributes.get(OUTCOME_KEY) or ""
    if run.status is WorkflowExecutionStatus.RUNNING:
        outcome = "running"
    handle = client.get_workflow_handle(run.id, run_id=run.run_id, result_type=PlacementAttemptResult)
    why = ""
    if run.status in (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.FAILED):
        try:
            result = await handle.result(follow_runs=False, rpc_timeout=RPC_TIMEOUT)
            why = result.why
        except WorkflowFailureError as error:
            why = str(error.cause)
    status = run.status.name.lower().replace("_", " ") if run.status is not None else ""
    started = run.start_time.isoformat(timespec="seconds").replace("+00:00", "Z")
    return PlacementAttempt(run.run_id, started, outcome or status, one_line(why, LONGEST))
