"""From a configuration to profiles that decide: where catalog, configuration and framework meet.

The core's composition root, used by the worker, the simulator and the CLI alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wharfinger.config.completion import CompletedProfile
from wharfinger.config.errors import refuse
from wharfinger.config.load import load
from wharfinger.config.model import PluginSet
from wharfinger.errors import ConfigurationError
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.interface import Plugin
from wharfinger.framework.profile import POINTS, Enabled, Profile, points_of
from wharfinger.plugins import builtin


def load_profiles(
    config: Mapping[str, Any] | Path | str | None = None, *, catalog: Catalog | None = None
) -> dict[str, Profile]:
    """Profiles by scheduler name, in the order of the configuration.

    Args:
        config: A KubeSchedulerConfiguration v1: mapping or path (YAML, JSON); None = the defaults.
        catalog: The plugins there are; None = the built-in ones and those of installed distributions.

    Raises:
        ConfigurationError: Something in the configuration or in a plugin's making is wrong.
    """
    known = catalog if catalog is not None else builtin.catalog().with_installed()
    completed = load(config, known).profiles
    profiles = {each.scheduler_name: profile_from(each, known) for each in completed}
    _check_one_queue_order(completed, profiles)
    return profiles


def profile_from(completed: CompletedProfile, catalog: Catalog) -> Profile:
    """One profile with its plugins made."""
    plugins: dict[str, Plugin] = {}
    for name in completed.names:
        entry = catalog.get(name)
        if entry is None:
            raise ConfigurationError(f"there is no plugin {name}")
        plugins[name] = entry.make(completed.args.get(name))
    return Profile(
        completed.scheduler_name,
        Enabled(tuple(plugins.values()), _expand(completed, plugins), completed.weights),
        digest=completed.digest(),
        configuration=completed.canonical(),
    )


def _check_one_queue_order(completed: tuple[CompletedProfile, ...], profiles: Mapping[str, Profile]) -> None:
    """All profiles share one queue, so they sort it by the same plugin with the same arguments."""
    sorts = {each.scheduler_name: profiles[each.scheduler_name].at["queueSort"][0] for each in completed}
    first = completed[0]
    for each in completed[1:]:
        name = sorts[each.scheduler_name]
        if name != sorts[first.scheduler_name] or each.args.get(name) != first.args.get(name):
            raise ConfigurationError(
                f"profiles {first.scheduler_name} and {each.scheduler_name}: all profiles must have the same queueSort"
                " plugin with the same arguments"
            )


def _expand(completed: CompletedProfile, plugins: Mapping[str, Plugin]) -> dict[str, tuple[str, ...]]:
    """Names by extension point: what is named there and came by multiPoint, multiPoint, the rest named there."""
    serves = {name: points_of(plugin) for name, plugin in plugins.items()}
    _check_served(completed, serves)
    at: dict[str, tuple[str, ...]] = {}
    for point in POINTS:
        written = completed.points.get(point, PluginSet())
        named = [ref.name for ref in written.enabled]
        disabled = {ref.name for ref in written.disabled}
        by_multi_point = [
            name
            for name in completed.multi_point
            if point in serves[name] and name not in disabled and not written.disables_all
        ]
        overridden = [name for name in named if name in by_multi_point]
        rest = [name for name in by_multi_point if name not in named]
        at[point] = (*overridden, *rest, *(name for name in named if name not in overridden))
    return at


def _check_served(completed: CompletedProfile, serves: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a plugin that is named at a point where it has nothing to say."""
    problems = [
        (f"profile {completed.scheduler_name}: plugins.{point}.enabled[{number}].name", f"{ref.name} does not serve it")
        for point, written in completed.points.items()
        for number, ref in enumerate(written.enabled)
        if point not in serves[ref.name]
    ]
    if problems:
        raise refuse(problems)
