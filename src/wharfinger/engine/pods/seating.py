"""Finding, verifying and preparing the seats of a bind; nothing but asking etcd about a pod is awaited here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from wharfinger.contracts.cohort_scheduling import BindManyInput, Seat
from wharfinger.contracts.plugin_calls import NO_CALLS
from wharfinger.engine.pods import across_nodes, points, volumes
from wharfinger.engine.pods.bind.transaction import Commit, Known, Stamp
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import PodAnswer, StoredPod, no_profile
from wharfinger.engine.pods.seats import Seated, Work, identity, reference
from wharfinger.engine.transactions import Limits
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.manifests.times import rfc3339
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod, PodIdentity
from wharfinger.plugins.names import VOLUME_BINDING
from wharfinger.registry.store import Get, KeyValue

MOVED_VOLUMES = "the volumes that were found for node {node} are not there any more"


class Seating:
    """Finds, verifies and prepares the seats of one worker's binds."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._cache = core.pool.cache
        self._profiles = core.pool.profiles
        self._eligibility = core.eligibility
        self._verification = core.verification
        self._settings = core.settings
        self._utc_now = core.process.utc_now
        self._clock = core.process.clock
        self._tally = core.tally

    # --- the pod ------------------------------------------------------------------------------

    async def find(self, work: Work) -> None:
        """All seats, with their pods as the watch showed them; or as etcd has them, where the watch is not enough.

        So it is where an earlier transaction may have bound the pod already: were it assumed anew then, the seat that
        it perhaps has would seem free.
        """
        unknown: dict[int, Seated | None] = {}
        for number, seat in enumerate(work.request.seats):
            found = self._eligibility.from_cache(reference(seat))
            known = found is not None and not self._cache.is_sent(found.pod.identity) and not _is_bound_by_plugin(work)
            seated = self._with_pod(work, number, found) if found is not None and known else None
            if seated is None:
                unknown[number] = None
            else:
                work.left.append(seated)
        if unknown:
            work.left += await self.ask(work, unknown)
            work.left.sort(key=lambda seated: seated.number)

    async def ask(self, work: Work, unknown: Mapping[int, Seated | None]) -> list[Seated]:
        """Read these pods, by the numbers of their seats; answers the seats of those that are still to be bound.

        `unknown`: with the seats as far as they are known. Raises `StoreError`, once all reads have ended: one that
        went on would act on a pod that the retry of this bind may have sent.
        """
        answers = await self._eligibility.ask_many([reference(work.request.seats[number]) for number in unknown])
        found = [
            self.resolve(work, number, answer, known)
            for (number, known), answer in zip(unknown.items(), answers, strict=True)
        ]
        return [seated for seated in found if seated is not None]

    def resolve(self, work: Work, number: int, answer: PodAnswer, known: Seated | None = None) -> Seated | None:
        """The seat by what etcd says of its pod; None when it has its outcome: bound by this very chain, or gone."""
        seat, revision = work.request.seats[number], answer.revision
        found = self._eligibility.of_stored(reference(seat), answer.kv, revision, answer.bound_by)
        if isinstance(found, StoredPod):
            if known is not None:
                self.take(known, found)
                return known
            seated = self._with_pod(work, number, found)
            if seated is None:
                work.outcomes.gone(number, no_profile(found.pod.scheduler_name))
            return seated
        self._cache.settle(identity(seat), revision)
        if found.reason == "bound" and found.bound_by.rpartition("@")[0] == work.request.workflow_id:
            work.outcomes.bound(number, revision, found.node or "", self._committed_by(work))
            self._tell_bound(work, seat)
        elif found.reason == "bound" and _is_bound_by_plugin(work) and work.calls and found.node == work.calls.node:
            work.outcomes.bound(number, revision, found.node, (f"bound by plugin {work.calls.bound_by}",))
            self._tell_bound(work, seat)
        else:
            self._tell_gone(work, seat, known)
            work.outcomes.gone(number, found)
        return None

    def _committed_by(self, work: Work) -> tuple[str, ...]:
        """A note of what bound a pod for this attempt before this bind; empty where it only held the room."""
        if _is_bound_by_plugin(work) and work.calls is not None:
            return (f"bound by plugin {work.calls.bound_by}",)
        return () if work.calls is not None and self._cache.upstream is not None else ("committed by an earlier try",)

    def _with_pod(self, work: Work, number: int, found: StoredPod) -> Seated | None:
        """None where this worker has no profile for the pod."""
        request, calls = work.request, work.calls
        seat, pod = request.seats[number], found.pod
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            return None
        others = tuple(name for name in seat.others if name != seat.node) if self._settings.runners_up else ()
        # Plugins that were called have prepared one node, so no other one will do.
        candidates = (seat.node, *others) if calls is None else (calls.node,)
        return Seated(
            number=number,
            seat=seat,
            candidates=candidates,
            found=found,
            profile=profile,
            state=CycleState(seat.plugin_data if calls is None else calls.data(seat.plugin_data)),
            held=calls is not None or pod.key in self._cache.held_places,
            rules=across_nodes.rules_of(pod, profile, self._cache.surroundings),
            computation=request.computations[seat.stretch],
            tenant=self._eligibility.named_tenant(pod),
            promised=self._cache.upstream is not None,
        )

    def refresh(self, seated: Seated) -> bool:
        """Take the pod as the watch shows it now, if that is newer; False when etcd has to be asked about it."""
        known = self._eligibility.from_cache(seated.reference)
        if known is not None and known.pod.mod_revision >= seated.found.pod.mod_revision:
            self.take(seated, known)
            return True
        read_at = max(seated.found.read_at, seated.found.pod.mod_revision)
        if (
            self._cache.progress.revision >= read_at
            or self._eligibility.verdict(seated.reference, seated.found.pod) is not None
        ):
            return False
        self.take(seated, seated.found)  # the watch has not shown yet what was read
        return True

    def take(self, seated: Seated, found: StoredPod) -> None:
        """The pod as it is now, and its rules."""
        seated.found = found
        seated.rules = across_nodes.rules_of(found.pod, seated.profile, self._cache.surroundings)
        seated.tenant = self._eligibility.named_tenant(found.pod)

    # --- its node -----------------------------------------------------------------------------

    def refusal(self, seated: Seated, together: Collection[PodIdentity] = ()) -> str:
        """Why the pod must not be bound there; empty when it may: then it counts there. Raises `PluginError`."""
        pod = seated.found.pod
        lost = self._verification.refusal(pod, seated.node, seated.computation, seated.rules, together)
        if not lost:
            self._cache.assume_there(pod, seated.node)  # those that are verified next see it
        return lost

    def refusal_after(self, seated: Seated, surely: Snapshot) -> str:
        """Why the pod must not be bound after what is sure; empty when it may: then it counts there.

        Raises `PluginError`.
        """
        pod = seated.found.pod
        lost = self._verification.refusal_after(pod, seated.node, seated.computation, surely)
        if not lost:
            self._cache.assume_there(pod, seated.node)
        return lost

    def leans(self, seated: Seated) -> bool:
        """Whether the pod may be bound there if all pods are bound that this worker assumes. Raises `PluginError`."""
        if not seated.rules.leans:
            return False
        assumed = frozenset(one.identity for one in self._cache.assumed())
        pod = seated.found.pod
        return not self._verification.refusal(pod, seated.node, seated.computation, seated.rules, assumed)

    def ask_plugins(self, work: Work, seated: Seated) -> Status:
        """PreBind and Bind, and the pod's volumes: the first refusal, or success. Raises `PluginError`.

        Of asynchronous plugins it notes which ones are due.
        """
        calls = work.calls or NO_CALLS
        agreed = points.ask_to_bind(seated.profile, seated.state, seated.found.pod, seated.node, calls)
        seated.steps = agreed.steps
        return self._take_volumes(seated) if agreed.status.ok and seated.found.pod.claims else agreed.status

    def _take_volumes(self, seated: Seated) -> Status:
        """Work out again which volumes the pod gets on its node, and what the bind has to do about them."""
        pod = seated.found.pod
        needed = volumes.needed(pod, seated.node, self._cache)
        if needed is None:
            return unschedulable(MOVED_VOLUMES.format(node=seated.node)).by(VOLUME_BINDING)
        if self._cache.upstream is None:
            refused = volumes.refusal(needed.steps, seated.node)
            if refused is not None:
                return refused
            wanted = volumes.stored_keys(pod, needed.steps)
            if not seated.stored.keys() >= set(wanted):
                return unschedulable(MOVED_VOLUMES.format(node=seated.node)).by(VOLUME_BINDING)
            needed = replace(needed, stored={key: seated.stored[key] for key in wanted})
        seated.volumes = needed
        return SUCCESS

    async def read_volumes(self, seats: Iterable[Seated], limits: Limits) -> None:
        """Read the volumes and claims that binds of these seats would write: only where etcd itself is the store.

        Raises `StoreError`.
        """
        if self._cache.upstream is not None:
            return
        wanted: list[tuple[Seated, list[str]]] = []
        for seated in seats:
            pod = seated.found.pod
            needed = volumes.needed(pod, seated.node, self._cache) if pod.claims else None
            if needed is not None and (of_seat := volumes.stored_keys(pod, needed.steps)):
                wanted.append((seated, of_seat))
        all_of_them = list(dict.fromkeys(key for _, of_seat in wanted for key in of_seat))
        read: dict[str, KeyValue] = {}
        for begin in range(0, len(all_of_them), limits.operations):
            some = [Get(key) for key in all_of_them[begin : begin + limits.operations]]
            read |= {kv.key: kv for kv in (await self._store.txn([], some)).reads if kv is not None}
        for seated, of_seat in wanted:
            seated.stored = {key: read[key] for key in of_seat if key in read}

    @property
    def now(self) -> str:
        """RFC 3339, UTC; commits of one moment share it."""
        return rfc3339(self._utc_now())

    def commit(self, request: BindManyInput, seated: Seated, adopted: Node | None, now: str) -> Commit:
        """The commit as of now. `adopted`: the node as an answer of etcd had it, meaning the same."""
        known = self._cache.nodes[seated.node]
        newer = adopted is not None and adopted == known and adopted.mod_revision > known.mod_revision
        return Commit.of(
            seated,
            adopted if adopted is not None and newer else known,
            Known.of(seated, self._cache, self._eligibility.tenancy(seated.found.pod)),
            Stamp(f"{request.workflow_id}@{request.run_id}", now),
        )

    # --- the end ------------------------------------------------------------------------------

    def give_up(self, seated: Seated) -> None:
        """No transaction of it is out, and its seat is free again."""
        self._cache.forget(seated.identity)
        if seated.hold:  # a late try of this bind may happen until the record is gone (`answering`)
            seated.given_up = True
        else:
            self.undo(seated)

    def undo(self, seated: Seated) -> None:
        """Unreserve."""
        seated.profile.unreserve(seated.state, seated.found.pod, seated.seat.node)

    def _tell_gone(self, work: Work, seat: Seat, known: Seated | None) -> None:
        """Unreserve for a pod that is gone: the plugins get as much of it as is known."""
        if known is not None:
            known.profile.unreserve(known.state, known.found.pod, seat.node)
            return
        profile, pod = self._profiles.get(work.request.computations[seat.stretch].profile_name), self._known(seat)
        if profile is not None:
            calls = work.calls or NO_CALLS
            profile.unreserve(CycleState(calls.data(seat.plugin_data)), pod, calls.node or seat.node)

    def _tell_bound(self, work: Work, seat: Seat) -> None:
        """PostBind, and the metric, for a pod that a Bind plugin has bound in etcd."""
        computation = work.request.computations[seat.stretch]
        profile = self._profiles.get(computation.profile_name)
        if not _is_bound_by_plugin(work) or work.calls is None or profile is None or self._cache.upstream is not None:
            return
        state = CycleState(work.calls.data(seat.plugin_data))
        points.tell_bound(profile, state, self._known(seat), work.calls.node)
        self._tally.bound(profile.name, computation, self._clock() - work.began, 1)

    def _known(self, seat: Seat) -> Pod:
        """As much of the pod as is known."""
        pod = self._cache.pods.get(reference(seat).key)
        if pod is not None and pod.identity == identity(seat):
            return pod
        return Pod(seat.namespace, seat.name, seat.uid, create_revision=seat.create_revision)


def _is_bound_by_plugin(work: Work) -> bool:
    """Whether an asynchronous Bind plugin says that it has bound the pod: only etcd can tell."""
    return work.calls is not None and bool(work.calls.bound_by)
