"""What a value of the dynamic configuration makes of a configuration: other weights, other plugin arguments.

Which plugins there are, where they run and how the queue is sorted stays the template's affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.arguments import completed_arguments
from wharfinger.framework.config.completion import CompletedProfile
from wharfinger.framework.config.dynamic import ProfileOverlay, ProfileValue
from wharfinger.framework.config.errors import Problem
from wharfinger.framework.config.kube_scheduler import why_unknown
from wharfinger.framework.config.load import Configuration


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
