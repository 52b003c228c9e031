"""Transactions that failed: what moved, and what their seats do next.

::

    its own pod, node or binding version   adopted where it means the same, else the watch catches up; then alone
    what concerns all                      the watch catches up; seats in order: half as many pods
    of a gang                              the watch catches up; all once more
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wharfinger.contracts.scheduling import Contended
from wharfinger.engine.pods.bind.fill import NOT_BOUND, Filling
from wharfinger.engine.pods.bind.outcome import LOST, Outcome
from wharfinger.engine.pods.bind.progress import Done, Later, SendAgain, Sending, Step
from wharfinger.engine.pods.bind.seat import Seated, Seats
from wharfinger.engine.pods.bind.transaction import Commit, Transaction
from wharfinger.engine.pods.core import Core
from wharfinger.errors import InvalidObject
from wharfinger.manifests.formats import ObjectFormat
from wharfinger.model.node import Node
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, TxnResult

BEHIND = "this worker's watch is behind"
CHANGED = "it changed during {tries} transactions"
_KINDS = {
    keys.PODS: "pod",
    keys.NODES: "node",
    keys.BINDINGS: "binding",
    keys.BOUND: "bound",
    keys.TERMS: "terms",
    keys.ACTIVE: "active",
    keys.HOLDS: "hold",
    keys.VOLUMES: "volume",
    keys.PERSISTENT_VOLUMES: "volume",
    keys.PERSISTENT_VOLUME_CLAIMS: "volume",
}
"""What moved, for the metric, by the prefix of its key; the rest is the tenant."""
OWN = frozenset({"pod", "node", "binding", "volume", "hold"})
"""What moved concerns one commit alone (or those of its node); the rest concerns all commits of a transaction."""


class Conflicts:
    """Sorts out the failed transactions of one worker's binds."""

    def __init__(self, core: Core, seats: Seats, filling: Filling) -> None:
        self._cache = core.pool.cache
        self._settings = core.settings
        self._metrics = core.process.metrics
        self._seats = seats
        self._filling = filling

    async def sort_out(self, sending: Sending, transaction: Transaction, answer: TxnResult) -> None:
        """Send the seats again, after the watch has shown what it alone can show.

        A seat with rules whose own pod, node or binding version moved keeps its place, because seats after it may rely
        on it; after a few such failures, of it or of transactions in a row, it goes alone. One without rules does at
        once.
        """
        lane, now = sending.lane, sending.now
        steps: list[Step] = []
        tried: list[tuple[Seated, MovedKeys]] = []
        adopted, window = dict(now.adopted), now.window
        answers = transaction.answers(answer)
        moves = [read_failure(*each) for each in zip(transaction.commits, answers, strict=True)]
        counted, needed = blame(moves, answer)
        for what in counted:
            self._metrics.bind_conflicts.labels(moved=what).inc()
        if needed and lane.in_order:  # binds of others came in between: fewer pods, a shorter window
            window = max(1, len(moves) // 2)
        for commit, moved, read in zip(transaction.commits, moves, answers, strict=True):
            seat: Seated | Outcome = commit.seat
            if "pod" in moved.what:
                seat = self._seats.resolve(sending.group, commit.seat.number, commit.pod_in(read), commit.seat)
            if not isinstance(seat, Seated):
                steps.append(Done(commit.seat.number, seat))
                continue
            if moved.same_node is not None:
                adopted[moved.same_node.name] = moved.same_node
            tried.append((seat.noted(*moved.adopted_notes), moved))
        sending.now = replace(now, adopted=adopted, window=window, failed=now.failed + 1)
        if lane.whole and steps:  # a member has its outcome: the others are not bound without it
            sending.take([*steps, *(SendAgain(seat) for seat, _ in tried)])
            return
        waiting: list[tuple[Seated, MovedKeys]] = []
        for seat, moved in tried:
            if not lane.whole and (moved.node_gone or "hold" in moved.what):
                steps.append(self._filling.next_node(seat, "the node is gone" if moved.node_gone else LOST))
            elif not (lane.whole or lane.bounded) and moved.own:
                steps.append(Later(replace(seat, alone=True)))
            else:
                counts = lane.whole or moved.own or seat.alone or not lane.in_order
                waiting.append((replace(seat, tries=seat.tries + 1) if counts else seat, moved))
                needed = max(needed, _needed(seat, moved))
        sending.take(steps)
        caught_up = not needed or await self._cache.progress.wait_for(needed, self._settings.catch_up)
        if lane.whole:
            sending.take(self._whole_again(waiting, caught_up=caught_up))
        else:
            sending.take([self._tried(sending, seat, moved, caught_up=caught_up) for seat, moved in waiting])

    def _tried(self, sending: Sending, seat: Seated, moved: MovedKeys, *, caught_up: bool) -> Step:
        """Whether a seat is sent once more in this lane, or where it goes."""
        lane, tries = sending.lane, self._settings.tries
        if caught_up and _needed(seat, moved):
            seat = seat.noted(moved.catch_up_note)
        # In a row they may have failed by another seat's node each time.
        in_a_row = sending.now.failed if lane.in_order and moved.own and not seat.alone else 0
        if caught_up and max(seat.tries, in_a_row) < tries:
            return SendAgain(seat)
        if not seat.alone:
            return Later(replace(seat, alone=not lane.in_order or bool(moved.own), tries=0))
        return self._filling.next_node(seat, CHANGED.format(tries=tries) if caught_up else BEHIND)

    def _whole_again(self, members: Sequence[tuple[Seated, MovedKeys]], *, caught_up: bool) -> Iterable[Step]:
        """Send a gang once more, or give it up."""
        seats, tries = [seat for seat, _ in members], self._settings.tries
        if any(moved.node_gone for _, moved in members):
            why = "a node is gone"
        elif not caught_up:
            why = BEHIND
        elif any(seat.tries >= tries for seat in seats):
            why = CHANGED.format(tries=tries)
        else:
            return map(SendAgain, seats)
        return self._filling.none(seats, Contended(message=NOT_BOUND.format(why=why)))


def _needed(seat: Seated, moved: MovedKeys) -> int:
    """What the watch must have shown before the seat is worth trying again: what moved for it alone; 0 = nothing."""
    return moved.revision if (moved.own or seat.alone) and moved.must_catch_up else 0


# --- what moved -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """Which of the compared keys had moved, and what they are now."""

    what: tuple[str, ...]
    """Kinds of keys, for the metric; empty when only something among all namespaces' binds moved."""
    same_node: Node | None
    """The node at its new revision, when nothing that scheduling reads differs (a heart-beat)."""
    node_gone: bool
    revision: int
    """What the watch must have shown before trying again is worth it."""

    @property
    def own(self) -> frozenset[str]:
        """What moved of the commit's own pod, node or binding version: others may be sent without it."""
        return OWN.intersection(self.what)

    @property
    def adopted_notes(self) -> tuple[str, ...]:
        """For the explanation: changes of the pod and of the node that need no other decision."""
        changed = ("the pod changed",) if "pod" in self.what else ()
        return changed if self.same_node is None else (*changed, "the node's heart-beat was adopted")

    @property
    def catch_up_note(self) -> str:
        """For the explanation: what the watch has shown since."""
        return "caught up with the node" if set(self.what) <= {"pod", "node"} else "caught up with another bind"

    @property
    def must_catch_up(self) -> bool:
        """Only the watch can show what the change means for the decision."""
        adopted = {"pod"} if self.same_node is None else {"pod", "node"}
        return not self.what or not adopted.issuperset(self.what)


def read_failure(commit: Commit, answer: TxnResult) -> MovedKeys:
    """What the failed transaction's reads say."""
    what: list[str] = []
    seen: list[int] = []
    behind_a_delete = False
    for compare, kv in zip(commit.compares, answer.reads, strict=False):  # behind them, the record of the binder
        if compare.holds(kv):
            continue
        kind = _kind(compare.key)
        what.append(kind)
        if kind != "pod":
            behind_a_delete |= kv is None
            seen.append(kv.mod_revision if kv is not None else 0)
    node = answer.reads[1]
    revision = answer.revision if behind_a_delete or not what else max(seen, default=0)
    return MovedKeys(
        what=tuple(dict.fromkeys(what)),
        same_node=_same(commit.node, node, commit.seat.found.format) if "node" in what else None,
        node_gone=node is None,
        revision=revision,
    )


def blame(failures: Sequence[MovedKeys], answer: TxnResult) -> tuple[Sequence[str], int]:
    """What made a transaction of many commits fail, for the metric: of each its own, of all what concerns all.

    And what the watch must have shown before those are worth sending again of which nothing moved; 0 = nothing.
    """
    shared = [moved for moved in failures if not OWN.issuperset(moved.what)]
    owns = [what for moved in failures for what in moved.own]
    if not shared and not owns:  # nothing that was read moved: another namespace's bind did, or a key came and went
        return (), answer.revision
    concerns_all = {what for moved in shared for what in moved.what if what not in OWN}
    return (*owns, *concerns_all), max((moved.revision for moved in shared), default=0)


def _kind(key: str) -> str:
    return next((kind for prefix, kind in _KINDS.items() if key.startswith(prefix)), "tenant")


def _same(known: Node, stored: KeyValue | None, format_: ObjectFormat) -> Node | None:
    """The stored node when it is the known one in everything that scheduling reads."""
    if stored is None or stored.create_revision != known.create_revision:
        return None
    try:
        node = format_.decode_node(
            stored.value,
            name=known.name,
            create_revision=stored.create_revision,
            mod_revision=stored.mod_revision,
        )
    except InvalidObject:
        return None
    return node if node == known else None
