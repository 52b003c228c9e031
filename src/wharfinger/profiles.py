"""From a configuration to profiles that decide: where text, catalog, configuration and framework meet.

The core's composition root, used by the worker, the simulator and the CLI alike.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.config.completion import CompletedProfile
from wharfinger.config.errors import Problem, refuse
from wharfinger.config.expansion import Order, expand, misplaced, sorted_otherwise, unusable
from wharfinger.config.load import Configuration, read
from wharfinger.errors import ConfigurationError, InvalidObject, UsageError
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.interface import Plugin
from wharfinger.framework.profile import Enabled, Profile, points_of
from wharfinger.manifests import documents
from wharfinger.plugins import builtin

Source = Mapping[str, Any] | Path | str | None
"""A KubeSchedulerConfiguration v1: a mapping, or the path of a file (YAML, JSON); None = the defaults."""


@dataclass(frozen=True, slots=True)
class Configured:
    """A valid configuration, and what it makes."""

    configuration: Configuration
    profiles: dict[str, Profile]
    """By scheduler name, in the order of the configuration."""


def load_profiles(config: Source = None, *, catalog: Catalog | None = None) -> dict[str, Profile]:
    """Profiles by scheduler name; see `load_configuration`."""
    return load_configuration(config, catalog=catalog).profiles


def load_configuration(config: Source = None, *, catalog: Catalog | None = None) -> Configured:
    """Read a configuration and make its profiles.

    Args:
        config: What is read.
        catalog: The plugins there are; None = the built-in ones and those of installed distributions.

    Raises:
        InvalidConfiguration: Names everything that is wrong with the configuration, or with making its plugins.
        ConfigurationError: An installed plugin cannot be loaded.
    """
    known = catalog if catalog is not None else builtin.catalog().with_installed()
    configuration, problems = read(_mapping(config), known)
    drafts = [_Draft(completed, known) for completed in configuration.profiles]
    for draft in drafts:
        problems += draft.problems
    problems += sorted_otherwise([(draft.completed, draft.at) for draft in drafts])
    if problems:
        raise refuse(problems)
    return Configured(configuration, {draft.completed.scheduler_name: draft.profile() for draft in drafts})


def profile_from(completed: CompletedProfile, catalog: Catalog) -> Profile:
    """One profile with its plugins made. Raises InvalidConfiguration."""
    draft = _Draft(completed, catalog)
    if draft.problems:
        raise refuse(draft.problems)
    return draft.profile()


class _Draft:
    """A completed profile with its plugins made, as far as they can be, and what is wrong with them."""

    def __init__(self, completed: CompletedProfile, catalog: Catalog) -> None:
        self.completed = completed
        self.problems: list[Problem] = []
        self.plugins: dict[str, Plugin] = {}
        for name in completed.names:
            self._make(name, catalog)
        serves = {name: points_of(plugin) for name, plugin in self.plugins.items()}
        self.at: Order = expand(completed, serves, {entry.name for entry in catalog if entry.essential})
        self.problems += misplaced(completed, serves)
        self.problems += unusable(completed, self.at, serves)

    def _make(self, name: str, catalog: Catalog) -> None:
        entry = catalog.get(name)
        if entry is None:
            return  # told when the configuration was read
        try:
            self.plugins[name] = entry.make(self.completed.args.get(name))
        except ConfigurationError as error:
            if entry.args is None or name in self.completed.args:  # else its arguments were told to be wrong
                self.problems.append((self.completed.path, str(error)))

    def profile(self) -> Profile:
        """What decides."""
        try:
            return Profile(
                self.completed.scheduler_name,
                Enabled(tuple(self.plugins.values()), self.at, self.completed.weights),
                digest=self.completed.digest(),
                configuration=self.completed.canonical(),
                percentage=self.completed.percentage,
            )
        except ConfigurationError as error:
            raise refuse([(self.completed.path, str(error))]) from error


def _mapping(config: Source) -> Mapping[str, Any]:
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return config
    if not isinstance(config, str | Path):
        raise UsageError(f"a configuration is a mapping or a path, not {config!r:.60}")
    path = Path(config)
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
        written = documents.parse(content) if _says_anything(content.splitlines()) else {}
    except OSError as error:
        raise refuse([(str(path), error.strerror or str(error))]) from error
    except InvalidObject as error:
        raise refuse([(str(path), str(error))]) from error
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise refuse([(str(path), "is not a mapping")])
    return written


def _says_anything(lines: Iterable[bytes]) -> bool:
    return any(line.strip() and not line.lstrip().startswith(b"#") for line in lines)
