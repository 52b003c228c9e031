"""Reads Prometheus' text format, as far as the page needs it: names, labels and values, within limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MOST_BYTES = 8 * 1024 * 1024
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{([^}]*)\})?\s+(\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one process exposed at one moment: series by metric, each with its labels."""

    at: float
    """Monotonic seconds."""
    series: Mapping[str, list[tuple[Mapping[str, str], float]]] = field(default_factory=dict)

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of the series with these labels; None without any."""
        found = [value for named, value in self.series.get(name, ()) if _has(named, labels)]
        return sum(found) if found else None

    def largest(self, name: str, **labels: str) -> float | None:
        """The largest of them; None without any."""
        return max((value for named, value in self.series.get(name, ()) if _has(named, labels)), default=None)


def read(text: str, at: float, wanted: Iterable[str]) -> Scrape:
    """The wanted metrics of an exposition; what cannot be read is passed over."""
    names = frozenset(wanted)
    series: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None or match[1] not in names:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        labels = dict(_LABEL.findall(match[2])) if match[2] else {}
        series.setdefault(match[1], []).append((labels, value))
    return Scrape(at, series)


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
