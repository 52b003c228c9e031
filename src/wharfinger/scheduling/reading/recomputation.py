"""A recorded decision, decided again: on the state of its revision, by its profile, with what it saw beyond etcd.

`read_past` reads the state; the rest is pure. `reading.deciding_again` finds the record and the profile. The decision
itself is made and compared by `reading.remaking`; here is what every plugin says of every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from wharfinger.errors import Compacted, InvalidObject, NotFound, RevisionFuture
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.framework.domain import domain, terms_of
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.preferred_nodes import Preference, owned
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.documents.decode import decode_surrounding
from wharfinger.objects.documents.formats import ObjectFormat, format_of
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.extenders import NO_ANSWERS, ExtenderAnswers
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.effects.placing.extenders import Answers, answered
from wharfinger.scheduling.reading.comparing import DecisionSaid, said_alone
from wharfinger.scheduling.reading.remaking import Remade, Remaking, part_of
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.decoding import SURROUNDING_KINDS

T = TypeVar("T")

_SURROUNDINGS = {kind: keys.FOLLOWED[prefix] for prefix, kind in SURROUNDING_KINDS.items()}


class PastState(NamedTuple):
    """Everything that decisions read, at one revision; what workers could not read is read here as they do."""

    cache: Cache
    """As a worker had it, but for assumed pods. `recompute` adds those, so read the state anew for each decision."""
    format: ClusterFormat


async def read_past(store: Store, revision: int) -> PastState:
    """Read the state of a revision. Raises `NotFound`, saying why, when etcd has it no more, and `StoreError`."""
    format_ = format_of(store.format)
    cache, nodes = Cache(clock=lambda: 0.0), list[Node]()
    try:
        async for (name,), kv in keys.node.rows(store, revision=revision):
            if (node := _readable(format_.decode_node, kv, name=name, **kv.revisions)) is not None:
                nodes.append(node)
        for node in sorted(nodes, key=lambda node: node.create_revision):  # in the order in which they appeared
            cache.set_node(node)
        for kind, table in _SURROUNDINGS.items() if format_.has_surroundings else ():
            async for (*space, name), kv in table.rows(store, revision=revision):
                thing = _readable(decode_surrounding, kv, kind, namespace="".join(space), name=name)
                if thing is not None:
                    cache.set_surrounding(thing)
        async for key, kv in keys.pod.rows(store, revision=revision):
            if (pod := _pod(kv, PodKey(*key), format_)) is not None:
                cache.set_pod(pod)  # with the priority that the classes of then gave it
    except Compacted as error:
        raise NotFound(
            f"the state of revision {revision}, on which was decided, is compacted in etcd: "
            "the verdicts on nodes are lost; without --nodes the summary is shown"
        ) from error
    except RevisionFuture as error:
        raise NotFound(
            f"etcd has no revision {revision} yet, on which was decided: it was restored from a backup since"
        ) from error
    cache.progress.advance(revision)
    return PastState(cache, store.format)


def _readable(decode: Callable[..., T], kv: KeyValue, *what: str, **where: Any) -> T | None:
    """What is stored; None where it cannot be read."""
    try:
        return decode(kv.value, *what, **where)
    except InvalidObject:
        return None


def _pod(kv: KeyValue, key: PodKey, format_: ObjectFormat) -> Pod | None:
    """A pod that cannot be read still holds what it holds on its node."""
    where = {**key._asdict(), **kv.revisions}
    return _readable(format_.decode_pod, kv, **where) or format_.decode_occupant(kv.value, **where)


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """What every plugin says of one node."""

    node: str
    examined: bool
    """Whether the decision looked at it: sampling profiles look at some nodes only, a nomination at its own node."""
    feasible: bool
    refusals: Mapping[str, tuple[str, ...]]
    """Plugin -> reasons, of every plugin that refuses; all other filters let the pod pass, if they were asked."""
    scores: Mapping[str, int]
    """Score plugin -> weighted normalised score; empty where none was given."""
    total: int | None
    """None where no scores were given."""


@dataclass(frozen=True, slots=True)
class Recomputation:
    """A decision, and what every node had to do with it."""

    pod: PodKey
    computation: Computation
    recorded: DecisionSaid
    recomputed: DecisionSaid | None
    """None where it could not be made again; `lacks` says why."""
    differs: tuple[str, ...]
    """What is not as recorded, by name, as replay compares (`reading.comparing`)."""
    lacks: tuple[str, ...]
    """Why it cannot be told whether it is the same, in sentences; empty = it can."""
    filters: tuple[str, ...]
    """Every filter plugin, in order."""
    skipped: tuple[str, ...]
    """Filter plugins that had nothing to look at for this pod."""
    refused_by: str
    """The plugin that refused the pod altogether before any filter ran; empty for none."""
    scorers: tuple[str, ...]
    """Every score plugin, in order."""
    nodes: tuple[NodeVerdicts, ...]
    """By name."""
    notes: tuple[str, ...]
    """What one should know of it, in sentences."""

    @property
    def same(self) -> bool | None:
        """Whether the decision is the recorded one, to the letter; None = it cannot be told, see `lacks`."""
        return None if self.lacks else not self.differs


class RecordedDecision(NamedTuple):
    """What is recorded of a decision about a pod."""

    pod: PodKey
    outcome: Placed | Refused
    many: PlacedMany | None = None
    """The whole decision, where the pod was decided with others (`Attempt.many`)."""
    answers: ExtenderAnswers = NO_ANSWERS
    """Of extenders; none is asked again."""


def recompute(
    state: PastState,
    decision: RecordedDecision,
    profile: Profile,
    others: Mapping[str, Profile] = MappingProxyType({}),
    limits: Limits = STOCK,
) -> Recomputation:
    """Decide again, once on this state. `others`: profiles of the same configuration; `limits`: of etcd's transactions,
    by which gangs are refused.

    Raises `NotFound` when the state does not hold the pod, `InvalidObject` for answers of extenders that no release
    packed, and `PluginError`.
    """
    outcome, cache = decision.outcome, state.cache
    computation, answers = outcome.computation, _answers(decision)
    pod = _subject(cache, decision)
    remaking = Remaking(cache, pod, profile, others, state.format, limits)

    def evaluate() -> Evaluation:
        """For the pod alone, among the nodes of its gang's domain."""
        snapshot = cache.snapshot(excluding=pod.identity)
        return profile.evaluate(
            pod,
            snapshot,
            start=computation.start,
            preference=_preference(snapshot, computation),
            domain=domain(snapshot, terms_of(computation.domain)) if computation.domain else None,
            verdicts=answers.verdicts,
            preemption=answers.preemption,
        )

    remade = _remade(remaking, decision, answers, evaluate)
    compared, evaluation = remade.compared, remade.evaluation
    notes = list(_notes(decision, evaluation))
    if compared is None and evaluation is None:
        evaluation = evaluate()
    elif evaluation is None and compared is not None:
        notes.append(f"{', '.join(compared.again.rejectors)} held the pod back before any node was looked at")
    said = answers.verdicts.verdicts if answers.verdicts is not None else ()
    extenders = tuple(one.extender for one in said)
    scoring = tuple(one.extender for one in said if one.scores)
    asked, skipped = evaluation is not None, evaluation.state.skipped_filters if evaluation is not None else ()
    return Recomputation(
        pod=decision.pod,
        computation=computation,
        recorded=compared.recorded if compared is not None else said_alone(outcome),
        recomputed=compared.again if compared is not None else None,
        differs=compared.differs if compared is not None else (),
        lacks=remade.lacks,
        filters=(*profile.at.get("filter", ()), *extenders) if asked else (),
        skipped=tuple(name for name in profile.at.get("filter", ()) if name in skipped),
        refused_by=evaluation.refused_before_filtering if evaluation is not None else "",
        scorers=(*profile.at.get("score", ()), *scoring) if asked else (),
        nodes=tuple(sorted(_verdicts(evaluation), key=lambda one: one.node)) if evaluation is not None else (),
        notes=tuple(notes),
    )


def _answers(decision: RecordedDecision) -> Answers:
    try:
        return answered(decision.answers)
    except (TypeError, ValueError) as error:
        raise InvalidObject(f"the recorded answers of extenders cannot be read: {error}") from error


def _remade(
    remaking: Remaking, decision: RecordedDecision, answers: Answers, evaluate: Callable[[], Evaluation]
) -> Remade:
    outcome, many = decision.outcome, decision.many
    part = part_of(many, remaking.pod.key) if many is not None else None
    if many is None or part is None:
        return remaking.alone(outcome, answers)
    stretch = many.stretches[part.stretch].computation
    seats = outcome.computation.assumed[len(stretch.assumed) :]
    if stretch.gang:
        return remaking.in_gang(many, part, seats, evaluate)
    return remaking.in_cohort(many, part, seats)


def _notes(decision: RecordedDecision, evaluation: Evaluation | None) -> Iterator[str]:
    outcome = decision.outcome
    if evaluation is not None and evaluation.refused_before_filtering:
        yield f"{evaluation.refused_before_filtering} refused the pod before any filter ran"
    gang = outcome.computation.gang
    if gang and decision.many is not None and isinstance(outcome, Refused):
        yield f"gang {gang} was refused as a whole: what is said of nodes is for the pod alone, before other members"
    if isinstance(outcome, Refused) and outcome.late is not None:
        point = outcome.late.point.capitalize()
        yield f"{outcome.late.plugin} refused the chosen node {outcome.late.node} afterwards, at {point}, by the record"


def _subject(cache: Cache, decision: RecordedDecision) -> Pod:
    key, revision = decision.pod, cache.progress.revision
    pod = cache.pods.get(key)
    if pod is None or pod.create_revision != decision.outcome.create_revision:
        raise NotFound(f"etcd held no pod {key} at revision {revision}: it was changed behind wharfinger's back")
    return pod


def _preference(snapshot: Snapshot, computation: Computation) -> Preference | None:
    """The nodes that the deciding worker preferred, as far as it is known."""
    own = computation.own_nodes
    if own is None or not own.members:
        return None
    return Preference(owned(snapshot.node_columns.names, own.members, own.me), own.margin)


def _verdicts(evaluation: Evaluation) -> Iterator[NodeVerdicts]:
    refusals = evaluation.verdicts()
    ranking = {one.node: one for one in evaluation.ranking(evaluation.feasible_count)}
    feasible = frozenset(evaluation.feasible)
    examined = evaluation.examined
    for row, name in enumerate(evaluation.snapshot.names):
        ranked = ranking.get(name)
        yield NodeVerdicts(
            node=name,
            examined=examined is None or bool(examined[row]),
            feasible=name in feasible,
            refusals={plugin: status.reasons for plugin, status in refusals.get(name, {}).items()},
            scores=dict(ranked.plugins) if ranked else {},
            total=ranked.total if ranked else None,
        )
