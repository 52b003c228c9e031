"""Profiles in the making: plugins are made of what was completed, and put to their extension points.

What is wrong with a configuration and shows only then is found here, not by `load.read`. Callers that need profiles
(`wharfinger.framework.profiles`) and callers that only need to know whether they could be made (`fleet.spec.fleet`)
look here.

An extension point runs, in this order: plugins that are named there and came by `multiPoint` too (as they are named),
those that came by `multiPoint` (in profile order), the rest of those named there. Source: kube-scheduler 1.36,
`pkg/scheduler/framework/runtime/framework.go` (expandMultiPointPlugins).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from wharfinger.errors import ConfigurationError
from wharfinger.framework.async_plugins import check, is_async
from wharfinger.framework.catalog import KUBE_SCHEDULER_POINTS, POINTS, Catalog, Enabled, points_of
from wharfinger.framework.config.completion import CompletedProfile
from wharfinger.framework.config.extender_fields import made
from wharfinger.framework.config.file_fields import PluginSet
from wharfinger.framework.config.load import Configuration
from wharfinger.framework.config.validation import Problem, refuse
from wharfinger.framework.interface import Plugin
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.extenders import in_calling_order

Served = Mapping[str, Sequence[str]]
"""Plugin -> the extension points at which it has something to do."""
Order = dict[str, tuple[str, ...]]
"""Extension point -> the plugins that run there, in order."""

_NOTHING = PluginSet()
DEFAULT_BINDER = "DefaultBinder"


def expand(profile: CompletedProfile, serves: Served, essential: Collection[str]) -> Order:
    """Names by extension point. Plugins that `serves` does not know are left out."""
    at: Order = {}
    for point in POINTS:
        written = profile.points.get(point, _NOTHING)
        named = [ref.name for ref in written.enabled if point in serves.get(ref.name, ())]
        disabled = {ref.name for ref in written.disabled}
        by_multi_point = [
            name
            for name in profile.multi_point
            if point in serves.get(name, ())
            and name not in disabled
            and (not written.disables_all or name in essential)
        ]
        overridden = [name for name in named if name in by_multi_point]
        at[point] = tuple(dict.fromkeys((*overridden, *(n for n in by_multi_point if n not in named), *named)))
    return at


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
    problems += _sorted_otherwise(drafts)
    return drafts, problems


def _sorted_otherwise(drafts: Sequence[ProfileDraft]) -> Iterator[Problem]:
    """All profiles share one queue, so they sort it by the same plugin with the same arguments."""
    sorting = [(draft.completed, draft.at["queueSort"][0]) for draft in drafts if len(draft.at["queueSort"]) == 1]
    for profile, name in sorting[1:]:
        first, its = sorting[0]
        alike = f"{first.path}: all profiles must sort it alike"
        if name != its:
            yield f"{profile.path}.plugins.queueSort", f"{name} sorts the queue, but {its} in {alike}"
        elif profile.args.get(name) != first.args.get(name):
            yield f"{profile.path}.pluginConfig", f"{name} sorts the queue with other arguments than in {alike}"


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
        self._serves = {name: points_of(plugin) for name, plugin in self.plugins.items()}
        self.at: Order = expand(completed, self._serves, {entry.name for entry in catalog if entry.essential})
        self._leave_out_managed(catalog, kept or {})
        self.problems += (*self._misplaced(), *self._unusable(), *self._never_called())

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
            return  # reported when the configuration was read
        try:
            self.plugins[name] = plugin = entry.make(self.completed.args.get(name), managed)
            check(plugin)
        except ConfigurationError as error:
            if entry.args is None or name in self.completed.args:  # else its arguments were reported as wrong
                self.problems.append((self.completed.path, str(error)))

    def _misplaced(self) -> Iterator[Problem]:
        """Plugins that are named at a point where they have nothing to say, in kube-scheduler neither."""
        for point, written in self.completed.points.items():
            for number, ref in enumerate(written.enabled):
                here, there = self._serves.get(ref.name, (point,)), KUBE_SCHEDULER_POINTS.get(ref.name, ())
                served = tuple(dict.fromkeys((*here, *there)))
                if point not in served:
                    where = f"{self.completed.path}.plugins.{point}.enabled[{number}].name"
                    yield where, f"{ref.name} does not serve this extension point (it serves {', '.join(served)})"

    def _unusable(self) -> Iterator[Problem]:
        """The queue is sorted by one plugin, and at least one plugin binds."""
        path, sorting = f"{self.completed.path}.plugins", self.at["queueSort"]
        if len(sorting) > 1 or (not sorting and not self._may_lack("queueSort")):
            yield f"{path}.queueSort", f"exactly one plugin must be enabled here, found {', '.join(sorting) or 'none'}"
        if not self.at["bind"] and not self._may_lack("bind"):
            yield f"{path}.bind", "at least one plugin must be enabled here"

    def _never_called(self) -> Iterator[Problem]:
        """Asynchronous Bind plugins that no pod would ever reach."""
        path, names = f"{self.completed.path}.plugins.bind", self.at["bind"]
        for name in names:
            if not is_async(self.plugins[name], "bind"):
                continue
            if DEFAULT_BINDER in names[: names.index(name)]:
                cure = f"disable {DEFAULT_BINDER}, or name it behind {name}"
                yield path, f"{name} is never called, because {DEFAULT_BINDER} binds every pod before it: {cure}"
            if any(extender.bind_verb for extender in self._extenders):
                yield path, f"{name} binds pods, and so does the extender that has a bindVerb: remove one of them"

    def _may_lack(self, point: str) -> bool:
        """Whether a plugin that could not be made, which is reported elsewhere, may be what is missing at a point."""
        named = (ref.name for ref in self.completed.points.get(point, _NOTHING).enabled)
        expected = (*self.completed.multi_point, *named)
        return any(name not in self._serves and name not in KUBE_SCHEDULER_POINTS for name in expected)

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
