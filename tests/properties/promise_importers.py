"""Importers of random lives, the newest and the one before it, and how states of the API are taken in.

A transaction may come long after what it compares was read. Lists and watches are those of `following`, the order of
reads and writes that of `adopting`.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import NamedTuple

from tests.properties.promise_world import NAMES, ApiSide, EtcdSide, key_of, present, promise_of
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, KeyValue, Put
from wharfinger.kubernetes.effects.states import ObjectState, StateStep, take
from wharfinger.scheduling.contracts.promise_records import KnownObject, promise_in
from wharfinger.scheduling.model.promises import Promise

NOW = "2026-03-01T12:00:00Z"


def now() -> str:
    return NOW


@lru_cache(maxsize=64)
def promise_read(kv: KeyValue | None) -> Promise | None:
    """Nearly every step looks at promises, and few write one."""
    return promise_in(kv.value, kv.mod_revision) if kv is not None else None


class Taking(NamedTuple):
    """A state that is taken in: what was read of etcd, and by which importer; 0 = by none."""

    state: ObjectState
    known: KnownObject
    epoch: int


class ModelImporter:
    """One worker while it believes that it is the importer."""

    def __init__(self, epoch: int, at: int) -> None:
        self.epoch = epoch
        self.at = at
        """How many of the API's changes it has taken in."""
        self.left: list[ObjectState] = []
        """States that are still to be taken in before `reached` counts."""
        self.reached = at


class ModelImporters:
    """The importers of one life, and everything that is taken in."""

    def __init__(self, rng: Random, api: ApiSide, etcd: EtcdSide) -> None:
        self.rng = rng
        self.api = api
        self.etcd = etcd
        self._imported = 0
        self._importers: list[ModelImporter] = []
        self._taking: list[Taking] = []

    # --- importers --------------------------------------------------------------------------

    def _new_importer(self, *, lists: bool = False) -> None:
        """The lease ran out: another worker is it; the former does not know yet."""
        self.etcd.txn((), (Put(keys.IMPORTER, b"{}"),))
        importer = ModelImporter(self.etcd.revision, self._imported)
        self._importers = [*self._importers[-1:], importer]
        if lists or self.rng.random() < 0.4:
            self._list(importer)

    def _importer(self) -> None:
        """The newest one, or the former one that wakes up, takes the next thing in."""
        importer = self._importers[-1] if self.rng.random() < 0.85 else self._importers[0]
        if importer.left:
            state = importer.left.pop(0)
            self._begin(state, importer.epoch)
        elif importer.at < importer.reached:
            self._tell(importer)
        elif self.rng.random() < 0.05:
            self._list(importer)
        else:
            self._watch(importer)

    def _list(self, importer: ModelImporter) -> None:
        """A consistent list: what is there, then what it did not name."""
        revision = self.api.revision
        copies = [name for name in NAMES if self.etcd.get(key_of(name)) is not None]
        listed = {pod["metadata"]["name"]: pod for pod in self.api.selected()}
        importer.left = [present(name, pod) for name, pod in listed.items()]
        importer.left += [ObjectState("pods", "default", name, revision) for name in copies if name not in listed]
        importer.reached = len(self.api.shown)

    def _watch(self, importer: ModelImporter) -> None:
        """The next changes, of each name the last."""
        end = min(len(self.api.shown), importer.at + self.rng.randint(1, 3))
        last = {change.name: change.state for change in self.api.shown[importer.at : end]}
        importer.left = list(last.values())
        importer.reached = end

    def _tell(self, importer: ModelImporter) -> None:
        """Its states are in etcd; with luck before its end it says so."""
        if any(one.epoch == importer.epoch for one in self._taking):
            return
        importer.at = importer.reached
        if importer is self._importers[-1] and self.rng.random() < 0.4:  # each second only
            self._imported = importer.at

    # --- taking states in: the importer, and whoever asked the API ----------------------------

    def _begin(self, state: ObjectState, epoch: int = 0) -> None:
        """Read what etcd has; often the transaction follows at once."""
        taking = Taking(state, self._known(state.name), epoch)
        if self.rng.random() < 0.7:
            self._finish(taking)
        else:
            self._taking.append(taking)

    def _take_in(self) -> None:
        if self._taking:
            self._finish(self._taking.pop(int(self.rng.random() * len(self._taking))))

    def _finish(self, taking: Taking) -> None:
        state, known, epoch = taking
        fence = (Compare(keys.IMPORTER, "mod", epoch),) if epoch else ()
        while True:
            step: StateStep = take(state, known, imports=bool(epoch), now=now)
            if not step.writes:
                return
            done = self.etcd.txn((*step.compares, *fence), step.writes)
            if done and not step.again:
                return
            if fence and not fence[0].holds(self.etcd.get(keys.IMPORTER)):
                return
            known = self._known(state.name)

    def _known(self, name: str) -> KnownObject:
        return KnownObject(self.etcd.get(key_of(name)), promise_read(self.etcd.get(promise_of(name))))

    def _catch_up(self) -> None:
        importer = self._importers[-1]
        while importer.left or importer.at < len(self.api.shown):
            if not importer.left and importer.at == importer.reached:
                self._watch(importer)
            while importer.left:
                self._begin(importer.left.pop(0), importer.epoch)
            while self._taking:
                self._take_in()
            self._tell(importer)
