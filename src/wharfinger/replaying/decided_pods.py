"""Which pods were placed, and which refused, by a span's decisions, and by which one last: in a temporary file."""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.model.pod import PodKey
from wharfinger.replaying.deciding import placements
from wharfinger.replaying.explaining import refusals
from wharfinger.replaying.recorded import Unit
from wharfinger.replaying.scratch import scratch_database, writing
from wharfinger.replaying.shadow import Runs

_TABLE = (
    "CREATE TABLE pods (namespace, name, created, placed, place, PRIMARY KEY (created, name, namespace, placed)) "
    "WITHOUT ROWID"
)


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
