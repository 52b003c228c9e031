"""What one state of an object does to its copy, and to the promise of a pod. Pure.

::

    state                        copy            then
    newer                        the same uid    replaces it, where more than the revision differs, or it is pending,
                                                 or a worker asked for it and may go on with its revision
    newer                        another uid     the copy goes first (the importer alone), so that it is another life
    as new, or older             any             nothing; where all is copied anew, one as new counts as newer
    any, or gone                 of another      nothing, or the one of the group that counts first: copies of PodGroups
                                 API group       of several groups lie together
    gone at a revision           not newer       the copy goes, and its promise (the importer alone)
    gone at a revision           newer, finished the same: who read the pod saw it after it had left the selection
    newer, bound                 promised        replaces it, and ends the promise
    newer, unbound               promised        the same in what it rests on: promised again at the new revision
                                                 else, or withdrawn: replaces it, and ends the promise
    newer                        unproven        replaces it, and ends the promise; read after the copy: likewise,
                                                 whatever its revision is

A promise that names an older revision than the API has cannot be carried out any more: the API compares it. That is
why a newer unbound state ends it, and nothing else but a bound one does.

Every write compares the copy as it was read, and the promise. Both are only ever written by one transaction, so a
promise of another revision than its copy is *unproven*: another client has put one of them (`promise_records`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, KeyValue, Operation, Put
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.copies import (
    copy_of,
    copy_of_promised,
    is_finished,
    means_the_same,
    same_but_revision,
    state_of,
)
from wharfinger.objects.documents.kinds import POD_GROUPS
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.contracts.promise_records import KnownObject, StateEffect
from wharfinger.scheduling.model.promises import Promise

PODS = "pods"
COPIED_TOGETHER = frozenset({"podgroups"})
"""Kinds that several API groups have, whose copies have the same keys."""


@dataclass(frozen=True, slots=True)
class ObjectState:
    """One object as the API has it, or had it at the revision when it went."""

    plural: str
    namespace: str
    """Empty where the kind has none."""
    name: str
    revision: int
    uid: str = ""
    """Empty of an object that is gone and was not seen going (a list did not name it)."""
    object: Mapping[str, Any] | None = None
    """None = it is gone."""
    group: str = ""
    """The API group, of a kind that is `COPIED_TOGETHER`; empty for others."""

    @property
    def key(self) -> str:
        """Of the copy."""
        return keys.stored(self.plural, self.namespace, self.name)

    @property
    def promise_key(self) -> str:
        """Of the promise; empty for what is no pod."""
        return keys.promise(self.namespace, self.name) if self.plural == PODS else ""

    @property
    def node(self) -> str:
        """The node that the pod is bound to; empty = none."""
        return str((self.object or {}).get("spec", {}).get("nodeName") or "")


class StateStep(NamedTuple):
    """The transaction that takes the state in."""

    effect: StateEffect
    compares: tuple[Compare, ...] = ()
    writes: tuple[Operation, ...] = ()
    again: bool = False
    """Whether the state has to be looked at once more afterwards: only an older life of the name was removed."""


NOTHING = StateStep(StateEffect.NOTHING)


def take(
    state: ObjectState,
    known: KnownObject,
    *,
    imports: bool,
    now: Callable[[], str],
    whole: bool = False,
    anew: bool = False,
    later: bool = False,
) -> StateStep:
    """What the state does to what is known. `imports`: whether it is the importer's, who alone creates and deletes.

    `now`: RFC 3339, for a bind that is promised again; `whole`: copies keep all fields; `anew`: a state that is copied
    already counts as a newer one; `later`: the API was read after the copy, so its state counts whatever revision the
    copy names. Raises `InvalidObject` for a copy that cannot be read.
    """
    copy = known.copy
    had = state_of(copy.value) if copy is not None else None
    if had is not None and state.group and state.group != had.group:
        return _of_another_group(state, had.group, known, imports=imports)
    if state.object is None:
        if copy is None or had is None or not imports:
            return NOTHING
        if state.revision < had.revision and not (state.plural == PODS and is_finished(copy.value)):
            return NOTHING
        return StateStep(StateEffect.REMOVED, _compares(state, known), tuple(_removal(state, known)))
    if copy is None or had is None:
        if not imports:
            return NOTHING
        created = Put(state.key, copy_of(state.object, state.plural, whole=whole))
        stale: tuple[Operation, ...] = (Delete(state.promise_key),) if known.promise_revision else ()
        return StateStep(StateEffect.COPIED, _compares(state, known), (created, *stale))
    older = state.revision < had.revision or (state.revision == had.revision and not anew)
    if older and not later:
        return NOTHING
    if state.uid != had.uid:
        if not imports:
            return NOTHING
        return StateStep(StateEffect.REMOVED, _compares(state, known), tuple(_removal(state, known)), again=True)
    return _replacing(state, copy, known, now, whole, asked=not imports)


def _of_another_group(state: ObjectState, copied: str, known: KnownObject, *, imports: bool) -> StateStep:
    """What a state does to the copy of an object of the same name and another API group.

    Of both, the one whose group `POD_GROUPS` has first is copied. Raises `InvalidObject` for the other one.
    """
    if state.object is None or not imports:
        return NOTHING
    if counts_before(copied, state.group):
        raise InvalidObject(f"the one of this name in {copied or POD_GROUPS[0]} is copied instead")
    return StateStep(StateEffect.REMOVED, _compares(state, known), tuple(_removal(state, known)), again=True)


def counts_before(group: str, other: str) -> bool:
    """Whether the objects of one API group are copied in the place of those of another one that have the same names.

    A copy without a version is of the first group, because only built-in kinds are listed without one.
    """
    places = [POD_GROUPS.index(one) if one in POD_GROUPS else 0 for one in (group, other)]
    return places[0] < places[1]


def kept(state: ObjectState, promise: Promise, *, whole: bool = False) -> StateStep | None:
    """The step of a state that is bound, from the promise alone; None = the copy has to be read, and `take` asked.

    A promise is put with the copy of its pod, by one transaction, and the copy has the revision that the promise names.
    Where either was written since then, the compares of the step do not hold.
    """
    newer = state.object is not None and bool(state.node) and state.revision > promise.revision
    if not newer or state.uid != promise.uid or not promise.mod_revision:
        return None
    assert state.object is not None
    value = copy_of(state.object, state.plural, whole=whole)
    compares = tuple(Compare(key, "mod", promise.mod_revision) for key in (state.key, state.promise_key))
    return StateStep(StateEffect.ENDED, compares, (Put(state.key, value), Delete(state.promise_key)))


def _replacing(
    state: ObjectState, copy: KeyValue, known: KnownObject, now: Callable[[], str], whole: bool, *, asked: bool
) -> StateStep:
    assert state.object is not None
    value = copy_of(state.object, state.plural, whole=whole)
    compares, promise = _compares(state, known), known.promise
    if known.unproven:
        return StateStep(StateEffect.ENDED, compares, (Put(state.key, value), Delete(state.promise_key)))
    if promise is None:
        pending = state.plural == PODS and not state.node  # its revision is what a promise will name
        if not (pending or asked) and same_but_revision(value, copy.value):
            return NOTHING
        return StateStep(StateEffect.COPIED, compares, (Put(state.key, value),))
    if state.node or promise.withdrawn or not _means_the_same(state.object, value, copy, whole=whole):
        return StateStep(StateEffect.ENDED, compares, (Put(state.key, value), Delete(state.promise_key)))
    bound = copy_of_promised(state.object, node=promise.node, attempt=promise.attempt, now=now(), whole=whole)
    again = promise_records.stored(promise.at(state.revision))
    return StateStep(StateEffect.PROMISED_AGAIN, compares, (Put(state.key, bound), Put(state.promise_key, again)))


def _means_the_same(obj: Mapping[str, Any], value: bytes, copy: KeyValue, *, whole: bool) -> bool:
    """Whether the pod is what was promised; the copy may be of the other kind, where that was configured otherwise."""
    if means_the_same(value, copy.value):
        return True
    kept = copy.value if whole else copy_of(documents.parse(copy.value), PODS)
    return means_the_same(copy_of(obj, PODS), kept)


def _compares(state: ObjectState, known: KnownObject) -> tuple[Compare, ...]:
    copy = known.copy
    compares = [Compare(state.key, "mod", copy.mod_revision if copy is not None else 0)]
    if known.promise_revision:
        compares.append(Compare(state.promise_key, "mod", known.promise_revision))
    return tuple(compares)


def _removal(state: ObjectState, known: KnownObject) -> list[Operation]:
    removed: list[Operation] = [Delete(state.key)]
    if known.promise_revision:
        removed.append(Delete(state.promise_key))
    return removed
