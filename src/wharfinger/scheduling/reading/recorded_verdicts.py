"""Decides as the engine does, but takes from the record what was answered from outside: Reserve, Permit and the time.

No plugin's Reserve or Permit is called again, because that would have effects. `reading.remaking` and replay decide
with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from wharfinger.etcd.store import Store
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import Code, Status
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany, Seat, TurnedAway
from wharfinger.scheduling.contracts.computation import Computation, LateVerdict
from wharfinger.scheduling.contracts.scheduling import PermitWait, Placed, Refused
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.placing.deciding import Chosen, Decider, Denied, Late, Policy
from wharfinger.scheduling.effects.placing.placing_lone import LonePlacements
from wharfinger.scheduling.reading.comparing import Compared
from wharfinger.scheduling.state.pool import Identity, Pool
from wharfinger.settings import BindSettings
from wharfinger.telemetry import Metrics

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class RecordedVerdicts(Decider):
    """Decides as the engine does, with what Reserve and Permit were recorded to say."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.late: Mapping[PodKey, tuple[LateVerdict, str]] = {}
        """By pod, who refused its node, and the message."""
        self.waits: Mapping[PodKey, tuple[str, PermitWait]] = {}
        """By pod, on which node it was held."""
        self.evaluation: Evaluation | None = None
        """What was found out about the nodes for the last pod that came so far."""

    def recall(self, key: PodKey, recorded: Placed | Refused) -> None:
        """Take over what was recorded of a lone pod."""
        if isinstance(recorded, Refused):
            self._refuse(key, recorded.late, recorded.message)
        elif recorded.permit is not None:
            self.waits = {key: (recorded.node, recorded.permit)}

    def recall_member(self, recorded: Seat | TurnedAway, many: PlacedMany) -> None:
        """Take over what was recorded of a pod that was decided with others."""
        if isinstance(recorded, TurnedAway):
            message = many.reasons[recorded.reasons].message
            self._refuse(PodKey(recorded.namespace, recorded.name), recorded.late, message)

    def recall_gang(self, many: PlacedMany) -> None:
        """Take over what was recorded of a gang: the last verdict."""
        for one in many.turned_away:
            if one.late is not None:
                self.recall_member(one, many)

    def _refuse(self, key: PodKey, late: LateVerdict | None, message: str) -> None:
        self.late = {key: (late, message)} if late is not None else {}

    def conclude(
        self, pod: Pod, profile: Profile, evaluation: Evaluation, policy: Policy, taken: Collection[PodIdentity] = ()
    ) -> Chosen | Denied:
        """As the engine does."""
        self.evaluation = evaluation
        return super().conclude(pod, profile, evaluation, policy, taken)

    def reserve(
        self,
        pod: Pod,
        profile: Profile,  # noqa: ARG002 - no plugin is asked
        evaluation: Evaluation,  # noqa: ARG002
        node: str,
        policy: Policy,  # noqa: ARG002
    ) -> PermitWait | Late | None:
        """What was recorded for this node; a node that no plugin was asked about counts as allowed."""
        held, verdict = self.waits.get(pod.key), self.late.get(pod.key)
        if held is not None and held[0] == node:
            return held[1]
        if verdict is None or verdict[0].node != node:
            return None
        said, message = verdict
        code = Code.WAIT if said.wait else Code.UNSCHEDULABLE
        return Late(Status(code, (message,) if message else (), said.plugin), said)


@dataclass(frozen=True, slots=True)
class _Nowhere:
    """Stands for the store: nothing is read or written when a decision is made, only its format counts."""

    format: ClusterFormat


class RecordedEngine:
    """The engine's own code that decides, on a cache of the past, as a worker had it."""

    def __init__(
        self, pool: Pool, format_: ClusterFormat, identity: Identity, limits: Limits, metrics: Metrics | None = None
    ) -> None:
        """`limits`: of etcd's transactions; larger gangs are refused."""
        self.pool = pool
        self._now = _NEVER
        store, metrics = cast("Store", _Nowhere(format_)), metrics or Metrics()
        process = ProcessParts(store, metrics, clock=lambda: 0.0, utc_now=lambda: self._now)
        self.decider = RecordedVerdicts(Core(process, pool, identity, BindSettings(), limits))
        self.lone = LonePlacements(self.decider)

    def resume(self, computation: Computation, members: Iterable[str] = ()) -> None:
        """Be as the worker was when it decided, but for its cache. `members`: the workers that shared the nodes."""
        self._now = datetime.fromisoformat(computation.clock) if computation.clock else _NEVER
        self.decider.start = computation.start
        self.decider.late, self.decider.waits = {}, {}
        own, shared, preferred = computation.own_nodes, tuple(members), self.pool.preferred_nodes
        preferred.margin = own.margin if own is not None and shared else 0
        if own is not None and shared and (preferred.members, preferred.me) != (shared, own.me):
            preferred.share(shared, own.me)


def rejectors(recorded: Placed | Refused | Seat | TurnedAway, many: PlacedMany | None = None) -> tuple[str, ...]:
    """The plugins that refused, where no verdict of Reserve or Permit is recorded; empty for a placement."""
    if isinstance(recorded, Refused):
        return recorded.rejectors if recorded.late is None else ()
    if isinstance(recorded, TurnedAway) and many is not None:
        anyone = any(one.late is not None for one in many.turned_away)
        return many.reasons[recorded.reasons].rejectors if not anyone else ()
    return ()


def unrecorded(
    recorded: Computation, clock: str, compared: Compared, profile: Profile, refusing: tuple[str, ...]
) -> str:
    """What an earlier release did not record, so that a difference may come from it: `verdict`, `clock`, or nothing.

    `clock`: the time that was read when it was decided again; `refusing`: as of `rejectors`.
    """
    if not compared.differs or recorded.number:
        return ""
    late = {*profile.at.get("reserve", ()), *profile.at.get("permit", ())}
    if refusing and late.issuperset(refusing):
        return "verdict"
    return "clock" if clock and not recorded.clock else ""
