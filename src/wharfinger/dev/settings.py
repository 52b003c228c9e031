"""What a tree of processes is to be, and the executables that it needs. `dev.tree` starts it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from wharfinger.contracts.names import DEFAULT_CLUSTER
from wharfinger.dev import binaries, kubernetes_part
from wharfinger.dev.progress import ProgressListener
from wharfinger.model.formats import ClusterFormat
from wharfinger.settings import LeaseSettings

ETCD_PORT = 2379
TEMPORAL_PORT = 7233
UI_PORT = 8233
HEALTH_PORT = 10259
PAGE_PORT = 10280
"""Where the servers and the first worker listen, where nothing else does."""


@dataclass(frozen=True, slots=True)
class DevSettings:
    """What a tree is to be."""

    data_dir: Path
    """Everything that outlives the tree is in here."""
    workers: int | None = None
    """Replicas of the common fleet; None = as they are, one in a new folder."""
    etcd_port: int | None = None
    """A port that is named must be free; None = the one of the last life, else the usual one, else any."""
    temporal_port: int | None = None
    ui_port: int | None = None
    health_port: int | None = None
    """Of the first slot's instance; the others follow. A taken one is passed over."""
    retention: timedelta = timedelta(days=30)
    """How long Temporal keeps histories of ended runs."""
    ready_file: Path | None = None
    bind_address: str = "127.0.0.1"
    """Where the servers, the UI and the health endpoints listen. They speak plain; only etcd wants users."""
    cluster: str = DEFAULT_CLUSTER
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format pods and nodes are kept."""
    lease_ttl: float = LeaseSettings().ttl
    """Seconds from a worker's death until its pods go to the others."""
    config: Path | None = None
    """A KubeSchedulerConfiguration for workers whose fleet has none."""
    eviction: str = "immediate"
    """How preempted pods leave: no kubelet runs pods here."""
    cohorts: str = "auto"
    """`off`: every pod has an attempt of its own, however many wait."""
    agent_options: tuple[str, ...] = ()
    """More options of the agent (`--allow-env=TZ`): it does not see variables that begin with WHARFINGER_."""
    hub: bool = False
    """Whether a hub decides placements."""
    members: int = 0
    """Member clusters, with an etcd each; they need a hub."""
    kubernetes: bool = False
    """Whether an API server has the cluster's pods and nodes, and etcd copies of them."""
    kubernetes_port: int | None = None
    """Of the API server; as `etcd_port`."""
    page: bool = False
    """Whether the web page is served, on loopback."""
    page_port: int | None = None
    """Of the page; as `etcd_port`."""
    etcd_open: bool = False
    """Whether etcd wants no users, for trials with other tools: any web page can then write to it."""
    temporal_address: str = ""
    """`host:port` of a Temporal that runs already, with a namespace `default`; empty = one of our own."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The executables."""

    etcd: Path
    temporal: Path
    kube_apiserver: Path | None = None
    """None = not wanted."""


def prepare(progress: ProgressListener, *, kubernetes: bool = False) -> Servers:
    """Make sure of the servers (minutes, the first time); raises `ServerError`. `kubernetes`: an API server, too."""
    kube_apiserver = kubernetes_part.executable() if kubernetes else None
    return Servers(
        etcd=binaries.locate(binaries.ETCD, progress),
        temporal=binaries.locate(binaries.TEMPORAL, progress),
        kube_apiserver=kube_apiserver,
    )
