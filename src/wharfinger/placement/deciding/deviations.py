"""Where deciding differs from KubeFleet's scheduler on purpose, by name, and whether it mattered to one decision.

`Deviations` undoes some of them for one decision, which is then KubeFleet's in this respect. What an undone one makes
KubeFleet fail on, fails as a `Stuck`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

D1 = "D1"
"""Spread is violated if a domain would have more than maxSkew above the smallest; KubeFleet refuses every domain once
the skew there is exceeds it."""
D2 = "D2"
"""A domain counts if it has a chosen member, or one that every filter before spread passes; there, every domain."""
D3 = "D3"
"""A member that cannot be evaluated is refused, and the rest goes on; there, the placement is stuck."""
D4 = "D4"
"""With spread, members chosen under an older policy are preferred until the last pick; there, to the first only."""
D5 = "D5"
"""PickFixed: a name counts once, and a chosen member is reported as selected; there, an unreachable one as not."""
D6 = "D6"
"""Every member that is not chosen has a verdict; there, none has after a down-scale, or when nothing is to do."""
D7 = "D7"
"""Equal quantities are one value however they are written, and names of resources may have dashes."""
D8 = "D8"
"""Names may have dots; there, a member whose binding cannot be named makes the placement stuck."""
D9 = "D9"
"""A PickFixed that names no member chooses none; there, it leaves all as it was."""
D10 = "D10"
"""A new policy does not give up a chosen member because it is not heard, or unhealthy. A heart-beat that never came
has a text of its own."""
D11 = "D11"
"""A member that went and came back is newly chosen; there, it has what it had before."""
D12 = "D12"
"""Who was evicted is chosen again once its work is gone; there, at once."""
D13 = "D13"
"""A new policy does not give up a chosen member because it is cordoned, or its object cannot be read. KubeFleet has no
cordons; undone, such a member is refused as one that has nothing."""
D14 = "D14"
"""Scaling down keeps hard spread constraints; there, the lowest scores go wherever they are."""

ALL = frozenset({D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, D13, D14})


def in_order(names: Iterable[str]) -> list[str]:
    """Names of deviations by their number."""
    return sorted(names, key=lambda name: int(name[1:]))


@dataclass(slots=True)
class Deviations:
    """The deviations of one decision: which are undone, and which came into play."""

    undone: frozenset[str] = frozenset()
    noted: set[str] = field(default_factory=set)
    """Those that came into play, undone ones too."""

    def note(self, name: str) -> bool:
        """Note that a deviation came into play; whether it holds."""
        self.noted.add(name)
        return self.holds(name)

    def holds(self, name: str) -> bool:
        """Whether a deviation is not undone."""
        return name not in self.undone


@dataclass(frozen=True, slots=True)
class Stuck:
    """Why KubeFleet would decide nothing. It is no outcome of ours: only an undone deviation leads to it."""

    why: str
