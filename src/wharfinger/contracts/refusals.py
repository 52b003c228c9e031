"""From an attempt's refusal to what is asked of the activities that follow. Pure; the workflow's neighbour."""

from __future__ import annotations

from wharfinger.contracts.attempts import AttemptInput
from wharfinger.contracts.eviction import EvictInput
from wharfinger.contracts.scheduling import Placed, Recorded, RefusalInput, Refused, Rejected


def rejection(placed: Placed, rejected: Rejected) -> Refused:
    """A placement that can never be committed, as the refusal it is for the pod."""
    return Refused(
        uid=placed.uid,
        create_revision=placed.create_revision,
        pod_revision=placed.pod_revision,
        message=rejected.message,
        rejectors=(rejected.plugin,),
        computation=placed.computation,
    )


def refusal_input(
    pod: AttemptInput, refused: Refused, held: Placed | None, *, attempt: int, workflow_id: str, run_id: str
) -> RefusalInput:
    """What is kept of a refusal while the pod waits; `held`: the placement that was held, and then not permitted."""
    return RefusalInput(
        namespace=pod.namespace,
        name=pod.name,
        uid=refused.uid,
        create_revision=refused.create_revision,
        pod_revision=refused.pod_revision,
        attempt=attempt,
        message=refused.message,
        rejectors=refused.rejectors,
        revision=refused.computation.revision,
        nominated_node=refused.nominated_node,
        victims=refused.victims,
        victim_count=refused.victim_count,
        victims_digest=refused.victims_digest,
        reserved_node=held.node if held is not None else "",
        plugin_data=held.plugin_data if held is not None else {},
        workflow_id=workflow_id,
        run_id=run_id,
    )


def evict_input(
    pod: AttemptInput, refused: Refused, recorded: Recorded, *, workflow_id: str, run_id: str
) -> EvictInput:
    """Who has to leave, for the pod and the record that was just written."""
    return EvictInput(
        namespace=pod.namespace,
        name=pod.name,
        uid=refused.uid,
        create_revision=refused.create_revision,
        node=refused.nominated_node,
        victims=refused.victims,
        in_record=refused.victim_count > len(refused.victims),
        record_revision=recorded.revision,
        workflow_id=workflow_id,
        run_id=run_id,
    )


def victims_told(refused: Refused) -> str:
    """Who has to leave, for people."""
    more = refused.victim_count - len(refused.victims)
    return ", ".join(one.pod for one in refused.victims) + (f" and {more} more" if more > 0 else "")
