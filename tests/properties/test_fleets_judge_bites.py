"""What decides about fleets is broken on purpose, a rule at a time, and the simulated world notices within some cases.

Only here is our own code replaced: a judge that lets a broken planner pass proves nothing of the whole one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.properties.fleet_world.run import play
from wharfinger.fleet.deciding import progress, seeing
from wharfinger.fleet.deciding.actor import ActorState
from wharfinger.fleet.deciding.draft import Draft
from wharfinger.fleet.deciding.hosts import Hosts
from wharfinger.fleet.deciding.lives import Look
from wharfinger.fleet.deciding.progress import Proof
from wharfinger.fleet.deciding.targets import Target

ENOUGH = 2_500
"""Cases within which each of them is seen; most of them in the first few."""

NOTICED = (0, 13, 28, 96, 161, 485, 608, 1073)
"""Cases that noticed one of them last time; they are played first, because a thousand cases take seconds."""

ALWAYS, NEVER = property(lambda _: True), property(lambda _: False)


def _looked_without_doubt(actor: ActorState, plan: Any, took: float, retried: bool = False) -> Any:
    followed = LOOKED(actor, plan, took, retried)
    actor._advance(took)
    return followed


def _found_without_doubt(*arguments: Any) -> Any:
    """Whatever has no record is gone."""
    return [
        replace(life, gone=life.instance is None and life.grant is not None and life.busy is None)
        for life in FOUND(*arguments)
    ]


LOOKED, FOUND = ActorState.looked, seeing._found


@pytest.mark.parametrize(
    ("where", "what", "instead", "rules"),
    [
        (Look, "settled", ALWAYS, {"sight"}),
        (ActorState, "_gap", lambda _: None, {"sight"}),
        (ActorState, "looked", _looked_without_doubt, {"sight", "floor"}),
        (Draft, "may_lose_one", ALWAYS, {"floor"}),
        (Draft, "room", ALWAYS, {"ceiling"}),
        (Target, "canary_only", NEVER, {"canary"}),
        (Target, "alike", lambda _, one, other: one == other, {"matching", "replaced"}),
        (Target, "frozen", NEVER, {"rolled-again", "matching"}),
        (Hosts, "missing_long", Hosts.missing, {"host-lost"}),
        (Proof, "allows", lambda *_: True, {"unproven"}),
        (progress, "failed", lambda _: [], {"failing"}),
        (seeing, "_found", _found_without_doubt, {"cleared"}),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_a_planner_without_a_rule_is_caught(
    monkeypatch: pytest.MonkeyPatch, where: Any, what: str, instead: Any, rules: set[str]
) -> None:
    monkeypatch.setattr(where, what, instead)
    for seed in (*NOTICED, *range(ENOUGH)):
        if rules & {violation.split(":")[0] for violation in play(seed).violations}:
            return
    pytest.fail(f"{ENOUGH} cases, and the judge did not notice that {what} is broken")
