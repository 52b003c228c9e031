"""Stands in for one worker of the past: its cache, its profiles, and the engine's own code that decides.

What is decided by code of the cluster's state is decided again; what was answered from outside is taken from the
record: extenders, Reserve and Permit, the clock. No plugin's Reserve or Permit is called, no request is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from wharfinger.framework.profile import Profile
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.process.names import COMMON
from wharfinger.process.transactions import Limits
from wharfinger.replay.facts import Memberships
from wharfinger.replay.recorded import Lack, Unreplayable
from wharfinger.scheduling.contracts.computation import Computation, Nominated
from wharfinger.scheduling.reading.recorded_verdicts import RecordedEngine
from wharfinger.scheduling.state.cache.assumptions import (
    DIGEST_MASK,
    OverlayChanges,
    digest_term,
    parsed_change,
    parsed_digest,
    parsed_lost,
)
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.view import View
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.telemetry import Metrics

MOST_FOR_THREE = 400
"""Pods in question, up to which three of them are tried together: ten million sums."""


class StandIn(RecordedEngine):
    """One worker, on a view of the state that goes along with it."""

    def __init__(
        self,
        view: View,
        format_: ClusterFormat,
        limits: Limits,
        metrics: Metrics,
        *,
        cluster: str,
        tenant: str,
        names: Iterable[str],
        lost: Iterable[str] = (),
    ) -> None:
        """`names`: of its pool's schedulers; `lost`: what decisions that are not recorded placed, in order."""
        self._lost = deque(map(parsed_lost, lost))
        self.view = view
        self._profiles: dict[str, Profile] = {}
        pool = Pool(view.cache, self._profiles, Ownership(frozenset(names), tenant or COMMON))
        super().__init__(pool, format_, Identity(cluster, "replay"), limits, metrics)

    @property
    def cache(self) -> Cache:
        """What it knows and assumes."""
        return self.view.cache

    def prepare(self, computation: Computation, profile: Profile, memberships: Memberships) -> None:
        """Be as the worker was, but for what it had assumed. Raises `Unreplayable`."""
        self._profiles[computation.profile_name] = profile
        self.cache.overlay_changes = OverlayChanges()  # nobody records what becomes of this one's assumptions
        own = computation.own_nodes
        members = memberships.of(own) if own is not None else ()
        self.resume(computation, members)
        if own is not None and not members:
            raise Unreplayable(Lack.MEMBERSHIP, f"{own.digest or 'no digest'} of the workers that shared the nodes")

    # --- what it had assumed ------------------------------------------------------------------

    def assume_as_recorded(
        self,
        computation: Computation,
        candidates: Iterable[tuple[PodIdentity, str]],
        but: PodIdentity | None = None,
    ) -> None:
        """Assume what the worker had assumed: by name, or checked by its digest. Raises `Unreplayable`.

        `candidates`: placements that any worker may have assumed; `but`: the lone pod that is decided.
        """
        while self._lost and self._lost[0][2] < computation.number:
            identity, node, _ = self._lost.popleft()
            pod = self.cache.pods.get(PodKey(identity.namespace, identity.name))
            if pod is not None and pod.identity == identity:
                self.cache.assume(pod, node)
        for told in (*computation.ended, *computation.begun):
            self._tell(told)
        if computation.overlay:
            self._check(computation.overlay, candidates, but)
        elif computation.approximate and not computation.number:
            raise Unreplayable(Lack.OVERLAY, "the record has neither names nor a digest of what was assumed")
        else:
            self._name(computation, but)
        self._check_state(computation, but)

    def _check_state(self, computation: Computation, but: PodIdentity | None) -> None:
        """Etcd's nodes and nominations are those that were decided on, as far as the record says them."""
        snapshot = self.cache.snapshot(excluding=but)
        if computation.nodes and computation.nodes != len(snapshot):
            raise Unreplayable(Lack.STATE, f"etcd held {len(snapshot)} nodes, and {computation.nodes} were decided on")
        if computation.approximate and not computation.nominated:
            return  # they were too many, or had to go
        ours = {
            Nominated(pod=str(pod.key), create_revision=pod.create_revision, node=node)
            for node, pods in snapshot.nominated.items()
            for pod in pods
            if pod.identity != but
        }
        different = ours.symmetric_difference(computation.nominated)
        if different:
            told = ", ".join(sorted(f"{one.pod} to {one.node}" for one in different)[:3])
            raise Unreplayable(Lack.STATE, f"nominations in etcd are not those that were decided on: {told}")

    def _tell(self, told: str) -> None:
        """Take in what became of one assumption otherwise."""
        identity, node = parsed_change(told)
        pod = self.cache.pods.get(PodKey(identity.namespace, identity.name))
        if not node:
            self.cache.forget(identity)
        elif pod is not None and pod.identity == identity:
            self.cache.assume(pod, node)

    def _own(self, but: PodIdentity | None) -> dict[PodIdentity, str]:
        return {one.identity: one.node for one in self.cache.assumed() if one.identity != but}

    def _name(self, computation: Computation, but: PodIdentity | None) -> None:
        wanted = {_identity(one.pod, one.create_revision): one.node for one in computation.assumed}
        ours = self._own(but)
        if ours == wanted:
            return
        for identity in ours.keys() - wanted.keys():
            self.cache.forget(identity)
        for identity, node in wanted.items():
            if ours.get(identity) != node:
                self._assume(identity, node)
        if self._own(but) != wanted:
            raise Unreplayable(
                Lack.STATE, "pods that the worker had assumed are bound, or have their room held, in etcd"
            )

    def _check(self, recorded: str, candidates: Iterable[tuple[PodIdentity, str]], but: PodIdentity | None) -> None:
        ours = self.cache.overlay_digest(but)
        if ours == recorded:
            return
        own = self._own(but)
        others = ((identity, node) for identity, node in candidates if own.get(identity) != node and identity != but)
        found = corrections(ours, recorded, own.items(), others)
        if found is None:
            raise Unreplayable(
                Lack.OVERLAY, f"what was assumed has the digest {recorded}, and what is known of it {ours}"
            )
        for one in sorted(found, key=lambda one: one.assumed):
            if one.assumed:
                self._assume(one.identity, one.node)
            else:
                self.cache.forget(one.identity)

    def _assume(self, identity: PodIdentity, node: str) -> None:
        pod = self.cache.pods.get(PodKey(identity.namespace, identity.name))
        if pod is None or pod.identity != identity:
            raise Unreplayable(Lack.STATE, f"etcd held no pod {identity.namespace}/{identity.name} that was assumed")
        self.cache.assume(pod, node)

    def settle(self, pod: Pod, again: str | None, recorded: str | None) -> None:
        """The pod was decided again for one node, and counts where the record says. None = on none."""
        if recorded is None:
            if again is not None:
                self.cache.forget(pod.identity)
        elif again != recorded:
            self.cache.assume(pod, recorded)


def _identity(pod: str, create_revision: int) -> PodIdentity:
    namespace, _, name = pod.partition("/")
    return PodIdentity(namespace, name, create_revision)


# --- where the record has only a digest -----------------------------------------------------------
#
# The worker's earlier decisions say what it may have assumed, and etcd what of that had ended. What neither says is
# left to the digest: a placement that was given up, or a pod that another worker decided and this one bound. As the
# digest is a sum, the difference of two sums says which few pods are too many or missing.


@dataclass(frozen=True, slots=True)
class Correction:
    """One pod that is to be assumed, or not to be assumed, on a node."""

    identity: PodIdentity
    node: str
    assumed: bool

    @property
    def count(self) -> int:
        """What it adds to the number of pods."""
        return 1 if self.assumed else -1

    @property
    def total(self) -> int:
        """What it adds to the sum."""
        added = digest_term(f"{self.identity.namespace}/{self.identity.name}", self.identity.create_revision, self.node)
        return added if self.assumed else -added


def corrections(
    ours: str, recorded: str, assumed: Iterable[tuple[PodIdentity, str]], others: Iterable[tuple[PodIdentity, str]]
) -> tuple[Correction, ...] | None:
    """What turns the one digest into the other: at most three corrections; None = it is not found.

    `assumed`: what makes our digest; `others`: what may be missing from it.
    """
    (our_count, our_total), (wanted, target) = parsed_digest(ours), parsed_digest(recorded)
    count, total = wanted - our_count, (target - our_total) & DIGEST_MASK
    if not count and not total:
        return ()
    possible = [Correction(*one, assumed=False) for one in assumed]
    possible += [Correction(*one, assumed=True) for one in others]
    for found in _sums(possible, total):
        if sum(one.count for one in found) == count:
            return found
    return None


def _sums(possible: Sequence[Correction], target: int) -> Iterator[tuple[Correction, ...]]:
    """The ways to reach the target by one, by two and by three of them."""
    totals = [one.total & DIGEST_MASK for one in possible]
    place_of = {total: place for place, total in enumerate(totals)}
    if target in place_of:
        yield (possible[place_of[target]],)
    for first, total in enumerate(totals):
        second = place_of.get((target - total) & DIGEST_MASK)
        if second is not None and second > first:
            yield possible[first], possible[second]
    if len(possible) > MOST_FOR_THREE:
        return
    for first, second in combinations(range(len(possible)), 2):
        third = place_of.get((target - totals[first] - totals[second]) & DIGEST_MASK)
        if third is not None and third > second:
            yield possible[first], possible[second], possible[third]
