"""Where plugins come from, and which installed ones a configuration leaves out."""

from __future__ import annotations

from wharfinger.framework.catalog import Catalog, Installed
from wharfinger.framework.config.load import Configuration

BUILT_IN = "built in"


def origins(configuration: Configuration, catalog: Catalog) -> dict[str, str]:
    """Every enabled plugin, in the order of the profiles, with `built in` or its package and version."""
    enabled = dict.fromkeys(name for profile in configuration.profiles for name in profile.names)
    return {name: _origin(name, catalog) for name in enabled if name in catalog}


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


def _origin(name: str, catalog: Catalog) -> str:
    entry = catalog.get(name)
    return package(entry.origin, entry.version) if entry is not None and entry.origin else BUILT_IN
