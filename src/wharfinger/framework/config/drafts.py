"""Profiles in the making: plugins are made of what was completed, and put to their extension points.

What is wrong with a configuration and shows only then is found here, not by `load.read`. Callers that need profiles
(`wharfinger.framework.profiles`) and callers that only need to know whether they could be made (`fleet.spec.fleet`)
look here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wharfinger.errors import ConfigurationError
from wharfinger.framework.async_plugins import check, is_async
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.completion import CompletedProfile
from wharfinger.framework.config.errors import Problem, refuse
from wharfinger.framework.config.expansion import Order, expand, misplaced, never_called, sorted_otherwise, unusable
from wharfinger.framework.config.extender_fields import made
from wharfinger.framework.config.load import Configuration
from wharfinger.framework.interface import Plugin
from wharfinger.framework.points import Enabled, points_of
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.extenders import in_calling_order


def drafted(
    configuration: Configuration,
    catalog: Catalog,
    kept: Callable[[CompletedProfile], Mapping[str, Plugin]] = lambda _: {},
) -> tuple[list[ProfileDraft], list[Problem]]:
    """Every profile of a configuration, and what is wrong with making them, alone and together.

    `kept`: plugins of a profile that need not be made anew.
    """
    drafts = [ProfileDraft(completed, catalog, kept(completed)) for completed in configuration.profiles]
    problems = [problem for draft in drafts for problem in draft.problems]
    problems += sorted_otherwise([(draft.completed, draft.at) for draft in drafts])
    return drafts, problems


class ProfileDraft:
    """A completed profile with its plugins made, as far as they can be, and what is wrong with them."""

    def __init__(self, completed: CompletedProfile, catalog: Catalog, kept: Mapping[str, Plugin] | None = None) -> None:
        """`kept`: plugins that need not be made anew."""
        self.completed = completed
        self._extenders = in_calling_order(made(completed.extenders))
        self.problems: list[Problem] = []
        self.plugins: dict[str, Plugin] = {}
        for name in completed.names:
            if kept is not None and name in kept:
                self.plugins[name] = kept[name]
            else:
                self._make(name, catalog)
        serves = {name: points_of(plugin) for name, plugin in self.plugins.items()}
        self.at: Order = expand(completed, serves, {entry.name for entry in catalog if entry.essential})
        self._leave_out_managed(catalog, kept or {})
        self.problems += misplaced(completed, serves)
        self.problems += unusable(completed, self.at, serves)
        called = [name for name, plugin in self.plugins.items() if is_async(plugin, "bind")]
        extender_binds = any(extender.bind_verb for extender in self._extenders)
        self.problems += never_called(completed, self.at, called, extender_binds=extender_binds)

    def _leave_out_managed(self, catalog: Catalog, kept: Mapping[str, Plugin]) -> None:
        """Make plugins anew that leave resources to others: to plugins and to extenders. The kept ones were made so."""
        entries = {name: entry for name in self.plugins if (entry := catalog.get(name)) is not None}
        filters = (entries[name] for name in self.at.get("filter", ()) if name in entries)
        by_plugins = (resource for entry in filters for resource in entry.manages)
        managed = frozenset(by_plugins).union(*(extender.ignored for extender in self._extenders))
        for name, entry in entries.items() if managed else ():
            if entry.leave_out is not None and name not in kept:
                self._make(name, catalog, managed)

    def _make(self, name: str, catalog: Catalog, managed: frozenset[str] = frozenset()) -> None:
        entry = catalog.get(name)
        if entry is None:
            return  # told when the configuration was read
        try:
            self.plugins[name] = plugin = entry.make(self.completed.args.get(name), managed)
            check(plugin)
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
                extenders=self._extenders,
            )
        except ConfigurationError as error:
            raise refuse([(self.completed.path, str(error))]) from error
