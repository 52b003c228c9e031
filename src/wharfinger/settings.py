"""Settings of a process: frozen dataclasses, filled by the CLI from options and environment.

Each field says its unit, its default and why. Nothing here reads the environment: `cli.options` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wharfinger.model.fleet import HOST_LOST
from wharfinger.model.formats import ClusterFormat


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """How to reach etcd."""

    endpoints: tuple[str, ...] = ("http://127.0.0.1:2379",)
    """URLs, tried in turn; all of one cluster."""
    protocol: Literal["json", "grpc"] = "json"
    """`json`: etcd's JSON gateway; `grpc`: gRPC, which needs the extra `wharfinger[grpc]`."""
    user: str = ""
    """Empty = etcd without authentication."""
    password_file: Path | None = None
    """Holds the user's password (one line); a file so that no process list shows it."""
    allow_insecure: bool = False
    """Whether the password may be sent over plain http to another machine."""
    ca: Path | None = None
    """PEM of the authority that signed the servers' certificates; None = the system's."""
    cert: Path | None = None
    """PEM of our client certificate."""
    key: Path | None = None
    """PEM of its private key."""
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

    address: str | None = None
    """`host:port`; None = the SDK's environment configuration, else 127.0.0.1:7233."""
    namespace: str | None = None
    """None = the SDK's environment configuration, else `default`."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """A worker's membership."""

    ttl: float = 10.0
    """Seconds from a worker's death until its pods go to the others. etcd measures in elections and disk stalls, so
    shorter is asking for false alarms; etcd's own least is 2 (one and a half elections, rounded up)."""
    loop_stall: float = 0.5
    """Share of the ttl without a tick of the event loop after which the lease is no longer renewed."""
    temporal_unreachable: float = 10.0
    """Seconds without an answer from Temporal after which the worker withdraws."""


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


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """The Lease of the Kubernetes API that says which scheduler binds; as a LeaderElectionConfiguration has it."""

    enabled: bool = True
    """False: this installation binds whenever it runs, whoever else does."""
    name: str = ""
    """Empty = `kube-scheduler` where a profile is `default-scheduler`, else the cluster's name."""
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    """Seconds after which another scheduler takes over when the holder's record has not changed."""
    renew_deadline: float = 10.0
    """Seconds after which a holder that could not renew it gives up."""
    retry_period: float = 2.0
    """Seconds between two tries."""


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """The Kubernetes API that is the store of the cluster."""

    kubeconfig: Path | None = None
    """None = of the environment, else of the pod that the process runs in."""
    context: str = ""
    """Empty = the file's current one."""
    master: str = ""
    """URL in the place of the kubeconfig's; empty = the file's."""
    allow_insecure: bool = False
    """Whether the file may switch off the verification of the server's certificate."""
    qps: float = 50.0
    """Requests a second, but for watches and the Lease, and as many events besides; negative = without limit."""
    burst: int = 100
    """Requests that may go at once."""
    election: ElectionSettings = field(default_factory=ElectionSettings)
    events: Literal["all", "failures", "none"] = "all"
    """Which events are told to the API."""
    torn_gangs: Literal["Keep", "Evict"] = "Keep"
    """What happens to the bound members of a gang of which others went while it was being bound."""
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
class AgentSettings:
    """Everything an agent process needs."""

    host: str
    """Its name among the hosts: a DNS subdomain."""
    data_dir: Path
    """Instances' files: locks, logs, configurations; kept over restarts."""
    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    instance_etcd: EtcdSettings | None = None
    """As which user instances log in; None = as the agent does."""
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    cluster: str = "wharfinger"
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format the cluster keeps its pods and nodes."""
    control: bool = True
    """Whether it also watches the fleets and serves the control queue."""
    installs: tuple[tuple[str, Path], ...] = ()
    """Versions that templates may name, and their executables."""
    secrets_dir: Path | None = None
    """`<secrets-dir>/<name>/<version>` are files."""
    allow_env: frozenset[str] = frozenset()
    """Variables that a template, or the agent's own environment, may hand to instances; no others."""
    capacity: int = 0
    """Instances that it takes; 0 = no bound."""
    concurrent_creates: int = 4
    """Instances that start at a time."""
    bind_address: str = "127.0.0.1"
    """Where the health endpoints of agent and instances listen."""
    health_port: int = 10258
    """Of the agent itself. 0 = any free one; -1 = none."""
    instance_health_port: int = 0
    """First choice of slot n is this + n (a free one when it is taken); 0 = any free one."""
    config: Path | None = None
    """A KubeSchedulerConfiguration for templates that have none."""
    all_plugins: bool = False
    """Whether plugins of installed packages take part that no configuration names."""
    worker_options: tuple[str, ...] = ()
    """More options for every instance (`--cohorts=off`), as the agent was told them."""
    upstream: UpstreamSettings | None = None
    """The Kubernetes API whose pods the instances schedule; its options are in `worker_options`, too."""
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    host_lost: float = HOST_LOST
    """Seconds without an agent's record after which its host may be lost; its queue is asked, and may be silent for
    half as long (5 to 30 s). Less than a machine takes to start again would move its instances at every reboot."""
    tenant_label: str = "wharfinger.dev/tenant"
    probe_every: float = 5.0
    """Seconds between two looks at an instance's `/livez`."""
    probe_failures: int = 3
    """Failures in a row after which it is killed."""
    drain_timeout: float = 5.0
    """Seconds that running activities get when the agent is stopped."""
    stop_instances: float | None = None
    """Seconds that instances get to end when the agent is stopped; None = they are left running."""


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Everything a hub process needs."""

    name: str = ""
    """Its name among the hubs: a DNS subdomain; empty = of the machine and the process."""
    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    cluster: str = "wharfinger"
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format the cluster keeps its pods and nodes."""
    bind_address: str = "127.0.0.1"
    """Where the health endpoints listen."""
    health_port: int = 10257
    """0 = any free one; -1 = none."""
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    drain_timeout: float = 5.0
    """Seconds that running activities get after the first SIGTERM."""


@dataclass(frozen=True, slots=True)
class MemberAgentSettings:
    """Everything the agent of member clusters needs."""

    members_dir: Path
    """A file for each member says how its etcd is reached (`config.member_files`)."""
    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    """The hub's."""
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format the hub's etcd keeps pods and nodes."""
    bind_address: str = "127.0.0.1"
    health_port: int = 10256
    """0 = any free one; -1 = none."""
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    report_every: float = 15.0
    """Seconds between two looks at what the member has."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Everything a worker process needs."""

    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    upstream: UpstreamSettings | None = None
    """The Kubernetes API whose pods are scheduled; None = the cluster's objects are in etcd itself."""
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    cluster: str = "wharfinger"
    """Begins every task queue and workflow id; fixed at an installation's first start."""
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format the cluster keeps its pods and nodes; fixed at an installation's first start."""
    tenant: str = "common"
    """Whose pods: `common`, or a tenant's exclusively."""
    dispatch: str = "sharded"
    """`sharded`: start attempts for the pods that are ours; `none`: run only what others start."""
    config: Path | None = None
    """A KubeSchedulerConfiguration; None = the defaults."""
    all_plugins: bool = False
    """Whether plugins of installed packages take part that the configuration does not name."""
    bind_address: str = "127.0.0.1"
    """Where the health endpoints listen."""
    health_port: int = 10259
    """0 = any free port; -1 = no health endpoints."""
    slot: str = ""
    """Stable name among the workers; empty = `hand-<host>-<lease id>`, or the grant's."""
    grant: GrantSettings | None = None
    """None = started by hand."""
    state_dir: Path | None = None
    """Where a worker that was started by hand remembers its dynamic configuration; None = it remembers nothing."""
    tenant_label: str = "wharfinger.dev/tenant"
    """The label of pods that names their tenant."""
    lease: LeaseSettings = field(default_factory=LeaseSettings)
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
