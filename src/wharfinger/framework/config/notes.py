"""What a valid configuration says without effect, and which installed plugins it leaves out.

Fields without effect are accepted, because files made for kube-scheduler have them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from wharfinger.framework.catalog import KUBE_SCHEDULER_POINTS, REMOVED_PLUGINS, Catalog, Installed
from wharfinger.framework.config.drafts import Served
from wharfinger.framework.config.extender_fields import ExtenderConfiguration
from wharfinger.framework.config.file_fields import MULTI_POINT, PluginRef, PluginSet, ProfileConfiguration
from wharfinger.framework.config.load import Configuration
from wharfinger.framework.config.validation import Problem

_SETTINGS = {
    "client_connection": ("clientConnection", "there is no API server; --etcd says where the cluster's state is"),
    "delay_cache_until_active": ("delayCacheUntilActive", "all workers are active"),
    "enable_contention_profiling": ("enableContentionProfiling", "there is no profiling endpoint"),
    "enable_profiling": ("enableProfiling", "there is no profiling endpoint"),
    "leader_election": ("leaderElection", "all workers are active, and share the pods by leases in etcd"),
    "parallelism": ("parallelism", "a decision looks at all nodes at once"),
}
_GROUPS = {"placement_generate": "placementGenerate", "placement_score": "placementScore"}
_FIT_WITHOUT_SHAPE = "requestedToCapacityRatio"


def without_effect(configuration: Configuration, catalog: Catalog, serves: Mapping[str, Served]) -> list[Problem]:
    """Path and reason of every field that is written and has no effect, each path once.

    `serves`: for each profile by its scheduler name, what its plugins serve.
    """
    found = dict(_all(configuration, catalog, serves))
    return list(found.items())


def _all(configuration: Configuration, catalog: Catalog, serves: Mapping[str, Served]) -> Iterator[Problem]:
    settings = configuration.settings
    for field, (name, reason) in _SETTINGS.items():
        if field in settings.model_fields_set:
            yield name, f"has no effect: {reason}"
    own = [profile.percentage_of_nodes_to_score is not None for profile in settings.profiles]
    if settings.percentage_of_nodes_to_score is not None and all(own):
        yield "percentageOfNodesToScore", "has no effect: every profile has its own"
    yield from _extenders(settings.extenders)
    somewhere = {name for profile in configuration.profiles for name in profile.names}
    somewhere.update(entry.name for entry in catalog)
    for written, completed in zip(settings.profiles, configuration.profiles, strict=True):
        served = serves[completed.scheduler_name]
        yield from _plugins(written, f"{completed.path}.plugins", served, somewhere, catalog)
        for number, config in enumerate(written.plugin_config):
            path = f"{completed.path}.pluginConfig[{number}]"
            if config.name not in completed.names:
                yield path, f"has no effect: the profile does not enable {config.name}"
            elif config.name == "NodeResourcesFit":
                yield from _strategy(config.args, f"{path}.args.scoringStrategy")


def _extenders(extenders: Iterable[ExtenderConfiguration]) -> Iterator[Problem]:
    for number, extender in enumerate(extenders):
        path = f"extenders[{number}]"
        if not extender.verbs:
            yield path, "has no effect: it has no verb"
        if extender.weight and not extender.prioritize_verb:
            yield f"{path}.weight", "has no effect: there is no prioritizeVerb"
        if extender.url_prefix.startswith("http:"):
            if extender.enable_https:
                yield f"{path}.enableHTTPS", "has no effect: the scheme of urlPrefix counts, and it is http"
            if extender.tls_config is not None:
                yield f"{path}.tlsConfig", "has no effect: the scheme of urlPrefix is http"


def _plugins(
    written: ProfileConfiguration, path: str, served: Served, somewhere: set[str], catalog: Catalog
) -> Iterator[Problem]:
    plugins = written.plugins
    for field, name in _GROUPS.items():
        if field in plugins.model_fields_set:
            yield f"{path}.{name}", "has no effect: no plugin places groups here"
    by_score = {ref.name for ref in plugins.score.enabled}
    for number, ref in enumerate(plugins.multi_point.enabled):
        where = f"{path}.{MULTI_POINT}.enabled[{number}].weight"
        if ref.weight and ref.name in by_score:
            yield where, f"has no effect: the weight of {ref.name} at score counts"
        elif ref.weight and "score" not in served.get(ref.name, ()):
            yield where, f"has no effect: {ref.name} gives no score"
    yield from _disabled(plugins.multi_point, f"{path}.{MULTI_POINT}", somewhere, catalog)
    for point, plugin_set in plugins.points():
        where = f"{path}.{point}"
        yield from _enabled(plugin_set, point, where, served)
        yield from _disabled(plugin_set, where, somewhere, catalog)
        for number, ref in enumerate(plugin_set.disabled):
            if ref.name in served and point not in served[ref.name]:
                yield f"{where}.disabled[{number}]", f"has no effect: {ref.name} takes no part at {point}"


def _enabled(plugin_set: PluginSet, point: str, path: str, served: Served) -> Iterator[Problem]:
    for number, ref in enumerate(plugin_set.enabled):
        where = f"{path}.enabled[{number}]"
        if point not in served.get(ref.name, ()):
            yield where, f"has no effect: {ref.name} takes no part at {point} here"
        elif ref.weight and point != "score":
            yield f"{where}.weight", "has no effect: weights count at score and multiPoint"


def _disabled(plugin_set: PluginSet, path: str, somewhere: set[str], catalog: Catalog) -> Iterator[Problem]:
    for number, ref in enumerate(plugin_set.disabled):
        where = f"{path}.disabled[{number}]"
        if ref.name != "*" and ref.name not in somewhere:
            yield where, f"has no effect: {_why_absent(ref, catalog)}"
        elif ref.weight:
            yield f"{where}.weight", "has no effect: a disabled plugin has no weight"


def _why_absent(ref: PluginRef, catalog: Catalog) -> str:
    """Why no profile has a plugin."""
    for plugin in catalog.installed:
        if plugin.name == ref.name:
            return f"{ref.name} of {package(plugin.origin, plugin.version)} is enabled only where it is named"
    if ref.name in KUBE_SCHEDULER_POINTS or ref.name in REMOVED_PLUGINS:
        return f"{ref.name} of kube-scheduler does not exist here"
    close = get_close_matches(ref.name, catalog.names, n=1)
    return f"no profile has a plugin {ref.name[:80]}" + (f"; did you mean {close[0]}?" if close else "")


def _strategy(args: Mapping[str, object], path: str) -> Iterator[Problem]:
    strategy = args.get("scoringStrategy")
    if not isinstance(strategy, Mapping) or strategy.get("type") == "RequestedToCapacityRatio":
        return
    if strategy.get(_FIT_WITHOUT_SHAPE) is not None:
        yield f"{path}.{_FIT_WITHOUT_SHAPE}", "has no effect: the type is not RequestedToCapacityRatio"


BUILT_IN = "built in"


def origins(configuration: Configuration, catalog: Catalog) -> dict[str, str]:
    """Every enabled plugin, in the order of the profiles, with `built in` or its package and version."""
    enabled = dict.fromkeys(name for profile in configuration.profiles for name in profile.names)
    entries = {name: entry for name in enabled if (entry := catalog.get(name)) is not None}
    return {name: package(entry.origin, entry.version) or BUILT_IN for name, entry in entries.items()}


def not_named(configuration: Configuration, catalog: Catalog) -> tuple[Installed, ...]:
    """The installed plugins that no profile enables, and none disables by its name."""
    named = {name for profile in configuration.profiles for name in profile.names}
    for profile in configuration.settings.profiles:
        sets = (profile.plugins.multi_point, *(plugins for _, plugins in profile.plugins.points()))
        named.update(ref.name for plugins in sets for ref in plugins.disabled)
    return tuple(plugin for plugin in catalog.installed if plugin.name not in named)


def enabling(plugin: Installed, scheduler_name: str) -> str:
    """The line of a configuration that enables the plugin in that profile; valid by itself."""
    plugins = f"{{multiPoint: {{enabled: [{{name: {plugin.name}}}]}}}}"
    return f"profiles: [{{schedulerName: {scheduler_name}, plugins: {plugins}}}]"


def package(origin: str, version: str) -> str:
    """A package with its version, as people write it."""
    return f"{origin} {version}".rstrip()
