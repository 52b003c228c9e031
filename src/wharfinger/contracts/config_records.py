"""What lies in etcd of the dynamic configuration, as JSON. Keys: `registry.keys`.

::

    config/<kind>/<target>                      the value itself, written by the CLI by compare-and-set
    confighistory/<kind>/<target>/<number>      ConfigChangeRecord, create-only in that transaction; no worker lists it
    configstatus/<tenant>/<slot>/<incarnation>  ConfigStatusRecord, the worker's, under the lease of its registration

A worker does not say in its registration what it has in force: that record's mod revision is what readiness and drains
go by, and a value taken in must not begin them anew.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from wharfinger.contracts.records import Record


class ConfigChangeRecord(Record):
    """One change of a value."""

    value: dict[str, Any] | None = None
    """What was set; None = it was taken away."""
    digest: str = ""
    """SHA-256 over the value's canonical JSON; empty without one."""
    who: str = ""
    why: str = ""
    time: str = ""
    """RFC 3339, UTC."""


class ConfigStatusRecord(Record):
    """What a worker says of its dynamic configuration; none = it says nothing."""

    in_force: dict[str, str] = Field(default_factory=dict)
    """Kind -> SHA-256 of the value; absent = as the worker was started."""
    problems: dict[str, str] = Field(default_factory=dict)
    """What was refused or undone: kind -> one line."""
    own: tuple[str, ...] = ()
    """Kinds that the worker was started with something to say of: `default` counts for the others only."""
