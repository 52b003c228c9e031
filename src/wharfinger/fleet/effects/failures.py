"""What activities of fleets fail with (`process.failures` maps errors to it)."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.errors import WharfingerError
from wharfinger.fleet.contracts.fleets import FleetFailure
from wharfinger.process.failures import Failures

FLEETS = Failures(FleetFailure.UNAVAILABLE, FleetFailure.FLEET_ERROR, retried=True, speaking=WharfingerError)


def fenced(tenant: str, why: str) -> ApplicationError:
    """Another workflow acts on the fleet now, so the caller stops; never retried."""
    return ApplicationError(
        f"the fleet of {tenant} has another actor: {why}",
        type=FleetFailure.FENCED,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )
