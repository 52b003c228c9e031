"""From what was written to what runs: defaults, merging of plugin sets, arguments checked by their models.

Merging is kube-scheduler's: start from the default set; disabled names go (`*`: all of them); a default that is
enabled again keeps its place and takes the new weight; other enabled plugins are appended. A plugin named at one
extension point beats what came by `multiPoint`. A completed profile, written out, completes to itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from wharfinger.config.errors import Problem, problems_of
from wharfinger.config.model import DEFAULT_SCHEDULER_NAME, Plugins, PluginSet, ProfileConfiguration
from wharfinger.framework.args import API_VERSION
from wharfinger.framework.catalog import Catalog

_TOTAL_WEIGHT_LIMIT = (2**63 - 1) // 100


@dataclass(frozen=True, slots=True)
class CompletedProfile:
    """A profile with nothing left to default."""

    scheduler_name: str
    multi_point: tuple[str, ...]
    """Plugins that take part wherever they can, in order."""
    points: Mapping[str, PluginSet]
    """Deviations at single extension points."""
    weights: Mapping[str, int]
    """Of every enabled plugin."""
    args: Mapping[str, BaseModel]
    """Of every enabled plugin that has any."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every enabled plugin: those by multiPoint, then those named at single points."""
        single = (ref.name for plugins in self.points.values() for ref in plugins.enabled)
        return tuple(dict.fromkeys((*self.multi_point, *single)))

    def document(self) -> dict[str, Any]:
        """A KubeSchedulerConfiguration that holds this profile alone."""
        enabled = [{"name": name, "weight": self.weights[name]} for name in self.multi_point]
        plugins: dict[str, Any] = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
        for point, entry in self.points.items():
            plugins[point] = {
                "enabled": [{"name": ref.name, "weight": self.weights[ref.name]} for ref in entry.enabled],
                "disabled": [{"name": ref.name} for ref in entry.disabled],
            }
        args = [
            {"name": name, "args": model.model_dump(mode="json", by_alias=True, exclude_none=True)}
            for name, model in self.args.items()
        ]
        profile = {"schedulerName": self.scheduler_name, "plugins": plugins, "pluginConfig": args}
        return {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}

    def canonical(self) -> bytes:
        """The document as JSON, the same bytes wherever it is made."""
        return json.dumps(self.document(), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def digest(self) -> str:
        """SHA-256 of the canonical form, hex."""
        return hashlib.sha256(self.canonical()).hexdigest()


def complete(
    profile: ProfileConfiguration, catalog: Catalog, path: str, problems: list[Problem]
) -> CompletedProfile | None:
    """The completed profile; None when something is wrong, which then was added to `problems`."""
    known = len(problems)
    _check_names(profile.plugins, catalog, f"{path}.plugins", problems)
    written = _arguments(profile, catalog, path, problems)
    multi_point, weights = _merge(profile.plugins, catalog)
    points = {point: entry for point, entry in profile.plugins.points() if entry.enabled or entry.disabled}
    enabled = dict.fromkeys((*multi_point, *(ref.name for entry in points.values() for ref in entry.enabled)))
    args = _completed_arguments(written, tuple(enabled), catalog, path, problems)
    if sum(weights.get(name, 1) for name in enabled) > _TOTAL_WEIGHT_LIMIT:
        problems.append((f"{path}.plugins", "the score weights are too large together"))
    if len(problems) > known:
        return None
    return CompletedProfile(
        profile.scheduler_name or DEFAULT_SCHEDULER_NAME,
        multi_point,
        points,
        {name: weights[name] for name in enabled},
        args,
    )


def _check_names(plugins: Plugins, catalog: Catalog, path: str, problems: list[Problem]) -> None:
    for point, entry in (("multiPoint", plugins.multi_point), *plugins.points()):
        for number, ref in enumerate(entry.enabled):
            if ref.name not in catalog:
                reason = f"there is no plugin {ref.name} (known are {', '.join(entry.name for entry in catalog)})"
                problems.append((f"{path}.{point}.enabled[{number}].name", reason))


def _merge(plugins: Plugins, catalog: Catalog) -> tuple[tuple[str, ...], dict[str, int]]:
    written = plugins.multi_point
    disabled = {ref.name for ref in written.disabled}
    enabled = {ref.name: ref for ref in written.enabled}
    order: list[str] = []
    for entry in catalog:
        gone = written.disables_all or entry.name in disabled
        if not gone:
            order.append(entry.name)
    order += [name for name in enabled if name not in order]
    weights = {entry.name: entry.weight for entry in catalog}
    for name, ref in enabled.items():
        # As in kube-scheduler: who names a plugin without a weight gives it the weight 1.
        weights[name] = ref.weight or 1
    for ref in plugins.score.enabled:
        weights[ref.name] = ref.weight or 1
    return tuple(order), weights


def _arguments(
    profile: ProfileConfiguration, catalog: Catalog, path: str, problems: list[Problem]
) -> dict[str, BaseModel]:
    """The arguments that are written, by plugin."""
    written: dict[str, BaseModel] = {}
    for number, config in enumerate(profile.plugin_config):
        place = f"{path}.pluginConfig[{number}]"
        entry = catalog.get(config.name)
        if config.name in written:
            problems.append((f"{place}.name", f"arguments of {config.name} are given twice"))
        elif entry is None:
            problems.append((f"{place}.name", f"there is no plugin {config.name}"))
        elif entry.args is None:
            if set(config.args) - {"apiVersion", "kind"}:
                problems.append((f"{place}.args", f"plugin {config.name} takes no arguments"))
        else:
            try:
                written[config.name] = entry.args.model_validate(config.args)
            except ValidationError as error:
                problems.extend(problems_of(error, f"{place}.args"))
    return written


def _completed_arguments(
    written: Mapping[str, BaseModel], enabled: tuple[str, ...], catalog: Catalog, path: str, problems: list[Problem]
) -> dict[str, BaseModel]:
    """The arguments of every enabled plugin that takes any: those written, else its defaults."""
    args: dict[str, BaseModel] = {}
    for name in enabled:
        entry = catalog.get(name)
        if entry is None or entry.args is None:
            continue
        try:
            args[name] = written[name] if name in written else entry.args()
        except ValidationError as error:
            problems.extend(
                (where, f"{name}: {reason}") for where, reason in problems_of(error, f"{path}.pluginConfig")
            )
    return args
