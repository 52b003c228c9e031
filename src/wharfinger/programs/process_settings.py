"""Settings of the processes for placements: hubs, and the agents of member clusters (`settings`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import nested, setting
from wharfinger.settings import (
    EtcdSettings,
    LeaseSettings,
    LogLevel,
    TemporalSettings,
    bind_address_option,
    format_option,
    health_port_option,
    log_level_option,
)

_end_with = partial(setting, 0, "Ends at once when this does.", "PID", min=0, hidden=True)


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Everything a hub process needs."""

    name: str = setting("", "Name of the hub; no other hub may have it.", "NAME", shown="of machine and process")
    """A DNS subdomain."""
    health_port: int = health_port_option(10257)
    bind_address: str = bind_address_option()
    log_level: LogLevel = log_level_option()
    lease: LeaseSettings = nested(LeaseSettings)
    end_with: int = _end_with()
    format: ClusterFormat = format_option(ClusterFormat.KUBERNETES)
    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    cluster: str = "wharfinger"
    drain_timeout: float = 5.0
    """Seconds that running activities get after the first SIGTERM."""


@dataclass(frozen=True, slots=True)
class MemberAgentSettings:
    """Everything the agent of member clusters needs."""

    members_dir: Path = setting(
        Path("members"),
        "A file <member>.yaml for each member says how its own etcd is reached; nobody else may read it.",
        "DIR",
    )
    """As `placement.member.folder` reads them."""
    report_every: float = setting(15.0, "How often what a member has is looked at.", "SECONDS", min=1, max=600)
    health_port: int = health_port_option(10256)
    bind_address: str = bind_address_option()
    log_level: LogLevel = log_level_option()
    lease: LeaseSettings = nested(LeaseSettings)
    end_with: int = _end_with()
    format: ClusterFormat = format_option(ClusterFormat.KUBERNETES)
    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    """The hub's."""
