"""Configurations in short."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidConfiguration
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.completion import CompletedProfile
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_configuration


def profile(plugins: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A configuration of one profile."""
    return {"profiles": [{**({"plugins": plugins} if plugins is not None else {}), **fields}]}


def with_args(plugin: str, args: object) -> dict[str, Any]:
    """A configuration that gives one plugin arguments."""
    return profile(pluginConfig=[{"name": plugin, "args": args}])


def completed(config: dict[str, Any], known: Catalog | None = None) -> CompletedProfile:
    """Its first profile."""
    return load_configuration(config, catalog=known or catalog()).configuration.profiles[0]


def order(config: dict[str, Any], known: Catalog | None = None) -> dict[str, tuple[str, ...]]:
    """Plugins by extension point, of its first profile."""
    profiles = load_configuration(config, catalog=known or catalog()).profiles
    return dict(next(iter(profiles.values())).at)


def problems(config: dict[str, Any], known: Catalog | None = None) -> list[str]:
    """Everything that is wrong with it."""
    with pytest.raises(InvalidConfiguration) as raised:
        load_configuration(config, catalog=known or catalog())
    return list(raised.value.problems)


def paths(found: list[str]) -> list[str]:
    """Where problems are."""
    return [problem.partition(": ")[0] for problem in found]
