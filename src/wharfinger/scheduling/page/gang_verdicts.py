"""Why a gang waits, decided on the present state: how many members fit in each domain, and what is missing there.

Each domain is tried as `framework.gangs.gangs` tries it: member by member, each on the state that the ones before left.
What takes longer than a few seconds is left out, and is told as not tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import NotFound
from wharfinger.framework.domain import Domain, Terms, domain
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.gangs import gangs
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import GANG_SCHEDULING, Gang, GangKey, PodGroup, Wanted, counts, gang_of, in_order
from wharfinger.objects.model.pod import Pod
from wharfinger.page.follow.plain import text
from wharfinger.scheduling.page.deciding import PresentState

MOST_DOMAINS = 200
"""Domains that are told of."""
BUDGET = 6.0
"""Seconds for all tries."""


@dataclass(frozen=True, slots=True)
class GangQuestion:
    """A gang that is asked about."""

    key: GangKey
    members: Sequence[Pod]
    group: PodGroup | None


def verdicts(stage: PresentState, asked: GangQuestion, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """What would be decided now in each domain. Raises `NotFound`, `ConfigurationError`, `PluginError`.

    `clock`: monotonic seconds.
    """
    members = [pod for pod in asked.members if counts(pod)]
    pending = [pod for pod in members if not pod.bound]
    bound = tuple(pod for pod in members if pod.bound)
    gang = gang_of(asked.key, members, asked.group)
    if isinstance(gang, str):
        raise NotFound(f"gang {text(str(asked.key))} cannot be decided: {text(gang)}")
    told: dict[str, Any] = {
        "required": gang.required(len(bound)),
        "pending": len(pending),
        "bound": len(bound),
        "fits": None,
        "domains": [],
        "omitted": 0,
        "notTried": 0,
    }
    if not pending:
        return told
    profile = stage.profile(pending[0])
    wanted = Wanted(in_order(pending), gang.required(len(bound)), bound, gang.topology_keys)
    told["profileServed"] = stage.served(pending[0]).told()
    offered = _offered(stage.snapshot, gang, bound)
    until = clock() + BUDGET
    rows = []
    for terms, infos in offered[:MOST_DOMAINS]:
        free = free_in(infos)
        where = domain(stage.snapshot, terms) if terms else None
        rows.append(
            {
                "domain": text(", ".join(value for _, value in terms)) or None,
                "terms": {text(key): text(value) for key, value in terms},
                "nodes": len(infos),
                "free": free,
                "lacks": _lacks(wanted, free),
            }
            | _tried(profile, wanted, stage.snapshot, where, lambda: clock() >= until)
        )
    told |= {"domains": rows, "omitted": max(0, len(offered) - MOST_DOMAINS)}
    told["notTried"] = sum(not row["tried"] for row in rows)
    unknown = told["notTried"] or told["omitted"]
    told["fits"] = True if any(row["missing"] == 0 for row in rows) else None if unknown else False
    return told


def _tried(
    profile: Profile, wanted: Wanted, snapshot: Snapshot, where: Domain | None, over: Callable[[], bool]
) -> dict[str, Any]:
    """How many members fit there, and why the first one that does not. `over`: whether no more may be tried."""
    fits, first = 0, None
    for pod in wanted.members:
        if fits >= wanted.required:
            break
        if over():
            return {"tried": False, "fits": None, "missing": None, "refusals": {}, "message": None}
        evaluation = profile.evaluate(pod, snapshot, preempt=False, domain=where)
        if evaluation.node is None:
            first = first or (pod, evaluation)
            continue
        snapshot = gangs.seated(snapshot, pod, evaluation.node)
        fits += 1
    missing = max(0, wanted.required - fits)
    refused = first if missing else None
    return {
        "tried": True,
        "fits": fits,
        "missing": missing,
        "refusals": _refusals(refused[1]) if refused is not None else {},
        "message": text(f"{refused[0].name} is the first that fits no node") if refused is not None else None,
    }


def _refusals(evaluation: Evaluation) -> dict[str, dict[str, int]]:
    """Why, within the domain: nodes outside of it say nothing."""
    return {
        text(plugin): {text(reason): count for reason, count in reasons.items()}
        for plugin, reasons in evaluation.refusals.items()
        if plugin != GANG_SCHEDULING
    }


def _offered(snapshot: Snapshot, gang: Gang, bound: Iterable[Pod]) -> list[tuple[Terms, list[NodeInfo]]]:
    """The domains that it may go to, with their nodes, the roomiest first; one without terms stands for anywhere.

    Members that are bound fix the domain.
    """
    keys = gang.topology_keys
    if not keys:
        return [((), list(snapshot.rows))]
    fixed = {
        terms
        for pod in bound
        if (node := snapshot.node(pod.node_name)) is not None and (terms := _terms(node.labels, keys)) is not None
    }
    domains = domains_of(snapshot, keys).items()
    chosen = [(terms, infos) for terms, infos in domains if not fixed or terms in fixed]
    return sorted(chosen, key=lambda one: (-sum(free_in(one[1]).values()), one[0]))


def domains_of(snapshot: Snapshot, keys: Sequence[str]) -> dict[Terms, list[NodeInfo]]:
    """The nodes that have all of these labels, by their values."""
    found: dict[Terms, list[NodeInfo]] = {}
    for info in snapshot.rows:
        terms = _terms(info.node.labels, keys)
        if terms is not None:
            found.setdefault(terms, []).append(info)
    return found


def _terms(labels: Mapping[str, str], keys: Iterable[str]) -> Terms | None:
    terms = tuple((key, labels[key]) for key in keys if key in labels)
    return terms if len(terms) == len(tuple(keys)) else None


def free_in(infos: Iterable[NodeInfo]) -> dict[str, int]:
    """What is free on these nodes together, by resource."""
    free: dict[str, int] = {}
    for info in infos:
        for resource in info.node.allocatable:
            free[resource] = free.get(resource, 0) + max(0, info.free(resource))
    return free


def _lacks(wanted: Wanted, free: Mapping[str, int]) -> dict[str, int]:
    """What the members that are needed ask for beyond what is free in all: a bound, for room may lie scattered."""
    asked: dict[str, int] = {}
    for pod in wanted.members[: wanted.required]:
        for resource, amount in pod.requests.items():
            asked[resource] = asked.get(resource, 0) + amount
    return {name: amount - free.get(name, 0) for name, amount in asked.items() if amount > free.get(name, 0)}
