"""Who takes nothing, and what is said of it (the cases of KubeFleet's own checker)."""

from __future__ import annotations

import pytest

from tests.placement.deciding.cases import HEALTHY, HEARD, member
from wharfinger.placement.deciding import texts
from wharfinger.placement.deciding.filters import why_not_eligible
from wharfinger.placement.model.members import AgentCondition, Ages, MemberAgent

TRUE, FALSE = AgentCondition("True", 1.0), AgentCondition("False", 1.0)


@pytest.mark.parametrize(
    ("agent", "ages", "told"),
    [
        pytest.param(HEALTHY, HEARD, "", id="normal"),
        pytest.param(None, HEARD, texts.NOT_ONLINE, id="no agent status"),
        pytest.param(HEALTHY, Ages(301.0, 1.0), texts.silent(301.0), id="heart-beat old"),
        pytest.param(HEALTHY, Ages(300.0, 1.0), "", id="heart-beat of five minutes"),
        pytest.param(HEALTHY, Ages(-60.0, 1.0), "", id="heart-beat in the future"),
        pytest.param(HEALTHY, Ages(None, 1.0), texts.NO_HEARTBEAT, id="no heart-beat ever"),
        pytest.param(MemberAgent(1.0, None, TRUE), HEARD, texts.NOT_JOINED, id="joined missing"),
        pytest.param(MemberAgent(1.0, FALSE, TRUE), HEARD, texts.NOT_JOINED, id="joined false"),
        pytest.param(MemberAgent(1.0, TRUE, None), HEARD, texts.NO_HEALTH, id="health missing"),
        pytest.param(MemberAgent(1.0, TRUE, FALSE), Ages(1.0, 400.0), texts.unhealthy(400.0), id="unhealthy long"),
        pytest.param(MemberAgent(1.0, TRUE, FALSE), Ages(1.0, 60.0), "", id="unhealthy briefly"),
    ],
)
def test_a_member_is_eligible_unless_something_speaks_against(agent: MemberAgent, ages: Ages, told: str) -> None:
    assert why_not_eligible(member("m", agent=agent), ages) == told


def test_who_is_leaving_has_left() -> None:
    assert why_not_eligible(member("m", leaving=True), HEARD) == texts.LEFT


def test_a_heartbeat_that_never_came_has_kubefleets_age_upstream() -> None:
    told = why_not_eligible(member("m"), Ages(None, 1.0), upstream=True)
    assert "153722867.28 minutes ago" in told
