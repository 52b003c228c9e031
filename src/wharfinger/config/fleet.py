"""A SchedulerFleet: from what users write to the desired state that a fleet's actor follows.

::

    written ── fleet_fields ──► well-formed ── fleet_template, budgets ──► FleetSpec, Template, its name

All problems are reported at once, each with the path of its field, in the words of `config.errors`. The times
of a fleet are one chain, in which each must leave room for what happens within it:

::

    killTimeoutSeconds < drainTimeoutSeconds
    2 x minReadySeconds < instanceDeadlineSeconds < progressDeadlineSeconds
    drainTimeoutSeconds + killTimeoutSeconds < progressDeadlineSeconds
    strategy.rollingUpdate.soakSeconds < progressDeadlineSeconds
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.config.errors import Problem, refuse, within
from wharfinger.config.fleet_fields import (
    API_VERSION,
    CHANGE_CAUSE,
    CHANGED_BY,
    KIND,
    FleetFields,
    SpecFields,
)
from wharfinger.config.fleet_template import completed, read_template
from wharfinger.config.understanding import understood
from wharfinger.framework.catalog import Catalog
from wharfinger.model.fleet import FleetSpec, RolloutRequest, Share, Template
from wharfinger.model.names import COMMON, RESERVED_TENANTS, is_dns_label

__all__ = [
    "API_VERSION",
    "CHANGED_BY",
    "CHANGE_CAUSE",
    "KIND",
    "FleetObject",
    "is_deleting",
    "read_fleet",
    "read_template",
]

_EVERY = Share(100, percent=True)


@dataclass(frozen=True, slots=True)
class FleetObject:
    """A fleet's object, valid and with nothing left to default."""

    spec: FleetSpec
    template: Template
    template_name: str
    """Of the completed template: equal templates have equal names, by the running code."""
    written_template: dict[str, Any]
    """As it stands in the object."""
    deleting: bool
    changed_by: str
    change_cause: str


def read_fleet(written: Mapping[str, Any], catalog: Catalog, *, name: str, offered: bool = False) -> FleetObject:
    """Read the object of the fleet that is called `name` (a tenant, or `common`).

    `offered`: whether it is to be written: a rolling update that may change nothing is refused then, and followed where
    it is stored (`fleet.draft.Budget`). Raises InvalidConfiguration, which names all that is wrong.
    """
    fields, problems = understood(written, FleetFields)
    malformed = [path for path, _ in problems]
    problems += [
        problem
        for problem in (
            *_identity(written, fields, name),
            *_together(fields.spec),
            *(_standstill(fields.spec) if offered else ()),
        )
        if not any(within(problem[0], part) for part in malformed)
    ]
    prefix = "spec.template."
    template, template_name, inside = completed(
        fields.spec.template, catalog, [path.removeprefix(prefix) for path in malformed if path.startswith(prefix)]
    )
    problems += [(f"{prefix}{path}", why) for path, why in inside]
    if not any(path.startswith("spec.") and path.endswith("Seconds") for path in malformed):
        problems += [(f"spec.{path}", why) for path, why in too_short(fields.spec)]
    if problems:
        raise refuse(problems)
    return FleetObject(
        spec=_spec(fields.spec),
        template=template,
        template_name=template_name,
        written_template=dict((written.get("spec") or {}).get("template") or {}),
        deleting=bool(fields.metadata.deletion_timestamp),
        changed_by=fields.metadata.annotations.get(CHANGED_BY, ""),
        change_cause=fields.metadata.annotations.get(CHANGE_CAUSE, ""),
    )


def is_deleting(written: object) -> bool:
    """Whether the object is marked as deleting, also when it is invalid otherwise."""
    metadata = written.get("metadata") if isinstance(written, Mapping) else None
    return isinstance(metadata, Mapping) and bool(metadata.get("deletionTimestamp"))


def _identity(written: Mapping[str, Any], fields: FleetFields, name: str) -> Iterator[Problem]:
    for field in ("apiVersion", "kind"):
        if not written.get(field):
            yield field, "is missing"
    own = fields.metadata.name
    if not own:
        yield "metadata.name", "is missing"
    elif own != name:
        yield "metadata.name", f"is {own}, but the object is stored as {name}"
    elif own != COMMON and (own in RESERVED_TENANTS or not is_dns_label(own)):
        reserved = ", ".join(sorted(RESERVED_TENANTS - {COMMON}))
        yield (
            "metadata.name",
            f"must be {COMMON} or the name of a tenant: a DNS label (lower case letters, digits, dashes), "
            f"none of the reserved {reserved}",
        )


def _together(spec: SpecFields) -> Iterator[Problem]:
    """What fields mean only together."""
    if spec.strategy.type == "Recreate" and spec.strategy.rolling_update is not None:
        yield "spec.strategy.rollingUpdate", "must be absent when the type is Recreate"
    if spec.rollout is not None and not spec.rollout.generation:
        yield "spec.rollout.generation", "is missing"
    if spec.rollout is not None and spec.rollout.action is None:
        yield "spec.rollout.action", "is missing"


def may_change_nothing(written: object) -> bool:
    """Whether a rolling update of this object may neither surge nor leave a slot without an instance."""
    return isinstance(written, Mapping) and any(_standstill(understood(written, FleetFields)[0].spec))


def _standstill(spec: SpecFields) -> Iterator[Problem]:
    rolling = spec.strategy.rolling
    if spec.strategy.type != "Recreate" and rolling.max_surge.amount == rolling.max_unavailable.amount == 0:
        yield (
            "spec.strategy.rollingUpdate.maxUnavailable",
            "may not be 0 where maxSurge is 0: no instance could ever be replaced",
        )


def _spec(fields: SpecFields) -> FleetSpec:
    rolling = fields.strategy.rolling
    recreate = fields.strategy.type == "Recreate"
    asked = fields.rollout
    return FleetSpec(
        replicas=fields.replicas,
        max_surge=Share(0) if recreate else rolling.max_surge,
        max_unavailable=_EVERY if recreate else rolling.max_unavailable,
        partition=rolling.partition,
        canary=rolling.canary,
        min_ready=fields.min_ready_seconds,
        instance_deadline=fields.instance_deadline_seconds,
        progress_deadline=fields.progress_deadline_seconds,
        on_deadline="pause" if fields.progress_deadline_action == "Pause" else "revert",
        history_limit=fields.revision_history_limit,
        drain_timeout=fields.drain_timeout_seconds,
        kill_timeout=fields.kill_timeout_seconds,
        soak=fields.soak_seconds,
        failure_threshold=rolling.failure_threshold,
        paused=fields.paused,
        request=RolloutRequest(asked.generation, asked.action) if asked is not None and asked.action else None,
    )


def too_short(spec: SpecFields) -> Iterator[Problem]:
    """Where the chain breaks: the field that is too short, and why. Paths begin below `spec`."""
    ready, instance, progress = spec.min_ready_seconds, spec.instance_deadline_seconds, spec.progress_deadline_seconds
    drain, kill = spec.drain_timeout_seconds, spec.kill_timeout_seconds
    if drain <= kill:
        yield (
            "drainTimeoutSeconds",
            f"{drain:g} must be greater than killTimeoutSeconds ({kill:g}): finishing work takes longer than giving up",
        )
    if instance <= 2 * ready:
        yield (
            "instanceDeadlineSeconds",
            f"{instance:g} must be greater than twice minReadySeconds ({ready:g}): "
            "the successor of a crashed instance is watched that long before and after it is ready",
        )
    if progress <= instance:
        yield (
            "progressDeadlineSeconds",
            f"{progress:g} must be greater than instanceDeadlineSeconds ({instance:g}): "
            "a rollout makes no progress while it waits for an instance",
        )
    if progress <= drain + kill:
        yield (
            "progressDeadlineSeconds",
            f"{progress:g} must be greater than drainTimeoutSeconds and killTimeoutSeconds together "
            f"({drain + kill:g}): a rollout makes no progress while an instance ends",
        )
    if spec.soak_seconds >= progress:
        yield (
            "strategy.rollingUpdate.soakSeconds",
            f"{spec.soak_seconds:g} must be less than progressDeadlineSeconds ({progress:g}): "
            "a rollout updates no further slot while it observes one",
        )
