"""From what was written to what runs: defaults, merging of plugin sets, arguments checked by their models.

Merging is kube-scheduler's: start from the default set; disabled names go (`*`: all of them but essential ones, which
only their own name disables); a default that is enabled again keeps its place and takes the new weight; other enabled
plugins are appended. A plugin named at one extension point beats what came by `multiPoint`, which `config.drafts`
works out. Plugin arguments are found by name, checked by the models of the catalog, and completed by defaults. A
completed profile, written out, completes to itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from wharfinger.framework.catalog import Catalog, CatalogEntry, why_unknown
from wharfinger.framework.config.extender_fields import ExtenderConfiguration, of_decisions
from wharfinger.framework.config.file_fields import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    MULTI_POINT,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from wharfinger.framework.config.validation import Problem, problems_of
from wharfinger.framework.plugins.arguments import PluginArgs

_TOTAL_WEIGHT_LIMIT = (2**63 - 1) // 100


@dataclass(frozen=True, slots=True)
class CompletedProfile:
    """A profile with nothing left to default."""

    number: int
    """Its place in the configuration it comes from."""
    scheduler_name: str
    percentage: int | None
    """Of the nodes that are examined, 0 = adaptive; None = all."""
    multi_point: tuple[str, ...]
    """Plugins that take part wherever they can, in order."""
    given_up: tuple[str, ...]
    """Essential plugins that are disabled by name."""
    points: Mapping[str, PluginSet]
    """Deviations at single extension points."""
    weights: Mapping[str, int]
    """Of every enabled plugin."""
    args: Mapping[str, BaseModel]
    """Of every enabled plugin that has any."""
    extenders: tuple[ExtenderConfiguration, ...] = ()
    """Of the whole configuration: its decisions depend on them."""

    @property
    def path(self) -> str:
        """Where it stands."""
        return f"profiles[{self.number}]"

    @property
    def names(self) -> tuple[str, ...]:
        """Every enabled plugin: those by multiPoint, then those named at single points."""
        single = (ref.name for plugins in self.points.values() for ref in plugins.enabled)
        return tuple(dict.fromkeys((*self.multi_point, *single)))

    def fields(self) -> dict[str, Any]:
        """The profile as a configuration would write it; weights of 1 are left out, as they are the default."""
        disabled = [{"name": name} for name in ("*", *self.given_up)]
        plugins: dict[str, Any] = {MULTI_POINT: {"enabled": self._enabled(self.multi_point), "disabled": disabled}}
        for point, entry in self.points.items():
            sets = {
                "enabled": self._enabled(ref.name for ref in entry.enabled),
                "disabled": [{"name": ref.name} for ref in entry.disabled],
            }
            plugins[point] = {name: refs for name, refs in sets.items() if refs}
        sampling = {} if self.percentage is None else {"percentageOfNodesToScore": self.percentage}
        args = [{"name": name, "args": _document(name, model)} for name, model in self.args.items()]
        return {"schedulerName": self.scheduler_name, **sampling, "plugins": plugins, "pluginConfig": args}

    def canonical(self) -> bytes:
        """A configuration that holds this profile alone, as JSON: the same bytes wherever it is made.

        Of extenders it holds what decisions depend on, so no keys: it is stored for all to read.
        """
        extenders = {"extenders": [of_decisions(extender) for extender in self.extenders]} if self.extenders else {}
        document = {
            "apiVersion": API_VERSION,
            "kind": "KubeSchedulerConfiguration",
            **extenders,
            "profiles": [self.fields()],
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def digest(self) -> str:
        """SHA-256 of the canonical form, hex."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def _enabled(self, names: Iterator[str] | tuple[str, ...]) -> list[dict[str, Any]]:
        weights = ((name, self.weights[name]) for name in names)
        return [{"name": name, "weight": weight} if weight != 1 else {"name": name} for name, weight in weights]


def complete(
    profile: ProfileConfiguration,
    catalog: Catalog,
    number: int,
    settings: SchedulerConfiguration,
    problems: list[Problem],
) -> CompletedProfile:
    """The completed profile, as far as it can be completed; what is wrong is added to `problems`.

    `settings`: the whole configuration, for what its profiles share.
    """
    path = f"profiles[{number}]"
    problems += _unknown_plugins(profile.plugins, catalog, f"{path}.plugins")
    order = _merged(profile.plugins.multi_point, catalog)
    weights = _weights(profile.plugins, catalog)
    points = {point: entry for point, entry in profile.plugins.points() if entry.enabled or entry.disabled}
    named = (ref.name for entry in points.values() for ref in entry.enabled)
    enabled = [name for name in dict.fromkeys((*order, *named)) if name in catalog]
    if sum(weights[name] for name in enabled) > _TOTAL_WEIGHT_LIMIT:
        problems.append((f"{path}.plugins", "the score weights are too large together"))
    own = profile.percentage_of_nodes_to_score
    return CompletedProfile(
        number=number,
        scheduler_name=profile.scheduler_name or DEFAULT_SCHEDULER_NAME,
        percentage=settings.percentage_of_nodes_to_score if own is None else own,
        multi_point=order,
        given_up=tuple(entry.name for entry in catalog if entry.essential and entry.name not in order),
        points=points,
        weights={name: weights[name] for name in enabled},
        args=completed_arguments(profile.plugin_config, enabled, catalog, path, problems),
        extenders=settings.extenders,
    )


def _unknown_plugins(plugins: Plugins, catalog: Catalog, path: str) -> Iterator[Problem]:
    for point, entry in ((MULTI_POINT, plugins.multi_point), *plugins.points()):
        for number, ref in enumerate(entry.enabled):
            if ref.name not in catalog:
                yield f"{path}.{point}.enabled[{number}].name", why_unknown(ref.name, catalog)


def _merged(written: PluginSet, catalog: Catalog) -> tuple[str, ...]:
    """Names by multiPoint, in order."""
    disabled = {ref.name for ref in written.disabled}
    enabled = [ref.name for ref in written.enabled]
    defaults = [entry for entry in catalog if entry.name not in disabled]
    if written.disables_all:
        # Who names an essential plugin says where it stands; else it stands first.
        kept = [entry.name for entry in defaults if entry.essential and entry.name not in enabled]
    else:
        kept = [entry.name for entry in defaults]
    return tuple(dict.fromkeys((*kept, *enabled)))


def _weights(plugins: Plugins, catalog: Catalog) -> dict[str, int]:
    """Score weights: those at the score point win. Who names a plugin without a weight gives it the weight 1."""
    weights = {entry.name: entry.weight for entry in catalog}
    elsewhere = (ref.name for _, entry in plugins.points() for ref in entry.enabled)
    installed = (catalog.get(name) for name in elsewhere if name not in weights)
    weights.update({entry.name: entry.weight for entry in installed if entry is not None})
    refs: tuple[PluginRef, ...] = (*plugins.multi_point.enabled, *plugins.score.enabled)
    weights.update({ref.name: ref.weight or 1 for ref in refs})
    return weights


def _document(name: str, args: BaseModel) -> dict[str, Any]:
    fields = args.model_dump(mode="json", by_alias=True, exclude_none=True)
    # Models of other packages need not know what Kubernetes writes beside the arguments.
    return {"apiVersion": API_VERSION, "kind": f"{name}Args", **fields} if isinstance(args, PluginArgs) else fields


_API_VERSION = "apiVersion"
_KIND = "kind"


def completed_arguments(
    written: Iterable[PluginConfig],
    enabled: Iterable[str],
    catalog: Catalog,
    path: str,
    problems: list[Problem],
) -> dict[str, BaseModel]:
    """The arguments of every enabled plugin that takes any: those written, else its defaults.

    Arguments of plugins that are not enabled are checked too, and dropped. What is wrong is added to `problems`, and
    the plugin then left out.
    """
    found = dict(_written(written, catalog, f"{path}.pluginConfig", problems))
    args: dict[str, BaseModel] = {}
    for name in enabled:
        entry = catalog.get(name)
        if entry is None or entry.args is None:
            continue
        try:
            given = found[name] if name in found else entry.args()
        except ValidationError as error:  # a model with a field that has no default
            problems += [(where, f"{name}: {reason}") for where, reason in problems_of(error, f"{path}.pluginConfig")]
        except Exception as error:  # a validator of another package may raise anything
            problems.append((f"{path}.pluginConfig", _broken(name, error)))
        else:
            if given is not None:
                args[name] = given
    return args


def _written(
    configs: Iterable[PluginConfig], catalog: Catalog, path: str, problems: list[Problem]
) -> Iterator[tuple[str, BaseModel | None]]:
    """The arguments that are written, by plugin; None for what is wrong."""
    seen: set[str] = set()
    for number, config in enumerate(configs):
        place = f"{path}[{number}]"
        if config.name in seen:
            problems.append((f"{place}.name", f"arguments of {config.name} are given twice"))
            continue
        seen.add(config.name)
        entry = catalog.get(config.name)
        if entry is None:
            problems.append((f"{place}.name", why_unknown(config.name, catalog)))
        else:
            yield config.name, _validated(entry, config.args, f"{place}.args", problems)


def _validated(entry: CatalogEntry, written: Mapping[str, Any], path: str, problems: list[Problem]) -> BaseModel | None:
    known = len(problems)
    fields = _without_type(entry, written, path, problems)
    if entry.args is None:
        if fields:
            problems.append((path, f"plugin {entry.name} takes no arguments"))
        return None
    try:
        args = entry.args.model_validate(fields, by_alias=True, by_name=False)
    except ValidationError as error:
        problems += problems_of(error, path)
        return None
    except Exception as error:  # a validator of another package may raise anything
        problems.append((path, _broken(entry.name, error)))
        return None
    return args if len(problems) == known else None


def _broken(plugin: str, error: Exception) -> str:
    """A model of a foreign plugin may raise anything: then its arguments are wrong, and nothing else stops."""
    return f"plugin {plugin} could not check its arguments: {type(error).__name__}: {error}"


def _without_type(
    entry: CatalogEntry, written: Mapping[str, Any], path: str, problems: list[Problem]
) -> dict[str, Any]:
    """The arguments without `apiVersion` and `kind`, which must be right for a built-in plugin when they are there."""
    right = {_API_VERSION: API_VERSION, _KIND: f"{entry.name}Args"}
    own = set() if entry.args is None else {info.alias or name for name, info in entry.args.model_fields.items()}
    for field, expected in right.items():
        said = written.get(field)
        if not entry.origin and said and said != expected:
            problems.append((f"{path}.{field}", f"must be {expected}"))
    return {field: value for field, value in written.items() if field not in right or field in own}
