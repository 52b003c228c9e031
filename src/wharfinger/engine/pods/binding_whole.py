"""Committing a gang: all seats in one transaction, or none.

Rules across nodes are part of it: members may rely on each other, for they are bound together or not at all. There are
no runners-up; what was taken in between gives the whole gang up, and its next attempt places it anew.
"""

from __future__ import annotations

from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany
from wharfinger.engine.pods.bind.transaction import Transaction, together
from wharfinger.engine.pods.bind_outcomes import Outcomes
from wharfinger.engine.pods.binding import TURN, TURNS
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.extending import ALONE
from wharfinger.engine.pods.filling import BINDER, Filled, Filling
from wharfinger.engine.pods.keeping import Keeping
from wharfinger.engine.pods.seating import Seating
from wharfinger.engine.pods.seats import Seated, Work, identity
from wharfinger.engine.pods.sending import Sending
from wharfinger.engine.pods.verification import LEANS
from wharfinger.engine.transactions import measure
from wharfinger.errors import InvalidObject, PluginError, RequestTooLarge
from wharfinger.framework.domain import terms_of
from wharfinger.model.gang import GANG_SCHEDULING
from wharfinger.registry import keys
from wharfinger.registry.store import TxnResult

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


class WholeBindings:
    """Commits the gangs of one worker. `Work.left` are the members that are still to be bound; none: it is settled."""

    def __init__(self, core: Core) -> None:
        self._seating = Seating(core)
        self._sending = Sending(core, self._seating, Filling(core, self._seating))
        self._keeping = Keeping(core)
        self._locks = core.locks
        self._committer = core.committer
        self._eligibility = core.eligibility
        self._cache = core.pool.cache
        self._settings = core.settings
        self._limits = core.limits
        self._metrics = core.process.metrics
        self._tally = core.tally
        self._clock = core.process.clock

    async def bind(self, request: BindManyInput) -> BoundMany:
        """Bind all, or none. Safe to run again. Raises `StoreError`."""
        gang = Work(request, Outcomes(request), self._limits, self._clock())
        async with self._locks.hold(map(identity, request.seats)):
            await self._seating.find(gang)
            self._give_up_without_the_gone(gang)
            if gang.left:
                await self._bind(gang)
            await self._keeping.keep_whole(gang)
        return gang.outcomes.told()

    async def _bind(self, gang: Work) -> None:
        load = measure([seated.shape for seated in gang.left])
        counts = {"pods": len(gang.left), "compares": len(load.compares), "writes": len(load.writes), "size": load.size}
        if max(len(load.compares), len(load.writes)) > self._limits.operations:
            self._reject(gang, GANG_SCHEDULING, TOO_MANY.format(most=self._limits.operations, **counts))
            return
        if load.size > self._limits.size:
            self._reject(gang, GANG_SCHEDULING, TOO_LARGE.format(most=self._limits.size, **counts))
            return
        namespaces = {name for seated in gang.left for name in seated.rules.looks_at}
        why = ""
        for turn in range(TURNS):
            async with (
                self._locks.hold(map(keys.bound, namespaces)),
                self._locks.hold(seated.node for seated in gang.left),
            ):
                try:
                    why = await self._try(gang)
                except RequestTooLarge:
                    self._reject(gang, GANG_SCHEDULING, REFUSED.format(**counts), failed=True)
            if not gang.left:
                return
            if turn == TURNS - 1 or LEANS not in why:
                break
            await self._cache.progress.wait_for(self._cache.progress.revision + 1, TURN)
        self._tally.contended(gang.request.computations[0], len(gang.left))
        self._give_up(gang, why)

    async def _try(self, gang: Work) -> str:
        """Send it until it is settled; else why it cannot be bound."""
        for _ in range(self._settings.tries):
            await self._seating.read_volumes(gang.left, gang.limits)
            filled, why = self._fill(gang)
            if not filled:
                return why
            commits = [commit for _, commit in filled]
            try:
                transaction = together(commits)
            except InvalidObject as error:
                self._reject(gang, BINDER, f"a pod cannot be written bound: {error}", failed=True)
                return ""
            gang.outcomes.transactions += 1
            answer = await self._committer.send(transaction)
            if answer.succeeded:
                gang.left = []
                self._sending.bound(gang, filled, answer.revision)
                return ""
            why = await self._catch_up(gang, filled, transaction, answer)
            if why or not gang.left:
                return why
        return f"it changed during {self._settings.tries} transactions"

    def _fill(self, gang: Work) -> tuple[Filled, str]:
        """The transaction as of now; or none, when the gang is settled, or with why it cannot be bound."""
        if self._other_pools_now(gang):
            return [], ""
        for seated in gang.left:  # each is verified among all the others
            self._cache.assume_there(seated.found.pod, seated.node)
        members = frozenset(seated.identity for seated in gang.left)
        for seated in gang.left:
            try:
                lost = self._outside(gang, seated) or self._seating.refusal(seated, members)
                if lost:
                    return [], f"{seated.found.pod.key} on {seated.node}: {lost}"
                status = self._seating.ask_plugins(gang, seated)
                if seated.steps:  # the plugin was enabled after the gang had been decided
                    return [], f"{seated.found.pod.key}: {ALONE}"
            except PluginError as error:
                self._reject(gang, error.plugin, str(error), failed=True)
                return [], ""
            if not status.ok:
                self._reject(gang, status.plugin, f"{seated.found.pod.key}: {status.message}")
                return [], ""
        now = self._seating.now
        adopted = gang.adopted
        commits = [(one, self._seating.commit(gang.request, one, adopted.get(one.node), now)) for one in gang.left]
        return [(one, commit.sent_with(len(commits))) for one, commit in commits], ""

    def _other_pools_now(self, gang: Work) -> bool:
        """Whether members have become another pool's since they were found: then no member is bound."""
        for seated in tuple(gang.left):
            gone = self._eligibility.verdict(seated.reference, seated.found.pod)
            if gone is not None:
                gang.left.remove(seated)
                self._seating.give_up(seated)
                gang.outcomes.gone(seated.number, gone)
        self._give_up_without_the_gone(gang)
        return not gang.left

    def _outside(self, gang: Work, seated: Seated) -> str:
        """Why the node is not in the gang's domain any more; empty when it is, or there is none."""
        node = self._cache.nodes.get(seated.node)
        outside = node is not None and any(
            node.labels.get(key) != value for key, value in terms_of(gang.request.domain)
        )
        return f"the node is not in {gang.request.domain} any more" if outside else ""

    async def _catch_up(self, gang: Work, filled: Filled, transaction: Transaction, answer: TxnResult) -> str:
        """Take in what moved, and wait for the watch where only it shows the change; why it cannot be tried again."""
        gang.left = []
        moves = []
        for seated, commit in filled:
            moved, to_be_bound = self._sending.taken_in(gang, seated, commit, transaction.answer_for(commit, answer))
            moves.append(moved)
            if to_be_bound:
                gang.left.append(seated)
        for what in dict.fromkeys(what for moved in moves for what in moved.what):
            self._metrics.bind_conflicts.labels(moved=what).inc()
        self._give_up_without_the_gone(gang)
        if not gang.left:
            return ""
        if any(moved.node_gone for moved in moves):
            return "a node is gone"
        known = [moved for moved in moves if moved.what]
        seen = max((each.revision for each in known if each.must_catch_up), default=0) if known else answer.revision
        caught_up = await self._cache.progress.wait_for(seen, self._settings.catch_up)
        return "" if caught_up else "this worker's watch is behind"

    # --- none ---------------------------------------------------------------------------------

    def _give_up_without_the_gone(self, gang: Work) -> None:
        """A gang is not bound without those it was placed with."""
        gone = gang.outcomes.any_gone
        if gone:
            self._give_up(gang, f"{gone} is gone")

    def _give_up(self, gang: Work, why: str) -> None:
        """No member is bound, and all seats are free again."""
        for seated in gang.left:
            self._seating.give_up(seated)
            gang.outcomes.contended(seated.number, f"the gang was not bound: {why}")
        gang.left = []

    def _reject(self, gang: Work, plugin: str, message: str, *, failed: bool = False) -> None:
        """It can never be bound as it was placed; `failed`: for an error, and not by a rule."""
        count = self._tally.failed_at_bind if failed else self._tally.refused_at_bind
        for seated in gang.left:
            count(seated.profile.name, seated.computation)
            self._seating.give_up(seated)
            gang.outcomes.rejected(seated.number, plugin, message)
        gang.left = []
