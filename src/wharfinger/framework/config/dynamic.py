"""Values that workers take in while they run: what each kind may say, and which target's counts.

A kind is independent of the others. A value is published as a whole: the most specific target's counts, and nothing
of the targets below it shows through; what it leaves unsaid is as the worker was started::

    instance/<tenant>/<slot>  >  tenant/<tenant>  >  as it was started (template, options)  >  default

`default` counts for a kind only where the worker was started with nothing to say of it.

A profile's value changes weights and plugin arguments. Which plugins there are, where they run and how the queue is
sorted stays as the template has it.

Pure: `configuration.following` follows the values, `configuration.changes` writes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.framework.catalog import Catalog, why_unknown
from wharfinger.framework.config.completion import CompletedProfile, completed_arguments
from wharfinger.framework.config.file_fields import LONGEST_BACKOFF, PluginConfig
from wharfinger.framework.config.load import Configuration
from wharfinger.framework.config.validation import ConfigPart, Integer, Problem, problems_of, refuse, understood
from wharfinger.objects.model.gang import MOST_TOGETHER
from wharfinger.objects.model.names import is_dns_label
from wharfinger.settings import DispatchSettings

DEFAULT = "default"
"""The target below everything else."""
VALUE_LIMIT = 64 * 1024
"""Bytes of a value."""


class Value(ConfigPart):
    """Base of what a kind may say."""

    kind: ClassVar[str]
    """As it stands in keys."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("is empty: `config unset` removes a value")
        return self


class ProfileOverlay(ConfigPart):
    """What one profile does otherwise."""

    weights: dict[str, Annotated[Integer, Field(ge=1, le=2**31 - 1)]] = Field(default_factory=dict, max_length=200)
    """Score weights, of plugins that the profile enables."""
    plugin_config: tuple[PluginConfig, ...] = Field(default=(), max_length=200)
    """Arguments, each in the place of all that the plugin had."""


class ProfileValue(Value):
    """Weights and plugin arguments, by scheduler name."""

    kind = "profile"
    profiles: dict[str, ProfileOverlay] = Field(min_length=1, max_length=100)


class _AnyProfiles(ConfigPart):
    """A `ProfileValue` that may also say nothing."""

    profiles: dict[str, ProfileOverlay] = Field(default_factory=dict)


class QueueValue(Value):
    """Back-off between the attempts of one pod; chains that are open already keep theirs."""

    kind = "queue"
    pod_initial_backoff_seconds: Integer | None = Field(None, gt=0, le=LONGEST_BACKOFF)
    pod_max_backoff_seconds: Integer | None = Field(None, gt=0, le=LONGEST_BACKOFF)


class CohortValue(Value):
    """When pods are placed together, and how many; see `settings.DispatchSettings`."""

    kind = "cohort"
    cohorts: Literal["auto", "off"] | None = None
    cohort_from: Integer | None = Field(None, ge=2, le=MOST_TOGETHER)
    """Of earlier releases, without effect."""
    cohort_most: Integer | None = Field(None, ge=2, le=MOST_TOGETHER)
    cohorts_in_flight: Integer | None = Field(None, ge=1, le=64)
    parked_chains: Integer | None = Field(None, ge=0, le=100_000)


class LogValue(Value):
    """How much a worker logs."""

    kind = "log"
    level: Literal["debug", "info", "warning", "error"]


VALUES: Mapping[str, type[Value]] = {model.kind: model for model in (ProfileValue, QueueValue, CohortValue, LogValue)}
"""Every kind there is."""

V = TypeVar("V", bound=Value)


def read_value(model: type[V], written: Any) -> V:
    """A value as its kind understands it. Raises InvalidConfiguration with all problems."""
    if not isinstance(written, Mapping):
        raise refuse([("", "is no mapping")])
    if len(canonical(written)) > VALUE_LIMIT:
        raise refuse([("", f"is larger than {VALUE_LIMIT // 1024} KiB")])
    try:
        return model.model_validate(dict(written), by_alias=True, by_name=False)
    except ValidationError as error:
        raise refuse(problems_of(error)) from error


def well_formed_profiles(written: Mapping[str, Any]) -> ProfileValue:
    """What is well-formed of a value that `read_value` refuses, perhaps no profile: for finding what else is wrong."""
    rest, _ = understood(written, _AnyProfiles)
    return ProfileValue.model_construct(profiles=rest.profiles)


def check_backoff(value: QueueValue, initial: float, longest: float) -> tuple[float, float]:
    """The back-off in seconds, of a worker that was started with those. Raises InvalidConfiguration."""
    first = value.pod_initial_backoff_seconds or initial
    most = value.pod_max_backoff_seconds or longest
    if most < first:
        raise refuse([("podMaxBackoffSeconds", f"must be at least podInitialBackoffSeconds ({first:g}), not {most:g}")])
    return first, most


def cohort_settings(value: CohortValue, started: DispatchSettings) -> DispatchSettings:
    """The settings of a worker that was started with those."""
    said = value.model_dump(exclude_none=True, exclude={"cohorts"})
    cohorts = started.cohorts if value.cohorts is None else value.cohorts == "auto"
    return replace(started, cohorts=cohorts, **said)


def canonical(written: Any) -> bytes:
    """A value as JSON: the same bytes for every writer and order of fields. Raises InvalidObject for what is none."""
    try:
        text = json.dumps(written, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidObject(f"it is no JSON value: {error}") from error


def digest(written: Any) -> str:
    """SHA-256 over the canonical JSON, hex."""
    return hashlib.sha256(canonical(written)).hexdigest()


def targets(tenant: str, slot: str = "") -> tuple[str, ...]:
    """The targets that beat what a worker was started with, the most specific first. A slot is a fleet's."""
    own = (f"instance/{tenant}/{slot}",) if slot else ()
    return (*own, f"tenant/{tenant}")


def is_target(target: str) -> bool:
    """Whether a value may be meant for it: `default`, `tenant/<tenant>` or `instance/<tenant>/<slot>`."""
    match target.split("/"):
        case ["default"]:
            return True
        case ["tenant", tenant]:
            return is_dns_label(tenant)
        case ["instance", tenant, slot]:
            counted = slot.isascii() and slot.isdigit() and len(slot) <= 6  # as slots are named: 7, never 07
            return is_dns_label(tenant) and counted and slot == str(int(slot))
        case _:
            return False


def check_target(target: str) -> str:
    """The target, when it is one. Raises UsageError."""
    if not is_target(target):
        raise UsageError(f"target {target!r} is none: default, tenant/TENANT or instance/TENANT/SLOT is meant")
    return target


def check_kind(kind: str) -> type[Value]:
    """The kind's model. Raises UsageError."""
    if kind not in VALUES:
        raise UsageError(f"there is no kind {kind!r} of dynamic configuration: {', '.join(VALUES)}")
    return VALUES[kind]


def overlaid(
    configuration: Configuration, value: ProfileValue, catalog: Catalog
) -> tuple[Configuration, list[Problem]]:
    """The configuration with the value laid over it, and all that is wrong with that.

    What depends on how plugins are made is left to the code that makes them.
    """
    known = {profile.scheduler_name for profile in configuration.profiles}
    problems: list[Problem] = [
        (f"profiles.{name}", f"there is no such profile (there are {', '.join(sorted(known))})")
        for name in value.profiles
        if name not in known
    ]
    profiles = tuple(
        _overlaid(profile, value.profiles[profile.scheduler_name], catalog, problems)
        if profile.scheduler_name in value.profiles
        else profile
        for profile in configuration.profiles
    )
    return Configuration(configuration.settings, profiles), problems


def check_alone(value: ProfileValue, catalog: Catalog) -> list[Problem]:
    """What is wrong with a value over whatever configuration."""
    problems: list[Problem] = []
    for name, overlay in value.profiles.items():
        path = f"profiles.{name}"
        problems += _unknown(overlay, catalog, path)
        named = [config.name for config in overlay.plugin_config]
        completed_arguments(overlay.plugin_config, named, catalog, path, problems)
    return problems


def _overlaid(
    profile: CompletedProfile, overlay: ProfileOverlay, catalog: Catalog, problems: list[Problem]
) -> CompletedProfile:
    path = f"profiles.{profile.scheduler_name}"
    problems += _unknown(overlay, catalog, path)
    problems += _not_enabled(profile, overlay.weights, catalog, f"{path}.weights")
    named = [config.name for config in overlay.plugin_config]
    problems += _not_enabled(profile, named, catalog, f"{path}.pluginConfig")
    args = completed_arguments(overlay.plugin_config, dict.fromkeys(named), catalog, path, problems)
    enabled = profile.weights.keys()
    return replace(
        profile,
        weights={**profile.weights, **{name: weight for name, weight in overlay.weights.items() if name in enabled}},
        args={**profile.args, **{name: model for name, model in args.items() if name in enabled}},
    )


def _unknown(overlay: ProfileOverlay, catalog: Catalog, path: str) -> Iterator[Problem]:
    """Weights of plugins that there are not; their arguments are reported where they are completed."""
    for plugin in overlay.weights:
        if plugin not in catalog:
            yield f"{path}.weights.{plugin}", why_unknown(plugin, catalog)


def _not_enabled(profile: CompletedProfile, named: Iterable[str], catalog: Catalog, path: str) -> Iterator[Problem]:
    for plugin in named:
        if plugin in catalog and plugin not in profile.weights:
            yield f"{path}.{plugin}", f"profile {profile.scheduler_name} does not enable this plugin"
