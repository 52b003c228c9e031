"""The table of KubeFleet's spread, and what our rule says instead (D1)."""

from __future__ import annotations

import pytest

from wharfinger.placement.deciding.ranking import Domains


@pytest.mark.parametrize(
    ("counts", "pick", "max_skew", "change", "as_kubefleet", "ours"),
    [
        pytest.param([2, 2, 2], 0, 1, 1, False, False, id="all equal"),
        pytest.param([1, 2, 2], 0, 1, -1, False, False, id="the smallest"),
        pytest.param([1, 4, 4], 0, 1, -1, True, False, id="the smallest of a large skew"),
        pytest.param([1, 1, 2], 0, 1, 0, False, False, id="one of two smallest"),
        pytest.param([1, 1, 3], 0, 1, 0, True, False, id="one of two smallest of a large skew"),
        pytest.param([1, 2, 3], 1, 2, 0, False, False, id="in the middle"),
        pytest.param([1, 2, 3], 1, 1, 0, True, True, id="in the middle, too uneven"),
        pytest.param([1, 2, 5], 2, 5, 1, False, False, id="the largest"),
        pytest.param([1, 2, 5], 2, 2, 1, True, True, id="the largest, too uneven"),
        pytest.param([3], 0, 1, 1, False, False, id="the only one"),
        pytest.param([0, 3], 0, 1, -1, True, False, id="the dead-lock"),
        pytest.param([0, 2], 0, 1, -1, False, False, id="just no dead-lock"),
    ],
)
def test_one_more_in_a_domain(
    counts: list[int], pick: int, max_skew: int, change: int, *, as_kubefleet: bool, ours: bool
) -> None:
    domains = Domains("region", {str(at): count for at, count in enumerate(counts)})
    assert domains.change(str(pick)) == change
    assert domains.too_uneven_as_kubefleet(str(pick), max_skew) is as_kubefleet
    assert domains.too_uneven(str(pick), max_skew) is ours
