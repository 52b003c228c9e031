"""Committing a placement: verify on the chosen node, compare and write, and make sense of the answer.

::

    verify ──refused──────────────────────────────► next runner-up ──none left──► Contended
      │  ▲                                               ▲
      ▼  │ pod moved; node's heart-beat (adopted);       │ tries used up, node gone
    commit ── failed ── the rest: catch up by the watch ─┘
      │ └──── pod bound, deleted or not ours ───────────► Gone (Bound when it was this attempt)
      ▼
    Bound

An answer that got lost is resolved by reading: the activity fails, and its retry finds the pod as it is.
Binds of one node are serial inside a worker, so that each sees the version that the former one wrote; so are
the tries of one pod's bind (Temporal begins the next one when the answer is late, whatever the former still does).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wharfinger.contracts.scheduling import BindInput, BindOutcome, Bound, Contended, Gone, Placed, Rejected
from wharfinger.engine.pods import across_nodes, payload, points
from wharfinger.engine.pods.across_nodes import AcrossNodes
from wharfinger.engine.pods.commit import Commit, Moved, prepare, read_failure, together
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import PodReference, StoredPod, bound_by, no_profile
from wharfinger.engine.pods.locks import Locks
from wharfinger.engine.pods.verification import LEANS
from wharfinger.errors import InvalidObject, PluginError, RequestTooLarge
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import Status
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod, PodIdentity, PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, TxnResult

BINDER = "DefaultBinder"
TURNS = 5
"""Tries of a bind that relies on pods which are being bound themselves, the last one without regard for that."""
TURN = 0.1
"""Seconds at most between them; anything that happens begins the next one."""
TOO_LARGE = "pod is too large for etcd to hold it bound: it has {size:,} bytes, and etcd takes 1.5 MiB a request"


@dataclass(slots=True)
class Effort:
    """One bind on its way: what is known of the pod by now, and what happened."""

    request: BindInput
    reference: PodReference
    found: StoredPod
    profile: Profile
    state: CycleState
    """What the placement's plugins carried for their binding points."""
    rules: AcrossNodes
    """Of the pod as it is now."""
    began: float
    tries: int = 0
    may_wait: bool = False
    """Whether there is time for pods that the placement relies on to be bound first."""
    lost: str = ""
    """Why the last node was given up."""
    notes: list[str] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether others are to be bound first."""
        return self.may_wait and self.lost.startswith(LEANS)

    @property
    def placed(self) -> Placed:
        """The placement to commit."""
        return self.request.placed

    def note(self, text: str) -> None:
        """Keep for the explanation, once."""
        if text not in self.notes:
            self.notes.append(text)


class Bindings:
    """Commits the placements of one worker."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._cache = core.cache
        self._profiles = core.profiles
        self._verification = core.verification
        self._eligibility = core.eligibility
        self._committer = core.committer
        self._settings = core.settings
        self._metrics = core.metrics
        self.tally = core.tally
        self._utc_now = core.utc_now
        self._clock = core.clock
        self.locks = Locks()
        """Of this worker's binds."""

    async def bind(self, request: BindInput) -> BindOutcome:
        """Bind the pod to the node chosen for it, or to a runner-up.

        Safe to run again. Raises `StoreError` (the outcome is unknown, or etcd does not answer) and `PluginError`.
        """
        async with self.locks.of(identity_of(request)):
            return await self.bind_locked(request)

    async def bind_locked(self, request: BindInput) -> BindOutcome:
        """The same, for a caller who holds the pod's lock."""
        placed = request.placed
        reference = PodReference(PodKey(request.namespace, request.name), placed.uid, placed.create_revision)
        found = await self._look_up(reference, request)
        if isinstance(found, Bound):
            return found
        if isinstance(found, Gone):
            self._unreserve_gone(request)
            return found
        profile = self._profiles.get(found.pod.scheduler_name)
        if profile is None:
            return no_profile(found.pod.scheduler_name)
        rules = across_nodes.rules_of(found.pod, profile, self._cache.surroundings)
        effort = Effort(request, reference, found, profile, CycleState(placed.plugin_data), rules, self._clock())
        for turn in range(TURNS):
            effort.may_wait = turn < TURNS - 1
            # Each compares what the former one rewrote.
            async with self.locks.hold(map(keys.bound, effort.rules.looks_at)):
                outcome = await self._on_nodes(effort)
            if outcome is not None:
                return outcome
            if not effort.waits:
                break
            await self._cache.progress.wait_for(self._cache.progress.revision + 1, TURN)
        return await self._give_up(effort)

    async def _on_nodes(self, effort: Effort) -> BindOutcome | None:
        """Try the chosen node, then the runners-up; None when none is left, or to let others be bound first."""
        for node_name in candidates(effort.placed) if self._settings.runners_up else (effort.placed.node,):
            async with self.locks.of(node_name):
                outcome = await self._on_node(effort, node_name)
            if isinstance(outcome, Gone):
                effort.profile.unreserve(effort.state, effort.found.pod, effort.placed.node)
            if outcome is not None:
                return outcome
            if effort.waits:
                break
            effort.note(f"{node_name}: {effort.lost}")
        return None

    async def _on_node(self, effort: Effort, node_name: str) -> BindOutcome | None:
        """Try one node a few times; None when it is to be given up, with the reason in `effort.lost`."""
        adopted: Node | None = None
        for _ in range(self._settings.tries):
            gone = self._eligibility.verdict(effort.reference, effort.found.pod)
            if gone is not None:
                self._cache.forget_unsent(effort.found.pod.identity)
                return gone
            effort.rules = across_nodes.rules_of(effort.found.pod, effort.profile, self._cache.surroundings)
            effort.lost = self._verification.refusal(
                effort.found.pod, node_name, effort.placed.computation, effort.rules
            )
            if effort.lost:
                return None
            status = self._ask_plugins(effort, node_name)
            if not status.ok:
                return self._rejected(effort, status.plugin, status.message)
            commit = self._commit(effort, newest(self._cache.nodes[node_name], adopted))
            answer = await self._send(effort, commit)
            if isinstance(answer, Rejected):
                return answer
            if answer.succeeded:
                return self._bound(effort, commit, answer)
            found = self._resolve(effort.reference, effort.request, answer.reads[0], answer.revision)
            if not isinstance(found, StoredPod):
                return found
            effort.found = found
            moved = read_failure(commit, answer)
            adopted = moved.same_node
            if moved.node_gone:
                effort.lost = "the node is gone"
                return None
            if not await self._caught_up(effort, moved):
                effort.lost = "this worker's watch is behind"
                return None
        effort.lost = f"it changed during {self._settings.tries} transactions"
        return None

    def _ask_plugins(self, effort: Effort, node_name: str) -> Status:
        """PreBind and Bind: the first refusal, or success."""
        try:
            return points.ask_to_bind(effort.profile, effort.state, effort.found.pod, node_name)
        except PluginError:
            self._forget(effort)
            raise

    def _commit(self, effort: Effort, node: Node) -> Commit:
        return prepare(
            effort.found,
            node,
            effort.rules,
            self._cache,
            tenancy=self._eligibility.tenancy(effort.found.pod),
            attempt=f"{effort.request.workflow_id}@{effort.request.run_id}",
            now=self._utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        )

    async def _send(self, effort: Effort, commit: Commit) -> TxnResult | Rejected:
        """Send the transaction; no await lies between what it compares and this."""
        try:
            transaction = together([commit])
        except InvalidObject as error:
            return self._rejected(effort, BINDER, f"pod cannot be written bound: {error}")
        effort.tries += 1
        try:
            return await self._committer.send([commit], transaction)
        except RequestTooLarge:
            return self._rejected(effort, BINDER, TOO_LARGE.format(size=len(commit.found.raw)))

    def _bound(self, effort: Effort, commit: Commit, answer: TxnResult) -> Bound:
        self._committer.happened([commit], answer.revision)
        took = self._clock() - effort.began
        self.tally.bound(effort.profile.name, effort.placed.computation, took)
        points.tell_bound(effort.profile, effort.state, commit.found.pod, commit.node.name)
        if commit.node.name != effort.placed.node:
            effort.note(f"bound to the runner-up {commit.node.name}")
        return Bound(node=commit.node.name, revision=answer.revision, tries=effort.tries, notes=tuple(effort.notes))

    async def _caught_up(self, effort: Effort, moved: Moved) -> bool:
        """Count what moved, and wait for the watch where only it shows the change; whether to try again."""
        for what in moved.what:
            self._metrics.bind_conflicts.labels(moved=what).inc()
        for note in moved.adopted_notes:
            effort.note(note)
        if not moved.must_catch_up:
            return True
        if not await self._cache.progress.wait_for(moved.revision, self._settings.catch_up):
            return False
        effort.note(moved.catch_up_note)
        return True

    # --- the pod's own state ------------------------------------------------------------------

    async def _look_up(self, reference: PodReference, request: BindInput) -> StoredPod | Bound | Gone:
        """The pod as the cache has it; as etcd has it while an earlier transaction may have bound it already.

        Were it assumed anew then, the seat that it perhaps has would seem free.
        """
        found = self._eligibility.from_cache(reference)
        if found is None or self._cache.is_sent(found.pod.identity):
            return await self._read(reference, request)
        return found

    async def _read(self, reference: PodReference, request: BindInput) -> StoredPod | Bound | Gone:
        read = await self._store.get(keys.pod(*reference.key))
        return self._resolve(reference, request, read.kv, read.revision)

    def _resolve(
        self, reference: PodReference, request: BindInput, kv: KeyValue | None, revision: int
    ) -> StoredPod | Bound | Gone:
        """What etcd says of the pod: still to be bound, bound by this very chain, or gone."""
        found = self._eligibility.of_stored(reference, kv)
        if isinstance(found, StoredPod):
            return found
        self._cache.settle(identity_of(request), revision)
        if kv is not None and found.reason == "bound" and bound_by(kv.value) == request.workflow_id:
            return Bound(node=found.node or "", revision=revision, notes=("committed by an earlier try",))
        return found

    async def _give_up(self, effort: Effort) -> BindOutcome:
        """No node was left; unless etcd says that the pod is bound after all."""
        found = await self._read(effort.reference, effort.request)
        if not isinstance(found, StoredPod):
            return found
        self._forget(effort)
        self.tally.contended(effort.placed.computation)
        return Contended(message=f"no node was left for {effort.reference.key}: {'; '.join(effort.notes)}")

    def _rejected(self, effort: Effort, plugin: str, message: str) -> Rejected:
        self._forget(effort)
        return Rejected(plugin=plugin, message=payload.message(message))

    def _forget(self, effort: Effort) -> None:
        """The placement is given up: no transaction of it is out, and its seat is free again."""
        pod = effort.found.pod
        self._cache.forget(pod.identity)
        effort.profile.unreserve(effort.state, pod, effort.placed.node)

    def _unreserve_gone(self, request: BindInput) -> None:
        """The placement's pod was gone already: the plugins get as much of it as is known."""
        placed = request.placed
        known = self._cache.pods.get(PodKey(request.namespace, request.name))
        if known is None or known.identity != identity_of(request):
            known = Pod(request.namespace, request.name, placed.uid, create_revision=placed.create_revision)
        profile = self._profiles.get(placed.computation.profile_name)
        if profile is not None:
            profile.unreserve(CycleState(placed.plugin_data), known, placed.node)


def identity_of(request: BindInput) -> PodIdentity:
    """The very pod that was placed."""
    return PodIdentity(request.namespace, request.name, request.placed.create_revision)


def candidates(placed: Placed) -> tuple[str, ...]:
    """The chosen node, then the runners-up."""
    return (placed.node, *(one.node for one in placed.ranking if one.node != placed.node))


def newest(known: Node, adopted: Node | None) -> Node:
    """The node as the cache has it, at a newer revision where one that means the same was seen."""
    if adopted is not None and adopted == known and adopted.mod_revision > known.mod_revision:
        return adopted
    return known
