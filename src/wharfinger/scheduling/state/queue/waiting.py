"""Pods that were refused and wait for an event, each with its record in etcd, and which of them an event may concern.

Some have no chain of their own: a group parks nothing for the pods that it turns away. Their record says all, and only
this worker's queue wakes them, into the next group. An urgent one gets a chain at once, because an attempt of its own
may help although nothing has happened. A start of a chain is confirmed by the record that its first attempt writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.queue.active_queue import InFlight
from wharfinger.scheduling.state.queue.entry import Entry, EntryHeap
from wharfinger.scheduling.state.queue.turns import FairHeap, Turns

PodClass = tuple[Any, ...]
"""What a decision reads of a pod; equal classes get equal answers on the same snapshot."""

Rejectors = tuple[str, ...]
"""Names of the plugins that refused a pod, sorted."""


def pod_class(pod: Pod) -> PodClass:
    """The class of a pod: everything but name, uid and revisions."""
    return (
        pod.scheduler_name,
        pod.namespace,
        pod.priority,
        pod.preemption_policy,
        pod.nominated_node_name,
        tuple(sorted(pod.requests.items())),
        pod.scoring_cpu,
        pod.scoring_memory,
        pod.host_ports,
        tuple(sorted(pod.node_selector.items())),
        pod.required_node_terms,
        pod.preferred_node_terms,
        pod.tolerations,
        pod.required_affinity,
        pod.required_anti_affinity,
        pod.preferred_affinity,
        pod.preferred_anti_affinity,
        pod.spread_constraints,
        pod.controller,
        pod.images,
        pod.container_count,
        pod.claims,
        pod.in_line_volumes,
        pod.required_features,
        pod.unsupported,
        pod.group,
        pod.gang,
        pod.hard_terms_across_nodes,
        tuple(sorted(pod.labels.items())),
    )


@dataclass(slots=True, eq=False)
class Equals:
    """Waiting pods that the same plugins refuse and that are equal for every decision, in order of arrival."""

    rejectors: Rejectors
    pod_class: PodClass
    members: dict[PodKey, Entry] = field(default_factory=dict)


class Candidates:
    """Index of waiting pods: rejecting plugins -> class -> pods.

    Pods of one class cannot be told apart by any decision, so a hint is asked once a class. The plugins are those of
    the pod's record and, once the pod was decided in memory, also those that refused it then: by then, the reason in
    its record may be gone.
    """

    def __init__(self) -> None:
        self._index: dict[Rejectors, dict[PodClass, Equals]] = {}
        self._where: dict[PodKey, Equals] = {}

    def add(self, entry: Entry) -> None:
        """Index a waiting pod by its refusal. One that is indexed already, and has changed, keeps its rejectors."""
        before = self._where.get(entry.key)
        self.discard(entry.key)
        refusal = entry.refusal
        rejectors = before.rejectors if before is not None else refusal.rejectors if refusal is not None else ()
        self._put(Equals(rejectors, pod_class(entry.pod), {entry.key: entry}))

    def refused_again(self, key: PodKey, rejectors: Rejectors) -> None:
        """A waiting pod and its equals do not fit now: these plugins refuse them, perhaps others than before."""
        equals = self._where.get(key)
        if equals is None:  # it left while others were decided
            return
        union = tuple(sorted({*equals.rejectors, *rejectors}))
        if union != equals.rejectors:
            self._remove(equals)
            self._put(Equals(union, equals.pod_class, equals.members))

    def _put(self, equals: Equals) -> None:
        present = self._index.setdefault(equals.rejectors, {}).setdefault(equals.pod_class, equals)
        present.members.update(equals.members)
        self._where.update(dict.fromkeys(equals.members, present))

    def _remove(self, equals: Equals) -> None:
        classes = self._index[equals.rejectors]
        del classes[equals.pod_class]
        if not classes:
            del self._index[equals.rejectors]

    def discard(self, key: PodKey) -> None:
        """Take the pod out of the index, if it is in."""
        equals = self._where.pop(key, None)
        if equals is None:
            return
        del equals.members[key]
        if not equals.members:
            self._remove(equals)

    def equals_of(self, key: PodKey) -> Equals:
        """A waiting pod and its equals."""
        return self._where[key]

    def rejectors(self) -> list[Rejectors]:
        """The different sets of plugins that keep pods waiting; there are few, however many pods."""
        return list(self._index)

    def refused_by(self, rejectors: Rejectors) -> list[Equals]:
        """The pods that exactly these plugins refused, class by class."""
        return list(self._index.get(rejectors, {}).values())


class Urgent:
    """Urgent pods without a chain: who gets one next, in the queue's order."""

    def __init__(self, order: Callable[[Pod, float], Any], confirm_after: float, turns: Turns) -> None:
        """`confirm_after`: seconds until a start that no record confirms is repeated."""
        self._order = order
        self._ready = FairHeap(turns)
        self._held = EntryHeap()
        self._starting = InFlight(confirm_after)
        self._repeated: set[PodKey] = set()

    def __len__(self) -> int:
        return len(self._ready) + len(self._held) + len(self._starting)

    def __contains__(self, key: PodKey) -> bool:
        return any(key in part for part in (self._ready, self._held, self._starting))

    @property
    def unconfirmed(self) -> int:
        """How many starts no record has confirmed."""
        return len(self._starting)

    def repeated(self, key: PodKey) -> bool:
        """Whether the pod's start was accepted before, and no record came of it: it may have joined a parked chain."""
        return key in self._repeated

    def add(self, entry: Entry, now: float, not_before: float = 0.0) -> None:
        """The pod waits, and has no chain; it gets none before clock seconds `not_before`."""
        self.discard(entry.key)
        if not_before > now:
            self._held.push(entry, not_before)
        else:
            self._queue(entry)

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        self._repeated.discard(key)
        for heap in (self._ready, self._held):
            if heap.discard(key):
                return
        self._starting.discard(key)

    def pop(self, now: float) -> Entry | None:
        """The next pod to get a chain, whose start is unconfirmed from now on; None when there is none now."""
        self._release(now)
        entry = self._ready.pop()
        if entry is not None:
            self._starting.add(entry)
        return entry

    def started(self, entry: Entry, now: float) -> None:
        """Temporal accepted the start."""
        self._starting.started(entry, now)

    def return_overdue(self, now: float) -> None:
        """Give pods another start that no record has confirmed in time, after pods of equal priority that had none."""
        for entry in self._starting.overdue(now):
            self._starting.discard(entry.key)
            entry.arrival = now
            self._repeated.add(entry.key)
            self._queue(entry)

    def _queue(self, entry: Entry) -> None:
        self._ready.push(entry, self._order(entry.pod, entry.arrival))

    def _release(self, now: float) -> None:
        while (first := self._held.first()) is not None and first[0] <= now:
            entry = self._held.pop()
            if entry is not None:
                self._queue(entry)


class Waiting:
    """The waiting pods, their index for events, and when each is due to be started again.

    A start of a pod whose chain is open adds nothing to it; one whose chain vanished (a user
    terminated it) comes back that way, whatever happened. A pod without a chain goes into the next group instead.
    """

    def __init__(self, order: Callable[[Pod, float], Any], confirm_after: float, turns: Turns) -> None:
        self.candidates = Candidates()
        self.urgent = Urgent(order, confirm_after, turns)
        self._entries: dict[PodKey, Entry] = {}
        self._restarts = EntryHeap()
        self._chainless: set[PodKey] = set()
        self._gang_of: dict[PodKey, GangKey] = {}
        self._gangs: Counter[GangKey] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def chains(self) -> int:
        """How many chains are parked for waiting pods, or will be when a start is confirmed; a gang's is one."""
        chained = len(self._entries) - len(self._chainless)
        return chained - len(self._gang_of) + len(self._gangs) + self.urgent.unconfirmed

    @property
    def chainless(self) -> int:
        """How many pods wait without a chain."""
        return len(self._chainless)

    def get(self, key: PodKey) -> Entry | None:
        """The waiting pod's entry, if it waits."""
        return self._entries.get(key)

    def add(self, entry: Entry, now: float, restart_at: float, not_before: float = 0.0) -> None:
        """The pod waits, with the refusal in its entry.

        Clock seconds: when it is started again whatever happens, or, of an urgent one, before when it gets no chain.
        """
        self._entries[entry.key] = entry
        self.candidates.add(entry)
        if entry.chainless:
            self._chainless.add(entry.key)
        if entry.refusal is not None and entry.chainless and entry.refusal.urgent:
            self.urgent.add(entry, now, not_before)
        else:
            self._restarts.push(entry, restart_at)
            self.regrouped(entry)

    def discard(self, key: PodKey) -> None:
        """Take the pod out, if it is in."""
        if self._entries.pop(key, None) is not None:
            self.candidates.discard(key)
            self._chainless.discard(key)
            if not self._restarts.discard(key):
                self.urgent.discard(key)
            self._forget_gang(key)

    def regrouped(self, entry: Entry) -> None:
        """The waiting pod may have another gang, whose chain waits for all its members."""
        self._forget_gang(entry.key)
        if entry.gang is not None and entry.key not in self._chainless:
            self._gang_of[entry.key] = entry.gang.key
            self._gangs[entry.gang.key] += 1

    def _forget_gang(self, key: PodKey) -> None:
        gang = self._gang_of.pop(key, None)
        if gang is not None:
            self._gangs[gang] -= 1
            if not self._gangs[gang]:
                del self._gangs[gang]

    def due_restarts(self, now: float, again_at: Callable[[], float], limit: int) -> list[Entry]:
        """At most `limit` pods that are due to be started again; each is due next at its own `again_at()`."""
        due: list[Entry] = []
        while len(due) < limit and (first := self._restarts.first()) is not None and first[0] <= now:
            due.append(first[1])
            self._restarts.push(first[1], again_at())
        return due

    def start_at(self, entry: Entry, now: float, at: float) -> None:
        """The waiting pod's chain is to be started at clock seconds `at`, and not before."""
        if entry.key in self._restarts:
            self._restarts.push(entry, at)
        else:
            self.urgent.add(entry, now, at)
