"""From a configuration to profiles that decide: where text, catalog, configuration and framework meet.

The core's composition root, used by the worker, the simulator and the CLI alike.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.framework.catalog import Catalog, Installed, points_of
from wharfinger.framework.config import dynamic
from wharfinger.framework.config.completion import CompletedProfile
from wharfinger.framework.config.drafts import drafted
from wharfinger.framework.config.dynamic import ProfileValue
from wharfinger.framework.config.load import Configuration, read
from wharfinger.framework.config.notes import not_named, without_effect
from wharfinger.framework.config.validation import Problem, refuse
from wharfinger.framework.interface import Plugin
from wharfinger.framework.plugins import builtin
from wharfinger.framework.profile import Profile
from wharfinger.objects.documents import documents
from wharfinger.objects.model.formats import ClusterFormat

Source = Mapping[str, Any] | Path | str | None
"""A KubeSchedulerConfiguration v1: a mapping, or the path of a file (YAML, JSON); None = the defaults."""


@dataclass(frozen=True, slots=True)
class Configured:
    """A valid configuration, and what it makes."""

    configuration: Configuration
    profiles: dict[str, Profile]
    """By scheduler name, in the order of the configuration."""
    catalog: Catalog
    """The plugins that were known."""

    @property
    def not_enabled(self) -> tuple[Installed, ...]:
        """The installed plugins that take no part because the configuration does not name them."""
        return not_named(self.configuration, self.catalog)

    def notes(self) -> list[Problem]:
        """Path and reason of every field that is written and has no effect."""
        serves = {
            name: {plugin.name: points_of(plugin) for plugin in profile.plugins}
            for name, profile in self.profiles.items()
        }
        return without_effect(self.configuration, self.catalog, serves)


def load_profiles(config: Source = None, *, catalog: Catalog | None = None) -> dict[str, Profile]:
    """Profiles by scheduler name; see `load_configuration`."""
    return load_configuration(config, catalog=catalog).profiles


def load_configuration(
    config: Source = None,
    *,
    catalog: Catalog | None = None,
    all_plugins: bool = False,
    format_: ClusterFormat = ClusterFormat.KUBERNETES,
) -> Configured:
    """Read a configuration and make its profiles.

    Args:
        config: What is read; None = the default one of clusters of this format.
        catalog: The plugins there are; None = the built-in ones and those of installed distributions.
        all_plugins: Installed plugins are enabled by default too, not only those that the configuration names.
        format_: Of the cluster's pods and nodes.

    Raises:
        InvalidConfiguration: Names everything that is wrong with the configuration, or with making its plugins.
        ConfigurationError: An installed plugin that is enabled cannot be loaded.
    """
    known = catalog if catalog is not None else builtin.catalog().with_installed(enabled=all_plugins)
    configuration, problems = read(_mapping(config) if config is not None else default_configuration(format_), known)
    return _configured(configuration, problems, known)


def overlay_configuration(base: Configured, value: ProfileValue, running: Configured) -> Configured:
    """The configuration with other weights and plugin arguments, and its profiles.

    Plugins whose arguments are those of `running` are taken from there: what they remember stays.

    Raises:
        InvalidConfiguration: Names everything that is wrong with the whole.
    """
    overlaid, problems = dynamic.overlaid(base.configuration, value, base.catalog)
    if not problems:  # what is written out is read again, so that a digest's content always makes that very profile
        overlaid, problems = read(overlaid.document(), base.catalog)
    problems += [
        (f"profiles.{one.scheduler_name}", "may not change how the queue is sorted: that is the template's affair")
        for one, was in zip(overlaid.profiles, base.configuration.profiles, strict=True)
        for plugin in base.profiles[was.scheduler_name].at["queueSort"]
        if one.args.get(plugin) != was.args.get(plugin)
    ]
    return _configured(overlaid, problems, base.catalog, running)


def _configured(
    configuration: Configuration, problems: list[Problem], catalog: Catalog, running: Configured | None = None
) -> Configured:
    drafts, unfit = drafted(configuration, catalog, lambda completed: _kept(completed, running))
    problems += unfit
    if problems:
        raise refuse(problems)
    made = {draft.completed.scheduler_name: draft.profile() for draft in drafts}
    return Configured(configuration, made, catalog)


def _kept(completed: CompletedProfile, running: Configured | None) -> dict[str, Plugin]:
    """Plugins of a running profile whose arguments stay the same."""
    if running is None or completed.scheduler_name not in running.profiles:
        return {}
    theirs = next(one for one in running.configuration.profiles if one.scheduler_name == completed.scheduler_name)
    plugins = running.profiles[completed.scheduler_name].plugins
    return {
        plugin.name: plugin for plugin in plugins if theirs.args.get(plugin.name) == completed.args.get(plugin.name)
    }


def written_in(config: Source) -> Mapping[str, Any]:
    """What a file says, or a mapping itself; empty for None. Raises `InvalidConfiguration`."""
    return _mapping(config) if config is not None else {}


def _mapping(config: Mapping[str, Any] | Path | str) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    if not isinstance(config, str | Path):
        raise UsageError(f"a configuration is a mapping or a path, not {config!r:.60}")
    path = Path(config)
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
        lines = map(bytes.lstrip, content.splitlines())
        written = documents.parse(content) if any(line and not line.startswith(b"#") for line in lines) else {}
    except OSError as error:
        raise refuse([(str(path), error.strerror or str(error))]) from error
    except InvalidObject as error:
        raise refuse([(str(path), str(error))]) from error
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise refuse([(str(path), "is not a mapping")])
    return written


_RK8S: Mapping[str, int | None] = {
    "SchedulingGates": None,
    "PrioritySort": None,
    "UnsupportedFeatures": None,
    "NodeUnschedulable": None,
    "NodeName": None,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "GpuMemory": 1,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "DefaultBinder": None,
}
"""libscheduler's plugins with its weights. It neither preempts nor spreads pods, and its pods have no host ports."""

_DEFAULTS: Mapping[ClusterFormat, Mapping[str, Any]] = {
    ClusterFormat.KUBERNETES: {},
    ClusterFormat.RK8S: {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "multiPoint": {
                        "enabled": [
                            {"name": name} if weight is None else {"name": name, "weight": weight}
                            for name, weight in _RK8S.items()
                        ],
                        "disabled": [{"name": "*"}],
                    }
                },
            }
        ],
    },
}


def default_configuration(format_: ClusterFormat) -> Mapping[str, Any]:
    """A KubeSchedulerConfiguration v1, before its own defaults."""
    return _DEFAULTS[format_]
