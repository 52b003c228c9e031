"""What would be decided for a whole gang: nodes for all members it needs, or why not, in plain lists and mappings."""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.framework.gangs import GangPlacement
from wharfinger.model.conditions import SCHEDULING_GATED
from wharfinger.model.gang import GANG_SCHEDULING, GangKey
from wharfinger.model.pod import PodKey


class SimulatedGang:
    """What would be decided for a gang, and why."""

    nomination = None
    """What becomes of its members' nominations when they are parked: they stay as they are."""

    def __init__(self, key: GangKey, placement: GangPlacement | None, *, held: str = "") -> None:
        """`held`: why its members wait for others of it; then nothing was decided."""
        self.key = key
        self._placement = placement if placement is not None else GangPlacement()
        self._held = held

    @property
    def gated(self) -> bool:
        """Whether its members are held back: too few of them exist, or what they say of it cannot be followed."""
        return bool(self._held)

    @property
    def nodes(self) -> dict[PodKey, str]:
        """Member -> node, in the order in which they were decided; empty when too few of them fit."""
        return {one.pod.key: one.node for one in self._placement.seats}

    @property
    def domain(self) -> str:
        """`<key>=<value>` of the topology domain that it was decided in; empty without one."""
        return str(self._placement.domain) if self._placement.domain is not None else ""

    @property
    def nominations(self) -> dict[PodKey, str]:
        """Member -> node, where room could be made for all of them; else empty."""
        return {one.pod.key: one.node for one in self._placement.nominations}

    @property
    def victims(self) -> dict[PodKey, list[PodKey]]:
        """Member -> the pods that would have to leave its node for that, sorted; of members for which some would."""
        return {
            one.pod.key: sorted(victim.key for victim in one.victims)
            for one in self._placement.nominations
            if one.victims
        }

    @property
    def message(self) -> str:
        """Why it is not placed; empty when it is."""
        return f"{SCHEDULING_GATED}: {self._held}" if self._held else self._placement.message

    @property
    def rejectors(self) -> list[str]:
        """Plugins that refused members, sorted."""
        return [GANG_SCHEDULING] if self._held else list(self._placement.rejectors)

    @property
    def first_refusals(self) -> Mapping[str, Mapping[str, int]]:
        """Of the first member that did not fit: plugin that refused first -> reason -> number of nodes."""
        if self._held:
            return {GANG_SCHEDULING: {self._held: 0}}
        return self._placement.away[0].evaluation.refusals if self._placement.away else {}
