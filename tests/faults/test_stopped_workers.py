"""A worker stopped in the middle of a bind does no harm.

Shorter than in `make soak`: leases of 3 s run out all the same, and etcd's calls are given up.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import stopped
from tests.faults.stopped import Company

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]


@pytest.mark.parametrize(
    ("company", "answer"),
    [(Company.ALONE, False), (Company.COHORT, True), (Company.GANG, False)],
    ids=["one pod, request on its way", "a cohort, answer on its way", "a gang, request on its way"],
)
def test_a_worker_stopped_in_the_middle_of_a_bind_does_no_harm(tmp_path: Path, company: Company, answer: bool) -> None:
    result = stopped.play(tmp_path, seconds=5, answer=answer, company=company)

    assert result.violations == []
