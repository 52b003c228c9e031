"""What the fleet commands change in a fleet's object, and what they refuse. Pure.

Promote, abort and resume name the rollout that is open, by its generation, so that none of them can hit the next one.
Neighbour: `fleet_changes` makes an edit by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wharfinger.errors import DoesNotApply, NotFound
from wharfinger.fleet.model.fleet import RolloutAction
from wharfinger.fleet.reading.fleet_changes import Edit, StatusAndObject

if TYPE_CHECKING:
    from wharfinger.fleet.reading.fleet_goals import Namer
    from wharfinger.fleet.state.fleet_pictures import Picture


def scale(replicas: int) -> Edit:
    """Set how many instances there are."""

    def edit(spec: dict[str, Any], _: StatusAndObject) -> None:
        if spec.get("replicas", 1) != replicas:
            spec["replicas"] = replicas

    return edit


def restart(now: str) -> Edit:
    """Replace every instance: the template's `restartedAt` changes."""

    def edit(spec: dict[str, Any], _: StatusAndObject) -> None:
        spec["template"] = {**(spec.get("template") or {}), "restartedAt": now}

    return edit


def pause() -> Edit:
    """Stop updating where it is."""

    def edit(spec: dict[str, Any], _: StatusAndObject) -> None:
        if spec.get("paused") is not True:
            spec["paused"] = True

    return edit


def resume(tenant: str) -> Edit:
    """Go on with a rollout that was paused, or that stands still: its deadline passed, or slots failed."""

    def edit(spec: dict[str, Any], standing: StatusAndObject) -> bool:
        paused = spec.pop("paused", False)
        if standing.rollout and (standing.template_seen or not paused):
            return _ask(spec, standing, "resume")
        if not paused:
            raise _nothing_open(tenant, "resume", standing)
        return False

    return edit


def promote(tenant: str) -> Edit:
    """Let a rollout go on from its canary to all slots."""

    def edit(spec: dict[str, Any], standing: StatusAndObject) -> bool:
        if not standing.rollout:
            raise _nothing_open(tenant, "promote", standing)
        if why := not_promotable(spec):
            raise DoesNotApply(f"the strategy of fleet {tenant} {why}: there is nothing to promote")
        return _ask(spec, standing, "promote")

    return edit


def abort(tenant: str) -> Edit:
    """End a rollout where it is."""

    def edit(spec: dict[str, Any], standing: StatusAndObject) -> bool:
        if not standing.rollout:
            raise _nothing_open(tenant, "abort", standing)
        return _ask(spec, standing, "abort")

    return edit


def undo(picture: Picture, number: int, name: Namer, chose: Callable[[int], None]) -> Edit:
    """Put the template of a revision back (0: `last_other`); `chose` gets the revision's number."""

    def edit(spec: dict[str, Any], _: StatusAndObject) -> None:
        present = spec.get("template") or {}
        chosen = number or last_other(picture, present, name)
        found = picture.revisions.get(chosen)
        if found is None:
            known = ", ".join(str(known) for known in sorted(picture.revisions)) or "none"
            raise NotFound(f"fleet {picture.tenant} has no revision {chosen} (known: {known})")
        chose(chosen)
        if name(found.template) != name(present):
            spec["template"] = found.template

    return edit


def last_other(picture: Picture, template: Mapping[str, Any], name: Namer) -> int:
    """What was completed last, else the newest completed revision that differs. Raises `DoesNotApply`: none does."""
    present = name(template)
    completed = sorted(number for number, ended in picture.outcomes.items() if ended.outcome == "completed")
    for number in (picture.last_completed, *reversed(completed)):
        record = picture.revisions.get(number)
        if record is not None and name(record.template) != present:
            return number
    raise DoesNotApply(f"fleet {picture.tenant} has no completed revision that differs from its template")


def _ask(spec: dict[str, Any], standing: StatusAndObject, action: RolloutAction) -> bool:
    """Put the request; whether it is one that was followed already, and is made again.

    Raises `DoesNotApply` when it would be lost: the rollout takes up a newer template first, and ignores a request
    that was written before it had seen that template.
    """
    if not standing.template_seen:
        raise DoesNotApply(
            f"the fleet's latest template was not looked at yet, and to {action} would mean the one before: try again "
            "in a moment; `fleet pause` and `fleet undo` work at once"
        )
    wanted = {"generation": standing.rollout, "action": action}
    earlier = spec.get("rollout")
    waits = isinstance(earlier, Mapping) and earlier.get("generation") == standing.rollout and not standing.seen
    if waits and earlier != wanted and action != "abort":
        raise DoesNotApply("another request to this rollout was not looked at yet: try again in a moment")
    spec["rollout"] = wanted
    return earlier == wanted and standing.seen


def _nothing_open(tenant: str, action: str, standing: StatusAndObject) -> DoesNotApply:
    hint = "" if standing.seen else " (its latest change was not looked at yet: try again in a moment)"
    return DoesNotApply(f"fleet {tenant} has no open rollout: there is nothing to {action}{hint}")


def not_promotable(spec: Mapping[str, Any]) -> str:
    """Why a rollout of a fleet with this spec has no canary that could be promoted; empty where it has one."""
    strategy = spec.get("strategy")
    rolling = strategy.get("rollingUpdate") if isinstance(strategy, Mapping) else None
    if not (isinstance(rolling, Mapping) and rolling.get("canary")):
        return "has no canary"
    partition, replicas = rolling.get("partition", 0), spec.get("replicas", 1)
    if isinstance(partition, int) and isinstance(replicas, int) and 0 < replicas <= partition:
        return f"keeps all {replicas} slots by its partition, those of the canary too"
    return ""
