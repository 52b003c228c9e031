"""What a pod asks for: Kubernetes' formula."""

from __future__ import annotations

import pytest

from wharfinger.objects.model.quantities import NANO, parse_quantity
from wharfinger.objects.model.resources import Container, PodResources, node_allocatable, pod_request

MEBI = 1024 * 1024


def amounts(**values: str) -> dict[str, int]:
    return {name.replace("__", "/").replace("_", "-"): parse_quantity(value) for name, value in values.items()}


def container(*, restartable: bool = False, **values: str) -> Container:
    return Container(amounts(**values), restartable)


def requests(**parts: object) -> dict[str, int]:
    return dict(pod_request(PodResources(**parts)).requests)  # type: ignore[arg-type]


def test_containers_add_up() -> None:
    asked = requests(containers=[container(cpu="100m", memory="1Ki"), container(cpu="1")])

    assert asked == {"cpu": 1100, "memory": 1024}


def test_only_the_total_is_rounded() -> None:
    assert requests(containers=[container(cpu="500u"), container(cpu="500u")]) == {"cpu": 1}


def test_an_init_container_counts_only_beyond_the_sum() -> None:
    containers = [container(cpu="1"), container(cpu="1")]

    assert requests(containers=containers, init_containers=[container(cpu="1500m")]) == {"cpu": 2000}
    assert requests(containers=containers, init_containers=[container(cpu="3")]) == {"cpu": 3000}


def test_restartable_init_containers_add_to_containers_and_later_ones() -> None:
    init_containers = [container(cpu="4"), container(cpu="1", restartable=True), container(cpu="4")]

    assert requests(containers=[container(cpu="2")], init_containers=init_containers) == {"cpu": 5000}
    assert requests(containers=[container(cpu="5")], init_containers=init_containers) == {"cpu": 6000}


def test_overhead_comes_on_top() -> None:
    assert requests(containers=[container(cpu="1")], overhead=amounts(cpu="250m", memory="1Mi")) == {
        "cpu": 1250,
        "memory": MEBI,
    }


def test_pod_level_requests_replace_cpu_memory_and_huge_pages_only() -> None:
    asked = requests(
        containers=[container(cpu="1", memory="1Gi", example__gpu="1")],
        pod_requests=amounts(cpu="3", hugepages_2Mi="4Mi", example__gpu="7"),
    )

    assert asked == {"cpu": 3000, "memory": 1024 * MEBI, "example/gpu": 1, "hugepages-2Mi": 4 * MEBI}


def test_a_pod_level_limit_counts_where_no_container_asks() -> None:
    limits = amounts(cpu="2", memory="1Mi")

    asked = requests(containers=[container(cpu="500m")], pod_requests={}, pod_limits=limits)

    assert asked == {"cpu": 500, "memory": MEBI}


def test_resources_of_which_nothing_is_asked_are_left_out() -> None:
    assert requests(containers=[container(cpu="0", memory="0")]) == {}


def test_for_scoring_each_silent_container_counts_100m_and_200mi() -> None:
    request = pod_request(PodResources(containers=[container(cpu="1"), container(memory="1Mi")]))

    assert (request.scoring_cpu, request.scoring_memory) == (1100, 201 * MEBI)


def test_for_scoring_an_explicit_zero_stays_zero() -> None:
    request = pod_request(PodResources(containers=[container(cpu="0", memory="0")]))

    assert (request.scoring_cpu, request.scoring_memory) == (0, 0)


def test_for_scoring_pod_level_requests_count_on_the_node_only() -> None:
    resources = PodResources(containers=[container(), container(cpu="1")], pod_requests=amounts(cpu="2"))
    placed, bound = pod_request(resources), pod_request(resources, bound=True)

    assert placed.requests == bound.requests == {"cpu": 2000}
    assert (placed.scoring_cpu, placed.scoring_memory) == (1100, 400 * MEBI)
    assert (bound.scoring_cpu, bound.scoring_memory) == (2000, 400 * MEBI)


def test_a_total_beyond_int64_is_refused() -> None:
    huge = Container({"memory": (2**63 - 1) * NANO})

    with pytest.raises(ValueError, match="memory"):
        pod_request(PodResources(containers=[huge, huge]))


def test_a_nodes_room_is_rounded_up_like_everything_else() -> None:
    assert node_allocatable(amounts(cpu="1500500u", memory="10.7", pods="3")) == {"cpu": 1501, "memory": 11, "pods": 3}
