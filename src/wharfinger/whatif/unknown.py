"""What a question cannot know: objects that a cluster has, and that the files given do not contain.

A live state has all of them. Files may be the dump of some kinds only, such as that of nodes and pods. What is decided
without them is decided for the objects that are there, and says on what it leans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from functools import cached_property

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import mapping, mappings, text_map
from wharfinger.objects.documents.selectors import label_selector
from wharfinger.objects.documents.surroundings import NAME_LABEL
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.objects.model.texts import counted
from wharfinger.whatif.admission import chain
from wharfinger.whatif.admission.chain import is_new
from wharfinger.whatif.claims import CLAIM, named_by, of_ephemeral_volumes, owned_by
from wharfinger.whatif.inventory import Inventory, Obj, Ref, affinity_terms, ended

_NAMED = 5


class Unknown:
    """What the objects of a question refer to and do not contain."""

    def __init__(self, inventory: Inventory, by_hand: Collection[Ref]) -> None:
        """`by_hand`: the objects that were given; where there are others, these are a live state."""
        self._inventory = inventory
        self._by_hand = by_hand
        self._live = frozenset(ref for ref, _ in inventory if ref not in by_hand)
        self._dumped = any(mapping(pod, "metadata").get("uid") for _, pod in inventory.of_kind("Pod"))
        self._leaning: dict[str, set[Ref]] = {}
        """What is unknown -> pods whose decision leans on it."""

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of given objects that are not there themselves."""
        known = {ref.name for ref, _ in self._inventory.of_kind("Namespace")}
        return frozenset(ref.namespace for ref in self._by_hand if ref.namespace and ref.namespace not in known)

    def stand_ins(self) -> Iterator[Obj]:
        """What is there all the same: such namespaces, and the claims of pods that an API server has had already.

        These claims count as bound to volumes that every node reaches.
        """
        for name in sorted(self.namespaces):
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for claim, metadata in self._claims.items():
            yield from _bound(claim, metadata)

    def of(self, ref: Ref, pod: Obj, supplied: Collection[Ref] = ()) -> tuple[str, ...]:
        """What the decision for a pod leans on, in words; each is remembered for `notes`.

        `supplied`: claims whose volumes were made for the question, and may be elsewhere.
        """
        found = [f"claim {claim.name}" for claim in self._claims_of(ref, pod)]
        found += self._classes_of(ref, pod)
        if self._leans_on_labels(ref, pod):
            spaces = "namespace" if len(self.namespaces) == 1 else "namespaces"
            found.append(f"labels of {spaces} {counted(sorted(self.namespaces), _NAMED)}")
        name = chain.runtime_class_of(mapping(pod, "spec"))
        if name and self._live and ref not in self._live and Ref("RuntimeClass", "", name) not in self._inventory:
            found.append(f"RuntimeClass {name}")
        for what in found:
            self._leaning.setdefault(what, set()).add(ref)
        of_pod = (*named_by(ref, pod), *owned_by(ref, pod)) if supplied else ()
        return (*found, *(f"the place of the volume of {claim.name}" for claim in of_pod if claim in supplied))

    def budgets(self, ref: Ref) -> str:
        """Whether the eviction of a pod leans on budgets that are not given, in words; empty if it does not."""
        if self._live or not self._dumped or self._has_budgets:
            return ""
        what = "disruption budgets"
        self._leaning.setdefault(what, set()).add(ref)
        return what

    @property
    def is_live(self) -> bool:
        """Whether there is a live state."""
        return bool(self._live)

    @property
    def notes(self) -> list[str]:
        """One for each kind of unknown objects, with the number of pods."""
        kinds: dict[str, tuple[set[str], set[Ref]]] = {}
        for what, pods in self._leaning.items():
            kind, _, name = what.partition(" ") if what.startswith("claim ") else (what, "", "")
            names, together = kinds.setdefault(kind, (set(), set()))
            names.add(name)
            together.update(pods)
        return [_note(kind, names, len(pods)) for kind, (names, pods) in kinds.items()]

    # --- inside -------------------------------------------------------------------------------

    @cached_property
    def _claims(self) -> dict[Ref, Obj | None]:
        """Claims that must be there, because pods had them when they were bound; with the metadata of owned ones."""
        found: dict[Ref, Obj | None] = {}
        for ref, pod in self._inventory.of_kind("Pod") if not self._live else ():
            try:
                if ended(pod) or is_new(ref, pod):
                    continue
                found.update((claim, None) for claim in named_by(ref, pod) if claim not in self._inventory)
                for claim in of_ephemeral_volumes(ref, pod):
                    about = mapping(claim, "metadata")
                    owned = Ref(CLAIM, ref.namespace, about["name"])
                    if owned not in self._inventory:
                        found[owned] = about
            except InvalidObject:
                continue
        return found

    @cached_property
    def _has_budgets(self) -> bool:
        return bool(self._inventory.of_kind("PodDisruptionBudget"))

    @cached_property
    def _has_storage_classes(self) -> bool:
        return bool(self._inventory.of_kind("StorageClass"))

    def _classes_of(self, ref: Ref, pod: Obj) -> list[str]:
        """StorageClasses of the pod's claims that are not there while the claims have no volume."""
        found: dict[str, None] = {}
        for claim in (*named_by(ref, pod), *owned_by(ref, pod)) if not self._live else ():
            spec = mapping(self._inventory.get(claim) or {"spec": {"volumeName": "unknown"}}, "spec")
            name = spec.get("storageClassName")
            if spec.get("volumeName") or name == "":
                continue
            if name is None and not self._has_storage_classes:
                found["default StorageClass"] = None
            elif name is not None and Ref("StorageClass", "", str(name)) not in self._inventory:
                found[f"StorageClass {name}"] = None
        return list(found)

    def _claims_of(self, ref: Ref, pod: Obj) -> list[Ref]:
        if self._live:
            return []
        # A given claim that is not there was not made. One that a pod owns is made with it, unless the pod was there.
        of_pod = (*named_by(ref, pod), *(one for one in owned_by(ref, pod) if one in self._claims))
        return [one for one in of_pod if one not in self._inventory and one not in self._by_hand]

    def _leans_on_labels(self, ref: Ref, pod: Obj) -> bool:
        if not self.namespaces:
            return False
        if any(True for _ in _asked_by_labels(pod)):
            return True
        if ref.namespace not in self.namespaces:
            return False
        labels = text_map(mapping(pod, "metadata"), "labels", "metadata.")
        return any(selector.matches(labels) for selector in self._asked)

    @cached_property
    def _asked(self) -> tuple[LabelSelector, ...]:
        """The pods that a pod which is there means in namespaces with some labels: it may keep them away."""
        there = (pod for ref, pod in self._inventory.of_kind("Pod") if not is_new(ref, pod))
        asked = (selector for pod in there for selector in _asked_by_labels(pod))
        return tuple(dict.fromkeys(selector for selector in asked if selector is not None))


def _asked_by_labels(pod: Obj) -> Iterator[LabelSelector | None]:
    """The pods meant by each term that selects namespaces by other labels than names. Raises `InvalidObject`."""
    for term in affinity_terms(mapping(pod, "spec")):
        selector = mapping(term, "namespaceSelector")
        requirements = mappings(selector, "matchExpressions")
        if {*mapping(selector, "matchLabels"), *(one.get("key") for one in requirements)} - {NAME_LABEL}:
            yield label_selector(term, "labelSelector")


def _bound(claim: Ref, metadata: Obj | None) -> Iterator[Obj]:
    """A claim that is not given, and its volume. `metadata`: of a claim that a pod owns."""
    volume = f"not-given-{hashlib.sha256(str(claim).encode()).hexdigest()[:16]}"
    reference = {"namespace": claim.namespace, "name": claim.name}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {"claimRef": reference},
        "status": {"phase": "Bound"},
    }
    yield {
        "apiVersion": "v1",
        "kind": CLAIM,
        "metadata": metadata or reference,
        "spec": {"volumeName": volume},
        "status": {"phase": "Bound"},
    }


def _note(kind: str, names: Collection[str], pods: int) -> str:
    claims = counted(sorted(names), _NAMED)
    what = f"claims are not given ({claims})" if kind == "claim" else f"{kind} {_are(kind)} not given"
    them = "it" if _are(kind) == "is" else "them"
    return f"{what}; what becomes of {pods} {'pod' if pods == 1 else 'pods'} may depend on {them}"


def _are(kind: str) -> str:
    return "is" if "Class" in kind else "are"
