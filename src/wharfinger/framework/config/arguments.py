"""Plugin arguments (`pluginConfig`): found by name, checked by the models of the catalog, completed by defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from wharfinger.framework.args import API_VERSION
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.config.errors import Problem, problems_of
from wharfinger.framework.config.kube_scheduler import why_unknown
from wharfinger.framework.config.profile_fields import PluginConfig

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
