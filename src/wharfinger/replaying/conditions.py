"""Conditions under which a replay fails, for tests of configurations: `refused > 0`, `same < 100%`, `packing < 0.5`."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from wharfinger.errors import UsageError
from wharfinger.replaying.report import COUNTED

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
_FORM = re.compile(r"\s*([a-z]+)\s*(<=|>=|==|!=|<|>)\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*")
PACKING = "packing"
NAMES = (*map(str, COUNTED), "decisions", PACKING)


class Figures(Protocol):
    """A report of either mode."""

    counts: Counter[str]

    @property
    def decisions(self) -> int:
        """All of them."""

    @property
    def packed(self) -> float | None:
        """How full nodes would be, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class FailCondition:
    """One figure of a report, compared with a number."""

    text: str
    figure: str
    compare: str
    bound: float
    percent: bool

    @classmethod
    def parse(cls, text: str) -> FailCondition:
        """Raises `UsageError`."""
        found = _FORM.fullmatch(text)
        if found is None or found[1] not in NAMES or (found[4] and found[1] in ("decisions", PACKING)):
            raise UsageError(
                f"--fail-on takes FIGURE OPERATOR NUMBER, such as 'refused > 0' or 'same < 100%', not {text!r}; "
                f"figures are {', '.join(NAMES)}"
            )
        return cls(text.strip(), found[1], found[2], float(found[3]), bool(found[4]))

    def holds(self, report: Figures) -> bool:
        """Whether the replay fails. Shares are of all decisions, so what cannot be replayed is none of the same."""
        return _COMPARE[self.compare](self._figure(report), self.bound)

    def _figure(self, report: Figures) -> float:
        if self.figure == PACKING:
            return report.packed or 0.0
        count = report.decisions if self.figure == "decisions" else report.counts[self.figure]
        if not self.percent:
            return float(count)
        return 100.0 * count / report.decisions if report.decisions else 0.0
