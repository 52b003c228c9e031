"""Playing a what-if question to its end: pods are decided for in the order of the queue until nothing changes any more.

Rounds stand for back-off: a refused pod that an event may help is tried again in the next one. A pod that preempts gets
its room at once, as no pod of lower priority may take it; its victims queue again in the same round, made again by
their controllers, or, when nothing makes them again, to see where they would go.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from wharfinger.errors import PluginError, UsageError
from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import PodKey
from wharfinger.whatif.changes import NodeChanges, made_again
from wharfinger.whatif.outcome import Answer, Cause, PodOutcome, Result, SupposedEviction, use_of
from wharfinger.whatif.scene import Progress, Scene, Subject
from wharfinger.whatif.simulator.simulator import SimulatedDecision, SimulatedGang


def simulate(
    scene: Scene, changes: NodeChanges, *, waiting: bool = False, progress: Progress = lambda _done, _total: None
) -> Answer:
    """What would happen. The scene is loaded already.

    `waiting`: whether the pods that wait in the live state are placed too. Raises `InvalidObject`, `UsageError`.
    """
    displaced = scene.change(changes)
    drained = {subject.key for subject in displaced}
    subjects = [subject for subject in scene.given_pods(waiting=waiting) if subject.key not in drained] + displaced
    game = _Game(scene, subjects, progress)
    game.play()
    assert scene.before is not None
    outcomes = tuple(_with_what_is_unknown(scene, outcome) for outcome in game.outcomes.values())
    return Answer(
        pods=outcomes,
        evictions=tuple(game.evictions),
        before=scene.before,
        after=use_of(scene.simulator.snapshot()),
        notes=(*scene.all_notes, *game.notes, *scene.simulator.extenders.notes),
        idle=tuple(scene.creator.idle),
    )


def _with_what_is_unknown(scene: Scene, outcome: PodOutcome) -> PodOutcome:
    if outcome.result is Result.NOT_MADE:
        return outcome
    drained = (outcome.pod,) if outcome.cause is Cause.DRAINED else ()
    leans_on = scene.leans_on(outcome.pod, evicted=(*drained, *outcome.victims))
    return replace(outcome, leans_on=leans_on) if leans_on else outcome


class _Game:
    """The pods that are placed, one after the other."""

    def __init__(self, scene: Scene, subjects: Sequence[Subject], progress: Progress) -> None:
        self._scene = scene
        self._simulator = scene.simulator
        self._progress = progress
        self.outcomes: dict[PodKey, PodOutcome] = {
            one.key: PodOutcome(one.key, one.cause, Result.REFUSED, one.workload, one.left)
            if not one.not_made
            else PodOutcome(one.key, one.cause, Result.NOT_MADE, one.workload, message=f"not made: {one.not_made}")
            for one in subjects
        }
        self._asked = {one.key: one for one in subjects if not one.not_made}
        self.evictions: list[SupposedEviction] = []
        self.notes: list[str] = []
        self._places = {key: place for place, key in enumerate(self.outcomes)}
        self._again: set[PodKey] = set()
        self._gangs: dict[GangKey, tuple[int, SimulatedGang]] = {}
        """Gangs that did not fit, with how many changes there had been."""
        self._changes = 0
        self._queue: list[tuple[int, Any, int, PodKey]] = []
        self._tries = 0

    def play(self) -> None:
        """Decide until nothing changes any more: daemon pods, which come with their nodes, then all others."""
        daemons = [key for key in self._asked if self._asked[key].daemon]
        others = [key for key in self._asked if not self._asked[key].daemon]
        if not (self._decide(daemons) and self._decide(others)):
            return
        while waiting := [key for key in self.outcomes if key in self._again and not self.outcomes[key].placed]:
            self._again.clear()
            if not self._decide(waiting):
                return

    def _decide(self, keys: Iterable[PodKey]) -> bool:
        """Decide for these pods, and for those that they evict; whether it came to an end."""
        self._enqueue(keys)
        limit = 20 * len(self.outcomes) + 1000
        while self._queue:
            if self._tries >= limit:
                self.notes.append(f"stopped after {limit:,} decisions: pods went on waking each other")
                return False
            self._try(heapq.heappop(self._queue)[-1])
        return True

    def _enqueue(self, keys: Iterable[PodKey]) -> None:
        for key in keys:
            place = self._places[key]
            try:
                entry = (0, self._simulator.queue_key(key, float(place)), place, key)
            except UsageError:  # no profile serves it: reported when its turn comes
                entry = (1, None, place, key)
            heapq.heappush(self._queue, entry)

    def _try(self, key: PodKey) -> None:
        self._tries += 1
        if self.outcomes[key].placed:  # with its gang
            return
        try:
            gang = self._decide_gang(key)
            if gang is not None:
                self._try_gang(key, gang)
                return
            decision = self._simulator.decide(key)
        except (UsageError, PluginError) as error:
            self._note(key, Result.FAILED, message=str(error))
            return
        if decision.node is not None:
            self._bind(key, decision.node)
        elif decision.nominated_node is not None:
            self._preempt(key, decision)
        else:
            self._refuse(key, decision)

    # --- gangs --------------------------------------------------------------------------------

    def _decide_gang(self, key: PodKey) -> SimulatedGang | None:
        """What becomes of the pod's gang: once for all members while nothing changes."""
        named = self._simulator.gang_of(key)
        known = self._gangs.get(named) if named is not None else None
        if known is not None and known[0] == self._changes:
            return known[1]
        gang = self._simulator.decide_gang(key) if named is not None else None
        if named is not None and gang is not None and not gang.nodes:
            self._gangs[named] = self._changes, gang
        return gang

    def _try_gang(self, key: PodKey, gang: SimulatedGang) -> None:
        """Place all members that there is room for, or none; make room for all that are needed, or for none."""
        if gang.nominations:
            victims = gang.victims
            for member, leaving in victims.items():
                for victim in leaving:
                    self._evict(victim, gang.nominations[member], member)
            made = self._simulator.decide_gang(key)
            if made is None or not made.nodes:  # what promised the room does not keep its word: a plugin's mistake
                self._refuse(key, gang)
                return
            for member, node in made.nodes.items():
                room = {"nominated_node": node, "victims": tuple(victims[member])} if member in victims else {}
                self._bind(member, node, Result.PREEMPTING if room else Result.PLACED, **room)
            self._enqueue([victim for leaving in victims.values() for victim in leaving])
        elif gang.nodes:
            for member, node in gang.nodes.items():
                self._bind(member, node)
        else:
            self._refuse(key, gang)

    # --- single pods --------------------------------------------------------------------------

    def _bind(self, key: PodKey, node: str, result: Result = Result.PLACED, **fields: Any) -> None:
        self._changes += 1
        self._wake(self._simulator.bind(key, node))
        if key in self.outcomes:  # a member of a gang may wait in the live state, and not be asked about
            self._note(key, result, node=node, **fields)

    def _refuse(self, key: PodKey, decision: SimulatedDecision | SimulatedGang) -> None:
        self._wake(self._simulator.park(key, decision))
        result = Result.GATED if decision.gated else Result.REFUSED
        self._note(key, result, message=decision.message, refusals=decision.first_refusals)

    def _preempt(self, key: PodKey, refused: SimulatedDecision) -> None:
        """Nominate, evict, and place: the room is for this pod now."""
        node, victims = refused.nominated_node, tuple(refused.victims)
        assert node is not None
        self._wake(self._simulator.park(key, refused))
        for victim in victims:
            self._evict(victim, node, key)
        decision = self._simulator.decide(key)
        if decision.node is None:  # what promised the room does not keep its word: a plugin's mistake
            self._refuse(key, decision)
            return
        self._bind(key, decision.node, Result.PREEMPTING, nominated_node=node, victims=victims)
        self._enqueue(victims)

    def _evict(self, victim: PodKey, node: str, preemptor: PodKey) -> None:
        scene = self._scene
        again = made_again(scene.objects[victim])
        self._changes += 1
        self.evictions.append(SupposedEviction(victim, node, preemptor))
        self._wake(self._simulator.evict(victim))
        scene.make_again(victim, again)
        known = self.outcomes.get(victim)
        if known is None:
            known = PodOutcome(victim, Cause.EVICTED, Result.REFUSED, scene.workload_of(victim))
            self._places[victim] = len(self._places)
        self.outcomes[victim] = known.uprooted(node)

    def _note(self, key: PodKey, result: Result, **fields: Any) -> None:
        known = self.outcomes[key]
        self.outcomes[key] = PodOutcome(key, known.cause, result, known.workload, known.left, **fields)
        self._progress(self._tries, max(self._tries, len(self.outcomes)))

    def _wake(self, keys: Iterable[PodKey]) -> None:
        self._again.update(key for key in keys if key in self.outcomes)
