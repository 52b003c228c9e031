"""Whether a pod may be bound to its node: the pod as it is now, and its verdict.

Nothing but asking etcd about pods and volumes is awaited here. A seat never changes; what happens makes another one.
Its **verdict** is a value: its commit where it fits, or why its node does not do, or what ends it.

::

    seats without rules across nodes   each among all pods that are assumed there
    seats with rules                   each after what is sure: facts, this worker's binds that have happened, and the
                                       seats before it in its transaction
    a gang                             each among all the others: members may rely on each other

What a verdict compares is known at one moment. It has the version of every namespace that one of its rules looks at, so
rules hold at every revision, whichever worker binds.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wharfinger.errors import InvalidObject, PluginError
from wharfinger.etcd.store import KeyValue
from wharfinger.framework.domain import terms_of
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodIdentity
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts.plugin_calls import NO_CALLS
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, Rejected
from wharfinger.scheduling.effects.binding import across_nodes, volumes
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodAnswer, StoredPod, no_profile
from wharfinger.scheduling.effects.binding.outcome import (
    BINDER,
    BindGroup,
    Done,
    Failed,
    NoRoom,
    Outcome,
    Outcomes,
    PendingBind,
    SendingLane,
    Stamp,
    identity,
    reference,
    rejected,
)
from wharfinger.scheduling.effects.binding.transaction import Commit
from wharfinger.scheduling.effects.binding.verification import LEANS, ask_to_bind, post_bind
from wharfinger.scheduling.effects.binding.volumes import NO_VOLUMES
from wharfinger.scheduling.effects.placing.extenders import ALONE
from wharfinger.scheduling.model.promises import Promise

Verdict = Commit | NoRoom | Outcome


class SendAgain(NamedTuple):
    """A seat is sent next."""

    seat: PendingBind


class Later(NamedTuple):
    """It goes in the next round: alone, on another node, or behind those that it relies on."""

    seat: PendingBind


class Ask(NamedTuple):
    """Etcd has to be asked about its pod."""

    seat: PendingBind


Step = Done | SendAgain | Later | Ask


@dataclass(frozen=True, slots=True)
class BindProgress:
    """How far a bind is: a fold over the steps of its seats."""

    outcomes: Outcomes
    limits: Limits
    later: tuple[PendingBind, ...] = ()
    """Seats that are left for the next round; those without candidates for none."""
    unknown: tuple[PendingBind, ...] = ()
    """Seats about whose pods etcd has to be asked."""
    adopted: Mapping[str, Node] = field(default_factory=dict)
    """Nodes at newer revisions that mean the same (heart-beats), by name."""
    promised: Mapping[int, Promise] = field(default_factory=dict)
    """Promises that this bind has put, by the number of the seat."""
    revision: int = 0
    """Of the newest of its transactions that succeeded."""
    may_wait: bool = True
    """Whether there is time for pods that a seat relies on to be bound first."""

    @property
    def nodes(self) -> list[tuple[int, Sequence[str]]]:
        """On which nodes the seats that are left may be tried: what tells whether a round changed anything."""
        return [(seat.number, seat.candidates) for seat in self.later if seat.candidates]

    def after(self, steps: Iterable[Step]) -> BindProgress:
        """The next one."""
        later, unknown = [*self.later], [*self.unknown]
        outcomes: dict[int, Outcome] = {}
        for step in steps:
            match step:
                case Done(number, outcome):
                    outcomes[number] = outcome
                case Later(seat):
                    later.append(seat)
                case Ask(seat):
                    unknown.append(seat)
        return replace(self, outcomes=self.outcomes | outcomes, later=tuple(later), unknown=tuple(unknown))


@dataclass(slots=True)
class Sending:
    """A lane of a bind while it is sent: what its senders share. None awaits between reading and replacing it."""

    group: BindGroup
    lane: SendingLane
    now: BindProgress
    queue: deque[tuple[PendingBind, ...]]
    """Seats that are left in this lane, in parts."""
    unseen: bool
    """Whether only the watch shows the versions that the last transaction left."""
    everywhere: bool = False
    """Whether rules of its seats look at all namespaces."""
    stored: dict[str, KeyValue] = field(default_factory=dict)
    """Volumes and claims, as they were read last."""
    leaning: bool = False
    """Whether a seat relies on pods that are not bound yet: others are not asked why then."""
    failed: int = 0
    """Transactions that failed since one succeeded."""
    window: int = sys.maxsize
    """Pods that the next transaction may have."""
    stopped: bool = False
    """Whether a sender failed: then the others send no further transaction."""

    def take(self, steps: Iterable[Step]) -> None:
        """Go on by these."""
        taken = list(steps)
        if taken:
            self.now = self.now.after(taken)
            again = self.lane.parts(step.seat for step in taken if isinstance(step, SendAgain))
            self.queue.extendleft(reversed(again))


class PendingBinds:
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

    async def find(self, group: BindGroup) -> tuple[list[PendingBind], dict[int, Outcome]]:
        """All seats, with their pods as the watch showed them, or as etcd has them where the watch is not enough.

        So it is where an earlier transaction may have bound the pod already: were it assumed anew then, the seat that
        it perhaps has would seem free.
        """
        left: list[PendingBind] = []
        unknown: dict[int, PendingBind | None] = {}
        for number, seat in enumerate(group.request.seats):
            found = self._eligibility.from_cache(reference(seat))
            known = found is not None and not self._cache.is_sent(found.pod.identity) and not group.binder
            bind = self._with_pod(group, number, found) if found is not None and known else None
            if bind is None:
                unknown[number] = None
            else:
                left.append(bind)
        if not unknown:
            return left, {}
        seats, outcomes = await self.ask(group, unknown)
        return sorted([*left, *seats], key=lambda bind: bind.number), outcomes

    async def ask(
        self, group: BindGroup, unknown: Mapping[int, PendingBind | None]
    ) -> tuple[list[PendingBind], dict[int, Outcome]]:
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
            [one for one in found.values() if isinstance(one, PendingBind)],
            {number: one for number, one in found.items() if not isinstance(one, PendingBind)},
        )

    def resolve(
        self, group: BindGroup, number: int, answer: PodAnswer, known: PendingBind | None = None
    ) -> PendingBind | Outcome:
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
            if self._cache.kubernetes is None and group.binder:  # PostBind, once: this bind ends the plugin's
                self.post_bind(group, number, None, found.node or "")
            # Where an earlier transaction only held the room, this attempt binds the pod.
            before = () if group.calls is not None and self._cache.kubernetes else ("committed by an earlier try",)
            notes = (f"bound by plugin {group.binder}",) if group.binder else before
            return Bound(node=found.node or "", revision=revision, notes=notes)
        pod = known.found.pod if known is not None else None
        self.undo(group, number, pod, group.calls.node if group.calls and pod is None else seat.node)
        return found

    def _with_pod(self, group: BindGroup, number: int, found: StoredPod) -> PendingBind | None:
        """None where this worker has no profile for the pod."""
        calls, seat, pod = group.calls, group.seat(number), found.pod
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            return None
        others = seat.others if self._runners_up and group.policy.runners_up else ()
        # Plugins that were called have prepared one node, so no other one will do.
        candidates = (seat.node, *(name for name in others if name != seat.node)) if calls is None else (calls.node,)
        return PendingBind(
            group=group,
            number=number,
            candidates=candidates,
            found=found,
            profile=profile,
            rules=across_nodes.rules_of(pod, profile, self._cache.surroundings),
            held=calls is not None or pod.key in self._cache.held_places,
            alone=group.policy.holds,
        )

    def refreshed(self, bind: PendingBind) -> PendingBind | None:
        """With the pod as the watch shows it now, if that is newer; None when etcd has to be asked about it."""
        known, before = self._eligibility.from_cache(reference(bind.seat)), bind.found
        if known is not None and known.pod.mod_revision >= before.pod.mod_revision:
            return self._taking(bind, known)
        seen = self._cache.progress.revision >= max(before.read_at, before.pod.mod_revision)
        if seen or self._eligibility.verdict(reference(bind.seat), before.pod) is not None:
            return None
        return self._taking(bind, before)  # the watch has not shown yet what was read

    def _taking(self, bind: PendingBind, found: StoredPod) -> PendingBind:
        """With the pod as it is now, and its rules."""
        rules = across_nodes.rules_of(found.pod, bind.profile, self._cache.surroundings)
        if found.pod is bind.found.pod and rules == bind.rules:
            return bind
        return replace(bind, found=found, rules=rules)

    # --- its verdict --------------------------------------------------------------------------

    def verdicts(
        self, sending: Sending, stamp: Stamp, seats: Sequence[PendingBind], surely: Snapshot | None = None
    ) -> Iterator[tuple[PendingBind, Verdict]]:
        """Whether each of these seats may be bound to its node: after what is sure, or with all that are assumed there.

        Of several on one node that do not all fit, the first ones do.
        """
        group, whole = sending.group, sending.group.policy.whole
        for seat in seats if whole else ():
            self._cache.assume_there(seat.found.pod, seat.node)
        together = frozenset(seat.identity for seat in seats) if whole else frozenset[PodIdentity]()
        lost = [(whole and self._outside(group, seat)) or self._fits(sending, seat, surely, together) for seat in seats]
        if any(lost) and len(seats) > 1 and not whole:
            for seat in seats:
                self._cache.forget_unsent(seat.identity)
            lost = [self._fits(sending, seat, surely) for seat in seats]
        for seat, why in zip(seats, lost, strict=True):
            yield seat, why or self._commit(sending, stamp, seat, len(together))

    def _fits(
        self, sending: Sending, seat: PendingBind, surely: Snapshot | None, together: Collection[PodIdentity] = ()
    ) -> NoRoom | Failed | None:
        """Why the pod must not be bound there; None when it may: then it counts there.

        `together`: pods that are bound in the same transaction, or not at all; its rules may rely on them.
        """
        pod, node, computation, rules = seat.found.pod, seat.node, seat.computation, seat.rules
        try:
            if surely is None:
                lost = self._verification.refusal(pod, node, computation, rules, together)
            else:
                lost, leans = self._verification.refusal_after(pod, node, computation, surely), sending.leaning
                if lost and rules.leans and not leans:
                    every = frozenset(one.identity for one in self._cache.assumed())
                    leans = not self._verification.refusal(pod, node, computation, rules, every)
                lost = f"{LEANS}: {lost}" if lost and leans else lost
        except PluginError as error:
            return Failed(error)
        if lost:
            return NoRoom(lost, leans=lost.startswith(LEANS))
        self._cache.assume_there(pod, node)  # those that are verified next see it
        return None

    def _outside(self, group: BindGroup, seat: PendingBind) -> NoRoom | None:
        """Whether the node is not in the gang's domain any more."""
        node, domain = self._cache.nodes.get(seat.node), group.request.domain
        outside = node is not None and any(node.labels.get(key) != value for key, value in terms_of(domain))
        return NoRoom(f"the node is not in {domain} any more") if outside else None

    async def read_volumes(self, seats: Iterable[PendingBind], limits: Limits) -> Mapping[str, KeyValue]:
        """The volumes and claims that binds of these seats would write. Raises `StoreError`."""
        binds = [(bind.found.pod, bind.node) for bind in seats if bind.found.pod.claims]
        return await volumes.read(self._store, self._cache, binds, limits) if binds else {}

    def _commit(self, sending: Sending, stamp: Stamp, bind: PendingBind, pods: int) -> Commit | Outcome:
        """The commit of a seat that fits, unless plugins refuse it or it cannot be written as it would be bound."""
        group, pod, node = sending.group, bind.found.pod, self._cache.nodes[bind.node]
        try:
            steps = ask_to_bind(bind.profile, group.state(bind.number), pod, node.name, group.calls or NO_CALLS)
        except PluginError as error:
            return Failed(error)
        if isinstance(steps, Status):
            return rejected(steps.plugin, steps.message)
        if steps and not group.policy.holds:  # the plugin was enabled after the group had been decided
            return Contended(message=ALONE)
        needed = volumes.checked(pod, node.name, self._cache, sending.stored) if pod.claims else NO_VOLUMES
        if isinstance(needed, Status):
            return rejected(needed.plugin, needed.message)
        if steps != bind.steps or needed is not bind.volumes:
            bind = replace(bind, steps=steps, volumes=needed)
        adopted = sending.now.adopted.get(node.name)
        if adopted is not None and adopted == node and adopted.mod_revision > node.mod_revision:
            node = adopted
        tenancy = self._eligibility.tenancy(pod)
        try:
            return Commit.of(bind, node, self._cache, stamp, tenancy=tenancy, pods=pods)
        except InvalidObject as error:
            return rejected(BINDER, f"pod cannot be written bound: {error}")

    # --- the end ------------------------------------------------------------------------------

    def give_up(self, bind: PendingBind) -> None:
        """No transaction of it is out, and its seat is free again."""
        self._cache.forget(bind.identity)
        if not bind.hold:  # else a late try of this bind may happen until the record is gone (`after_commit`)
            self.undo(bind.group, bind.number, bind.found.pod, bind.seat.node)

    def ended(
        self, seats: Sequence[PendingBind], outcome: Outcome, *, failed: bool = False, counted: bool = True
    ) -> list[Done]:
        """Give a seat, or all of a gang, up with that outcome, and count it.

        `failed`: for an error and not by a rule, as the binder's are.
        """
        for seat in seats:
            self.give_up(seat)
        if isinstance(outcome, Contended) and counted:
            self._tally.contended(seats[0].computation, len(seats))
        for seat in seats:
            if failed or isinstance(outcome, Failed) or (isinstance(outcome, Rejected) and outcome.plugin == BINDER):
                self._tally.failed(seat.profile.name, seat.computation)
            elif isinstance(outcome, Rejected):
                self._tally.refused_at_bind(seat.profile.name, seat.computation)
        return [Done(seat.number, outcome) for seat in seats]

    def undo(self, group: BindGroup, number: int, pod: Pod | None, node: str) -> None:
        """Unreserve. `pod`: None where it may be gone: the plugins get as much of it as is known."""
        profile = self._profiles.get(pod.scheduler_name if pod else group.computation(number).profile_name)
        if profile is not None:
            profile.unreserve(group.state(number), pod or self._known(group, number), node)

    def post_bind(self, group: BindGroup, number: int, pod: Pod | None, node: str) -> None:
        """PostBind, and the metric. `pod`: None where it is not known how it is now."""
        computation = group.computation(number)
        profile = self._profiles.get(pod.scheduler_name if pod is not None else computation.profile_name)
        if profile is not None:
            post_bind(profile, group.state(number), pod or self._known(group, number), node)
            self._tally.bound(profile.name, computation, self._clock() - group.began)

    def _known(self, group: BindGroup, number: int) -> Pod:
        """As much of the pod as is known."""
        pod = self._cache.pods.get(group.key(number))
        return pod if pod is not None and pod.identity == identity(group.seat(number)) else group.pod(number)
