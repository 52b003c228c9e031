"""A KubeSchedulerConfiguration that was read: validated, completed, and shown again as a whole.

One of `v1beta2` or `v1beta3` is refused with what to change in it. Sources: k8s.io/kube-scheduler v0.26
(`config/v1beta2`, `v1beta3`, `v1`: the one release that has all three) for the fields, and Kubernetes' page "Scheduler
Configuration", section "Scheduler configuration migrations", for plugins and weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.completion import CompletedProfile, complete
from wharfinger.framework.config.extender_fields import completed as completed_extender
from wharfinger.framework.config.extender_fields import made, wrong
from wharfinger.framework.config.file_fields import API_VERSION, ProfileConfiguration, SchedulerConfiguration
from wharfinger.framework.config.validation import Problem, understood
from wharfinger.objects.model.extenders import Extender


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration with nothing left to default."""

    settings: SchedulerConfiguration
    """What stands beside the profiles; its own profiles are those that were written."""
    profiles: tuple[CompletedProfile, ...]

    @property
    def extenders(self) -> tuple[Extender, ...]:
        """The extenders that all profiles share, in the order of the configuration."""
        return made(self.settings.extenders)

    def document(self, *, secrets: bool = True) -> dict[str, Any]:
        """The whole, as a file would say it; read again, it gives the same profiles.

        `secrets`: whether with the keys of extenders' client certificates, which stand in a file too; a document
        without them is for people alone.
        """
        settings = self.settings.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"profiles"})
        extenders = settings.pop("extenders")
        for extender in extenders if not secrets else ():
            extender.get("tlsConfig", {}).pop("keyData", None)
        return {
            "apiVersion": settings.pop("apiVersion"),
            "kind": settings.pop("kind"),
            **settings,
            **({"extenders": extenders} if extenders else {}),
            "profiles": [profile.fields() for profile in self.profiles],
        }


def read(written: Mapping[str, Any], catalog: Catalog) -> tuple[Configuration, list[Problem]]:
    """Complete a configuration and find all that is wrong with it.

    With problems, the configuration holds what could be understood nevertheless, so that a caller can look for more.
    What depends on how plugins are made is left to `config.drafts`. Of an older version, what has to be changed
    comes first.
    """
    current, outdated = as_of_now(written)
    settings, problems = understood(current, SchedulerConfiguration)
    problems = outdated + problems
    malformed = tuple(path for path, _ in problems)
    # A name that could not be read is not missing.
    problems += [(path, why) for path, why in _ambiguous_names(settings.profiles) if not path.startswith(malformed)]
    problems += [(path, why) for path, why in wrong(settings.extenders) if path not in malformed]
    settings = settings.model_copy(update={"extenders": tuple(map(completed_extender, settings.extenders))})
    completed = tuple(
        complete(profile, catalog, number, settings, problems) for number, profile in enumerate(settings.profiles)
    )
    return Configuration(settings, completed), problems


def _ambiguous_names(profiles: Iterable[ProfileConfiguration]) -> Iterator[Problem]:
    names = [profile.scheduler_name for profile in profiles]
    for number, name in enumerate(names):
        path = f"profiles[{number}].schedulerName"
        if not name and len(names) > 1:
            yield path, "is needed when there are several profiles"
        elif name in names[:number]:
            yield path, f"{name} is the name of another profile too"


_GROUP = API_VERSION.rpartition("/")[0]
V1BETA2, V1BETA3 = f"{_GROUP}/v1beta2", f"{_GROUP}/v1beta3"
_REMOVED_IN = {V1BETA2: "1.28", V1BETA3: "1.29"}

_ADDRESSES = ("healthzBindAddress", "metricsBindAddress")
"""Fields that v1beta2 has and v1beta3 has not."""
_WEIGHTS = {"InterPodAffinity": 2, "NodeAffinity": 2, "TaintToleration": 3}
"""Plugins whose default weight is 1 in v1beta2, and what it is from v1beta3 on."""
_REPLACED = {
    "SelectorSpread": "PodTopologySpread, which is enabled by default, took its place",
    "NodeLabel": "NodeAffinity, which is enabled by default, took its place",
    "ServiceAffinity": "InterPodAffinity, which is enabled by default, took its place",
    "NodePreferAvoidPods": "node taints took its place",
    "NodeResourcesLeastAllocated": "write scoringStrategy of NodeResourcesFit instead, with type LeastAllocated",
    "NodeResourcesMostAllocated": "write scoringStrategy of NodeResourcesFit instead, with type MostAllocated",
    "RequestedToCapacityRatio": "write scoringStrategy of NodeResourcesFit instead, with type RequestedToCapacityRatio",
}
"""Plugins that older versions have, and what is there instead."""


def as_of_now(written: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Problem]]:
    """The configuration with its fields as they are in `v1`, and what has to be changed for that.

    What is of `v1`, or of a version that was never one, comes as it is, without a problem.
    """
    version = written.get("apiVersion")
    if version not in (V1BETA2, V1BETA3):
        return written, []
    problems: list[Problem] = [
        ("apiVersion", f"write {API_VERSION}: Kubernetes {_REMOVED_IN[version]} removed {version.rpartition('/')[2]}")
    ]
    changed = {**written, "apiVersion": API_VERSION}
    if version == V1BETA2:
        reason = "remove it: the worker takes --bind-address and --health-port instead"
        problems += [(field, reason) for field in _ADDRESSES if changed.pop(field, None) is not None]
    profiles = changed.get("profiles") or [{}]
    if isinstance(profiles, Sequence) and not isinstance(profiles, str):
        changed["profiles"] = [_profile(entry, f"profiles[{i}]", version, problems) for i, entry in enumerate(profiles)]
    return changed, problems


def _profile(profile: Any, path: str, version: str, problems: list[Problem]) -> Any:
    if not isinstance(profile, Mapping):
        return profile
    plugins = profile.get("plugins")
    points = plugins if isinstance(plugins, Mapping) else {}
    if version == V1BETA2:
        problems += _other_weights(points, f"{path}.plugins")
    changed = dict(profile)
    if points:
        changed["plugins"] = {
            point: _without_replaced(entry, f"{path}.plugins.{point}", problems) for point, entry in points.items()
        }
    configs = profile.get("pluginConfig")
    if isinstance(configs, Sequence) and not isinstance(configs, str):
        changed["pluginConfig"] = list(_configs(configs, f"{path}.pluginConfig", version, problems))
    return changed


def _other_weights(points: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Defaults that rise: a configuration that relied on them keeps them by naming them."""
    named = {str(ref.get("name")) for ref in _refs(points.get("score"), "enabled")}
    gone = {str(ref.get("name")) for ref in _refs(points.get("score"), "disabled")}
    for name, weight in _WEIGHTS.items():
        if name not in named | gone and "*" not in gone:
            change = f"the default weight of {name} is {weight} in v1, and was 1 in v1beta2"
            yield f"{path}.score", f"{change}: name it with its weight under enabled, 1 to keep what it was"


def _without_replaced(plugin_set: Any, path: str, problems: list[Problem]) -> Any:
    if not isinstance(plugin_set, Mapping):
        return plugin_set
    changed = dict(plugin_set)
    for part in ("enabled", "disabled"):
        if part in plugin_set and isinstance(plugin_set[part], Sequence):
            problems += [
                (f"{path}.{part}[{number}].name", f"remove it: {_gone(ref)}")
                for number, ref in enumerate(plugin_set[part])
                if _gone(ref)
            ]
            changed[part] = [ref for ref in plugin_set[part] if not _gone(ref)]
    return changed


def _configs(configs: Sequence[Any], path: str, version: str, problems: list[Problem]) -> Iterator[Any]:
    for number, config in enumerate(configs):
        if _gone(config):
            problems.append((f"{path}[{number}]", f"remove it: {_gone(config)}"))
            continue
        args = config.get("args") if isinstance(config, Mapping) else None
        if isinstance(args, Mapping) and args.get("apiVersion") == version:
            problems.append((f"{path}[{number}].args.apiVersion", f"write {API_VERSION}, or leave it out"))
            yield {**config, "args": {**args, "apiVersion": API_VERSION}}
        else:
            yield config


def _gone(entry: Any) -> str:
    """Why the plugin that an entry names is not there any more; empty when it is."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    if not isinstance(name, str) or name not in _REPLACED:
        return ""
    return f"plugin {name} was removed from Kubernetes; {_REPLACED[name]}"


def _refs(plugin_set: Any, part: str) -> list[Mapping[str, Any]]:
    refs = plugin_set.get(part) if isinstance(plugin_set, Mapping) else None
    return [ref for ref in refs if isinstance(ref, Mapping)] if isinstance(refs, Sequence) else []
