"""Plan a fleet: read it once, call the pure planner, check that the open rollout's workflow runs, set the gauges.

A request under an old epoch of the fleet is refused before anything is decided. Where a vital record cannot be read,
nothing is decided either: the activity fails with the name of the key to mend, and Temporal retries it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Set
from dataclasses import replace

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.errors import InvalidObject, Unavailable
from wharfinger.fleet.contracts.fleets import PlanInput, Planned
from wharfinger.fleet.deciding.planner import Asked, plan
from wharfinger.fleet.effects.fencing import fenced
from wharfinger.fleet.effects.writes import digest
from wharfinger.fleet.model.fleet import HOST_LOST, FleetSpec, Observed
from wharfinger.fleet.model.rollout import Drop, Plan, Retire, RolloutStatus, Up
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.objects.model.texts import shortened
from wharfinger.process.names import rollout_workflow_id
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

SHORTEST_SILENCE, LONGEST_SILENCE = 5.0, 30.0
"""Seconds for which a host's queue may be silent: an agent may just start again, and a slot should not wait long."""
SUMMARY_LIMIT = 200
"""Characters of the line for the Temporal UI."""


class Planning:
    """Plans fleets."""

    def __init__(
        self,
        view: FleetView,
        client: Client,
        *,
        cluster: str,
        lease_ttl: float,
        host_lost: float = HOST_LOST,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        """`lease_ttl`: of instances, in seconds; `host_lost`: as in `AgentSettings`; `clock`: monotonic."""
        self._view = view
        self._client = client
        self._cluster = cluster
        self._lease_ttl = lease_ttl
        self._host_lost = host_lost
        self.gauges = FleetGauges(metrics, clock)
        self._unreadable: dict[str, tuple[str, ...]] = {}

    async def plan(self, request: PlanInput, attempt: int = 1) -> Planned:
        """Read and decide; writes nothing. `attempt`: which try this is. Raises `Fenced`, and the store's errors."""
        tenant = request.tenant
        observed = await self._view.observe(tenant)
        self._report(tenant, observed)
        self.gauges.read(tenant, len(observed.unreadable))
        epoch = observed.actor.epoch if observed.actor is not None else 0
        if request.epoch and epoch != request.epoch:
            raise fenced(tenant, f"the epoch is {epoch}, and not {request.epoch}")
        if observed.blind:
            raise InvalidObject(f"nothing is decided until these are mended: {'; '.join(observed.unreadable)}")
        asked = Asked(
            request.role,
            tenant,
            request.generation,
            request.busy,
            self._lease_ttl,
            host_lost=self._host_lost,
            over=await self._over(request),
        )
        decided = plan(observed, request.memory, asked)
        if decided.ended:
            self.gauges.ended(tenant)
            self._unreadable.pop(tenant, None)
        else:
            self.gauges.planned(tenant, decided.writes.status)
        desired = observed.desired
        spec = (desired.spec if desired is not None else None) or decided.memory.spec or FleetSpec()
        rollout = await self._status(request.generation, request)
        return Planned(
            plan=with_new_status(decided, observed.status),
            read_at=observed.read_at,
            attempt=attempt,
            rollout_running=rollout is WorkflowExecutionStatus.RUNNING,
            rollout_failed=rollout is WorkflowExecutionStatus.FAILED,
            open_rollout=await self._acting_rollout(request, observed),
            actor_epoch=epoch,
            desired=desired.generation if desired is not None else 0,
            min_ready=spec.min_ready,
            drain_timeout=spec.drain_timeout,
            kill_timeout=spec.kill_timeout,
            host_silent=min(LONGEST_SILENCE, max(SHORTEST_SILENCE, self._host_lost / 2)),
            identity=desired.identity if desired is not None else 0,
            summary=told(decided),
            phase=decided.writes.status.phase if decided.writes.status is not None else "",
        )

    async def _status(self, generation: int, request: PlanInput) -> WorkflowExecutionStatus | None:
        """Of the workflow of a rollout; of interest to Fleet alone. None = there is none in Temporal."""
        if request.role != "fleet" or not generation:
            return None
        handle = self._client.get_workflow_handle(rollout_workflow_id(self._cluster, request.tenant, generation))
        try:
            return (await handle.describe()).status
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise Unavailable(f"Temporal did not return whether the rollout runs: {error.message}") from error

    async def _acting_rollout(self, request: PlanInput, observed: Observed) -> int:
        """The rollout that acts and runs, for a Fleet that was started anew and has none in memory."""
        if request.generation or request.epoch or observed.actor is None:
            return 0
        prefix = rollout_workflow_id(self._cluster, request.tenant, 0).removesuffix("0")
        generation = observed.actor.workflow_id.removeprefix(prefix)
        if not (observed.actor.workflow_id.startswith(prefix) and generation.isdecimal()):
            return 0
        running = await self._status(int(generation), request) is WorkflowExecutionStatus.RUNNING
        return int(generation) if running else 0

    async def _over(self, request: PlanInput) -> str:
        """Why the rollout that Fleet misses stays ended; empty where it is to be started again."""
        if request.generation:
            return ""
        match await self._status(request.memory.rollout, request):
            case WorkflowExecutionStatus.CANCELED:
                return "its workflow was cancelled"
            case WorkflowExecutionStatus.COMPLETED:
                return "its workflow ended without a report"
            case _:
                return ""

    def _report(self, tenant: str, observed: Observed) -> None:
        """Log the records that cannot be read; again only when they change."""
        if self._unreadable.get(tenant, ()) != observed.unreadable:
            self._unreadable[tenant] = observed.unreadable
            for line in observed.unreadable:
                log.warning("fleet_record_unreadable tenant=%s record=%r", tenant, line)


def with_new_status(decided: Plan, written: str) -> Plan:
    """The plan, without a status that is written already (its digest)."""
    status = decided.writes.status
    if status is None or digest(status) != written:
        return decided
    return replace(decided, writes=replace(decided.writes, status=None))


def told(decided: Plan) -> str:
    """One line of what a plan leads to."""
    parts = [sentence(step) for step in decided.steps]
    if decided.give_up:
        parts.append(f"gives up slots {', '.join(map(str, decided.give_up))}")
    if decided.writes.target is not None:
        parts.append(f"revision {decided.writes.target} is wanted")
    if decided.rollout:
        parts.append(f"starts rollout {decided.rollout}")
    if decided.done is not None:
        parts.append(decided.done)
    if decided.ended:
        parts.append("the fleet is gone")
    return shortened("; ".join(parts) or "nothing to do", SUMMARY_LIMIT)


def sentence(step: Up | Retire | Drop) -> str:
    """One step in words."""
    match step:
        case Up():
            return f"slot {step.slot}: up on {step.host} (revision {step.revision})"
        case Retire():
            return f"slot {step.slot}: drain incarnation {step.incarnation}"
        case Drop():
            return f"slot {step.slot}: drop incarnation {step.incarnation}"


ROLLOUT_STATES = ("running", "paused", "failed")


class FleetGauges:
    """Of the fleets that this agent plans."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        """`clock`: seconds, monotonic."""
        self._metrics = metrics
        self._clock = clock
        self._planned: dict[str, float] = {}
        self._known: set[str] = set()

    def read(self, tenant: str, unreadable: int) -> None:
        """A fleet was read, and so many records of it could not be."""
        self._known.add(tenant)
        self._metrics.fleet_unreadable.labels(tenant).set(unreadable)

    def planned(self, tenant: str, status: RolloutStatus | None) -> None:
        """A fleet was planned; `status`: what it is now, None = not told."""
        self._known.add(tenant)
        self._planned[tenant] = self._clock()
        metrics = self._metrics
        metrics.fleet_reconcile_age.labels(tenant).set_function(lambda: self._clock() - self._planned.get(tenant, 0.0))
        if status is None:
            return
        metrics.fleet_ready.labels(tenant).set(status.ready)
        metrics.fleet_wanted.labels(tenant).set(status.replicas)
        metrics.fleet_outdated.labels(tenant).set(max(0, status.ready - status.updated))
        for state in ROLLOUT_STATES:
            metrics.fleet_rollout.labels(tenant, state).set(status.rollout == state)

    def ended(self, tenant: str) -> None:
        """There is no such fleet any more."""
        self._known.discard(tenant)
        self._planned.pop(tenant, None)
        metrics = self._metrics
        gauges = (metrics.fleet_ready, metrics.fleet_wanted, metrics.fleet_outdated, metrics.fleet_unreadable)
        own = [(gauge, (tenant,)) for gauge in (*gauges, metrics.fleet_reconcile_age)]
        for gauge, labels in (*own, *((metrics.fleet_rollout, (tenant, state)) for state in ROLLOUT_STATES)):
            with contextlib.suppress(KeyError):  # it was never set
                gauge.remove(*labels)

    def only(self, tenants: Set[str]) -> None:
        """There are no other fleets: one that another agent saw ending is forgotten here, too."""
        for tenant in self._known - tenants:
            self.ended(tenant)
