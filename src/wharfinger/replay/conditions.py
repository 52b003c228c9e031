"""Conditions under which a replay fails, for tests of configurations: `refused > 0`, `same < 100%`, `packing < 0.5`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wharfinger.errors import UsageError
from wharfinger.replay.ends import VERDICTS
from wharfinger.replay.report.report import COUNTED, ReplayTally

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
FIGURES: Mapping[str, tuple[str, ...]] = {
    "shadow": (*map(str, COUNTED), "decisions", PACKING),
    "rerun": (*VERDICTS, "decisions", PACKING),
}
"""By mode: a figure that a mode does not have would never fail."""


@dataclass(frozen=True, slots=True)
class FailCondition:
    """One figure of a report, compared with a number."""

    text: str
    figure: str
    compare: str
    bound: float
    percent: bool

    @classmethod
    def parse(cls, text: str, mode: str = "shadow") -> FailCondition:
        """A condition on a report of this mode, `shadow` or `rerun`. Raises `UsageError`."""
        found, names = _FORM.fullmatch(text), FIGURES[mode]
        if found is None or found[1] not in names or (found[4] and found[1] in ("decisions", PACKING)):
            raise UsageError(
                f"--fail-on takes FIGURE OPERATOR NUMBER, such as 'refused > 0' or 'same < 100%', not {text!r}; "
                f"figures with --mode {mode} are {', '.join(names)}"
            )
        return cls(text.strip(), found[1], found[2], float(found[3]), bool(found[4]))

    def failure(self, report: ReplayTally) -> str:
        """Why the replay fails, in a sentence; empty where it does not.

        Shares are of all decisions, so what cannot be replayed is none of the same. A figure that does not exist fails.
        """
        figure = self._figure(report)
        if figure is None:
            return f"{self.text}: there is no {self.figure}, as nothing was placed"
        return self.text if _COMPARE[self.compare](figure, self.bound) else ""

    def _figure(self, report: ReplayTally) -> float | None:
        if self.figure == PACKING:
            return report.packed
        count = report.decisions if self.figure == "decisions" else report.counts[self.figure]
        if not self.percent:
            return float(count)
        return 100.0 * count / report.decisions if report.decisions else 0.0
