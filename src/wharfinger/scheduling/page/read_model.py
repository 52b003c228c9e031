"""The read model: what the cache does not count by itself, kept up to date change by change.

A `Subscriber` of the informer. Pods by state, waiting pods by reason, what happened a second, how long pods waited
(`page.rates`), and the last events of nodes. All of it is bounded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from wharfinger.objects.model.conditions import SCHEDULING_GATED
from wharfinger.objects.model.gang import GangKey, Standing, standing
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.process.names import TENANT_LABEL
from wharfinger.process.records import InstanceRecord
from wharfinger.scheduling.page.rates import NamespaceRates
from wharfinger.scheduling.page.reasons import NOT_TRIED, ReasonKey, reason_of
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes, NodeChange, PodChange, RecordChange
from wharfinger.scheduling.state.informer.view import View

MOST_EVENTS = 20_000
MOST_PREEMPTIONS = 200

BOUND, QUEUED, WAITING, HELD, TERMINATING, FINISHED = (
    "bound",
    "queued",
    "waiting",
    "gated",
    "terminating",
    "finished",
)
STATES = (BOUND, QUEUED, WAITING, HELD, TERMINATING, FINISHED)
"""Of pods: bound; not tried yet; refused, or plugins are called for them; held back; being deleted without a node;
ended.
"""


class NodeEvent(NamedTuple):
    """Something that happened to a node while the page looked."""

    time: datetime
    node: str
    what: str
    """`bound`, `left`, `finished`, `added`, `removed`, `taints`, `cordoned`, `uncordoned`, `ready`, `not ready`,
    `labels`, `allocatable`, `nominated`.
    """
    about: PodKey | str
    """A pod, or the new value."""


class Nomination(NamedTuple):
    """Room that preemption makes."""

    time: datetime
    pod: PodKey
    node: str


class ClusterModel:
    """See the module."""

    follows = None

    def __init__(
        self,
        cache: Cache,
        view: View,
        *,
        clock: Callable[[], float],
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
        marks: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        """`clock`: monotonic seconds; `marks`: what has changed when a key below one of its prefixes does."""
        self.cache = cache
        self.view = view
        self._clock = clock
        self._utc_now = utc_now
        self._marks = marks
        self.states: dict[str, Counter[str]] = {}
        """By namespace, how many pods are in each state."""
        self.reasons: dict[str, dict[ReasonKey, dict[PodKey, int]]] = {}
        """The waiting pods by namespace and reason, each with its create revision."""
        self.not_ready: set[str] = set()
        """Nodes that are there and not ready."""
        self.began = clock()
        self.rates = NamespaceRates(self.began, self.states.__contains__)
        self.instances: dict[tuple[str, str, int], InstanceRecord] = {}
        """Registrations by tenant, slot and incarnation."""
        self.events: deque[NodeEvent] = deque(maxlen=MOST_EVENTS)
        self.nominations: deque[Nomination] = deque(maxlen=MOST_PREEMPTIONS)
        self.changes = 0
        """Grows with every revision that changed something."""
        self.touched: set[str] = set()
        """What changed since it was last taken: `pod:<ns>/<name>`, `node:<name>`, `gang:<ns>/<name>`, and what has a
        part that did: `pods` and `gangs` (`?namespace=<ns>`: of one), `fleets`, `placements`, `kubernetes`.
        """
        self._reason_of: dict[PodKey, ReasonKey] = {}
        self._state_of: dict[PodKey, str] = {}
        self._appeared: dict[PodKey, float] = {}
        """When a pod that still waits appeared, or lost its last gate, monotonic seconds."""
        self.watched: set[str] = set()
        """Which of `touched` somebody wants to know."""

    # --- taking in ----------------------------------------------------------------------------

    def apply(self, changes: Changes) -> None:
        """Take in one revision."""
        now, stamp = self._clock(), self._utc_now()
        self.changes += 1
        for pod_change in changes.pods:
            self._pod(pod_change, now, stamp, listed=changes.listed)
        for record_change in changes.records:
            self._record(record_change, now, stamp, listed=changes.listed)
        for key in changes.holds:
            self._refile(key)
        for node_change in changes.nodes:
            self._node(node_change, stamp, listed=changes.listed)
        for one in changes.instances:
            place = one.tenant, one.slot, one.incarnation
            if one.new is None:
                self.instances.pop(place, None)
            else:
                self.instances[place] = one.new
        if changes.instances:
            self.touch("fleets")
        if changes.promises or changes.kubernetes:
            self.touch("kubernetes")
        for reclassified in changes.reclassified:
            self._pod(reclassified, now, stamp, listed=True)

    def passed_over(self, key: str) -> None:
        """A key changed that no pod or node is made of."""
        for mark, prefixes in self._marks.items():
            if key.startswith(prefixes):
                self.touch(mark)

    def touch(self, mark: str) -> None:
        """Note that something changed, if anybody wants to know."""
        if mark in self.watched:
            self.touched.add(mark)

    def _pod(self, change: PodChange, now: float, stamp: datetime, *, listed: bool) -> None:
        key, old, new = change
        now_there = self.cache.pods.get(key)
        if now_there is not None:
            key = now_there.key  # equal; one for all dictionaries takes less room
        self._file(key, now_there)
        if self.watched:
            self._touch(key, old, new)
        if listed:
            return
        node = new.node_name if new is not None else ""
        before = old.node_name if old is not None else ""
        reborn = old is not None and new is not None and old.identity != new.identity
        if new is not None and (old is None or reborn):
            self.rates.count("created", key.namespace, now)
            if new.pending:
                self._appeared[key] = now
        if node and (node != before or reborn) and not (new and new.finished):
            self.events.append(NodeEvent(stamp, node, "bound", key))
            self.rates.count("bound", key.namespace, now)
            since = self._appeared.pop(key, None)
            if since is not None:
                for rates in self.rates.counting(key.namespace, now):
                    rates.latency.add(now, now - since)
        elif new is None or not new.pending:
            self._appeared.pop(key, None)
        if before and (not node or reborn):
            self.events.append(NodeEvent(stamp, before, "left", key))
        elif old is not None and new is not None and node and new.finished and not old.finished:
            self.events.append(NodeEvent(stamp, node, "finished", key))

    def _record(self, change: RecordChange, now: float, stamp: datetime, *, listed: bool) -> None:
        self._refile(change.key)
        if listed or change.new is None:
            return
        if change.old is None or _run(change.old) != _run(change.new):
            self.rates.count("refused", change.key.namespace, now)
        nominated = change.new.nominated_node
        if nominated and (change.old is None or change.old.nominated_node != nominated):
            self.nominations.append(Nomination(stamp, change.key, nominated))
            self.events.append(NodeEvent(stamp, nominated, "nominated", change.key))

    def _refile(self, key: PodKey) -> None:
        """Something beside the pod changed by which it is counted: its record, or whether its room is held."""
        pod = self.cache.pods.get(key)
        if pod is not None:
            self._file(pod.key, pod)
            if self.watched:
                self._touch(pod.key, None, pod)

    def _node(self, change: NodeChange, stamp: datetime, *, listed: bool) -> None:
        name, old, new = change
        if new is None or new.ready:
            self.not_ready.discard(name)
        else:
            self.not_ready.add(name)
        if self.watched:
            self.touch(f"node:{name}")
        if listed:
            return
        if old is None or new is None:
            self.events.append(NodeEvent(stamp, name, "removed" if new is None else "added", ""))
            return
        if old.unschedulable != new.unschedulable:
            self.events.append(NodeEvent(stamp, name, "cordoned" if new.unschedulable else "uncordoned", ""))
        if old.ready != new.ready:
            self.events.append(NodeEvent(stamp, name, "ready" if new.ready else "not ready", ""))
        if old.taints != new.taints:
            said = ", ".join(f"{one.key}={one.value}:{one.effect}" for one in new.taints) or "none"
            self.events.append(NodeEvent(stamp, name, "taints", said[:500]))
        if old.labels != new.labels:
            self.events.append(NodeEvent(stamp, name, "labels", ""))
        if old.allocatable != new.allocatable:
            self.events.append(NodeEvent(stamp, name, "allocatable", ""))

    # --- reading ------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time of day."""
        return self._utc_now()

    def state_of(self, pod: Pod) -> str:
        """How a pod stands, in one of `STATES`."""
        return _state(pod, self._reason(pod.key, pod))

    def record_of(self, pod: Pod) -> Refusal | None:
        """The refusal that a pending pod waits with."""
        record = self.view.records.get(pod.key)
        return record if record is not None and record.create_revision in (0, pod.create_revision) else None

    def gang_standing(self, key: GangKey) -> Standing:
        """How a gang stands, by its members and its PodGroup."""
        return standing(key, self.cache.gangs.of(key), self.cache.surroundings.pod_group(*key))

    def counts(self, namespace: str = "") -> Counter[str]:
        """Pods by state, of one namespace or of all."""
        if namespace:
            return Counter(self.states.get(namespace, {}))
        total: Counter[str] = Counter()
        for counted in self.states.values():
            total.update(counted)
        return total

    def namespaces(self) -> list[str]:
        """Those with pods, sorted."""
        return sorted(name for name, counted in self.states.items() if +counted)

    def waiting(self, namespace: str = "") -> Iterator[tuple[ReasonKey, list[PodKey]]]:
        """The waiting pods by reason, the oldest first."""
        spaces = list(self.reasons.values()) if not namespace else [self.reasons.get(namespace, {})]
        for key in dict.fromkeys(key for reasons in spaces for key in reasons):
            pods = [one for reasons in spaces if key in reasons for one in reasons[key].items()]
            pods.sort(key=itemgetter(1))
            yield key, [pod for pod, _ in pods]

    def events_of(self, node: str, most: int = 100) -> list[NodeEvent]:
        """The last events of a node, the newest first."""
        found: list[NodeEvent] = []
        for event in reversed(self.events):
            if event.node == node:
                found.append(event)
                if len(found) == most:
                    break
        return found

    def take_touched(self) -> set[str]:
        """What changed since the last call, of what is watched."""
        taken, self.touched = self.touched, set()
        return taken

    # --- inside -------------------------------------------------------------------------------

    def _reason(self, key: PodKey, pod: Pod) -> ReasonKey | None:
        """Why a pod waits; None for one that is not pending."""
        if not pod.pending:
            return None
        return reason_of(pod, self.view.records.get(key), TENANT_LABEL, self.cache.held_places.get(key))

    def _file(self, key: PodKey, pod: Pod | None) -> None:
        """Count the pod where it belongs now, and no more where it was."""
        reason = self._reason(key, pod) if pod is not None else None
        state = _state(pod, reason) if pod is not None else None
        before = self._state_of.get(key)
        if before != state:
            if before == HELD and key in self._appeared:
                self._appeared[key] = self._clock()
            counted = self.states.setdefault(key.namespace, Counter())
            if before is not None:
                counted[before] -= 1
            if state is None:
                self._state_of.pop(key, None)
                if not +counted:
                    del self.states[key.namespace]
            else:
                counted[state] += 1
                self._state_of[key] = state
        known = self._reason_of.get(key)
        if known != reason and known is not None:
            reasons = self.reasons[key.namespace]
            del reasons[known][key]
            if not reasons[known]:
                del reasons[known]
                if not reasons:
                    del self.reasons[key.namespace]
            del self._reason_of[key]
        if reason is not None and pod is not None:
            self.reasons.setdefault(key.namespace, {}).setdefault(reason, {})[key] = pod.create_revision
            self._reason_of[key] = reason

    def _touch(self, key: PodKey, old: Pod | None, new: Pod | None) -> None:
        marks = {f"pod:{key}", "pods", f"pods?namespace={key.namespace}"}
        for pod in (old, new):
            if pod is not None:
                marks.update({f"node:{pod.node_name}"} if pod.node_name else ())
                if pod.group:
                    marks |= {f"gang:{pod.namespace}/{pod.group}", "gangs", f"gangs?namespace={pod.namespace}"}
        self.touched.update(marks & self.watched)


def _run(record: Refusal) -> tuple[str, str, int]:
    return record.workflow_id, record.run_id, record.attempt


def _state(pod: Pod, reason: ReasonKey | None) -> str:
    """One of `STATES`. `reason`: why it waits, None where it is not pending."""
    if reason is None:
        return FINISHED if pod.finished else BOUND if pod.node_name else TERMINATING
    return HELD if reason.reason == SCHEDULING_GATED else QUEUED if reason.reason == NOT_TRIED else WAITING
