"""Decides as the engine does, but takes from the record what was answered from outside: Reserve and Permit.

No plugin's Reserve or Permit is called again, because that would have effects. `observe.remaking` and replay decide
with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.contracts.computation import LateVerdict
from wharfinger.contracts.scheduling import PermitWait
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.deciding import Decider
from wharfinger.engine.pods.finding import Finder
from wharfinger.engine.pods.groups import Late, Policy
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import Code, Status
from wharfinger.model.pod import Pod, PodKey


class RecordedVerdicts(Decider):
    """Decides as the engine does, with what Reserve and Permit were recorded to say."""

    def __init__(self, core: Core, finder: Finder) -> None:
        super().__init__(core, finder)
        self.late: Mapping[PodKey, tuple[LateVerdict, str]] = {}
        """By pod, who refused its node, and the message."""
        self.waits: Mapping[PodKey, tuple[str, PermitWait]] = {}
        """By pod, on which node it was held."""

    def reserve(
        self,
        pod: Pod,
        profile: Profile,  # noqa: ARG002 - nobody is asked
        evaluation: Evaluation,  # noqa: ARG002
        node: str,
        policy: Policy,  # noqa: ARG002
    ) -> PermitWait | Late | None:
        """What was recorded for this node; a node that nobody was asked about is taken to be allowed."""
        held, verdict = self.waits.get(pod.key), self.late.get(pod.key)
        if held is not None and held[0] == node:
            return held[1]
        if verdict is None or verdict[0].node != node:
            return None
        said, message = verdict
        code = Code.WAIT if said.wait else Code.UNSCHEDULABLE
        return Late(Status(code, (message,) if message else (), said.plugin), said)
