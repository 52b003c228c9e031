"""Where a what-if question is played: a simulated cluster with the objects, the changes made, the pods to place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.occupants import stand_in
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.priority import PRIORITY_CLASS
from wharfinger.whatif import budgets, daemons, workloads
from wharfinger.whatif.admission.chain import KINDS as ADMISSION_KINDS
from wharfinger.whatif.admission.chain import AdmissionChain, is_new
from wharfinger.whatif.changes import NodeChanges, added_nodes, cordoned, displaced_pods
from wharfinger.whatif.claims import CLAIM
from wharfinger.whatif.creation import Creation, Creator
from wharfinger.whatif.inventory import Inventory, Obj, Ref, ended, node_of
from wharfinger.whatif.outcome import Cause, Use, use_of
from wharfinger.whatif.simulator.cluster import KINDS as SIMULATED_KINDS
from wharfinger.whatif.simulator.simulator import Simulator
from wharfinger.whatif.unknown import Unknown

KINDS = tuple(dict.fromkeys((*SIMULATED_KINDS, *workloads.KINDS, daemons.KIND, *ADMISSION_KINDS)))
"""Kinds of objects that mean something to a question; all others can be left out."""
_TURNS = {PRIORITY_CLASS: 0, CLAIM: 2}
"""When objects are put, others at 1: classes first, because after each one the pods there are looked through; claims
last, because new ones are bound to the volumes that are there."""
_POD = "Pod"
_NODE = "Node"
Config = Mapping[str, Any] | Path | str | None
Progress = Callable[[int, int], None]
"""Called with how much is done, of how much."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod to be placed."""

    key: PodKey
    cause: Cause
    workload: str = ""
    left: str = ""
    daemon: bool = False
    """Whether it belongs to its node, and so is placed before other pods."""
    not_made: str = ""
    """Why an API server would not make it; empty for a pod that is there."""


class Scene:
    """A simulated cluster, and what is supposed to happen in it."""

    def __init__(
        self,
        inventory: Inventory,
        given: Iterable[Ref],
        config: Config = None,
        *,
        all_plugins: bool = False,
        stand_ins: Iterable[Ref] = (),
    ) -> None:
        """`given`: which objects of the inventory were given by hand; the others were read from a live state.

        `all_plugins`: plugins of installed packages take part although the configuration does not name them.
        `stand_ins`: pods of the live state that cannot be read; the inventory has what they hold on their nodes.
        """
        self.inventory = inventory
        self.simulator = Simulator(config, all_plugins=all_plugins)
        self.notes = [
            f"plugin {plugin.name} (of {plugin.origin}) is installed, but the configuration does not name it"
            for plugin in self.simulator.not_enabled
        ]
        self.objects: dict[PodKey, Obj] = {}
        """Of the pods that may be evicted or placed, as they were put there."""
        self._given = list(dict.fromkeys(given))
        self._by_hand = frozenset(self._given)
        self.unknown = Unknown(inventory, self._by_hand)
        self._stand_ins = {self._key(ref) for ref in stand_ins}
        """Bound pods that cannot be read."""
        self._added: set[str] = set()
        """Nodes that come by a change."""
        self._displaced: set[Ref] = set()
        """Pods that leave by a change."""
        self.before: Use | None = None
        """The cluster's use before anything changed."""

    def load(self, progress: Progress = lambda _done, _total: None) -> None:
        """Put every object where it is now. Objects of the live state that cannot be read are left out, with a note.

        Of such a pod that is bound, what it holds on its node counts, as it does for a worker. Raises `InvalidObject`
        for what was given.
        """
        unreadable = 0
        self._admission = AdmissionChain(self.inventory, self._by_hand, live=self.unknown.is_live)
        self.creator = Creator(
            self.inventory,
            self._given,
            self._admission,
            self._put,
            lambda: self.simulator.snapshot().surroundings.storage,
        )
        for obj in self.unknown.stand_ins():
            self.simulator.add(obj)
        everything = sorted(self.inventory, key=lambda entry: _TURNS.get(entry[0].kind, 1))
        for done, (ref, obj) in enumerate(everything, start=1):
            if ref.kind in SIMULATED_KINDS:
                try:
                    self._load(ref, obj)
                except InvalidObject as error:
                    if ref in self._by_hand:
                        raise InvalidObject(f"{ref}: {error}") from None
                    if not self._put_stand_in(ref, obj):
                        unreadable += 1
            progress(done, len(everything))
        if unreadable:
            self.notes.append(f"{unreadable} objects of the live state cannot be read and do not count")
        if self._stand_ins:
            held = "what they hold on their nodes counts, nothing else"
            self.notes.append(f"{len(self._stand_ins)} bound pods of the live state cannot be read: {held}")
        self._note_strays()
        self.before = use_of(self.simulator.snapshot())

    def change(self, changes: NodeChanges) -> list[Subject]:
        """Make the changes; answers the pods that have to go elsewhere. Raises `UsageError`."""
        changes.check(self.inventory)
        for more in changes.more:
            for node, own in list(added_nodes(self.inventory, more)):
                self._added.add(mapping(node, "metadata")["name"])
                for obj in (node, *own):
                    self._put(self.inventory.put(obj), obj)
        for name in dict.fromkeys((*changes.cordoned, *changes.drained)):
            known = self.inventory.get(Ref(_NODE, "", name))
            assert known is not None
            self._put(self.inventory.put(cordoned(known)), cordoned(known))
        displaced = [
            (ref, pod, name)
            for name in dict.fromkeys(changes.drained)
            for ref, pod in displaced_pods(self.inventory, name)
        ]
        unreadable = [ref for ref, _, _ in displaced if self._key(ref) in self._stand_ins]
        for ref in unreadable:
            self._take_out(self._key(ref))
        if unreadable:
            self.notes.append(f"{len(unreadable)} pods of drained nodes cannot be read and are placed nowhere")
        displaced = [entry for entry in displaced if entry[0] not in unreadable]
        leaving = ((ref, self.inventory.get(ref) or pod) for ref, pod, _ in displaced)
        self.notes += budgets.notes_of_drain(self.inventory, leaving)
        self._displaced.update(ref for ref, _, _ in displaced)
        return [self._displace(ref, pod, name) for ref, pod, name in displaced]

    def given_pods(self, *, waiting: bool = False) -> list[Subject]:
        """The given pods that have no node, and those of the given workloads; with `waiting`, of the live state too.

        In the order in which they were given. Raises `InvalidObject`, `UsageError`.
        """
        found = [
            self._subject(made.ref, Cause.GIVEN, obj=made.obj, not_made=made.not_made)
            for made in self.creator.all(self._added, self._displaced)
        ]
        if waiting:
            known = {subject.key for subject in found}
            found += [self._subject(ref, Cause.WAITING) for ref in self._waiting() if self._key(ref) not in known]
        return found

    def make(self, owner: Ref, objects: Iterable[Obj]) -> Creation:
        """Make one more pod of a pod or workload that was given, the last of the objects, behind its claims.

        Raises `InvalidObject`, naming the owner.
        """
        (made,) = self.creator.made(owner, objects)
        return made

    def daemon_pods(self) -> list[PodKey]:
        """The pods that the given DaemonSets lack, made and to be placed. Raises `InvalidObject`."""
        return [self._key(made.ref) for made in self.creator.daemons() if not made.not_made]

    def withdraw(self, key: PodKey) -> None:
        """Take a pod out again, if it is there without a node."""
        if key in self.objects and not node_of(self.objects[key]):
            self._take_out(key)

    def make_again(self, key: PodKey, obj: Obj) -> None:
        """Put a pod that had to leave there again, without a node."""
        self.simulator.add(obj)
        self.objects[key] = obj
        ref = Ref(_POD, *key)
        self.creator.make_ephemeral_claims_again(ref, obj)
        for of, budget in budgets.after_eviction(self.inventory, self._by_hand, ref, obj):
            self._put(of, budget)
            self.inventory.put(budget)

    def workload_of(self, key: PodKey) -> str:
        """What makes the pod again when it goes, as `<kind>/<name>`; empty for nothing."""
        return self._maker(Ref(_POD, *key), self.objects[key])

    def leans_on(self, key: PodKey, *, evicted: Iterable[PodKey] = ()) -> tuple[str, ...]:
        """What the decision for a pod leans on that the question does not contain, in words.

        `evicted`: the pods that had to leave for it.
        """
        found = self.unknown.of(Ref(_POD, *key), self.objects[key], self.creator.supplied)
        leaving = {self.unknown.budgets(Ref(_POD, *one)) for one in evicted}
        return (*found, *sorted(leaving - {""}))

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What was left out, supposed, or not made."""
        return (*self.notes, *self.creator.notes, *self.unknown.notes)

    # --- inside -------------------------------------------------------------------------------

    def _load(self, ref: Ref, obj: Obj) -> None:
        """Put an object, as an API server and its controllers leave it if it was given. New pods come later."""
        if ref not in self._by_hand:
            self._put(ref, obj)
        elif ref.kind == CLAIM and is_new(ref, obj):
            self.creator.make_claim(obj)
        elif ref.kind != _POD or not is_new(ref, obj):
            if ref.kind == CLAIM:
                obj = self._admission.with_default_class(obj)
            elif ref.kind == budgets.KIND:
                obj = budgets.with_status(self.inventory, ref, obj)
            self._put(self.inventory.put(obj), obj)

    def _put(self, ref: Ref, obj: Obj) -> None:
        self.simulator.add(obj)
        if ref.kind == _POD:
            self.objects[self._key(ref)] = obj

    def _put_stand_in(self, ref: Ref, obj: Obj) -> bool:
        """Put what an unreadable pod holds on its node; whether it holds anything."""
        if ref.kind != _POD:
            return False
        with suppress(InvalidObject, RecursionError):
            held = stand_in(obj, namespace=ref.namespace, name=ref.name)
            if held is not None:
                self._put(ref, held)
                self._stand_ins.add(self._key(ref))
                return True
        return False

    def _take_out(self, key: PodKey) -> None:
        del self.objects[key]
        self.simulator.delete(_POD, key.name, key.namespace)

    def _waiting(self) -> list[Ref]:
        """Pods of the live state that wait for one of the profiles, the oldest first."""
        pods = [(ref, obj) for ref, obj in self.inventory.of_kind(_POD) if ref not in self._by_hand]
        pods.sort(key=lambda entry: str(mapping(entry[1], "metadata").get("creationTimestamp") or ""))
        return [ref for ref, _ in pods if self._to_place(ref) and self._served(self._key(ref))]

    def _served(self, key: PodKey) -> bool:
        try:
            self.simulator.queue_key(key, 0.0)
        except UsageError:
            return False
        return True

    @staticmethod
    def _key(ref: Ref) -> PodKey:
        return PodKey(ref.namespace, ref.name)

    def _to_place(self, ref: Ref) -> bool:
        obj = self.inventory.get(ref)
        key = self._key(ref)
        return ref.kind == _POD and obj is not None and key in self.objects and not node_of(obj) and not ended(obj)

    def _subject(
        self, ref: Ref, cause: Cause, left: str = "", *, obj: Obj | None = None, not_made: str = ""
    ) -> Subject:
        obj = self.objects[self._key(ref)] if obj is None else obj
        maker = self._maker(ref, obj)
        return Subject(self._key(ref), cause, maker, left, daemons.is_daemon(ref, obj), not_made)

    def _maker(self, ref: Ref, obj: Obj) -> str:
        owners = list(self.inventory.controllers(ref, obj))
        return f"{owners[-1].kind}/{owners[-1].name}" if owners else ""

    def _displace(self, ref: Ref, pod: Obj, node: str) -> Subject:
        key = self._key(ref)
        self.simulator.delete(_POD, ref.name, ref.namespace)
        self.inventory.put(pod)
        self.make_again(key, pod)
        return self._subject(ref, Cause.DRAINED, node)

    def _note_strays(self) -> None:
        """Pods on nodes that are not there count nowhere."""
        nodes = {ref.name for ref, _ in self.inventory.of_kind(_NODE)}
        if not nodes:
            raise UsageError("there is no node: give some with -f, or take the live state's with --live")
        pods = self.inventory.of_kind(_POD)
        strays = sum(bool(node_of(pod)) and node_of(pod) not in nodes for _, pod in pods)
        if strays:
            self.notes.append(f"{strays} pods are bound to nodes that are not there, and count nowhere")
