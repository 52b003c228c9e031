"""Whether the API would bind all members of a gang: dry runs of all of them, before the first one is sent for good."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from wharfinger.objects.model.pod import PodKey
from wharfinger.process.failures import gather_to_end
from wharfinger.scheduling.effects.binding.writers import PromiseKeeper, RehearsalKind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GangRehearsal:
    """What the dry runs of a gang came to."""

    refused: str = ""
    """Why the API would not bind one of them; empty when it would, or when it has bound one for an earlier try."""
    begun: bool = False
    """Whether the API has bound one of them for an earlier try: what was begun is completed."""
    unsupported: str = ""
    """Why no dry run could be made: an admission webhook does not support it. Then the gang goes on without."""


async def rehearse_gang(promises: PromiseKeeper, pods: Sequence[PodKey], attempt: str) -> GangRehearsal:
    """Ask for all of them. `attempt`: whose promises they are, `<workflow id>@` at least. Raises as `PromiseKeeper`."""
    rehearsals = await gather_to_end(promises.rehearse(pod, attempt) for pod in pods)
    kinds = {one.kind for one in rehearsals}
    if RehearsalKind.SENT in kinds:
        return GangRehearsal(begun=True)
    for pod, one in zip(pods, rehearsals, strict=True):
        if one.kind is RehearsalKind.REFUSED:
            return GangRehearsal(refused=f"pod {pod}: {one.message}")
    unsupported = next((one.message for one in rehearsals if one.kind is RehearsalKind.NOT_OFFERED), "")
    if unsupported:
        log.warning("gang_without_dry_run attempt=%s answer=%r", attempt, unsupported)
    return GangRehearsal(unsupported=unsupported)
