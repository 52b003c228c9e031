"""What activities of fleets fail with."""

from __future__ import annotations

from enum import StrEnum


class FleetFailure(StrEnum):
    """Types of errors of a fleet's activities."""

    UNAVAILABLE = "Unavailable"
    """etcd did not answer; retried."""
    FENCED = "Fenced"
    """Another actor took over: this one stops. Never retried."""
    NO_ROOM = "NoRoom"
    """The host is full, or starts enough at the moment; retried."""
    UNKNOWN_VERSION = "UnknownVersion"
    """The host has no executable of that name; not retried there."""
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a name
    """The host has no such secret; not retried."""
    CANNOT_START = "CannotStart"
    """The executable cannot be run; not retried."""
    FLEET_ERROR = "FleetError"
    """Something that should not happen; retried."""
