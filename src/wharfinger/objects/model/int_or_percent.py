"""A number or a percentage, as Kubernetes writes budgets: `maxUnavailable: 1` or `maxUnavailable: 25%`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntOrPercent:
    """A number of replicas, slots or clusters, or a percentage of all of them."""

    amount: int
    percent: bool = False

    def of(self, replicas: int, *, up: bool) -> int:
        """How many that is; percentages are rounded up, or down."""
        if not self.percent:
            return self.amount
        product = self.amount * replicas
        return -(-product // 100) if up else product // 100
