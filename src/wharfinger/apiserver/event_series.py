"""Which events were said before: the series that client-go's recorder makes of repeats.

Pure memory. `event_lane.py` asks it for each warning, and writes what it finds due. The first repeat of an event is
written at once; later ones are counted here, and their count is written each `REFRESH` and when the series ends::

    new ──► created ──► said again: PATCH count 2 ──► said again ... ──► PATCH count n ──► forgotten
                                                      counted            each 30 min, or 6 min after the last
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from wharfinger.apiserver.event_bodies import UpstreamEvent

WINDOW = 6 * 60.0
"""Seconds after which an event that is said again is a new event; client-go's."""
REFRESH = 30 * 60.0
"""Seconds between two writes of a series that goes on; client-go's. The server forgets an event after an hour."""
LIMIT = 20_000
"""Events remembered; the one that was said longest ago is forgotten first. About 0.5 KB each."""


class Said(Enum):
    """What an event is to those before it."""

    FIRST = auto()
    AGAIN = auto()
    """A repeat: another attempt says the same."""
    RETRIED = auto()
    """The same attempt again, because its activity was retried: nothing to do."""


@dataclass(slots=True, eq=False)
class Series:
    """An event, and how often it was said."""

    key: bytes
    namespace: str
    name: str
    """Of the event in the server, usually that of the first time."""
    latest: str
    """Name of the latest repeat."""
    last: datetime
    """When it was said last, time of day."""
    seen: float
    """Likewise, in seconds of the lane's clock."""
    count: int = 1
    told: int = 0
    """Count that the server has; 0 until the event is created."""
    told_at: float = 0.0
    queued: bool = False
    """Whether a write is in the queue or under way."""

    @property
    def behind(self) -> bool:
        """Whether the server has the event with a lower count."""
        return 0 < self.told < self.count

    @property
    def due(self) -> bool:
        """Whether its first repeat has to be written, and no write is on its way."""
        return self.told == 1 < self.count and not self.queued

    def tell(self, count: int, now: float) -> None:
        """The server has this count."""
        self.told, self.told_at = count, now


class RecentEvents:
    """The series that are open."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._series: OrderedDict[bytes, Series] = OrderedDict()
        """By key of the event; that which was said longest ago comes first."""
        self._ended: list[Series] = []

    def __len__(self) -> int:
        return len(self._series)

    def say(self, event: UpstreamEvent, now: float) -> tuple[Said, Series]:
        """Take in an event; `now` in seconds of a clock that does not go back."""
        key = event.key
        series = self._series.get(key)
        if series is None or now - series.seen > WINDOW:
            if series is not None:
                self._end(series)
            elif len(self._series) >= self._limit:
                self._end(next(iter(self._series.values())))
            series = Series(key, event.namespace, event.name, event.name, event.time, now)
            self._series[key] = series
            return Said.FIRST, series
        if event.name in (series.name, series.latest):
            return Said.RETRIED, series
        series.count += 1
        series.latest, series.last, series.seen = event.name, event.time, now
        self._series.move_to_end(key)
        return Said.AGAIN, series

    def forget(self, series: Series) -> None:
        """The server does not have the event: the next repeat is a first one. Idempotent."""
        if self._series.get(series.key) is series:
            del self._series[series.key]

    def sweep(self, now: float) -> list[Series]:
        """End the series without repeats for `WINDOW`; returns those whose count has to be written now."""
        while self._series and now - (oldest := next(iter(self._series.values()))).seen > WINDOW:
            self._end(oldest)
        ended, self._ended = self._ended, []
        refreshed = [series for series in self._series.values() if series.behind and now - series.told_at >= REFRESH]
        return [series for series in (*ended, *refreshed) if not series.queued]

    def close(self) -> list[Series]:
        """End all series; returns those whose count has to be written."""
        for series in tuple(self._series.values()):
            self._end(series)
        ended, self._ended = self._ended, []
        return ended

    def _end(self, series: Series) -> None:
        del self._series[series.key]
        if series.behind:
            self._ended.append(series)
