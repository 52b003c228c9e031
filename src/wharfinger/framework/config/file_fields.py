"""The whole KubeSchedulerConfiguration as it is written, profiles aside.

Every field of version 1 is known and checked by kube-scheduler's rules, so that a file made for kube-scheduler can be
taken as it is. Some say nothing to us, and are kept only to be shown again: `parallelism`, `leaderElection`,
`clientConnection`, `enableProfiling`, `enableContentionProfiling`, `delayCacheUntilActive` (workers share their work
out through leases in etcd, and decide on all nodes at once). `config.extender_fields` has the extenders.

A rule between two fields stands at the later one: pydantic names the field whose validator speaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from wharfinger.framework.config.extender_fields import ExtenderConfiguration
from wharfinger.framework.config.validation import Boolean, ConfigPart, Duration, Integer

API_VERSION = "kubescheduler.config.k8s.io/v1"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
MULTI_POINT = "multiPoint"
_UNSUPPORTED = ("placement_generate", "placement_score")

Percentage = Annotated[Integer, Field(ge=0, le=100)]
"""Of the nodes: 0 = fewer per cent the larger the cluster; absent = every node is examined."""


class PluginRef(ConfigPart):
    """A plugin enabled or disabled."""

    name: str = Field(min_length=1)
    """Of the plugin; `*` under `disabled` means all."""
    weight: Integer = Field(default=0, ge=0, le=2**31 - 1)
    """Of its score; 0 counts as 1."""


class PluginSet(ConfigPart):
    """What is enabled and disabled at one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()

    @field_validator("enabled")
    @classmethod
    def _once(cls, refs: tuple[PluginRef, ...]) -> tuple[PluginRef, ...]:
        names = [ref.name for ref in refs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"named more than once: {', '.join(twice)}")
        return refs

    @property
    def disables_all(self) -> bool:
        """Whether `*` is disabled."""
        return any(ref.name == "*" for ref in self.disabled)


class Plugins(ConfigPart):
    """Plugins by extension point; `multiPoint` means every point a plugin serves."""

    multi_point: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    @field_validator(*_UNSUPPORTED)
    @classmethod
    def _nothing_places_groups(cls, plugins: PluginSet) -> PluginSet:
        if plugins.enabled:
            raise ValueError("placement of pod groups is not supported: no plugin can be enabled here")
        return PluginSet()

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """Every extension point that exists here, by its name in the configuration; `multiPoint` is left out."""
        for field, info in type(self).model_fields.items():
            name = info.alias or field
            if name != MULTI_POINT and field not in _UNSUPPORTED:
                yield name, getattr(self, field)


class PluginConfig(ConfigPart):
    """Arguments of one plugin."""

    name: str = Field(min_length=1)
    """Of the plugin."""
    args: dict[str, Any] = Field(default_factory=dict)
    """What it takes, by its own fields."""


class ProfileConfiguration(ConfigPart):
    """One profile."""

    scheduler_name: str = ""
    """Of the pods that it places. Absent: `default-scheduler`, where there is one profile."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Absent: what the whole file says."""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


LONGEST_BACKOFF = 86_400
"""Seconds that a back-off may last: a day."""
_JITTER = 1.2
"""A renewal may take this many retry periods."""


class _ZeroIsAbsent(ConfigPart):
    """A mapping in which kube-scheduler takes empty text and zero for what was left out."""

    checked_defaults: ClassVar[Mapping[str, Any]] = {}
    """Of fields whose rules depend on others: a default can be wrong beside what is written."""

    @model_validator(mode="before")
    @classmethod
    def _zero_is_absent(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        said = {name: value for name, value in fields.items() if value is False or value not in ("", 0, "0", "0s")}
        return {**cls.checked_defaults, **said}


class LeaderElection(_ZeroIsAbsent):
    """How instances of kube-scheduler agree on one of them. Means nothing here: all workers are active."""

    checked_defaults: ClassVar[Mapping[str, Any]] = {
        "retryPeriod": "2s",
        "renewDeadline": "10s",
        "leaseDuration": "15s",
    }

    leader_elect: Boolean = True
    """False: the fields below are not checked."""
    resource_lock: str = "leases"
    """Kind of the lock; there is one."""
    resource_name: str = "kube-scheduler"
    """Name of the lock."""
    resource_namespace: str = "kube-system"
    """Namespace of the lock."""
    retry_period: Duration
    """Between two tries to take the lock. Absent: 2s."""
    renew_deadline: Duration
    """Within which a renewal succeeds or the lock is given up. Absent: 10s."""
    lease_duration: Duration
    """After which another instance may take a lock that is not renewed. Absent: 15s."""

    @field_validator("resource_lock")
    @classmethod
    def _leases_only(cls, lock: str, info: ValidationInfo) -> str:
        if lock != "leases" and info.data.get("leader_elect", True):
            raise ValueError("must be leases")
        return lock

    @field_validator("retry_period", "renew_deadline", "lease_duration")
    @classmethod
    def _in_order(cls, duration: int, info: ValidationInfo) -> int:
        before = info.data
        if not before.get("leader_elect", True):
            return duration
        if duration <= 0:
            raise ValueError("must be greater than zero")
        retry, renew = before.get("retry_period"), before.get("renew_deadline")
        if info.field_name == "renew_deadline" and retry is not None and duration <= _JITTER * retry:
            raise ValueError(f"must be greater than {_JITTER} x retryPeriod")
        if info.field_name == "lease_duration" and renew is not None and duration <= renew:
            raise ValueError("must be greater than renewDeadline")
        return duration


class ClientConnection(_ZeroIsAbsent):
    """How kube-scheduler talks to its API server. Means nothing here: there is none."""

    kubeconfig: str = ""
    """File that names the API server."""
    accept_content_types: str = ""
    """What it is asked to answer in."""
    content_type: str = "application/vnd.kubernetes.protobuf"
    """What it is written to in."""
    qps: Annotated[float, Field(strict=True, allow_inf_nan=False)] = 50.0
    """Requests a second; negative = unlimited."""
    burst: Integer = Field(default=100, ge=0, le=2**31 - 1)
    """Requests at once, beyond that rate."""

    @field_serializer("qps")
    def _as_written(self, qps: float) -> int | float:
        return int(qps) if qps.is_integer() else qps


class SchedulerConfiguration(ConfigPart):
    """The whole file."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] = API_VERSION  # type: ignore[assignment]
    """The only version whose fields are read."""
    kind: Literal["KubeSchedulerConfiguration"] = "KubeSchedulerConfiguration"
    """The only kind."""
    client_connection: ClientConnection = ClientConnection()
    delay_cache_until_active: Boolean = False
    """Means nothing here: all workers are active."""
    enable_contention_profiling: Boolean = True
    """Means nothing here: a worker offers no profiles of itself."""
    enable_profiling: Boolean = True
    """Means nothing here, as enableContentionProfiling."""
    extenders: tuple[ExtenderConfiguration, ...] = ()
    """Processes that are asked by HTTP to filter and score nodes, for the pods of all profiles."""
    leader_election: LeaderElection = Field(default_factory=lambda: LeaderElection.model_validate({}))
    """How instances of kube-scheduler agree on one of them. Means nothing here: all workers are active."""
    parallelism: Integer = Field(default=16, gt=0, le=2**31 - 1)
    """Means nothing here: a decision looks at all nodes at once."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Of profiles that say nothing of their own: examine nodes until so many of them fit; 0 = fewer per cent the larger
    the cluster. Absent: every node is examined."""
    pod_initial_backoff_seconds: Integer = Field(default=1, gt=0, le=LONGEST_BACKOFF)
    """Seconds before the second attempt of a pod; doubled with each further one."""
    pod_max_backoff_seconds: Integer = Field(gt=0, le=LONGEST_BACKOFF)
    """The longest wait, in seconds, between two attempts of a pod. Absent: 10."""
    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    """By which pods are placed, each pod by the profile that has its schedulerName."""

    @model_validator(mode="before")
    @classmethod
    def _check_the_default_too(cls, fields: Any) -> Any:
        # It can be wrong beside the podInitialBackoffSeconds that is written.
        if isinstance(fields, Mapping) and fields.get("podMaxBackoffSeconds") is None:
            return {**fields, "podMaxBackoffSeconds": 10}
        return fields

    @field_validator("pod_max_backoff_seconds")
    @classmethod
    def _not_shorter(cls, longest: int, info: ValidationInfo) -> int:
        first = info.data.get("pod_initial_backoff_seconds")
        if first is not None and longest < first:
            raise ValueError(f"must be at least podInitialBackoffSeconds ({first})")
        return longest

    @field_validator("profiles")
    @classmethod
    def _one_at_least(cls, profiles: tuple[ProfileConfiguration, ...]) -> tuple[ProfileConfiguration, ...]:
        return profiles or (ProfileConfiguration(),)
