"""Settings of a process: frozen dataclasses, filled by the CLI from options and environment.

Each field says its unit, its default and why. A field that is a `setting` is an option of each command that takes its
class, and says it in the option's help (`options`). Nothing here reads the environment: `cli.options` does.
Settings of the processes beside workers are in `agent_settings` and `process_settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import nested, setting

CONNECTION_PANEL = "Connection"
KUBERNETES_PANEL = "Kubernetes API"
"""Panels in a command's help."""


health_port_option = partial(
    setting,
    help="Port of its /livez, /readyz and /metrics. 0: any free one, -1: none.",
    metavar="PORT",
    name="health-port",
    min=-1,
    max=65535,
)
bind_address_option = partial(
    setting,
    "127.0.0.1",
    "Where health endpoints listen: its own, and those of what it starts.",
    "ADDRESS",
    name="bind-address",
)
format_option = partial(
    setting,
    help="In which format the cluster keeps its pods and nodes: Kubernetes' objects, or the documents of rk8s. Fixed "
    "at the cluster's first start.",
    name="format",
)
lease_ttl_option = partial(
    setting,
    10.0,
    "How long after a worker's death its pods go to the others. A short lease expires while etcd's disk is busy.",
    "SECONDS",
    name="lease-ttl",
    kind=int,
    given=10,
    min=2,  # etcd grants no less: one and a half elections, rounded up
    max=60,
)
LogLevel = Literal["debug", "info", "warning", "error"]
log_level_option = partial(setting, "info", "The lowest level that is logged.", name="log-level")
"""Fields of several classes."""


_connection = partial(setting, panel=CONNECTION_PANEL)


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """How to reach etcd."""

    endpoints: tuple[str, ...] = _connection(
        ("http://127.0.0.1:2379",),
        "An endpoint of etcd; repeat, or separate by commas, for several of one cluster.",
        "URL",
        name="etcd",
        shown="http://127.0.0.1:2379",
    )
    """URLs, tried in turn."""
    protocol: Literal["json", "grpc"] = _connection(
        "json",
        "How etcd is spoken to: by its JSON gateway, or by gRPC, which needs this package's extra `grpc`.",
        name="etcd-protocol",
    )
    user: str = _connection(
        "", "User, when etcd requires one; needs --etcd-password-file.", "NAME", name="etcd-user", shown=False
    )
    password_file: Path | None = _connection(
        None, "File with the user's password.", "FILE", name="etcd-password-file", exists=True
    )
    """One line; a file so that no process list shows it."""
    allow_insecure: bool = _connection(
        False,
        "Send the password also over plain http to another machine: for a network that is all yours.",
        name="allow-insecure-etcd",
    )
    ca: Path | None = _connection(
        None,
        "Certificate of the authority that signed etcd's (PEM); without: the system's authorities.",
        "FILE",
        name="etcd-ca",
        exists=True,
    )
    cert: Path | None = _connection(None, "Client certificate for etcd (PEM).", "FILE", name="etcd-cert", exists=True)
    key: Path | None = _connection(
        None, "Private key of the client certificate (PEM).", "FILE", name="etcd-key", exists=True
    )
    connect_timeout: float = 2.0
    """Seconds for a connection; then the next endpoint is tried."""
    attempt_timeout: float = 5.0
    """Seconds for one try of a call."""
    deadline: float = 10.0
    """Seconds for a call with all its tries."""
    watch_idle: float = 20.0
    """Seconds without a byte after which a watch reconnects; servers should send progress every 5 s."""
    max_txn_ops: int = 128
    """Operations that the servers take in each list of a transaction: their `--max-txn-ops`, 128 unless set."""
    max_txn_bytes: int = 1024 * 1024
    """Bytes that a transaction of many pods may come to; the servers take 1.5 MiB unless set."""


@dataclass(frozen=True, slots=True)
class TemporalSettings:
    """How to reach Temporal; TLS and API keys come from the SDK's own environment configuration."""

    address: str | None = _connection(
        None, "Temporal's front end.", "HOST:PORT", name="temporal", shown="TEMPORAL_ADDRESS, else 127.0.0.1:7233"
    )
    namespace: str | None = _connection(
        None, "Temporal namespace.", "NAME", name="temporal-namespace", shown="TEMPORAL_NAMESPACE, else default"
    )
    plugins: tuple[str, ...] = _connection(
        (),
        "A plugin of the Temporal SDK, such as one that encrypts payloads; repeat for several.",
        "MODULE:NAME",
        name="temporal-plugin",
        shown=False,
    )
    """Each is called without arguments, and makes a plugin of the SDK's client."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """A worker's membership."""

    ttl: float = lease_ttl_option()
    loop_stall: float = 0.5
    """Share of the ttl without a tick of the event loop after which the lease is no longer renewed."""
    temporal_unreachable: float = 10.0
    """Seconds without an answer from Temporal after which the worker withdraws."""

    @property
    def stall(self) -> float:
        """Seconds without a tick of the event loop after which the lease is no longer renewed."""
        return self.loop_stall * self.ttl


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """How attempts are started."""

    in_flight: int = 40
    """Attempts in no group that were started and not yet seen ended: of pods that are never placed with others, or of
    all pods where `cohorts` is off. More adds latency and no throughput."""
    completing: int | None = None
    """Without effect: groups bound what Temporal has to complete. A value is ignored with a warning."""
    concurrent_starts: int = 32
    """Start calls at a time, at most; fewer while Temporal is slow."""
    cohorts: bool = True
    """Whether pods that arrive while a group is on its way are placed together in one workflow; otherwise each has its
    own, always."""
    take_turns: bool = True
    """Whether namespaces take turns with their pods of equal priority; otherwise those that came first go first."""
    cohort_from: int | None = None
    """Without effect: a group takes whatever has arrived. A value is ignored with a warning."""
    cohort_most: int = 200
    """Pods in one group, at most 204: they are decided at a stretch, and more give no throughput. A search attribute
    of Temporal's lists no more."""
    cohorts_in_flight: int = 4
    """Groups started whose pods etcd has not all told about; more adds latency and no throughput."""
    parked_chains: int = 1000
    """Workflows of waiting pods that this worker keeps open (each costs it about 88 KB, and the server as much); pods
    beyond that wait in its queue alone, with their record in etcd."""
    confirm_after: float = 30.0
    """Seconds after which an attempt that etcd does not confirm is started again."""
    hold: float = 2.0
    """Seconds a gained pod's owner must be unchanged before it is dispatched."""
    restart_every: float = 300.0
    """Seconds between level-triggered starts of every pending pod, and between waker sweeps."""


@dataclass(frozen=True, slots=True)
class BindSettings:
    """How a placement is committed."""

    tries: int = 4
    """Transactions for one node before the runners-up are tried."""
    catch_up: float = 0.5
    """Seconds to wait for the watch to reach the store's revision between two tries."""
    behind: float = 1.0
    """Seconds `place` waits for the cache to see the pod's revision."""
    own_node_margin: int = 4
    """Points of the total by which a node that is this worker's own may be worse than the best and still be chosen
    before it, so that several workers seldom contend; 0 = the best node always. A small pod costs its node about 2."""
    runners_up: bool = True
    """Whether a pod whose node's room was taken is bound to a runner-up of its decision; otherwise its next attempt
    decides anew."""
    assume_expiry: float = 30.0
    """Seconds after which an assumption whose transaction was never sent is dropped."""


COMPATIBLE = BindSettings(own_node_margin=0, runners_up=False)
"""`--compatible`: nothing of ours has a say in which node is chosen, only kube-scheduler's rules and the profile."""


@dataclass(frozen=True, slots=True)
class NodeEvictionSettings:
    """What happens to pods on nodes that do not exist, or that have a NoExecute taint; the same for all workers."""

    lost_pods: str = "report"
    """`report`: pods of absent nodes are only reported; `requeue`: they are deleted, and those without a controller
    made anew."""
    lost_after: float = 300.0
    """Seconds that a node must be absent before its pods are requeued. Also the time in which at most 10 % of the nodes
    are cleared. A rebooted machine is back within five minutes."""
    taint_eviction: bool = False
    """Whether pods that do not tolerate a NoExecute taint of their node are evicted. Off, because in a Kubernetes
    cluster its own controller does it."""


_kubernetes = partial(setting, panel=KUBERNETES_PANEL)
kube_context_option = partial(
    _kubernetes, "", "Context of the kubeconfig.", "NAME", name="kube-context", shown="its current"
)
allow_insecure_option = partial(
    _kubernetes,
    False,
    "Accept a kubeconfig that switches off the verification of the server's certificate, or that sends credentials "
    "over plain HTTP.",
    name="allow-insecure-upstream",
)
Events = Literal["all", "failures", "none"]
events_option = partial(_kubernetes, "all", "Events that are written to the API. `failures`: all but Scheduled.")
"""Fields of several classes."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """The Lease of the Kubernetes API that says which scheduler binds; as a LeaderElectionConfiguration has it."""

    enabled: bool = _kubernetes(
        True,
        "Bind only while this installation holds the Lease; all of its workers bind then.",
        name="leader-elect",
        negatable=True,
    )
    name: str = _kubernetes(
        "",
        "Name of the Lease.",
        "NAME",
        name="leader-elect-resource-name",
        shown="kube-scheduler for the profile default-scheduler, else the cluster's",
    )
    namespace: str = _kubernetes(
        "kube-system", "Namespace of the Lease.", "NAME", name="leader-elect-resource-namespace"
    )
    lease_duration: float = 15.0
    """Seconds after which another scheduler takes over when the holder's record has not changed."""
    renew_deadline: float = 10.0
    """Seconds after which a holder that could not renew it gives up."""
    retry_period: float = 2.0
    """Seconds between two tries."""


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The Kubernetes API that is the store of the cluster."""

    kubeconfig: Path | None = None
    """None = of the environment, else of the pod that the process runs in."""
    context: str = kube_context_option()
    master: str = ""
    """URL in the place of the kubeconfig's; empty = the file's."""
    qps: float = _kubernetes(
        50.0,
        "Requests a second of one worker to the API, and as many events besides. Negative: no limit.",
        "NUMBER",
        name="kube-api-qps",
    )
    """Watches and the Lease do not count."""
    burst: int = _kubernetes(100, "Requests that may go at once.", "NUMBER", name="kube-api-burst", min=1)
    allow_insecure: bool = allow_insecure_option()
    election: ElectionSettings = nested(ElectionSettings)
    events: Events = events_option()
    torn_gangs: Literal["Keep", "Evict"] = _kubernetes(
        "Keep",
        "What happens to the bound members of a gang of which others were deleted or changed while it was being bound.",
    )
    importer_ttl: float = 8.0
    """Seconds from the importer's death until another worker is it."""
    behind_after: float = 10.0
    """Seconds without a sign of the importer after which nothing is placed."""
    sweep_after: float = 15.0
    """Seconds after which a promise is sent again by the owner of its pod."""


@dataclass(frozen=True, slots=True)
class GrantSettings:
    """Under which grant a worker lives, where an agent started it."""

    slot: int
    incarnation: int
    revision: int = 0
    """Number of the fleet's revision."""
    lock: Path | None = None
    """File that is locked for life: locked = alive."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Everything a worker process needs."""

    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    kubernetes: KubernetesSettings | None = None
    """The Kubernetes API whose pods are scheduled; None = the cluster's objects are in etcd itself."""
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    cluster: str = "wharfinger"
    """Begins every task queue and workflow id; fixed at an installation's first start."""
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format the cluster keeps its pods and nodes; fixed at an installation's first start."""
    dispatch: Literal["sharded", "none"] = setting(
        "sharded",
        "`sharded`: start attempts for this worker's share of the pods. `none`: run only what others start.",
    )
    tenant: str = setting("common", "Whose pods it takes: a tenant's, or the common pool's (`common`).", "NAME")
    config: Path | None = None
    """A KubeSchedulerConfiguration; None = the defaults."""
    all_plugins: bool = False
    """Whether plugins of installed packages take part that the configuration does not name."""
    health_port: int = health_port_option(10259)
    bind_address: str = bind_address_option()
    lease: LeaseSettings = nested(LeaseSettings)
    slot: str = ""
    """Stable name among the workers; empty = `hand-<host>-<lease id>`, or the grant's."""
    grant: GrantSettings | None = None
    """None = started by hand."""
    state_dir: Path | None = None
    """Where a worker that was started by hand remembers its dynamic configuration; None = it remembers nothing."""
    tenant_label: str = "wharfinger.dev/tenant"
    """The label of pods that names their tenant."""
    dispatching: DispatchSettings = field(default_factory=DispatchSettings)
    binding: BindSettings = field(default_factory=BindSettings)
    eviction: str = "graceful"
    """How preempted pods leave. `graceful`: marked as terminating, the kubelet deletes them; `immediate`: deleted
    at once, for clusters without kubelets."""
    node_evictions: NodeEvictionSettings = field(default_factory=NodeEvictionSettings)
    min_ready: float = 10.0
    """Seconds that a worker must be ready with a value of the dynamic configuration until that counts as good, where
    no fleet of its tenant says it."""
    drain_timeout: float = 10.0
    """Seconds that running activities get after the first SIGTERM."""
    max_cached_workflows: int = 2000
    """Runs kept in memory; a parked one costs about 88 KB."""
