"""A pod's seat on its way to etcd: the pod as it is now, and whether it may be bound to its node.

Nothing but asking etcd about pods and volumes is awaited here. What is answered of a seat is a value, its **verdict**:
the seat as it fits, or why its node does not do, or what ends it. A seat never changes; what happens makes another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from wharfinger.contracts.cohort_scheduling import Seat
from wharfinger.contracts.computation import Computation
from wharfinger.contracts.plugin_calls import NO_CALLS, PluginStep
from wharfinger.contracts.scheduling import Bound, Contended, Rejected
from wharfinger.engine.pods import across_nodes, volumes
from wharfinger.engine.pods.across_nodes import AcrossNodes
from wharfinger.engine.pods.bind.outcome import (
    BINDER,
    BindGroup,
    Failed,
    Outcome,
    ask_to_bind,
    identity,
    reference,
    rejected,
    tell_bound,
)
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import PodAnswer, StoredPod, no_profile
from wharfinger.engine.pods.extending import ALONE
from wharfinger.engine.pods.verification import LEANS
from wharfinger.engine.pods.volumes import NO_VOLUMES, VolumeWrites
from wharfinger.engine.transactions import Limits, Shape
from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, unschedulable
from wharfinger.model.pod import Pod, PodIdentity
from wharfinger.plugins.names import VOLUME_BINDING
from wharfinger.registry import keys
from wharfinger.registry.store import Get, KeyValue

MOVED_VOLUMES = "the volumes that were found for node {node} are not there any more"
BESIDE = 512
"""Bytes that a bind adds to a pod, about: node, attempt and condition; the versions that it rewrites; its promise."""


@dataclass(frozen=True, slots=True, eq=False)
class Seated:
    """A seat whose pod is still to be bound, and what happened to it so far."""

    number: int
    """Of the seat."""
    seat: Seat
    """As decided."""
    candidates: tuple[str, ...]
    """The node that is tried now, then the runners-up that were not tried yet."""
    found: StoredPod
    profile: Profile
    state: CycleState
    """What the placement's plugins carried for their binding points."""
    rules: AcrossNodes
    """Of the pod as it is now."""
    computation: Computation
    tenant: str
    """That the pod's label names; empty when it has none."""
    promised: bool
    """Whether a Kubernetes API is the store: then the transaction has a promise, too."""
    held: bool
    """Whether a room may be held for the pod, by an earlier transaction of this chain."""
    alone: bool
    """Whether it goes into transactions of its own."""
    hold: int = 0
    """Mod revision of the record by which this attempt holds it, where etcd itself is the store; 0 = it holds none."""
    volumes: VolumeWrites = NO_VOLUMES
    """What the bind compares and writes for the pod's volumes, as of its last verification."""
    steps: tuple[PluginStep, ...] = ()
    """Calls of asynchronous plugins that are due before the pod is bound, as of its last verification."""
    tries: int = 0
    """Transactions for the node that failed. Those of many in order count where its own pod, node or binding moved."""
    leaned: bool = False
    """Whether it was put off, because it relies on pods that are not bound yet."""
    notes: tuple[str, ...] = ()
    """For the explanation."""

    @property
    def identity(self) -> PodIdentity:
        """The very pod."""
        return self.found.pod.identity

    @property
    def node(self) -> str:
        """The node that is tried now."""
        return self.candidates[0]

    @property
    def shape(self) -> Shape:
        """What it adds to a transaction; of the keys that a `Commit` compares and writes."""
        pod = self.found.pod
        pod_key, binding = keys.pod(pod.namespace, pod.name), keys.binding(self.node)
        compares = [pod_key, keys.node(self.node), binding, *across_nodes.compared(pod, self.rules)]
        if self.tenant:
            compares.append(keys.tenant(self.tenant))
        writes = [pod_key, binding, *across_nodes.rewritten(pod, self.rules)]
        if not self.found.format.marks_pods:  # when a compare fails, it is read with what was compared
            record = keys.bound_by(pod.namespace, pod.name)
            compares.append(record)
            writes.append(record)
        if self.promised:
            compares.append(keys.ACTIVE)
            writes.append(keys.promise(pod.namespace, pod.name))
        for claim in pod.claims:  # at most one volume of each is chosen
            taken = [keys.claim(pod.namespace, claim.name), f"{keys.claim(pod.namespace, claim.name)}:volume"]
            compares += taken
            writes += taken
        if self.seat.recorded:
            writes.append(keys.attempt(pod.namespace, pod.name))
        if self.held:
            writes.append(keys.hold(pod.namespace, pod.name))
        return Shape(tuple(compares), tuple(writes), len(self.found.raw) + BESIDE)

    def noted(self, *texts: str) -> Seated:
        """With these for the explanation, each once."""
        new = tuple(text for text in texts if text not in self.notes)
        return replace(self, notes=(*self.notes, *new)) if new else self

    def next_node(self, why: str) -> Seated:
        """On its next runner-up; without candidates where there is none."""
        seat = self.noted(f"{self.node}: {why}")
        return replace(seat, candidates=self.candidates[1:], tries=0, leaned=False)


class NoRoom(NamedTuple):
    """The pod must not be bound to its node now."""

    why: str
    leans: bool = False  # whether it may be once pods are bound that it relies on


class Seats:
    """Finds and verifies the seats of one worker's binds."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._cache = core.pool.cache
        self._profiles = core.pool.profiles
        self._eligibility = core.eligibility
        self._verification = core.verification
        self._runners_up = core.settings.runners_up
        self._clock = core.process.clock
        self._tally = core.tally

    # --- the pod ------------------------------------------------------------------------------

    async def find(self, group: BindGroup) -> tuple[list[Seated], dict[int, Outcome]]:
        """All seats, with their pods as the watch showed them, or as etcd has them where the watch is not enough.

        So it is where an earlier transaction may have bound the pod already: were it assumed anew then, the seat that
        it perhaps has would seem free.
        """
        left: list[Seated] = []
        unknown: dict[int, Seated | None] = {}
        for number, seat in enumerate(group.request.seats):
            found = self._eligibility.from_cache(reference(seat))
            known = found is not None and not self._cache.is_sent(found.pod.identity) and not group.binder
            seated = self._with_pod(group, number, found) if found is not None and known else None
            if seated is None:
                unknown[number] = None
            else:
                left.append(seated)
        if not unknown:
            return left, {}
        seats, outcomes = await self.ask(group, unknown)
        return sorted([*left, *seats], key=lambda seated: seated.number), outcomes

    async def ask(
        self, group: BindGroup, unknown: Mapping[int, Seated | None]
    ) -> tuple[list[Seated], dict[int, Outcome]]:
        """Read these pods, by the numbers of their seats, which may be known: those that are still to be bound.

        Raises `StoreError`, once all reads have ended: one that went on would act on a pod that the retry of this bind
        may have sent.
        """
        answers = await self._eligibility.ask_many([reference(group.seat(number)) for number in unknown])
        found = {
            number: self.resolve(group, number, answer, known)
            for (number, known), answer in zip(unknown.items(), answers, strict=True)
        }
        return (
            [one for one in found.values() if isinstance(one, Seated)],
            {number: one for number, one in found.items() if not isinstance(one, Seated)},
        )

    def resolve(
        self, group: BindGroup, number: int, answer: PodAnswer, known: Seated | None = None
    ) -> Seated | Outcome:
        """The seat by what etcd holds of its pod; or its outcome: bound by this very chain, or gone."""
        seat, revision = group.seat(number), answer.revision
        found = self._eligibility.of_stored(reference(seat), answer.kv, revision, answer.bound_by)
        if isinstance(found, StoredPod):
            if known is not None:
                return self._taking(known, found)
            return self._with_pod(group, number, found) or no_profile(found.pod.scheduler_name)
        self._cache.settle(identity(seat), revision)
        by_chain = found.bound_by.rpartition("@")[0] == group.request.workflow_id
        by_plugin = bool(group.binder) and group.calls is not None and found.node == group.calls.node
        if found.reason == "bound" and (by_chain or by_plugin):
            if self._cache.upstream is None and group.binder:  # PostBind, once: this bind ends the plugin's
                self.tell_bound(group, number, None, found.node or "")
            # Where an earlier transaction only held the room, this attempt binds the pod.
            before = () if group.calls is not None and self._cache.upstream else ("committed by an earlier try",)
            notes = (f"bound by plugin {group.binder}",) if group.binder else before
            return Bound(node=found.node or "", revision=revision, notes=notes)
        if known is not None:
            self.undo(known)
        else:
            self.undo_unknown(group, number, None, group.calls.node if group.calls else seat.node)
        return found

    def _with_pod(self, group: BindGroup, number: int, found: StoredPod) -> Seated | None:
        """None where this worker has no profile for the pod."""
        calls, seat, pod = group.calls, group.seat(number), found.pod
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            return None
        others = seat.others if self._runners_up and group.policy.runners_up else ()
        # Plugins that were called have prepared one node, so no other one will do.
        candidates = (seat.node, *(name for name in others if name != seat.node)) if calls is None else (calls.node,)
        return Seated(
            number=number,
            seat=seat,
            candidates=candidates,
            found=found,
            profile=profile,
            state=group.state(number),
            rules=across_nodes.rules_of(pod, profile, self._cache.surroundings),
            computation=group.computation(number),
            tenant=self._eligibility.named_tenant(pod),
            promised=self._cache.upstream is not None,
            held=calls is not None or pod.key in self._cache.held_places,
            alone=group.policy.holds,
        )

    def refreshed(self, seated: Seated) -> Seated | None:
        """With the pod as the watch shows it now, if that is newer; None when etcd has to be asked about it."""
        known = self._eligibility.from_cache(reference(seated.seat))
        if known is not None and known.pod.mod_revision >= seated.found.pod.mod_revision:
            return self._taking(seated, known)
        read_at = max(seated.found.read_at, seated.found.pod.mod_revision)
        gone = self._eligibility.verdict(reference(seated.seat), seated.found.pod)
        if self._cache.progress.revision >= read_at or gone is not None:
            return None
        return self._taking(seated, seated.found)  # the watch has not shown yet what was read

    def _taking(self, seated: Seated, found: StoredPod) -> Seated:
        """With the pod as it is now, and its rules."""
        rules = across_nodes.rules_of(found.pod, seated.profile, self._cache.surroundings)
        if found.pod is seated.found.pod and rules == seated.rules:
            return seated
        return replace(seated, found=found, rules=rules, tenant=self._eligibility.named_tenant(found.pod))

    # --- its verdict --------------------------------------------------------------------------

    def fits(self, seated: Seated, together: Collection[PodIdentity] = ()) -> NoRoom | Failed | None:
        """Why the pod must not be bound there, with all that are assumed there; None when it may: it counts there.

        `together`: pods that are bound in the same transaction, or not at all; its rules may rely on them.
        """
        pod = seated.found.pod
        try:
            lost = self._verification.refusal(pod, seated.node, seated.computation, seated.rules, together)
        except PluginError as error:
            return Failed(error)
        if lost:
            return NoRoom(lost, leans=lost.startswith(LEANS))
        self._cache.assume_there(pod, seated.node)  # those that are verified next see it
        return None

    def fits_after(self, seated: Seated, surely: Snapshot, *, leaning: bool) -> NoRoom | Failed | None:
        """Why a pod with rules must not be bound after what is sure; None when it may: then it counts there.

        `leaning`: whether one before it relies on pods that are not bound yet: then it may do so, too.
        """
        pod = seated.found.pod
        try:
            lost = self._verification.refusal_after(pod, seated.node, seated.computation, surely)
            if not lost:
                self._cache.assume_there(pod, seated.node)
                return None
            if seated.rules.leans and not leaning:
                every = frozenset(one.identity for one in self._cache.assumed())
                leaning = not self._verification.refusal(pod, seated.node, seated.computation, seated.rules, every)
        except PluginError as error:
            return Failed(error)
        return NoRoom(f"{LEANS}: {lost}", leans=True) if leaning else NoRoom(lost)

    def agreed(self, group: BindGroup, seated: Seated, stored: Mapping[str, KeyValue]) -> Seated | Outcome:
        """PreBind and Bind, and the pod's volumes: the seat with what they want done first, or their refusal.

        `stored`: the volumes and claims that `read_volumes` has read.
        """
        pod = seated.found.pod
        try:
            steps = ask_to_bind(seated.profile, seated.state, pod, seated.node, group.calls or NO_CALLS)
        except PluginError as error:
            return Failed(error)
        if isinstance(steps, Status):
            return rejected(steps.plugin, steps.message)
        if steps and not group.policy.holds:  # the plugin was enabled after the group had been decided
            return Contended(message=ALONE)
        needed = self._volumes(seated, stored) if pod.claims else NO_VOLUMES
        if isinstance(needed, Status):
            return rejected(needed.plugin, needed.message)
        if steps == seated.steps and needed is seated.volumes:
            return seated
        return replace(seated, steps=steps, volumes=needed)

    def _volumes(self, seated: Seated, stored: Mapping[str, KeyValue]) -> VolumeWrites | Status:
        """Work out again which volumes the pod gets on its node, and what the bind has to do about them."""
        pod = seated.found.pod
        needed = volumes.needed(pod, seated.node, self._cache)
        moved = unschedulable(MOVED_VOLUMES.format(node=seated.node)).by(VOLUME_BINDING)
        if needed is None or self._cache.upstream is not None:
            return moved if needed is None else needed
        refused = volumes.refusal(needed.steps, seated.node)
        if refused is not None:
            return refused
        wanted = volumes.stored_keys(pod, needed.steps)
        return replace(needed, stored={key: stored[key] for key in wanted}) if stored.keys() >= set(wanted) else moved

    async def read_volumes(self, seats: Iterable[Seated], limits: Limits) -> Mapping[str, KeyValue]:
        """Read the volumes and claims that binds of these seats would write: only where etcd itself is the store.

        Raises `StoreError`.
        """
        wanted: dict[str, Get] = {}
        for seated in seats if self._cache.upstream is None else ():
            pod = seated.found.pod
            needed = volumes.needed(pod, seated.node, self._cache) if pod.claims else None
            if needed is not None:
                wanted.update((key, Get(key)) for key in volumes.stored_keys(pod, needed.steps))
        reads: dict[str, KeyValue] = {}
        all_of_them = list(wanted.values())
        for begin in range(0, len(all_of_them), limits.operations):
            answer = await self._store.txn([], all_of_them[begin : begin + limits.operations])
            reads.update((kv.key, kv) for kv in answer.reads if kv is not None)
        return reads

    # --- the end ------------------------------------------------------------------------------

    def give_up(self, seated: Seated) -> None:
        """No transaction of it is out, and its seat is free again."""
        self._cache.forget(seated.identity)
        if not seated.hold:  # else a late try of this bind may happen until the record is gone (`upstream`)
            self.undo(seated)

    def ended(self, seated: Seated, outcome: Outcome, *, failed: bool = False) -> Outcome:
        """Give it up with that outcome, and count it. `failed`: for an error and not by a rule, as the binder's are."""
        self.give_up(seated)
        if isinstance(outcome, Contended):
            self._tally.contended(seated.computation)
        elif failed or isinstance(outcome, Failed) or (isinstance(outcome, Rejected) and outcome.plugin == BINDER):
            self._tally.failed_at_bind(seated.profile.name, seated.computation)
        elif isinstance(outcome, Rejected):
            self._tally.refused_at_bind(seated.profile.name, seated.computation)
        return outcome

    def undo(self, seated: Seated) -> None:
        """Unreserve."""
        seated.profile.unreserve(seated.state, seated.found.pod, seated.seat.node)

    def undo_unknown(self, group: BindGroup, number: int, pod: Pod | None, node: str) -> None:
        """Unreserve for a pod that may be gone: the plugins get as much of it as is known."""
        profile = self._profiles.get(pod.scheduler_name if pod else group.computation(number).profile_name)
        if profile is not None:
            profile.unreserve(group.state(number), pod or self._known(group, number), node)

    def tell_bound(self, group: BindGroup, number: int, pod: Pod | None, node: str) -> None:
        """PostBind, and the metric, for a pod of a lone bind that was found bound."""
        computation = group.computation(number)
        profile = self._profiles.get(pod.scheduler_name if pod is not None else computation.profile_name)
        if profile is not None:
            tell_bound(profile, group.state(number), pod or self._known(group, number), node)
            self._tally.bound(profile.name, computation, self._clock() - group.began, 1)

    def _known(self, group: BindGroup, number: int) -> Pod:
        """As much of the pod as is known."""
        pod = self._cache.pods.get(group.key(number))
        return pod if pod is not None and pod.identity == identity(group.seat(number)) else group.pod(number)
