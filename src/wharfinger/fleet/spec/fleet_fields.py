"""A SchedulerFleet as it is written: what may stand where.

Every field has a default, so that what is malformed can be taken out and the rest looked at
(`framework.config.validation`); what must be there, and what must fit together, is checked by `spec.fleet` and its
budgets, which also read the KubeSchedulerConfiguration: it stays a mapping here.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WithJsonSchema

from wharfinger.fleet.model.fleet import LONGEST_TIME, RolloutAction
from wharfinger.framework.config.validation import Boolean, ConfigPart, Integer
from wharfinger.objects.model.names import is_dns_subdomain, is_label_value
from wharfinger.objects.model.quantities import NANO, NANO_PER_MILLI, IntOrPercent, parse_quantity, round_up

API_VERSION = "wharfinger.dev/v1"
KIND = "SchedulerFleet"
CHANGED_BY = "wharfinger.dev/changed-by"
CHANGE_CAUSE = "wharfinger.dev/change-cause"
"""Annotations of the fleet's object: who wrote it last, and why."""

MOST_REPLICAS = 100
"""Instances of one fleet: each watches the whole cluster."""
MOST_SECRETS = 32
MOST_VARIABLES = 64
LONGEST_VALUE = 4096
"""Bytes of one variable's value."""
LARGEST_ENVIRONMENT = 32 * 1024
"""Bytes of all variables: what is written lies in every revision."""
LARGEST_CONFIGURATION = 256 * 1024
"""Bytes of a schedulerConfiguration as JSON."""
SOAK = 30.0
"""Seconds for which an updated slot is observed, by default."""
LONGEST_END = 3600
"""Seconds that an instance may take to end."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PERCENT = re.compile(r"[0-9]{1,3}%", re.ASCII)
_LEAST_MEMORY, _MOST_MEMORY = 64 * 2**20, 16 * 2**40
_LEAST_CPU, _MOST_CPU = 10, 1024 * 1000


def is_variable(name: str) -> bool:
    """Whether an environment variable may be called so."""
    return _VARIABLE.fullmatch(name) is not None


def _int_or_percent(written: object) -> IntOrPercent:
    if isinstance(written, int) and not isinstance(written, bool):
        value = IntOrPercent(written)
    elif isinstance(written, str) and _PERCENT.fullmatch(written):
        value = IntOrPercent(int(written[:-1]), percent=True)
    else:
        raise ValueError("must be a number of instances, or a percentage such as 25%")
    if not 0 <= value.amount <= MOST_REPLICAS:
        raise ValueError("must be between 0 and 100" + (" %" if value.percent else ""))
    return value


def _nanos(written: object) -> int:
    try:
        return parse_quantity(written)
    except ValueError as error:
        raise ValueError(f"{error}: such as 500m or 2Gi") from None


def _memory(written: object) -> int:
    amount = round_up(_nanos(written), NANO)
    if amount and not _LEAST_MEMORY <= amount <= _MOST_MEMORY:
        raise ValueError("must be 0 (no limit), or between 64Mi and 16Ti")
    return amount


def _cpu(written: object) -> int:
    amount = round_up(_nanos(written), NANO_PER_MILLI)
    if amount and not _LEAST_CPU <= amount <= _MOST_CPU:
        raise ValueError("must be 0 (no limit), or between 10m and 1024")
    return amount


def _version(text: str) -> str:
    if not is_label_value(text):
        raise ValueError("must be a name of at most 63 letters, digits, dots, dashes and underscores")
    return text


def _secret(text: str) -> str:
    if not is_dns_subdomain(text):
        raise ValueError("must be a name of lower case letters, digits, dots and dashes")
    return text


def _moment(text: str) -> str:
    try:
        known = datetime.fromisoformat(text).tzinfo is not None if text else True
    except ValueError:
        known = False
    if not known:
        raise ValueError("must be a moment such as 2026-01-31T12:00:00Z")
    return text


Text = Annotated[str, Field(strict=True, max_length=1024)]
_NUMBER_OR_TEXT = WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]})
"""Type in the reference of a field that is written as a number or as text such as `25%` or `2Gi`."""
IntOrPercentField = Annotated[IntOrPercent, PlainValidator(_int_or_percent), _NUMBER_OR_TEXT]
Number = Annotated[Integer, Field(ge=0, le=MOST_REPLICAS)]
Seconds = Annotated[float, Field(strict=True, allow_inf_nan=False, le=LONGEST_TIME)]
SomeSeconds = Annotated[Seconds, Field(gt=0)]
EndSeconds = Annotated[Seconds, Field(gt=0, le=LONGEST_END)]


class SecretFields(ConfigPart):
    """A reference to a secret that the agent resolves."""

    name: Annotated[Text, AfterValidator(_secret)] = ""
    """By which the agent of a host finds the secret; its value is written nowhere."""
    version: Annotated[Text, AfterValidator(_version)] = ""
    """Of the secret. A change of it is a new template, which is rolled out."""


class ResourceFields(ConfigPart):
    """What an instance may use; absent or 0 = no limit."""

    memory: Annotated[int, BeforeValidator(_memory), _NUMBER_OR_TEXT] = 0
    """Bytes, from 64Mi to 16Ti; 0 = no limit."""
    cpu: Annotated[int, BeforeValidator(_cpu), _NUMBER_OR_TEXT] = 0
    """Cores, from 10m to 1024; 0 = no limit."""


class TemplateFields(ConfigPart):
    """What an instance is made from."""

    scheduler_configuration: dict[str, Any] = Field(default_factory=dict)
    """A KubeSchedulerConfiguration; absent = the agent's."""
    version: Annotated[Text, AfterValidator(_version)] = ""
    """A name that agents map to a program; absent = the agent's own."""
    environment: dict[str, Annotated[str, Field(strict=True)]] = Field(default_factory=dict)
    """Variables of the instance, for its plugins."""
    secrets: tuple[SecretFields, ...] = Field(default=(), max_length=MOST_SECRETS)
    """Secrets that are given to the instance."""
    resources: ResourceFields = ResourceFields()
    """What an instance may use."""
    restarted_at: Annotated[Text, AfterValidator(_moment)] = ""
    """Written by `fleet restart`: a new moment makes a new template."""


class RollingUpdateFields(ConfigPart):
    """How many instances change at a time, which, and how long each is observed."""

    max_surge: Annotated[IntOrPercentField, Field(json_schema_extra={"default": 1})] = IntOrPercent(1)
    """Instances beyond `replicas` while a rollout runs: a number, or a percentage rounded up."""
    max_unavailable: Annotated[IntOrPercentField, Field(json_schema_extra={"default": 0})] = IntOrPercent(0)
    """Slots that a rollout may leave without a ready instance: a number, or a percentage rounded down."""
    partition: Number = 0
    """Slots below this number are not updated."""
    canary: Number = 0
    """So many slots, the highest ones, are updated first; then `fleet promote` or `fleet abort` is waited for."""
    soak_seconds: Annotated[Seconds, Field(ge=0)] | None = None
    """Seconds for which an updated slot is observed before it is proven. Absent: 30, or half of progressDeadlineSeconds
    where that is shorter."""
    failure_threshold: Annotated[Integer, Field(ge=1, le=MOST_REPLICAS)] = 1
    """Failed slots at which a rollout stops."""


class StrategyFields(ConfigPart):
    """How instances are replaced: a few at a time, or all at once."""

    type: Literal["RollingUpdate", "Recreate"] = "RollingUpdate"
    """`Recreate` ends all instances at once; each slot gets its new one as soon as its former one has ended."""
    rolling_update: RollingUpdateFields | None = None
    """How many instances change at a time, which, and how long each is observed."""

    @property
    def rolling(self) -> RollingUpdateFields:
        """With the defaults where it is absent."""
        return self.rolling_update or RollingUpdateFields()


class RolloutFields(ConfigPart):
    """What is asked of one rollout."""

    generation: Integer = Field(default=0, ge=1)
    """Which rollout is meant: a later one is not touched."""
    action: RolloutAction | None = None
    """What it is asked to do."""


class SpecFields(ConfigPart):
    """Desired state."""

    replicas: Number = 1
    """Instances, one a slot."""
    template: TemplateFields = TemplateFields()
    """What an instance is made from."""
    strategy: StrategyFields = StrategyFields()
    """How instances are replaced."""
    min_ready_seconds: Annotated[Seconds, Field(ge=0)] = 10.0
    """Seconds for which an instance is ready without a break before it counts."""
    instance_deadline_seconds: SomeSeconds = 300.0
    """Seconds from its grant until an instance must be ready; then it is replaced."""
    progress_deadline_seconds: SomeSeconds = 600.0
    """Seconds without progress of a rollout after which progressDeadlineAction is taken."""
    progress_deadline_action: Literal["Pause", "Revert"] = "Pause"
    """`Pause` holds the rollout; `Revert` goes back to the last revision that was completed."""
    revision_history_limit: Number = 10
    """Former revisions that are kept beside those in use."""
    drain_timeout_seconds: EndSeconds = 60.0
    """Seconds that an instance which is asked to leave may take; then it is killed."""
    kill_timeout_seconds: EndSeconds = 10.0
    """Seconds between the signal that asks a process to end and the one that ends it."""
    paused: Boolean = False
    """Replace nothing; crashed instances return all the same."""
    rollout: RolloutFields | None = None
    """Written by `fleet promote`, `abort` and `resume`."""

    @property
    def soak_seconds(self) -> float:
        """How long an updated slot is observed. The default leaves a short progress deadline valid."""
        written = self.strategy.rolling.soak_seconds
        return min(SOAK, self.progress_deadline_seconds / 2) if written is None else written


class MetadataFields(ConfigPart):
    """As of any object, which has a name and no namespace."""

    name: Text = ""
    """Of the tenant whose pods the fleet places; `common` serves all others."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """For people; nothing reads them."""
    annotations: dict[str, Text] = Field(default_factory=dict)
    """`wharfinger.dev/changed-by` and `wharfinger.dev/change-cause` tell who changed it last, and why."""
    uid: Text = ""
    """Made by `apply` for a new object without one; a later `apply` does not change it."""
    creation_timestamp: Text = ""
    """Set by `apply` like uid."""
    deletion_timestamp: Text = ""
    """Set by `fleet delete`: instances are drained, then the object goes."""
    resource_version: Text = ""
    """Means nothing here; `apply` leaves it out."""
    generation: Integer = 0
    """Means nothing here; a later `apply` does not change it."""


class FleetFields(ConfigPart):
    """The whole object."""

    api_version: Literal["wharfinger.dev/v1"] = API_VERSION  # type: ignore[assignment]
    """The only version."""
    kind: Literal["SchedulerFleet"] = KIND  # type: ignore[assignment]
    """The only kind."""
    metadata: MetadataFields = MetadataFields()
    """As of any object, which has a name and no namespace."""
    spec: SpecFields = SpecFields()
    """Desired state."""
