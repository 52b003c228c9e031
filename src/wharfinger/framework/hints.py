"""Which events may make a refused pod schedulable: the queueing hints of a profile's plugins.

Rules as in kube-scheduler: a plugin without hints is interested in everything; a plugin that wants to hear of new
nodes but not of taints hears of taint updates too (nodes often appear tainted and are untainted later); a hint that
raises counts as yes, for a lost wake-up is worse than a vain one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from wharfinger.errors import ConfigurationError
from wharfinger.framework.interface import EventHint, Plugin, QueueingHints, offers
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.gang import GANG_SCHEDULING
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.priority import PRIORITY_CLASS

logger = logging.getLogger(__name__)

_EVERYTHING = (EventHint(Resource.ANY, Action.ALL),)
_OF_GANGS = (EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)
"""A gang that found no domain for all of its members; what refused them within a domain has hints of its own."""

_FOR_EVERY_POD = (Resource.ANY, Resource.PRIORITY_CLASS)
"""Events about these may help every pod, whichever plugins refused it."""


class HintTable:
    """The hints of all plugins of a profile, in profile order."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        hints = {plugin.name: _hints_of(plugin) for plugin in plugins}
        self._hints: Mapping[str, tuple[EventHint, ...]] = {**hints, GANG_SCHEDULING: _OF_GANGS, PRIORITY_CLASS: ()}

    def may_help(self, event: ClusterEvent, pod: Pod, rejectors: Sequence[str], *, beyond: bool = True) -> str | None:
        """The first of the rejecting plugins whose hint says to try again, None when none does.

        `beyond`: with what kube-scheduler forgets.

        A pod refused by no plugin in particular (there was no node) is helped by every event that any plugin cares
        for. An update of a waiting pod concerns that pod alone, and a changed specification always counts. Room that
        was promised to a nominated pod concerns only pods it was kept from: those of equal or lower priority.
        """
        if event.resource is Resource.UNSCHEDULED_POD and not _about(event, pod):
            return None
        if event.freed_nomination and isinstance(event.old, Pod) and pod.priority > event.old.priority:
            return None
        if event.resource in _FOR_EVERY_POD or _changed_specification(event):
            return rejectors[0] if rejectors else next(iter(self._hints), None)
        for name, hints in self._hints.items():
            if rejectors and name not in rejectors:
                continue
            for hint in hints:
                if hint.beyond and not beyond:
                    continue
                if _matches(hint, event) and (not rejectors or _helps(name, hint, pod, event)):
                    return name
        return self._unknown(rejectors)

    def concerns(self, event: ClusterEvent, rejectors: Sequence[str]) -> bool:
        """Whether an event of this kind may help anything that these plugins refused; asks no hint, so it is cheap.

        False is final: `may_help` answers None for every such pod.
        """
        if event.resource in _FOR_EVERY_POD or _changed_specification(event) or self._unknown(rejectors):
            return True
        return any(
            _matches(hint, event)
            for name, hints in self._hints.items()
            if not rejectors or name in rejectors
            for hint in hints
        )

    def _unknown(self, rejectors: Sequence[str]) -> str | None:
        # Refused by an extender, or by a plugin of an earlier configuration: what helps is unknown, so everything may.
        return next((name for name in rejectors if name not in self._hints), None)


def _hints_of(plugin: Plugin) -> tuple[EventHint, ...]:
    if not offers(plugin, QueueingHints):
        return _EVERYTHING
    try:
        hints = tuple(plugin.queueing_hints())
    except Exception as error:  # a plugin may raise anything
        raise ConfigurationError(f"plugin {plugin.name} cannot return its queueing hints: {error}") from error
    for hint in hints:
        if not isinstance(hint, EventHint):
            raise ConfigurationError(f"plugin {plugin.name} has the queueing hint {hint!r}, not an EventHint")
    node_actions = Action(0)
    for hint in hints:
        if hint.resource is Resource.NODE:
            node_actions |= hint.actions
    if Action.ADD in node_actions and Action.UPDATE_NODE_TAINT not in node_actions:
        hints = (*hints, EventHint(Resource.NODE, Action.UPDATE_NODE_TAINT))
    return hints


def _matches(hint: EventHint, event: ClusterEvent) -> bool:
    return hint.resource in (event.resource, Resource.ANY) and bool(hint.actions & event.action)


def _helps(plugin: str, hint: EventHint, pod: Pod, event: ClusterEvent) -> bool:
    if hint.helps is None:
        return True
    try:
        return hint.helps(pod, event)
    except Exception:  # a plugin may raise anything; a pod must not wait for ever for it
        logger.exception("queueing_hint_failed effect=counts_as_yes plugin=%s event=%s", plugin, event.label)
        return True


def _about(event: ClusterEvent, pod: Pod) -> bool:
    subject = event.new or event.old
    return isinstance(subject, Pod) and subject.key == pod.key


def _changed_specification(event: ClusterEvent) -> bool:
    return event.resource is Resource.UNSCHEDULED_POD and Action.UPDATE in event.action
