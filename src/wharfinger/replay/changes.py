"""What is changed in the configuration by which decisions are made again: nothing, some fields, plugins, or all of it.

A change is laid over the configuration that each decision names, so decisions by an older configuration get the same
change. Plugins are made anew for each worker that is stood in for.
"""

from __future__ import annotations

import heapq
import importlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from wharfinger.errors import ConfigurationError, InvalidConfiguration, InvalidObject, UsageError
from wharfinger.etcd.store import KeyValue
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.plugins import builtin
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import Source, load_configuration, load_profiles
from wharfinger.objects.documents import documents
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.replay.recorded import Lack, Unreplayable

WEIGHT = "weight"
MOST_CHECKED = 20
"""Recorded configurations with which a change is tried beforehand."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a plugin: its weight, or an argument."""

    plugin: str
    path: tuple[str, ...]
    """Of the argument; `weight` alone = the plugin's weight."""
    value: Any

    def __str__(self) -> str:
        """As it is named on the command line."""
        return ".".join((self.plugin, *self.path))

    @classmethod
    def parse(cls, text: str) -> Setting:
        """From `PLUGIN.weight=N` or `PLUGIN.<argument>=VALUE`; a value is JSON, or else text. Raises `UsageError`."""
        path, equals, said = text.partition("=")
        plugin, *rest = path.split(".")
        if not equals or not plugin or not rest or not all(rest):
            raise UsageError(f"--set takes PLUGIN.weight=N or PLUGIN.<argument>=VALUE, not {text!r}")
        try:
            value = json.loads(said)
        except ValueError:
            value = said
        if rest == [WEIGHT] and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise UsageError(f"--set {path} takes a number from 0, not {said!r}")
        return cls(plugin, tuple(rest), value)


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """What decides otherwise than it did; the empty one changes nothing."""

    configuration: Source = None
    """In the place of every recorded one; None = those."""
    settings: tuple[Setting, ...] = ()
    plugins: tuple[CatalogEntry, ...] = ()
    """Take part in every profile, behind its own plugins."""
    format_: ClusterFormat = ClusterFormat.KUBERNETES
    told: tuple[str, ...] = field(default=())
    """What is changed, for people."""

    @property
    def nothing(self) -> bool:
        """Whether decisions are made by what they were made by."""
        return self.configuration is None and not self.settings and not self.plugins

    def profile(self, recorded: bytes | None, name: str, digest: str) -> Profile:
        """The profile that decides for a decision of this profile. Raises `Unreplayable`."""
        if self.configuration is None and recorded is None:
            short = digest[:12] or "without a digest"
            raise Unreplayable(Lack.PROFILE, f"etcd holds no configuration of profile {name} ({short}) any more")
        try:
            profiles = self._profiles(recorded)
        except (ConfigurationError, InvalidObject) as error:
            raise Unreplayable(Lack.PROFILE, f"profile {name} cannot be made here: {error}") from error
        if name not in profiles:
            raise Unreplayable(Lack.PROFILE, f"the configuration has no profile {name}")
        return profiles[name]

    def check(self) -> None:
        """Raise `ConfigurationError` for a configuration that can never be made."""
        if self.configuration is not None:
            self._profiles(None)

    def check_with(self, recorded: Iterable[KeyValue]) -> None:
        """Raise `ConfigurationError` where the change is why nothing can be decided by any recorded configuration.

        Pools have different ones, so one that it goes with is enough. The newest are looked at. One that cannot be made
        here unchanged says nothing about the change.
        """
        why: ConfigurationError | None = None
        if self.nothing:
            return
        for kv in heapq.nlargest(MOST_CHECKED, recorded, key=lambda kv: kv.mod_revision):
            try:
                names = NOTHING._profiles(kv.value)
            except (ConfigurationError, InvalidObject):
                continue
            error = self._fault(kv.value, names)
            if error is None:
                return
            why = why or error
        if why is not None:
            raise why

    def _fault(self, recorded: bytes, names: Collection[str]) -> ConfigurationError | None:
        try:
            made = self._profiles(recorded)
        except ConfigurationError as error:
            return error
        except InvalidObject as error:
            return ConfigurationError(str(error))
        if not made.keys() & set(names):
            return ConfigurationError(f"the configuration has no profile that decided: {', '.join(sorted(names))}")
        return None

    def _profiles(self, recorded: bytes | None) -> dict[str, Profile]:
        if self.nothing:
            return load_profiles(documents.parse(recorded or b""))
        catalog = builtin.catalog().with_installed()
        if self.plugins:
            catalog = Catalog([*_entries(catalog), *self.plugins], catalog.installed)
        for setting in self.settings:
            if setting.plugin not in catalog.names:
                known = ", ".join(catalog.names)
                raise InvalidConfiguration([f"--set {setting}: there is no plugin {setting.plugin}; known are {known}"])
        if self.configuration is not None:
            configured = load_configuration(self.configuration, catalog=catalog, format_=self.format_)
            document: Any = configured.configuration.document()
        else:
            document = documents.parse(recorded or b"")
        changed = deepcopy(dict(document))
        for profile in changed.get("profiles", ()):
            for entry in self.plugins:
                _enable(profile, entry)
            for setting in self.settings:
                _set(profile, setting)
        return load_configuration(changed, catalog=catalog, format_=self.format_).profiles


NOTHING = ProfileChange()


def plugin_of(text: str) -> CatalogEntry:
    """The plugin that `MODULE:NAME` names, or what makes it. Raises `ConfigurationError`, `UsageError`."""
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise UsageError(f"--plugin takes MODULE:NAME, the module of a plugin and its class in it, not {text!r}")
    try:
        factory = getattr(importlib.import_module(module), name)
    except Exception as error:  # the import of another package may raise anything
        raise ConfigurationError(f"plugin {text} cannot be loaded: {error}") from error
    args, weight = getattr(factory, "Args", None), getattr(factory, WEIGHT, 1)
    called = getattr(factory, "name", name)
    return CatalogEntry(
        called if isinstance(called, str) else name,
        factory,
        args if isinstance(args, type) else None,
        weight=weight if isinstance(weight, int) and weight > 0 else 1,
        origin=module,
    )


def _entries(catalog: Catalog) -> Sequence[CatalogEntry]:
    """Those of ours, also the ones that take part by name only."""
    installed = {plugin.name for plugin in catalog.installed}
    found = (catalog.get(name) for name in catalog.names if name not in installed)
    return [entry for entry in found if entry is not None]


def _enabled(profile: dict[str, Any]) -> list[dict[str, Any]]:
    points: Mapping[str, Any] = profile.get("plugins") or {}
    every = points.get("multiPoint") or {}
    enabled: list[dict[str, Any]] = every.get("enabled") or []
    return enabled


def _enable(profile: dict[str, Any], entry: CatalogEntry) -> None:
    enabled = _enabled(profile)
    if all(one.get("name") != entry.name for one in enabled):
        enabled.append({"name": entry.name, WEIGHT: entry.weight})


def _set(profile: dict[str, Any], setting: Setting) -> None:
    if setting.path == (WEIGHT,):
        _weigh(profile, setting)
        return
    configs: list[dict[str, Any]] = profile.setdefault("pluginConfig", [])
    config = next((one for one in configs if one.get("name") == setting.plugin), None)
    if config is None:
        config = {"name": setting.plugin, "args": {}}
        configs.append(config)
    part = config.setdefault("args", {})
    for name in setting.path[:-1]:
        part = part.setdefault(name, {})
    part[setting.path[-1]] = setting.value


def _weigh(profile: dict[str, Any], setting: Setting) -> None:
    """A weight of 0 takes the plugin's scores away, which a configuration spells by disabling them."""
    points = profile.get("plugins") or {}
    named = [
        one
        for point in ("multiPoint", "score")
        for one in (points.get(point) or {}).get("enabled") or ()
        if one.get("name") == setting.plugin
    ]
    if not named:
        name, there = profile.get("schedulerName"), ", ".join(str(one.get("name")) for one in _enabled(profile))
        why = f"profile {name} does not enable {setting.plugin}, so it has no weight; it enables {there}"
        raise InvalidConfiguration([f"--set {setting}: {why}"])
    if setting.value:
        for one in named:
            one[WEIGHT] = setting.value
        return
    score = points.setdefault("score", {})
    score["enabled"] = [one for one in score.get("enabled") or () if one.get("name") != setting.plugin]
    score.setdefault("disabled", []).append({"name": setting.plugin})
