"""Judges binds without the excuse of time: a bind must keep every rule, whatever its worker knew of other binds.

`judge` excuses a broken rule where users changed what it reads shortly before, because workers learn of that by the
watch alone. Here the excuse is narrower and does not depend on time: after the first bind, users must have deleted,
finished or relabelled a pod that the rule reads, or changed a node (decision 9). So a history in which users only
create pods has no excuse at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.faults.history import Change, Revision
from tests.faults.judge import Judge, Violation
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store


@dataclass(slots=True)
class RulesJudge:
    """Takes the revisions in order."""

    most_together: int = 0
    """Pods that one transaction bound, at most."""
    _first_bind: float = math.inf
    _judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        self._judge = Judge(lambda _: self._first_bind)

    @property
    def violations(self) -> list[Violation]:
        """The invariants that did not hold, under the names of `judge`."""
        return self._judge.violations

    @property
    def binds(self) -> int:
        """How many pods were bound."""
        return self._judge.binds

    @property
    def excused(self) -> int:
        """Rules that were broken after users changed what they read."""
        return self._judge.excused

    def take_all(self, revisions: Iterable[Revision]) -> RulesJudge:
        """Judge these revisions."""
        for revision in revisions:
            self.take(revision)
        return self

    def take(self, revision: Revision) -> None:
        """Judge one revision; its number stands for its time, so that the order of changes is exact."""
        before = self.binds
        self._judge.take(replace(revision, time=float(revision.number)))
        bound = self.binds - before
        self.most_together = max(self.most_together, bound)
        if bound:
            self._first_bind = min(self._first_bind, float(revision.number))


async def history_of(store: Store) -> list[Revision]:
    """Every revision of the store that changed a key below `/registry/`; it must not have been compacted."""
    last = (await store.get(keys.INSTALLATION)).revision
    revisions: list[Revision] = []
    async with store.watch(keys.ROOT, 1) as batches:
        async for batch in batches:
            changes = tuple(
                Change(
                    event.kv.key, None if event.deleted else event.kv.value,
                    event.kv.create_revision, event.kv.mod_revision,
                )
                for event in batch.events
            )  # fmt: skip
            if changes:
                revisions.append(Revision(batch.revision, 0.0, changes))
            if batch.revision >= last:
                break
    return revisions
