"""Reads Prometheus' text format, as far as the page needs it: names, labels and values, within limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MOST_BYTES = 8 * 1024 * 1024
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{([^}]*)\})?\s+(\S+)")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_TYPE = "# TYPE "
_PARTS = ("_sum", "_count")

Wanted = str | re.Pattern[str]
"""Value of a label, or what it has to match as a whole."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one process exposed at one moment: series by metric, each with its labels."""

    at: float
    """Monotonic seconds."""
    series: Mapping[str, list[tuple[Mapping[str, str], float]]] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    """Metrics that the process has, also those without any series yet: nothing was counted there."""

    def total(self, name: str, **labels: Wanted) -> float | None:
        """The sum of the series with these labels: 0 for none of a metric that is there, None without the metric."""
        found = self._found(name, labels)
        return sum(found) if found else self._nothing(name)

    def largest(self, name: str, **labels: Wanted) -> float | None:
        """The largest of them; as `total` where there is none."""
        return max(self._found(name, labels), default=self._nothing(name))

    def _found(self, name: str, wanted: Mapping[str, Wanted]) -> list[float]:
        return [value for labels, value in self.series.get(name, ()) if _has(labels, wanted)]

    def _nothing(self, name: str) -> float | None:
        return 0.0 if name in self.series or name in self.declared else None


def read(text: str, at: float, wanted: Iterable[str]) -> Scrape:
    """The wanted metrics of an exposition; what cannot be read is passed over."""
    names = frozenset(wanted)
    series: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    declared: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            if line.startswith(_TYPE):
                name = line[len(_TYPE) :].partition(" ")[0]
                declared.update({name, *(name + part for part in _PARTS)} & names)
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
    return Scrape(at, series, frozenset(declared))


def _has(labels: Mapping[str, str], wanted: Mapping[str, Wanted]) -> bool:
    return all(_is(labels.get(key), value) for key, value in wanted.items())


def _is(value: str | None, wanted: Wanted) -> bool:
    if isinstance(wanted, str) or value is None:
        return value == wanted
    return wanted.fullmatch(value) is not None
