"""The configuration as `--write-config-to` writes it: kube-scheduler 1.36's document, in its spelling.

`framework.config.load.Configuration.document` is wharfinger's own form, from which the digests of profiles are made.
The form here is kube-scheduler's: each plugin with the weight that was written for it, each extension point with an
entry, plugin arguments in the order of their names, and no empty lists. kube-scheduler accepts the file, and wharfinger
reads the same configuration from it again. docs/kube-scheduler.md lists the lines that differ from kube-scheduler's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from wharfinger.framework.catalog import KUBE_SCHEDULER_POINTS, Catalog
from wharfinger.framework.config.completion import CompletedProfile
from wharfinger.framework.config.file_fields import MULTI_POINT, PluginRef, Plugins, PluginSet, ProfileConfiguration
from wharfinger.framework.plugins.names import POD_TOPOLOGY_SPREAD as SPREAD
from wharfinger.framework.plugins.names import UNSUPPORTED_FEATURES, VOLUME_BINDING
from wharfinger.framework.profiles import Configured

ALWAYS_IN_EXTENDERS = frozenset({"urlPrefix", "httpTimeout"})
"""Fields of an extender that are written although they are empty."""


def written_document(configured: Configured, *, secrets: bool = True) -> dict[str, Any]:
    """The whole configuration, ready to be written.

    `secrets`: whether with the keys of extenders' client certificates, which stand in the file it came from, too.
    """
    configuration = configured.configuration
    settings = configuration.settings
    document = settings.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"profiles"})
    if not settings.delay_cache_until_active:
        document.pop("delayCacheUntilActive")
    if not settings.enable_profiling and "enable_contention_profiling" not in settings.model_fields_set:
        document["enableContentionProfiling"] = False  # its default is true only where profiling is on
    extenders = [_extender(fields) for fields in document.pop("extenders")]
    for extender in extenders if not secrets else ():
        extender.get("tlsConfig", {}).pop("keyData", None)
    return {
        **document,
        **({"extenders": extenders} if extenders else {}),
        "profiles": [
            _profile(written, completed, configured.catalog)
            for written, completed in zip(settings.profiles, configuration.profiles, strict=True)
        ],
    }


def as_yaml(document: Mapping[str, Any]) -> str:
    """YAML with sorted keys, one value a line, and double quotes where kube-scheduler has them."""
    return yaml.dump(dict(document), Dumper=_GoStyle, sort_keys=True, default_flow_style=False, width=float("inf"))


def _profile(written: ProfileConfiguration, completed: CompletedProfile, catalog: Catalog) -> dict[str, Any]:
    own, everywhere = written.percentage_of_nodes_to_score, written.plugins.multi_point
    arguments = {config["name"]: _without_empty(config["args"]) for config in completed.fields()["pluginConfig"]}
    if SPREAD in arguments:
        arguments[SPREAD] |= _spread_constraints(completed)
    return {
        **({} if own is None else {"percentageOfNodesToScore": own}),
        "pluginConfig": [{"args": arguments[name], "name": name} for name in sorted(arguments)],
        "plugins": {
            MULTI_POINT: _set(_by_multi_point(everywhere, completed.multi_point, catalog), everywhere),
            **{name: _set(_refs(plugins.enabled), plugins) for name, plugins in _points(written.plugins)},
        },
        "schedulerName": completed.scheduler_name,
    }


def _spread_constraints(completed: CompletedProfile) -> dict[str, Any]:
    """Default constraints with the fields that were written: kube-scheduler completes those of pods only."""
    written = completed.args[SPREAD].model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    name = "defaultConstraints"
    return {name: written[name]} if written.get(name) else {}


def _points(plugins: Plugins) -> Iterable[tuple[str, PluginSet]]:
    """Every extension point of kube-scheduler, with what was written for it."""
    for field, info in Plugins.model_fields.items():
        name = info.alias or field
        if name != MULTI_POINT:
            yield name, getattr(plugins, field)


def _set(enabled: list[dict[str, Any]], written: PluginSet) -> dict[str, Any]:
    disabled = _refs(PluginRef(name=ref.name) for ref in written.disabled)
    return {**({"disabled": disabled} if disabled else {}), **({"enabled": enabled} if enabled else {})}


def _refs(refs: Iterable[PluginRef]) -> list[dict[str, Any]]:
    return [{"name": ref.name, "weight": ref.weight} for ref in refs]


def _by_multi_point(written: PluginSet, order: Iterable[str], catalog: Catalog) -> list[dict[str, Any]]:
    named = {ref.name: ref.weight for ref in written.enabled}
    return [
        {"name": name, "weight": named[name] if name in named else _default_weight(name, catalog)}
        for name in order
        # It is enabled by default, and kube-scheduler would refuse a file with a plugin that it does not have.
        if name != UNSUPPORTED_FEATURES or name in named
    ]


def _default_weight(name: str, catalog: Catalog) -> int:
    """The weight in kube-scheduler's default profile: 0 for plugins whose score does not count there."""
    if name in KUBE_SCHEDULER_POINTS and (name == VOLUME_BINDING or "score" not in KUBE_SCHEDULER_POINTS[name]):
        return 0
    entry = catalog.get(name)
    return entry.weight if entry is not None else 0


def _extender(fields: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in fields.items() if value or name in ALWAYS_IN_EXTENDERS}
    for name in found.keys() & {"tlsConfig"}:
        found[name] = {field: value for field, value in found[name].items() if value}
    for name in found.keys() & {"managedResources"}:
        found[name] = [{field: value for field, value in one.items() if value} for one in found[name]]
    return found


def _without_empty(value: Any) -> Any:
    """The value without lists that are empty, and without what is null."""
    if isinstance(value, Mapping):
        kept = {name: _without_empty(part) for name, part in value.items() if part is not None and part != []}
        return {name: part for name, part in kept.items() if part != []}
    if isinstance(value, list):
        return [_without_empty(part) for part in value]
    return value


_TEXT = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:yaml"})
"""The second is `*`, which gets single quotes."""


class _GoStyle(yaml.SafeDumper):
    """Quotes as Go's YAML library does."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Write a value that occurs twice in full both times."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Double quotes for empty text, and for text that would be read as another type."""
    quoted = not text or dumper.resolve(yaml.ScalarNode, text, (True, False)) not in _TEXT  # type: ignore[no-untyped-call]
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_GoStyle.add_representer(str, _text)
