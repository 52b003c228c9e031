"""Fleets' objects and templates with every default written out, as the running code understands them.

What cannot be completed (a plugin of another release, a spec that is invalid) is shown as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wharfinger.errors import ConfigurationError
from wharfinger.fleet.model.fleet import FleetSpec
from wharfinger.fleet.spec.fleet import read_fleet, read_template
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.load import read
from wharfinger.objects.model.quantities import IntOrPercent


def known_plugins() -> Catalog:
    """The built-in plugins and those of installed packages."""
    from wharfinger.framework.plugins import builtin

    return builtin.catalog().with_installed()


class Names:
    """Names of templates: equal after completion, equal by name."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[str, str] = {}

    def __call__(self, template: Mapping[str, Any]) -> str:
        """The template's name; one that this release cannot complete is equal to what is written alike alone."""
        written = json.dumps(template, sort_keys=True)
        if written not in self._known:
            try:
                self._known[written] = read_template(template, self._catalog)[1]
            except ConfigurationError:
                self._known[written] = written
        return self._known[written]


def completed_template(template: Mapping[str, Any], catalog: Catalog, *, configuration: bool = True) -> dict[str, Any]:
    """The template, completed; empty settings (no limit, no variable) are left out.

    `configuration=False` leaves the schedulerConfiguration as it was written.
    """
    try:
        found, _ = read_template(template, catalog)
    except ConfigurationError:
        return dict(template)
    scheduler = found.configuration
    if scheduler and configuration:
        scheduler = read(scheduler, catalog)[0].document()
    resources = {
        **({"memory": str(found.memory)} if found.memory else {}),
        **({"cpu": f"{found.cpu}m"} if found.cpu else {}),
    }
    document = {
        "version": found.version,
        "restartedAt": found.restarted_at,
        "environment": dict(sorted(found.environment.items())),
        "secrets": [{"name": secret.name, "version": secret.version} for secret in found.secrets],
        "resources": resources,
        "schedulerConfiguration": scheduler,
    }
    return {name: value for name, value in document.items() if value}


def completed_object(
    written: Mapping[str, Any], catalog: Catalog, tenant: str, *, configuration: bool = True
) -> dict[str, Any]:
    """The object's spec, completed, with its template; `configuration` as of `completed_template`."""
    try:
        found = read_fleet(written, catalog, name=tenant)
    except ConfigurationError:
        spec = written.get("spec")
        return dict(spec) if isinstance(spec, Mapping) else {}
    return {
        **_spec(found.spec),
        "template": completed_template(found.written_template, catalog, configuration=configuration),
    }


def _spec(spec: FleetSpec) -> dict[str, Any]:
    asked = spec.request
    rolling = {
        "maxSurge": _int_or_percent(spec.max_surge),
        "maxUnavailable": _int_or_percent(spec.max_unavailable),
        "partition": spec.partition,
        "canary": spec.canary,
        "soakSeconds": _seconds(spec.soak),
        "failureThreshold": spec.failure_threshold,
    }
    return {
        "replicas": spec.replicas,
        "paused": spec.paused,
        "strategy": {"rollingUpdate": rolling},
        "minReadySeconds": _seconds(spec.min_ready),
        "instanceDeadlineSeconds": _seconds(spec.instance_deadline),
        "progressDeadlineSeconds": _seconds(spec.progress_deadline),
        "progressDeadlineAction": spec.on_deadline.capitalize(),
        "drainTimeoutSeconds": _seconds(spec.drain_timeout),
        "killTimeoutSeconds": _seconds(spec.kill_timeout),
        "revisionHistoryLimit": spec.history_limit,
        **({"rollout": {"generation": asked.generation, "action": asked.action}} if asked is not None else {}),
    }


def _int_or_percent(value: IntOrPercent) -> int | str:
    return f"{value.amount}%" if value.percent else value.amount


def _seconds(value: float) -> float:
    """As people write them: 3, not 3.0."""
    return int(value) if value == int(value) else value
