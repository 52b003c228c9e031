"""Which pods were placed, and which refused, by a span's decisions, and by which one last: in a temporary file.

And what a run recorded of one pod, in short. `scheduling.reading.comparing` says when two decisions are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wharfinger.objects.model.pod import PodKey
from wharfinger.replay.archive.scratch import scratch_database, writing
from wharfinger.replay.deciding import placements
from wharfinger.replay.recorded import DecidedRun, Unit, decisions_of, key_of
from wharfinger.replay.shadow import Runs
from wharfinger.scheduling.contracts.cohort_scheduling import TurnedAway
from wharfinger.scheduling.contracts.scheduling import Refused
from wharfinger.scheduling.reading.comparing import DecisionSaid, MemberPart, said_alone, said_member

_TABLE = (
    "CREATE TABLE pods (namespace, name, created, placed, place, PRIMARY KEY (created, name, namespace, placed)) "
    "WITHOUT ROWID"
)


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


class DecidedPods:
    """Pods by key and create revision; contains those that were placed. Close it."""

    def __init__(self, runs: Runs, units: Sequence[Unit]) -> None:
        self._database = scratch_database(_TABLE)
        for number, unit in enumerate(units):
            run = runs.get(unit.run)
            placed = [(key, created, True) for key, created, _ in placements(run, unit.place)]
            refused = [(key, created, False) for key, created in refusals(run, unit.place)]
            rows = [(key.namespace, key.name, created, how, number) for key, created, how in placed + refused]
            with writing():
                self._database.executemany("INSERT OR REPLACE INTO pods VALUES (?, ?, ?, ?, ?)", rows)

    def __contains__(self, pod: object) -> bool:
        return isinstance(pod, tuple) and self.place(*pod, placed=True) is not None

    def place(self, key: PodKey, create_revision: int, *, placed: bool) -> int | None:
        """The place among the units of the one that placed the pod last, or refused it last; None = none did."""
        found = self._database.execute(
            "SELECT place FROM pods WHERE created = ? AND name = ? AND namespace = ? AND placed = ?",
            (create_revision, key.name, key.namespace, placed),
        ).fetchone()
        return int(found[0]) if found is not None else None

    def known(self, key: PodKey, create_revision: int) -> bool:
        """Whether any of them decided for the pod."""
        return any(self.place(key, create_revision, placed=placed) is not None for placed in (True, False))

    def close(self) -> None:
        """Give the room back."""
        self._database.close()
