"""What a run recorded of one pod, in short: for whoever asks why a pod went elsewhere. Pure.

`comparing` says when two decisions are the same; here is only one of them, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.contracts.cohort_scheduling import TurnedAway
from wharfinger.contracts.scheduling import Refused
from wharfinger.model.pod import PodKey
from wharfinger.observe.comparing import DecisionSaid, MemberPart, said_alone, said_member
from wharfinger.replaying.recorded import DecidedRun, decisions_of, key_of


def refusals(run: DecidedRun, place: int) -> Iterator[tuple[PodKey, int]]:
    """Pod and create revision of all that a unit refused. `place`: the unit's, among those of its run."""
    if isinstance(run.lone, Refused):
        yield PodKey(run.namespace, run.name), run.lone.create_revision
    elif run.many is not None:
        for one in run.many.turned_away:
            if run.kind == "gang" or one.stretch == place:
                yield key_of(one), one.create_revision


def said_of(run: DecidedRun, place: int, key: PodKey) -> DecisionSaid | None:
    """What a unit decided for a pod, the last of it; None where it decided nothing for it."""
    if run.lone is not None:
        return said_alone(run.lone) if PodKey(run.namespace, run.name) == key else None
    if run.many is None:
        return None
    many = run.many
    found = many.decided if run.kind == "gang" else decisions_of(many, place)
    of_pod = [one for one in found if key_of(one) == key]
    if not of_pod or (isinstance(of_pod[-1], TurnedAway) and of_pod[-1].reasons >= len(many.reasons)):
        return None
    return said_member(MemberPart(of_pod[-1], many.reasons, many.domain))
