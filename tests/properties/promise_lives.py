"""Random lives of promises: importers, workers, users and another scheduler, each step of which may come late.

What is sent to the API is on its way until a later step, may arrive twice, or never; so may its answer. A step
reads and writes in two halves, between which others act. Steps use the real `states.take` and the real records;
the order of what is read, compared and written is that of `adopting`, `following`, `promising` and `withdrawing`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tests.properties.promise_importers import NOW, ModelImporters, promise_read
from tests.properties.promise_world import (
    NAMES,
    NODES,
    ROOM,
    ApiSide,
    EtcdSide,
    judge_bind,
    judge_end,
    judge_nodes,
    key_of,
    promise_of,
)
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, KeyValue, Put
from wharfinger.objects.documents.copies import copy_of, state_of
from wharfinger.objects.documents.edit import bind_pod
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Promise

STEPS = 50
ROUNDS = 12
"""Of everything, after the faults have ended, until a life must be settled."""


class Sent(NamedTuple):
    """What is on its way to the API: a bind (`promise`), a fence (`fence`), or a read."""

    name: str
    uid: str
    promise: Promise | None = None
    fence: str = ""


class Decided(NamedTuple):
    """A placement that is not committed yet: the copy, the node, and the binding version it was verified at."""

    name: str
    copy: KeyValue
    node: str
    version: int


class Life(ModelImporters):
    """One life, drawn from a seed."""

    def __init__(self, seed: int, *, revisions: bool = True, fences: bool = True) -> None:
        """`revisions`, `fences`: without them, a life is expected to break the rules."""
        super().__init__(Random(seed), ApiSide(compares_revisions=revisions), EtcdSide())
        self._fences = fences
        self._attempts = 0
        self._sent: list[Sent] = []
        self._decided: list[Decided] = []

    def live(self) -> None:
        """Play it. Raises `RuleBroken`."""
        for name in NAMES:
            self.api.create(name)
        self._new_importer(lists=True)
        actors, rng, api, etcd = ACTORS, self.rng, self.api, self.etcd
        count = len(actors)
        seen = (0, 0)
        for _ in range(STEPS):
            actors[int(rng.random() * count)](self)
            state = (api.revision, etcd.changes)
            if state != seen:
                seen = state
                judge_nodes(api, etcd)

    def settle(self) -> None:
        """Faults end, and everything that was begun goes on. Raises `RuleBroken`."""
        self._new_importer()
        for _ in range(ROUNDS):
            while self._taking:
                self._take_in()
            while self._sent:
                self._arrive(surely=True)
            self._catch_up()
            self._sweep()
            judge_nodes(self.api, self.etcd)
            if not self._taking and not self._sent and self._at_rest():
                break
        judge_end(self.api, self.etcd)

    # --- users, kubelets, another scheduler -------------------------------------------------

    def _user(self) -> None:
        api, rng = self.api, self.rng
        name = rng.choice(NAMES)
        pod = api.pods.get(name)
        if pod is None:
            api.create(name)
            return
        bound = "nodeName" in pod["spec"]
        kind = rng.random()
        if kind < 0.35:
            api.edit(name, "annotations", str(rng.random())[:5])
        elif kind < 0.65:
            api.edit(name, "labels", rng.choice(("1", "2")))
        elif kind < 0.75 and not bound:
            api.assign(name, rng.choice(NODES), "")
        elif kind < 0.85 and bound and pod["status"]["phase"] == "Pending":
            api.finish(name)
        else:
            api.delete(name, gently=rng.random() < 0.5)

    # --- workers that bind --------------------------------------------------------------------

    def _decide(self) -> None:
        """Place a pending pod on a node with room, as etcd is now."""
        seats, rng = self.etcd.seats, self.rng
        waiting = [name for name in NAMES if key_of(name) in self.etcd.kvs and key_of(name) not in seats]
        if not waiting:
            return
        name = rng.choice(waiting)
        copy = self.etcd.kvs[key_of(name)]
        free = [node for node in NODES if sum(at == node for _, at in seats.values()) < ROOM]
        if free:
            node = rng.choice(free)
            self._decided.append(Decided(name, copy, node, self.etcd.mod(keys.binding(node))))
            if rng.random() < 0.5:
                self._commit()

    def _commit(self) -> None:
        """The transaction of a bind; its worker may end right behind it."""
        if not self._decided:
            return
        one = self._decided.pop(int(self.rng.random() * len(self._decided)))
        self._attempts += 1
        attempt = f"w{self._attempts}@r"
        uid, revision, _ = state_of(one.copy.value)
        binding = keys.binding(one.node)
        promise = Promise(uid, revision, one.node, attempt, NOW)
        self.etcd.txn(
            (Compare(one.copy.key, "mod", one.copy.mod_revision), Compare(binding, "mod", one.version)),
            (
                Put(one.copy.key, bind_pod(one.copy.value, node_name=one.node, attempt=attempt, now=NOW)),
                Put(binding, b"{}"),
                Put(promise_of(one.name), promise_records.stored(promise)),
            ),
        )

    def _post(self) -> None:
        """Any worker sends a promise, or the fence of one that is given up."""
        name = self._promised()
        promise = promise_read(self.etcd.get(promise_of(name)))
        if promise is None:
            return
        if promise.withdrawn:
            self._sent.append(Sent(name, promise.uid, fence=str(promise.mod_revision)))
        else:
            self._sent.append(Sent(name, promise.uid, promise))

    def _give_up(self) -> None:
        """Mark it withdrawn; the fence is sent by a later step. Without fences, its room is free at once."""
        name = self._promised()
        known = self._known(name)
        promise = known.promise
        if promise is None or promise.withdrawn or known.copy is None:
            return
        compare = Compare(promise_of(name), "mod", promise.mod_revision)
        if self._fences:
            self.etcd.txn((compare,), (Put(promise_of(name), promise_records.stored(promise.given_up("torn"))),))
            return
        state = self.api.read(name)
        if state is not None and state.object is not None and state.uid == promise.uid and not state.node:
            copy = Compare(known.copy.key, "mod", known.copy.mod_revision)
            free = Put(known.copy.key, copy_of(state.object, "pods"))
            self.etcd.txn((compare, copy), (free, Delete(promise_of(name))))

    def _promised(self) -> str:
        """A pod with a promise, where there is one."""
        return self.rng.choice([name for name in NAMES if promise_of(name) in self.etcd.kvs] or NAMES)

    def _arrive(self, *, surely: bool = False) -> None:
        """Something that was sent is carried out: once or twice, or it is lost, or its answer is."""
        if not self._sent:
            return
        rng = self.rng
        at = int(rng.random() * len(self._sent))
        sent = self._sent[at]
        luck = 1.0 if surely else rng.random()
        if luck < 0.2:  # its double comes later
            self._sent.append(sent)
        del self._sent[at]
        if 0.2 <= luck < 0.25:
            return
        answered = surely or rng.random() < 0.8
        if sent.promise is not None:
            promise = sent.promise
            if self.api.bind(sent.name, sent.uid, promise.revision, promise.node, promise.attempt):
                judge_bind(self.etcd, sent.name, sent.uid, promise.node)
            elif answered:
                self._sent.append(Sent(sent.name, sent.uid))  # whoever sent it looks
            return
        state = self.api.fence(sent.name, sent.uid, sent.fence) if sent.fence else self.api.read(sent.name)
        if answered and state is not None and state.uid == sent.uid:
            self._begin(state)

    # --- the end ------------------------------------------------------------------------------

    def _sweep(self) -> None:
        for name in NAMES:
            promise = promise_read(self.etcd.get(promise_of(name)))
            if promise is not None:
                fence = str(promise.mod_revision) if promise.withdrawn else ""
                self._sent.append(Sent(name, promise.uid, None if fence else promise, fence))

    def _at_rest(self) -> bool:
        promised = any(self.etcd.get(promise_of(name)) is not None for name in NAMES)
        return not promised and self._importers[-1].at == len(self.api.shown)


ACTORS: list[Callable[[Life], None]] = [
    *[Life._user] * 6,
    *[Life._importer] * 16,
    *[Life._take_in] * 4,
    *[Life._decide] * 5,
    *[Life._commit] * 4,
    *[Life._post] * 6,
    *[Life._arrive] * 6,
    *[Life._give_up] * 2,
    *[Life._new_importer] * 2,
]
"""Who may act next, as often as is likely."""


def lived(seed: int, *, revisions: bool = True, fences: bool = True) -> None:
    """One life from its beginning to its end. Raises `RuleBroken`."""
    life = Life(seed, revisions=revisions, fences=fences)
    life.live()
    life.settle()
