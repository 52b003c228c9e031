"""What a fleet's activities fail with: every exception becomes one `ApplicationError` of a `FleetFailure`.

Outcomes are values and never come through here. All but `Fenced`, and what `create_instance` raises by itself, are
tried again: an entity outlives the trouble of its activities.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.contracts.fleets import FleetFailure
from wharfinger.engine import failures
from wharfinger.engine.failures import Failures
from wharfinger.errors import WharfingerError

FLEETS = Failures(FleetFailure.UNAVAILABLE, FleetFailure.FLEET_ERROR, retried=True, speaking=WharfingerError)


def mapped() -> AbstractContextManager[None]:
    """Raise what the block raises as an `ApplicationError` of a `FleetFailure`; cancellation passes."""
    return failures.mapped(FLEETS)


def fenced(tenant: str, why: str) -> ApplicationError:
    """Somebody else acts on the fleet now: who asks stops. Never retried."""
    return ApplicationError(
        f"the fleet of {tenant} has another actor: {why}",
        type=FleetFailure.FENCED,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )
