"""Which plugin runs at which extension point, in which order; and what is wrong with that.

An extension point runs, in this order: plugins that are named there and came by `multiPoint` too (as they are named),
those that came by `multiPoint` (in profile order), the rest of those named there. Source: kube-scheduler 1.36,
`pkg/scheduler/framework/runtime/framework.go` (expandMultiPointPlugins).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from wharfinger.framework.config import kube_scheduler
from wharfinger.framework.config.completion import CompletedProfile
from wharfinger.framework.config.errors import Problem
from wharfinger.framework.config.profile_fields import PluginSet
from wharfinger.framework.points import POINTS

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


def misplaced(profile: CompletedProfile, serves: Served) -> Iterator[Problem]:
    """Plugins that are named at a point where they have nothing to say, in kube-scheduler neither."""
    for point, written in profile.points.items():
        for number, ref in enumerate(written.enabled):
            here, there = serves.get(ref.name, (point,)), kube_scheduler.POINTS.get(ref.name, ())
            served = tuple(dict.fromkeys((*here, *there)))
            if point not in served:
                where = f"{profile.path}.plugins.{point}.enabled[{number}].name"
                yield where, f"{ref.name} does not serve this extension point (it serves {', '.join(served)})"


def unusable(profile: CompletedProfile, at: Order, serves: Served) -> Iterator[Problem]:
    """The queue is sorted by one plugin, and at least one plugin binds."""
    sorting = at["queueSort"]
    if len(sorting) > 1 or (not sorting and not _doubtful(profile, "queueSort", serves)):
        found = ", ".join(sorting) or "none"
        yield f"{profile.path}.plugins.queueSort", f"exactly one plugin must be enabled here, found {found}"
    if not at["bind"] and not _doubtful(profile, "bind", serves):
        yield f"{profile.path}.plugins.bind", "at least one plugin must be enabled here"


def never_called(
    profile: CompletedProfile, at: Order, asynchronous: Collection[str], *, extender_binds: bool
) -> Iterator[Problem]:
    """Asynchronous Bind plugins that no pod would ever reach. `asynchronous`: their names."""
    path = f"{profile.path}.plugins.bind"
    names = at["bind"]
    for name in names:
        if name not in asynchronous:
            continue
        if DEFAULT_BINDER in names[: names.index(name)]:
            cure = f"disable {DEFAULT_BINDER}, or name it behind {name}"
            yield path, f"{name} is never called, because {DEFAULT_BINDER} binds every pod before it: {cure}"
        if extender_binds:
            yield path, f"{name} binds pods, and so does the extender that has a bindVerb: remove one of them"


def _doubtful(profile: CompletedProfile, point: str, serves: Served) -> bool:
    """Whether a plugin that could not be made, which is reported elsewhere, may be what is missing at a point."""
    named = (ref.name for ref in profile.points.get(point, _NOTHING).enabled)
    return any(name not in serves and name not in kube_scheduler.POINTS for name in (*profile.multi_point, *named))


def sorted_otherwise(orders: Sequence[tuple[CompletedProfile, Order]]) -> Iterator[Problem]:
    """All profiles share one queue, so they sort it by the same plugin with the same arguments."""
    sorting = [(profile, at["queueSort"][0]) for profile, at in orders if len(at["queueSort"]) == 1]
    for profile, name in sorting[1:]:
        first, its = sorting[0]
        if name != its:
            reason = f"{name} sorts the queue, but {its} in {first.path}: all profiles must sort it alike"
            yield f"{profile.path}.plugins.queueSort", reason
        elif profile.args.get(name) != first.args.get(name):
            reason = (
                f"{name} sorts the queue with other arguments than in {first.path}: all profiles must sort it alike"
            )
            yield f"{profile.path}.pluginConfig", reason
