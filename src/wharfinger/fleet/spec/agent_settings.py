"""Settings of the process of a host's agent (`settings`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wharfinger.fleet.model.fleet import HOST_LOST
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import nested, setting
from wharfinger.settings import (
    EtcdSettings,
    KubernetesSettings,
    LeaseSettings,
    LogLevel,
    TemporalSettings,
    bind_address_option,
    health_port_option,
    log_level_option,
)

INSTANCES_PANEL = "Instances"
"""Panel in a command's help."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Everything an agent process needs."""

    host: str = setting("", "Name of the host; no other agent may have it.", "NAME", shown="this machine's")
    """A DNS subdomain."""
    data_dir: Path = setting(
        Path("wharfinger-agent"), "Instances' files are kept here; the next agent on it adopts what runs.", "DIR"
    )
    """Locks, logs, configurations."""
    control: bool = setting(True, "Whether it also acts on fleets; at least one agent must.", negatable=True)
    health_port: int = health_port_option(10258)
    bind_address: str = bind_address_option()
    log_level: LogLevel = log_level_option()
    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    instance_etcd: EtcdSettings | None = None
    """As which user instances log in; None = as the agent does."""
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    cluster: str = "wharfinger"
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format the cluster keeps its pods and nodes."""
    installs: tuple[tuple[str, Path], ...] = ()
    """Versions that templates may name, and their executables."""
    secrets_dir: Path | None = None
    """`<secrets-dir>/<name>/<version>` are files."""
    allow_env: frozenset[str] = frozenset()
    """Variables that a template, or the agent's own environment, may hand to instances; no others."""
    capacity: int = setting(0, "How many instances may run here. 0: no bound.", "N", min=0, panel=INSTANCES_PANEL)
    concurrent_creates: int = 4
    """Instances that start at a time."""
    instance_health_port: int = setting(
        0,
        "Slot n's health port is this + n where that is free. 0: any free one.",
        "PORT",
        min=0,
        max=65535,
        panel=INSTANCES_PANEL,
    )
    stop_instances: float | None = setting(
        None,
        "End the instances too when a signal stops the agent; they get this long.",
        "SECONDS",
        min=0,
        shown="they go on",
        panel=INSTANCES_PANEL,
    )
    end_with: int = setting(0, "Agent and instances end at once when this does.", "PID", min=0, hidden=True)
    config: Path | None = None
    """A KubeSchedulerConfiguration for templates that have none."""
    all_plugins: bool = False
    """Whether plugins of installed packages take part that no configuration names."""
    worker_options: tuple[str, ...] = ()
    """More options for every instance (`--cohorts=off`), as given to the agent."""
    kubernetes: KubernetesSettings | None = None
    """The Kubernetes API whose pods the instances schedule; its options are in `worker_options`, too."""
    lease: LeaseSettings = nested(LeaseSettings)
    host_lost: float = setting(
        HOST_LOST,
        "How long a host may have no agent until it counts as lost: longer than a machine takes to start again, and "
        "the same for all agents that act on fleets.",
        "SECONDS",
        min=5,
        max=3600,
    )
    """Its queue is asked, and may be silent for half as long (5 to 30 s)."""
    probe_every: float = 5.0
    """Seconds between two looks at an instance's `/livez`."""
    probe_failures: int = 3
    """Failures in a row after which it is killed."""
    drain_timeout: float = 5.0
    """Seconds that running activities get when the agent is stopped."""
