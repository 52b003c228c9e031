"""What travels of a decision: a summary of at most 4 KiB, whatever the size of the cluster.

Reasons, runners-up and victims are cut, most telling first, and the payload says what was cut. Everything else about a
decision can be computed again, and so are the victims, by the activity that nominates. Sizes are of the JSON. What
many decisions share travels once: `cohort_payload`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice

from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.preferred_nodes import PreferredNodes, members_digest
from wharfinger.framework.snapshot import Nominations
from wharfinger.objects.model.decision import Ranked
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.texts import shortened
from wharfinger.scheduling.contracts import eviction
from wharfinger.scheduling.contracts.computation import (
    Assumed,
    Computation,
    Nominated,
    OwnNodes,
    PluginRefusal,
    ScoredNode,
)
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.state.cache.assumptions import Assumption, digest_of, parsed_change
from wharfinger.scheduling.state.cache.cache import Cache

LIMIT = 4096
"""Bytes of a lone decision."""
OVERLAY_LIMIT = 32
"""Assumed pods, and nominated ones, that are named; beyond that the overlay is called approximate, and has a digest."""
CHANGES = 1000
"""Bytes of what a lone decision tells of assumptions that began and ended otherwise."""
MEMBERS_LIMIT = 16
"""Workers that are named as those who share the nodes; with more, a decision can be made again approximately only."""
RANKED_LIMIT = 5
REASONS_LIMIT = 10
"""Reasons a plugin; taints with a value a node make as many reasons as nodes."""
MESSAGE_LIMIT = 1024
"""Characters of the FailedScheduling text."""
REASON_LIMIT = 160
"""Characters of one reason."""
OTHER_REASONS = "other reasons"

Outcome = Placed | Refused


class Room:
    """Bytes left for one kind of thing."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> bool:
        """Take it if it is there; whether it was."""
        if size > self.left:
            return False
        self.left -= size
        return True


def size(text: str) -> int:
    """Bytes of a text as JSON, at most."""
    plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return len(text) if plain else 6 * len(text)


# --- what all decisions say -----------------------------------------------------------------------


def message(text: str) -> str:
    """The FailedScheduling text, cut at its end."""
    return shortened(text, MESSAGE_LIMIT)


def ranking(best: Iterable[Ranked]) -> tuple[ScoredNode, ...]:
    """The best nodes and their scores; empty when scoring was skipped."""
    return tuple(ScoredNode(node=one.node, total=one.total, plugins=dict(one.plugins)) for one in best)


def passed_over(evaluation: Evaluation) -> ScoredNode | None:
    """What would have been chosen had the worker not preferred its own nodes; None = the same node."""
    other = evaluation.passed_over
    return ScoredNode(node=other.node, total=other.total) if other is not None else None


def refusals(counts: Mapping[str, Mapping[str, int]], limit: int = REASONS_LIMIT) -> tuple[PluginRefusal, ...]:
    """Plugins, and for each its most frequent reasons; the rest in one sum."""
    return tuple(
        PluginRefusal(plugin=plugin, reasons=_most_frequent(reasons, limit)) for plugin, reasons in counts.items()
    )


def _most_frequent(reasons: Mapping[str, int], limit: int) -> dict[str, int]:
    ordered = sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0]))
    kept = {shortened(reason, REASON_LIMIT): count for reason, count in ordered[:limit]}
    rest = sum(count for _, count in ordered[limit:])
    if rest:
        kept[OTHER_REASONS] = kept.get(OTHER_REASONS, 0) + rest
    return kept


class Overlay:
    """What decisions reckoned with that etcd does not say: by name, while there is room."""

    def __init__(self, limit: int = OVERLAY_LIMIT, *, but: Pod | None = None, room: Room | None = None) -> None:
        """`limit`: of assumed pods; `but`: the lone pod that is decided; `room`: bytes for all overlays of a cohort."""
        self._limit = limit
        self.but = but.identity if but is not None else None
        """The pod that no overlay of it names."""
        self._room = room

    def assumed(self, assumed: Iterable[Assumption]) -> tuple[tuple[Assumed, ...], bool]:
        """The assumed pods by name, and whether they are too many to be named."""
        first = list(islice((one for one in assumed if one.identity != self.but), self._limit + 1))
        if len(first) > self._limit:
            return (), True
        named = tuple(
            Assumed(
                pod=f"{one.identity.namespace}/{one.identity.name}",
                create_revision=one.identity.create_revision,
                node=one.node,
            )
            for one in first
        )
        return (named, False) if self._takes(named) else ((), True)

    def nominated(self, nominations: Nominations) -> tuple[tuple[Nominated, ...], bool]:
        """The nominations by name, and whether they are too many to be named."""
        every = ((pod, node) for node, pods in nominations.items() for pod in pods if pod.identity != self.but)
        first = list(islice(every, OVERLAY_LIMIT + 1))
        if len(first) > OVERLAY_LIMIT:
            return (), True
        named = tuple(Nominated(pod=str(p.key), create_revision=p.create_revision, node=node) for p, node in first)
        return (named, False) if self._takes(named) else ((), True)

    def for_changes(self) -> Callable[[str], bool]:
        """Whether there is room for one more change of assumptions, which takes it; the rest is told next time."""
        room = self._room if self._room is not None else Room(CHANGES)
        return lambda told: room.take(size(told) + 3)

    def own_nodes(self, preferred_nodes: PreferredNodes) -> OwnNodes:
        """The nodes that went before slightly better ones; without the other workers where they are too many."""
        members = preferred_nodes.members if len(preferred_nodes.members) <= MEMBERS_LIMIT else ()
        if self._room is not None and not self._room.take(sum(size(member) + 4 for member in members)):
            members = ()
        digest = "" if members else preferred_nodes.digest
        return OwnNodes(me=preferred_nodes.me or "", members=members, digest=digest, margin=preferred_nodes.margin)

    def _takes(self, named: tuple[Assumed | Nominated, ...]) -> bool:
        return self._room is None or self._room.take(sum(size(one.pod + one.node) + 60 for one in named))


def report_again(cache: Cache, computation: Computation) -> None:
    """The decision is not recorded, because it failed: the next one tells what it told, where that is still so."""
    if not (computation.begun or computation.ended or computation.lost):
        return
    assumed = {one.identity: one.node for one in cache.assumed()}
    changes = {text: parsed_change(text) for text in (*computation.begun, *computation.ended)}
    true = [text for text, (identity, node) in changes.items() if assumed.get(identity, "") == node]
    begun = [text for text in true if text in computation.begun]
    ended = [text for text in true if text in computation.ended]
    cache.overlay_changes.report_again(computation.number, begun, ended, computation.lost)


# --- a lone decision ------------------------------------------------------------------------------


def fitted(outcome: Outcome) -> Outcome:
    """The outcome within `LIMIT`, cut step by step; plugins' own data is theirs and not cut."""
    for cut in cuts(outcome):
        outcome = cut
        if len(outcome.model_dump_json().encode()) <= LIMIT:
            break
    return outcome


def cuts(outcome: Outcome) -> Iterator[Outcome]:
    """The outcome shorter and shorter, whole at first."""
    outcome = _with_listed_victims(outcome, eviction.LISTED)
    yield outcome
    for cut in _CUTS:
        outcome = cut(outcome)
        yield outcome


def _without_overlay(outcome: Outcome) -> Outcome:
    if not outcome.computation.assumed and not outcome.computation.nominated:
        return outcome
    digest = outcome.computation.overlay or digest_of(
        (one.pod, one.create_revision, one.node) for one in outcome.computation.assumed
    )
    cut = {"assumed": (), "nominated": (), "approximate": True, "overlay": digest}
    computation = outcome.computation.model_copy(update=cut)
    return outcome.model_copy(update={"computation": computation})


def _without_members(outcome: Outcome) -> Outcome:
    own = outcome.computation.own_nodes
    if own is None or not own.members:
        return outcome
    unnamed = own.model_copy(update={"members": (), "digest": members_digest(own.members)})
    computation = outcome.computation.model_copy(update={"own_nodes": unnamed})
    return outcome.model_copy(update={"computation": computation})


def _with_fewer_reasons(outcome: Outcome) -> Outcome:
    fewer = refusals({one.plugin: one.reasons for one in outcome.refusals}, limit=2)
    return outcome.model_copy(update={"refusals": fewer})


def _with_fewer_scores(outcome: Outcome, nodes: int, scored: int) -> Outcome:
    """With so many nodes of the ranking, of which only the first ones have the score of each plugin."""
    if isinstance(outcome, Refused):
        return outcome
    plain = tuple(ScoredNode(node=one.node, total=one.total) for one in outcome.ranking[scored:nodes])
    return outcome.model_copy(update={"ranking": (*outcome.ranking[:scored], *plain)})


def _with_listed_victims(outcome: Outcome, limit: int) -> Outcome:
    if isinstance(outcome, Placed) or len(outcome.victims) <= limit:
        return outcome
    cut = {
        "victims": outcome.victims[:limit],
        "victim_count": outcome.victim_count or len(outcome.victims),
        "victims_digest": outcome.victims_digest or eviction.digest(outcome.victims),
    }
    return outcome.model_copy(update=cut)


def _without_reasons(outcome: Outcome) -> Outcome:
    return outcome.model_copy(update={"refusals": ()})


def _with_shorter_message(outcome: Outcome) -> Outcome:
    """Reasons in other scripts than Latin take up to four bytes a character."""
    if isinstance(outcome, Refused):
        return outcome.model_copy(update={"message": shortened(outcome.message, MESSAGE_LIMIT // 4)})
    return outcome


_CUTS: tuple[Callable[[Outcome], Outcome], ...] = (
    _with_fewer_reasons,
    partial(_with_fewer_scores, nodes=RANKED_LIMIT, scored=1),
    _without_overlay,
    _without_members,
    partial(_with_fewer_scores, nodes=3, scored=0),
    partial(_with_listed_victims, limit=3),
    _without_reasons,
    _with_shorter_message,
    partial(_with_listed_victims, limit=1),
)
