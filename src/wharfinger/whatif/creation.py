"""Making the given pods, and those of the given workloads, as an API server and its controllers make them.

In the order in which the objects were given: each object passes admission, takes a name that is free by then, and may
use up a quota. A pod that is not made is a subject all the same, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.texts import counted
from wharfinger.whatif import claims, daemons, workloads
from wharfinger.whatif.admission import NotMade
from wharfinger.whatif.admission.chain import AdmissionChain, is_new
from wharfinger.whatif.claims import bound_at_once
from wharfinger.whatif.inventory import Inventory, Obj, Ref, ended, node_of

_POD = "Pod"
_NAMED = 3
Put = Callable[[Ref, Obj], None]


@dataclass(frozen=True, slots=True)
class Creation:
    """A pod that was to be made."""

    ref: Ref
    obj: Obj
    not_made: str = ""
    """Why it was not made; empty when it was, or is there already."""


class Creator:
    """Makes pods and their claims, and puts them where the question is played."""

    def __init__(
        self,
        inventory: Inventory,
        given: Sequence[Ref],
        admission: AdmissionChain,
        put: Put,
        storage: Callable[[], Storage],
    ) -> None:
        """`put`: adds an object that was made; `storage`: what there is of volumes by now. Raises `InvalidObject`."""
        self._inventory = inventory
        self._given = given
        self._admission = admission
        self._put = put
        self._storage = storage
        self._workloads = workloads.MissingPods(inventory, given)
        self._daemons = daemons.MissingDaemons(inventory)
        self._refused: dict[str, list[str]] = {}
        """Why claims were not made -> their names."""
        self.supplied: set[Ref] = set()
        """Claims whose volumes were made at once, somewhere."""

    def all(self, added_nodes: Collection[str], displaced: Collection[Ref]) -> Iterator[Creation]:
        """Everything that the given objects lead to. Raises `InvalidObject`, `UsageError`.

        `added_nodes`: nodes that are new; they get the pods of the other DaemonSets too. `displaced`: pods that had to
        leave a node, and so were made before.
        """
        for ref in self._given:
            if ref in displaced:
                continue
            obj = self._inventory.get(ref)
            if obj is not None and ref.kind == _POD:
                if is_new(ref, obj):
                    yield self._given_pod(ref, obj)
                elif not node_of(obj) and not ended(obj):
                    yield Creation(ref, obj)
            elif ref.kind == daemons.KIND:
                yield from self._controlled(ref, self._daemons.of(ref))
            elif ref.kind in workloads.KINDS:
                yield from self._controlled(ref, self._workloads.of(ref))
        given = frozenset(self._given)
        for ref, _ in self._inventory.of_kind(daemons.KIND) if added_nodes else ():
            if ref not in given:
                yield from self._controlled(ref, self._daemons.of(ref, added_nodes))

    def daemons(self) -> Iterator[Creation]:
        """The pods that the given DaemonSets lack. Raises `InvalidObject`."""
        for ref in self._given:
            if ref.kind == daemons.KIND:
                yield from self._controlled(ref, self._daemons.of(ref))

    def make(self, ref: Ref, obj: Obj) -> Creation:
        """Make one pod, and the claims of its ephemeral volumes. Raises `InvalidObject`."""
        admitted = self._admission.admit(ref, obj)
        if isinstance(admitted, NotMade):
            self._inventory.remove(ref)
            return Creation(ref, obj, admitted.reason)
        self._inventory.put(admitted)
        self._put(ref, admitted)
        for claim in claims.of_ephemeral_volumes(ref, admitted):
            of = Ref(claims.CLAIM, ref.namespace, claim["metadata"]["name"])
            if of not in self._inventory:
                try:
                    self.make_claim(claim)
                except InvalidObject as error:
                    raise InvalidObject(f"{of}: {error}") from None
        return Creation(ref, admitted)

    def make_ephemeral_claims_again(self, ref: Ref, pod: Obj) -> None:
        """Do so for another life of the pod: the claims of the old one went with it, and quotas count as many."""
        for claim in claims.of_ephemeral_volumes(ref, pod):
            self._supply(self._inventory.put(self._admission.with_default_class(claim)))

    def make_claim(self, obj: Obj) -> str:
        """Make a claim; why it is not made, else empty. Raises `InvalidObject`."""
        ref = Ref(claims.CLAIM, mapping(obj, "metadata")["namespace"], mapping(obj, "metadata")["name"])
        admitted = self._admission.admit(ref, obj)
        if isinstance(admitted, NotMade):
            self._inventory.remove(ref)
            self._refused.setdefault(admitted.reason, []).append(str(ref))
            return admitted.reason
        self._supply(self._inventory.put(admitted))
        return ""

    def _supply(self, ref: Ref) -> None:
        """Put a claim of the inventory, with its volume if it is bound at once."""
        claim = self._inventory.get(ref)
        assert claim is not None
        self._put(ref, claim)
        found = bound_at_once(ref, claim, self._inventory, self._storage())
        if found is None:
            return
        if found.is_made:
            self.supplied.add(ref)
        for obj in (found.volume, found.claim):
            self._put(self._inventory.put(obj), obj)

    @property
    def notes(self) -> list[str]:
        """What was not made beside pods, and which workloads stand for no pods."""
        refused = [f"{counted(said, _NAMED)} {_is(said)} not made: {reason}" for reason, said in self._refused.items()]
        made = "made at once, and taken to be reachable from every node that their class allows"
        claims = counted(sorted(map(str, self.supplied)), _NAMED)
        supplied = [f"volumes of {claims} are {made}"] if claims else []
        return [*refused, *supplied, *self.idle]

    @property
    def idle(self) -> list[str]:
        """Which workloads stand for no pods, and why."""
        found: dict[str, list[str]] = {}
        for ref, why in self._workloads.idle.items():
            found.setdefault(why.value, []).append(str(ref))
        for ref in self._daemons.nowhere:
            found.setdefault("for none of the nodes", []).append(str(ref))
        return [f"{counted(names, _NAMED)} {_is(names)} {why}, and no pod is made" for why, names in found.items()]

    def _given_pod(self, ref: Ref, obj: Obj) -> Creation:
        try:
            return self.make(ref, obj)
        except InvalidObject as error:
            raise InvalidObject(f"{ref}: {error}") from None

    def _controlled(self, owner: Ref, objects: Iterator[Obj]) -> Iterator[Creation]:
        known = self._inventory.get(owner)
        refused = "" if known is None else self._refusal(owner, known)
        return self.made(owner, objects, refused)

    def made(self, owner: Ref, objects: Iterable[Obj], refused: str = "") -> Iterator[Creation]:
        """Make what a controller makes. Raises `InvalidObject`, naming the owner.

        Without a ReplicaSet there are no pods, and without its claims, which come before it, there is no pod.
        `refused`: why there are none at all.
        """
        lacking = ""
        for obj in objects:
            metadata = mapping(obj, "metadata")
            ref = Ref(obj["kind"], metadata["namespace"], metadata["name"])
            try:
                if ref.kind == _POD:
                    not_made = refused or lacking
                    yield Creation(ref, obj, not_made) if not_made else self.make(ref, obj)
                    lacking = ""
                elif not refused and ref.kind == claims.CLAIM:
                    failed = self.make_claim(obj)
                    if failed and not lacking:
                        lacking = f"{ref}: {failed}"
                elif not refused:
                    refused = self._refusal(ref, obj)
                    self._put(self._inventory.put(obj), obj)
            except InvalidObject as error:
                said = f"{ref}: {error}"
                if ref.kind == _POD:
                    said = str(error) if owner.kind == _POD else workloads.by_template(owner, error)
                raise InvalidObject(f"{owner}: {said}") from None

    def _refusal(self, ref: Ref, obj: Obj) -> str:
        """Why a workload itself is not made; empty when it is, or is there already."""
        admitted = self._admission.admit(ref, obj) if is_new(ref, obj) else obj
        return f"{ref}: {admitted.reason}" if isinstance(admitted, NotMade) else ""


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
