"""What a tree of processes is to be, and the executables that it needs. `dev.tree` starts it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from wharfinger.cli.processes import process_options
from wharfinger.dev.progress import ProgressListener
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import setting
from wharfinger.process.names import DEFAULT_CLUSTER, check_cluster
from wharfinger.settings import lease_ttl_option

ETCD_PORT = 2379
TEMPORAL_PORT = 7233
UI_PORT = 8233
HEALTH_PORT = 10259
PAGE_PORT = 10280
"""Where the servers and the first worker listen, where nothing else does."""

_own = partial(setting, variable=False)
_port = partial(_own, None, metavar="PORT", min=1, max=65535)


@dataclass(frozen=True, slots=True)
class DevSettings:
    """What a tree is to be."""

    data_dir: Path = setting(Path("wharfinger-data"), "Everything is kept here; the next start goes on from it.", "DIR")
    workers: int | None = _own(
        None,
        "How many workers to run: replicas of the fleet `common`.",
        "N",
        min=0,
        max=64,
        shown="1 in a new folder, else as they are",
    )
    etcd_port: int | None = _port("Port of etcd.", shown="2379 if free")
    """A port that is named must be free; None = the one of the last life, else the usual one, else any."""
    temporal_port: int | None = _port("Port of Temporal.", shown="7233 if free")
    ui_port: int | None = _port("Port of Temporal's UI.", shown="8233 if free")
    health_port: int | None = _port(
        "Health port of the first worker; the others follow, as far as theirs are free.",
        max=65535 - 64,
        shown="10259 if free",
    )
    retention: timedelta = _own(
        timedelta(days=30),
        "How long Temporal keeps the history of an ended attempt.",
        "DURATION",
        kind=str,
        given="30d",
        read=process_options.duration_of,
    )
    ready_file: Path | None = _own(
        None,
        "Written once all is up, and whenever a process was replaced: JSON with URLs and pids. Removed when all is to "
        "stop.",
        "FILE",
    )
    bind_address: str = _own(
        "127.0.0.1",
        "Where everything listens, without encryption; only etcd wants users. The API server of --kubernetes always "
        "listens on loopback.",
        "ADDRESS",
    )
    cluster: str = setting(DEFAULT_CLUSTER, "Name of the cluster.", "NAME", read=check_cluster)
    lease_ttl: float = lease_ttl_option()
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format pods and nodes are kept."""
    config: Path | None = None
    """A KubeSchedulerConfiguration for workers whose fleet has none."""
    eviction: str = "immediate"
    """How preempted pods leave: no kubelet runs pods here."""
    cohorts: str = "auto"
    """`off`: every pod has an attempt of its own, however many wait."""
    agent_options: tuple[str, ...] = ()
    """More options of the agent (`--allow-env=TZ`): it does not see variables that begin with WHARFINGER_."""
    hub: bool = _own(False, "Run a hub too, which places resources on member clusters.")
    members: int = _own(0, "Run a hub and so many member clusters, each with an etcd of its own.", "N", min=0, max=16)
    kubernetes: bool | None = _own(
        None,
        "Run a Kubernetes API server too, whose pods the workers schedule. Its kubeconfig is written into the data "
        "folder.",
        negatable=True,
        shown="as in the folder; --no-kubernetes in a new one",
    )
    kubernetes_port: int | None = _port("Port of the API server.", shown="6443 if free")
    etcd_open: bool = setting(
        False,
        "Leave etcd without users, for trials with other tools. Any web page that a browser on this machine shows can "
        "then write to it.",
    )
    page: bool = setting(False, "Serve the web page too, on loopback.", negatable=True, given=True)
    page_port: int | None = _port("Port of the web page.", shown="10280 if free")
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
    from wharfinger.dev import binaries, kubernetes_part

    kube_apiserver = kubernetes_part.executable() if kubernetes else None
    return Servers(
        etcd=binaries.locate(binaries.ETCD, progress),
        temporal=binaries.locate(binaries.TEMPORAL, progress),
        kube_apiserver=kube_apiserver,
    )
