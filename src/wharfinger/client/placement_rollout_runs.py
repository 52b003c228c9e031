"""Runs of one placement's rollouts, as Temporal keeps them."""

from __future__ import annotations

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError

from wharfinger.contracts.names import SEARCH_PLACEMENT, placement_attribute, placement_rollout_id
from wharfinger.contracts.placement_rollouts import RolloutResult
from wharfinger.contracts.search import quoted
from wharfinger.model.texts import one_line
from wharfinger.observe.placement_attempts import LONGEST, OUTCOME_KEY, RPC_TIMEOUT, PlacementAttempt


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
