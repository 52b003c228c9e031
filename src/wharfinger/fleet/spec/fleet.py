"""A SchedulerFleet: from what users write to the desired state that a fleet's actor follows.

::

    written ── fleet_fields ──► well-formed ── template, budgets ──► FleetSpec, Template, its name

All problems are reported at once, each with the path of its field, in the words of `framework.config.validation`. The
times of a fleet are one chain, in which each must leave room for what happens within it:

::

    killTimeoutSeconds < drainTimeoutSeconds
    2 x minReadySeconds < instanceDeadlineSeconds < progressDeadlineSeconds
    drainTimeoutSeconds + killTimeoutSeconds < progressDeadlineSeconds
    strategy.rollingUpdate.soakSeconds < progressDeadlineSeconds

Two templates are equal when they are equal after completion by the running code, and then have the same name: SHA-256
over the canonical JSON of the completed one, every default written out, secrets as references. The order of fields,
defaults that are spelled out, and the spelling of amounts (`1Gi`, `1024Mi`) make no difference. No
schedulerConfiguration at all means the agent's own, whatever that is, and so differs from any that is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.fleet.model.fleet import FleetSpec, RolloutRequest, Secret, Template
from wharfinger.fleet.spec import fleet_fields
from wharfinger.fleet.spec.fleet_fields import (
    CHANGE_CAUSE,
    CHANGED_BY,
    FleetFields,
    SpecFields,
    TemplateFields,
)
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.drafts import drafted
from wharfinger.framework.config.load import read
from wharfinger.framework.config.validation import Problem, refuse, understood, within
from wharfinger.objects.documents.fields import part
from wharfinger.objects.model.names import COMMON, RESERVED_TENANTS, is_dns_label
from wharfinger.objects.model.quantities import IntOrPercent

_EVERY = IntOrPercent(100, percent=True)


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
    it is stored (`deciding.draft.Budget`). Raises InvalidConfiguration, which names all that is wrong.
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
    return bool(part(written, "metadata").get("deletionTimestamp"))


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
        max_surge=IntOrPercent(0) if recreate else rolling.max_surge,
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


def read_template(written: Mapping[str, Any], catalog: Catalog) -> tuple[Template, str]:
    """A template and its completed name. Raises InvalidConfiguration, which names all that is wrong."""
    fields, problems = understood(written, TemplateFields)
    template, name, more = completed(fields, catalog, [path for path, _ in problems])
    problems += more
    if problems:
        raise refuse(problems)
    return template, name


def completed(fields: TemplateFields, catalog: Catalog, malformed: list[str]) -> tuple[Template, str, list[Problem]]:
    """A template, its name, and what is wrong with it beyond the `malformed` paths; these begin below the template."""
    configuration: dict[str, Any] | None = None
    problems: list[Problem] = []
    size = len(_canonical(fields.scheduler_configuration))
    if size > fleet_fields.LARGEST_CONFIGURATION:
        problems.append(("schedulerConfiguration", f"is larger than {fleet_fields.LARGEST_CONFIGURATION} bytes"))
    elif fields.scheduler_configuration:
        found, inside = read(fields.scheduler_configuration, catalog)
        inside += drafted(found, catalog)[1]
        problems += [(f"schedulerConfiguration.{path}", why) for path, why in inside]
        # Every profile has its own percentage once it is completed; the whole file's says nothing more.
        configuration = None if inside else {**found.document(), "percentageOfNodesToScore": None}
    problems += _environment(fields.environment)
    problems += [(path, why) for path, why in _secrets(fields) if not any(within(path, part) for part in malformed)]
    template = Template(
        version=fields.version,
        configuration=fields.scheduler_configuration,
        environment=fields.environment,
        secrets=tuple(Secret(secret.name, secret.version) for secret in fields.secrets),
        memory=fields.resources.memory,
        cpu=fields.resources.cpu,
        restarted_at=fields.restarted_at,
    )
    return template, _name(template, configuration), problems


def _name(template: Template, configuration: dict[str, Any] | None) -> str:
    document = {
        "schedulerConfiguration": configuration,
        "version": template.version,
        "environment": template.environment,
        "secrets": sorted([secret.name, secret.version] for secret in template.secrets),
        "resources": {"memory": template.memory, "cpu": template.cpu},
        "restartedAt": template.restarted_at,
    }
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: object) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="surrogatepass")


def _environment(variables: Mapping[str, str]) -> Iterator[Problem]:
    if len(variables) > fleet_fields.MOST_VARIABLES:
        yield "environment", f"has more than {fleet_fields.MOST_VARIABLES} variables"
        return
    size = 0
    for name, value in variables.items():
        path = f"environment.{name[:80]}"
        length = len(value.encode(errors="surrogatepass"))
        size += len(name) + length
        if not fleet_fields.is_variable(name):
            yield path, "is no name of a variable: letters, digits and underscores, at most 128, no digit first"
        if length > fleet_fields.LONGEST_VALUE:
            yield path, f"is longer than {fleet_fields.LONGEST_VALUE} bytes"
        if "\0" in value or not _is_unicode(value):
            yield path, "holds what no variable can: a zero byte, or half of a surrogate pair"
    if size > fleet_fields.LARGEST_ENVIRONMENT:
        yield "environment", f"is larger than {fleet_fields.LARGEST_ENVIRONMENT} bytes together"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _secrets(fields: TemplateFields) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, secret in enumerate(fields.secrets):
        for field, value in (("name", secret.name), ("version", secret.version)):
            if not value:
                yield f"secrets[{number}].{field}", "is missing"
        if secret.name and secret.name in seen:
            yield f"secrets[{number}].name", f"{secret.name} is named more than once"
        seen.add(secret.name)
