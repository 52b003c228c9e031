"""Committing a gang: all seats in one transaction, or none.

Rules across nodes are part of it: members may rely on each other, for they are bound together or not at all. There are
no runners-up; what was taken in between gives the whole gang up, and its next attempt places it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany
from wharfinger.engine.pods.binding import TURN, TURNS, Bindings, newest
from wharfinger.engine.pods.cohort_outcomes import Outcomes
from wharfinger.engine.pods.commit import Commit, Moved, Transaction, read_failure, together
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import StoredPod, bound_by, no_profile
from wharfinger.engine.pods.seating import Seated, Seating, identity, reference
from wharfinger.engine.pods.verification import LEANS
from wharfinger.engine.transactions import measure
from wharfinger.errors import InvalidObject, PluginError, RequestTooLarge
from wharfinger.model.gang import GANG_SCHEDULING
from wharfinger.model.node import Node
from wharfinger.model.pod import PodIdentity
from wharfinger.registry import keys
from wharfinger.registry.store import TxnResult

READERS = 8
"""Pods that etcd is asked about at a time."""
TOO_MANY = (
    "its {pods} pods need {compares} compares and {writes} writes in one transaction, and {most} of each are allowed: "
    "raise --max-txn-ops of etcd and of the workers, or make the group smaller"
)
TOO_LARGE = (
    "its {pods} pods come to {size:,} bytes ({compares} compares and {writes} writes) in one transaction, and {most:,} "
    "are allowed, whatever --max-txn-ops says: make the group or its pods smaller"
)
REFUSED = (
    "etcd takes no transaction of {compares} compares and {writes} writes, {size:,} bytes: its --max-txn-ops is not "
    "what the workers were told, or its limit of bytes is lower"
)
BINDER = "DefaultBinder"


@dataclass(slots=True)
class Gang:
    """One gang on its way."""

    request: BindManyInput
    outcomes: Outcomes
    began: float
    left: list[Seated] = field(default_factory=list)
    """Members that are still to be bound."""
    adopted: dict[str, Node] = field(default_factory=dict)
    """Nodes at newer revisions that mean the same (heart-beats)."""
    lost: str = ""
    """Why it cannot be bound."""
    done: bool = False

    @property
    def members(self) -> frozenset[PodIdentity]:
        """Whom its transaction would bind."""
        return frozenset(seated.identity for seated in self.left)


class WholeBindings:
    """Commits the gangs of one worker."""

    def __init__(self, core: Core, bindings: Bindings) -> None:
        """As of `ManyBindings`."""
        self._store = core.store
        self._bindings = bindings
        self._seating = Seating(core)
        self._committer = core.committer
        self._eligibility = core.eligibility
        self._cache = core.cache
        self._settings = core.settings
        self._limits = core.limits
        self._metrics = core.metrics
        self._clock = core.clock

    async def bind(self, request: BindManyInput) -> BoundMany:
        """Bind all, or none. Safe to run again. Raises `StoreError`."""
        gang = Gang(request, Outcomes(request), self._clock())
        async with self._bindings.locks.hold(map(identity, request.seats)):
            await self._find(gang)
            if not gang.done:
                await self._bind(gang)
        return gang.outcomes.told()

    # --- who is to be bound -------------------------------------------------------------------

    async def _find(self, gang: Gang) -> None:
        """The members as the watch showed them, or as etcd has them; done when none is left, or one is gone."""
        unknown: list[int] = []
        for number in range(len(gang.request.seats)):
            seated = self._seating.find(gang.request, number)
            if seated is None:
                unknown.append(number)
            else:
                gang.left.append(seated)
        several = asyncio.Semaphore(READERS)

        async def read(number: int) -> None:
            async with several:
                answer = await self._store.get(keys.pod(*reference(gang.request.seats[number]).key))
            self._told(gang, number, TxnResult(False, answer.revision, (answer.kv,)))

        await asyncio.gather(*map(read, unknown))
        gang.left.sort(key=lambda seated: seated.number)
        self._finish_without_the_gone(gang)

    def _told(self, gang: Gang, number: int, answer: TxnResult) -> None:
        """What etcd says of a member: to be bound, bound by this very chain, or gone."""
        seat, kv = gang.request.seats[number], answer.reads[0]
        found = self._eligibility.of_stored(reference(seat), kv)
        if isinstance(found, StoredPod):
            seated = self._seating.with_pod(gang.request, number, found)
            if seated is not None:
                gang.left.append(seated)
                return
            gang.outcomes.gone(number, no_profile(found.pod.scheduler_name))
            return
        self._cache.settle(identity(seat), answer.revision)
        if kv is not None and found.reason == "bound" and bound_by(kv.value) == gang.request.workflow_id:
            notes = ("committed by an earlier try",)
            gang.outcomes.bound(number, answer.revision, found.node or "", notes)
        else:
            self._seating.tell_gone(gang.request, number)
            gang.outcomes.gone(number, found)

    def _finish_without_the_gone(self, gang: Gang) -> None:
        """A gang is not bound without those it was placed with."""
        gone = gang.outcomes.any_gone
        gang.done = not gang.left
        if gone:
            self._give_up(gang, f"{gone} is gone")

    # --- one transaction ----------------------------------------------------------------------

    async def _bind(self, gang: Gang) -> None:
        load = measure([seated.shape for seated in gang.left])
        counts = {"pods": len(gang.left), "compares": len(load.compares), "writes": len(load.writes), "size": load.size}
        if max(len(load.compares), len(load.writes)) > self._limits.operations:
            self._reject(gang, GANG_SCHEDULING, TOO_MANY.format(most=self._limits.operations, **counts))
            return
        if load.size > self._limits.size:
            self._reject(gang, GANG_SCHEDULING, TOO_LARGE.format(most=self._limits.size, **counts))
            return
        namespaces = {name for seated in gang.left for name in seated.rules.looks_at}
        for turn in range(TURNS):
            async with (
                self._bindings.locks.hold(map(keys.bound, namespaces)),
                self._bindings.locks.hold(seated.seat.node for seated in gang.left),
            ):
                try:
                    await self._tries(gang)
                except RequestTooLarge:
                    self._reject(gang, GANG_SCHEDULING, REFUSED.format(**counts))
            if gang.done:
                return
            if turn == TURNS - 1 or LEANS not in gang.lost:
                break
            await self._cache.progress.wait_for(self._cache.progress.revision + 1, TURN)
        self._bindings.tally.contended(gang.request.computations[0], len(gang.left))
        self._give_up(gang, gang.lost)

    async def _tries(self, gang: Gang) -> None:
        """Until it is done, or lost."""
        for _ in range(self._settings.tries):
            commits = self._verified(gang)
            if not commits:
                return
            try:
                transaction = together(commits)
            except InvalidObject as error:
                self._reject(gang, BINDER, f"a pod cannot be written bound: {error}")
                return
            gang.outcomes.transactions += 1
            answer = await self._committer.send(commits, transaction)
            if answer.succeeded:
                self._bound(gang, commits, answer.revision)
                return
            if not await self._caught_up(gang, commits, transaction, answer):
                return
        gang.lost = f"it changed during {self._settings.tries} transactions"

    def _verified(self, gang: Gang) -> list[Commit]:
        """The commits as of now; none when the gang is rejected, or lost."""
        if self._others_now(gang):
            return []
        for seated in gang.left:  # each is verified among all the others
            self._cache.assume_there(seated.found.pod, seated.seat.node)
        together_with = gang.members
        for seated in gang.left:
            try:
                lost = self._elsewhere(gang, seated) or self._seating.refusal(seated, together_with)
                if lost:
                    gang.lost = f"{seated.found.pod.key} on {seated.seat.node}: {lost}"
                    return []
                status = self._seating.ask_plugins(seated)
            except PluginError as error:
                self._reject(gang, error.plugin, str(error))
                return []
            if not status.ok:
                self._reject(gang, status.plugin, f"{seated.found.pod.key}: {status.message}")
                return []
        now = self._seating.now
        commits = []
        for seated in gang.left:
            node = newest(self._cache.nodes[seated.seat.node], gang.adopted.get(seated.seat.node))
            commits.append(self._seating.commit(gang.request, seated, node, now))
        return commits

    def _others_now(self, gang: Gang) -> bool:
        """Whether members have become another pool's since they were found: then no member is bound."""
        for seated in tuple(gang.left):
            gone = self._eligibility.verdict(reference(seated.seat), seated.found.pod)
            if gone is not None:
                gang.left.remove(seated)
                self._seating.give_up(seated)
                gang.outcomes.gone(seated.number, gone)
        self._finish_without_the_gone(gang)
        return gang.done

    def _elsewhere(self, gang: Gang, seated: Seated) -> str:
        """Why the node is not in the gang's domain any more; empty when it is, or there is none."""
        key, _, value = gang.request.domain.partition("=")
        node = self._cache.nodes.get(seated.seat.node)
        outside = key and node is not None and node.labels.get(key) != value
        return f"the node is not in {gang.request.domain} any more" if outside else ""

    def _bound(self, gang: Gang, commits: Sequence[Commit], revision: int) -> None:
        gang.done = True
        self._committer.happened(commits, revision)
        took = self._clock() - gang.began
        for seated in gang.left:
            seated.tell_bound()
            gang.outcomes.bound(seated.number, revision)
            self._bindings.tally.bound(seated.profile.name, seated.computation, took)

    async def _caught_up(
        self, gang: Gang, commits: Sequence[Commit], transaction: Transaction, answer: TxnResult
    ) -> bool:
        """Take in what moved, and wait for the watch where only it shows the change; whether to try again."""
        failures: list[Moved] = []
        members, gang.left = gang.left, []
        for seated, commit in zip(members, commits, strict=True):
            own = transaction.answer_for(commit, answer)
            failures.append(read_failure(commit, own))
            if "pod" in failures[-1].what:
                self._told(gang, seated.number, own)
            else:
                gang.left.append(seated)
        for what in dict.fromkeys(what for moved in failures for what in moved.what):
            self._metrics.bind_conflicts.labels(moved=what).inc()
        self._finish_without_the_gone(gang)
        if gang.done:
            return False
        if any(moved.node_gone for moved in failures):
            gang.lost = "a node is gone"
            return False
        gang.adopted |= {moved.same_node.name: moved.same_node for moved in failures if moved.same_node is not None}
        moved = [each for each in failures if each.what]
        seen = max((each.revision for each in moved if each.must_catch_up), default=0) if moved else answer.revision
        if not await self._cache.progress.wait_for(seen, self._settings.catch_up):
            gang.lost = "this worker's watch is behind"
            return False
        return True

    # --- none ---------------------------------------------------------------------------------

    def _give_up(self, gang: Gang, why: str) -> None:
        """No member is bound, and all seats are free again."""
        gang.done = True
        for seated in gang.left:
            self._seating.give_up(seated)
            gang.outcomes.contended(seated.number, f"the gang was not bound: {why}")

    def _reject(self, gang: Gang, plugin: str, message: str) -> None:
        """It can never be bound as it was placed."""
        gang.done = True
        for seated in gang.left:
            self._seating.give_up(seated)
            gang.outcomes.rejected(seated.number, plugin, message)
