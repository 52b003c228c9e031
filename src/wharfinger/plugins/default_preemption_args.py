"""Arguments of DefaultPreemption."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from wharfinger.framework.args import Integer, PluginArgs


class DefaultPreemptionArgs(PluginArgs):
    """How many nodes are tried out before the best of them is chosen."""

    min_candidate_nodes_percentage: Integer = Field(default=10, ge=0, le=100)
    """Of the nodes where evicting may help."""
    min_candidate_nodes_absolute: Integer = Field(default=100, ge=0)

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be zero")
        return self

    def wanted(self, nodes: int) -> int:
        """How many candidates are looked for among so many nodes."""
        return min(nodes, max(nodes * self.min_candidate_nodes_percentage // 100, self.min_candidate_nodes_absolute))
