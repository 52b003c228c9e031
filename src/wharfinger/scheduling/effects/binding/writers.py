"""What attempts need of a Kubernetes API that is the store, and what they are answered.

The protocols are implemented in `kubernetes.effects`: `promising`, `telling` and `evicting`. No attempt imports
them. `rehearse_gang` has all members of a gang tried by dry runs before the first one is bound for good.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from wharfinger.apiserver.events import EventReporter
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.failures import gather_to_end
from wharfinger.scheduling.contracts.promise_records import KnownObject
from wharfinger.scheduling.model.promises import Promise


class KeptKind(StrEnum):
    """What became of a promise."""

    KEPT = "kept"
    NOT_READY = "not ready"
    """Its volumes are not prepared yet, or plugins are to be called first."""
    GONE = "gone"
    """The pod does not exist any more, or is bound elsewhere."""
    CHANGED = "changed"
    """The pod is not bound, and is another one than was promised: place it anew."""
    REFUSED = "refused"
    FAILED = "failed"
    """The extender that binds the pod failed: its attempt fails, too."""


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """What became of a promise, and what the API says of the pod."""

    kind: KeptKind
    node: str = ""
    """Where the pod is bound; empty = nowhere."""
    message: str = ""
    """Why it is not bound, or what it waits for."""
    bound_by: str = ""
    """`<workflow id>@<run id>` of what bound it, if one did."""
    calls: tuple[str, ...] = ()
    """Of one that is not ready: the plugins that are to be called now, `PreBind/<plugin>`; empty = volumes first."""


class RehearsalKind(StrEnum):
    """What a dry run of a promise came to."""

    AGREED = "agreed"
    """The API would bind the pod."""
    SENT = "sent"
    """The pod is bound there already, by this very attempt."""
    REFUSED = "refused"
    NOT_OFFERED = "not offered"
    """An admission webhook does not support dry runs."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Whether the API would carry a promise out."""

    kind: RehearsalKind
    message: str = ""
    """Why not."""


class CopyKind(StrEnum):
    """How the copy of a pod compares with the pod in the API."""

    TRUE = "true"
    GONE = "gone"
    """There is no such pod: not of that name, or not with that uid."""
    OTHER = "other"
    """The API has something else, which was copied: look again."""


class ComparedCopy(NamedTuple):
    """What a read of the API has found."""

    kind: CopyKind
    object: Mapping[str, Any] = {}
    """The pod in the API; empty where it is gone."""


class PromiseKeeper(Protocol):
    """Sends promises to the API (`promising`). Every call raises `StoreError`, and what the API does not do."""

    async def keep(self, pod: PodKey, attempt: str = "", known: Promise | None = None) -> KeptPromise:
        """Send the pod's promise until it is settled."""
        ...

    async def agree(self, pod: PodKey, promise: Promise) -> bool:
        """The plugins that the promise waits for agree."""
        ...

    async def look(self, pod: PodKey, promise: Promise) -> KnownObject:
        """Take in what the API has of a promised pod."""
        ...

    async def give_up(self, pod: PodKey, why: str, told: str = "") -> KnownObject:
        """Give the pod's promise up; what etcd has afterwards."""
        ...

    async def may_be_sent(self, pod: PodKey, promise: Promise) -> bool:
        """Whether the promise may be sent now."""
        ...

    async def rehearse(self, pod: PodKey, attempt: str) -> Rehearsal:
        """Whether the API would carry the promise out, by a dry run."""
        ...


class AttemptTeller(Protocol):
    """Tells the API of attempts (`telling`). Only `clear_nomination` raises."""

    async def refused(
        self, pod: Pod, raw: bytes, *, reason: str, message: str, nominated: str | None, run: str
    ) -> bool:
        """Tell a refusal, or its nomination; whether the API has it now."""
        ...

    async def clear_nomination(self, pod: Pod, raw: bytes) -> str | None:
        """Clear a nomination: why the API refuses, empty when it was done, None = look again."""
        ...

    def events(self, pod: Pod, run: str, *, scheduler: str = "") -> EventReporter:
        """Report events about the pod in the background. `scheduler`: by which profile; default the pod's own."""
        ...


class ApiEvictions(Protocol):
    """Evicts pods from the API (`evicting`). Every call raises `UpstreamError` and `StoreError`."""

    async def compare(self, pod: Pod, raw: bytes) -> ComparedCopy:
        """Read the pod in the API, before anything is deleted there because of its copy."""
        ...

    async def may_preempt(self, preemptor: Pod, raw: bytes) -> bool:
        """Whether the API has the preemptor as its copy says, still waiting."""
        ...

    async def evict(self, victim: Pod, raw: bytes, *, scheduler: str, preemptor: str = "pod") -> bool:
        """Mark and delete a pod; whether it was done."""
        ...


class TornPolicy(StrEnum):
    """What happens to the bound members of a gang of which others went after their dry run."""

    KEEP = "Keep"
    """They stay; the gang's next attempt prefers their domain."""
    EVICT = "Evict"
    """They are deleted, so that the gang is placed anew as a whole."""


@dataclass(frozen=True, slots=True)
class ApiWriters:
    """Made once for a worker."""

    promises: PromiseKeeper
    teller: AttemptTeller
    evictions: ApiEvictions
    torn_gangs: TornPolicy = TornPolicy.KEEP


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
