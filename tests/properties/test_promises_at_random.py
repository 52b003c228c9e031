"""Random lives of promises: no node is overcommitted, no pod is bound late, and every life comes to rest.

The rules are judged as well: without the revision in a bind, without the fence, or where an older state may replace a
newer one, lives break. `WHARFINGER_TEST_LIVES` asks for more lives than the usual ones, as `.ci/nightly` does.
"""

from __future__ import annotations

import os

import pytest

from tests.properties.promise_lives import lived
from tests.properties.promise_world import RuleBroken
from tests.properties.shares import shared_out
from wharfinger.kubernetes.effects import states
from wharfinger.objects.documents.copies import StateOfCopy, state_of

PARTS = 10
LIVES = int(os.environ.get("WHARFINGER_TEST_LIVES", "10000")) // PARTS
SOON = 2_000
"""Lives within which a missing rule shows."""


@pytest.mark.parametrize("part", shared_out(PARTS, quick=2))
def test_promises_never_overcommit_and_always_end(part: int) -> None:
    for seed in range(part * LIVES, (part + 1) * LIVES):
        try:
            lived(seed)
        except RuleBroken as broken:
            pytest.fail(f"life {seed}: {broken}")


def first_broken(**missing: bool) -> str:
    """What the first of some lives breaks without a rule; empty when none does."""
    for seed in range(SOON):
        try:
            lived(seed, **missing)
        except RuleBroken as broken:
            return str(broken)
    return ""


@pytest.mark.parametrize("missing", ["revisions", "fences"])
def test_lives_break_without(missing: str) -> None:
    assert first_broken(**{missing: False})


def test_lives_break_where_older_states_replace_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "state_of", lambda value: StateOfCopy(state_of(value).uid, 0))
    assert first_broken()
