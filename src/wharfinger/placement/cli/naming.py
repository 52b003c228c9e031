"""What commands about a placement have in common: how it is named, and how its decision is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from wharfinger.placement.deciding.deviations import in_order
from wharfinger.placement.model.placement import PlacementDecision

PlacementArgument = Annotated[
    str, typer.Argument(help="Which: NAME, NAME with -n, cluster/NAME or ns/NAMESPACE/NAME.", metavar="PLACEMENT")
]
NamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", help="Namespace of a ResourcePlacement.", metavar="NAME", show_default="none"),
]


def decision_mapping(decision: PlacementDecision) -> dict[str, Any]:
    """The condition and the deviations of a decision, as printed for programs."""
    told = decision.condition
    return {
        "condition": {"status": told.status, "reason": told.reason, "message": told.message},
        "deviations": in_order(decision.deviations),
    }


def tell_deviations(told: Mapping[str, Any]) -> Iterable[str]:
    """A line on where KubeFleet would decide otherwise; none where nowhere."""
    if told["deviations"]:
        yield f"KubeFleet would decide otherwise: {', '.join(told['deviations'])} (docs/placement.md)"
