"""Gangs, cards and topology constraints of rk8s' pods, as documents of May 2026 have them; older ones have none."""

from __future__ import annotations

import pytest

from tests.objects.rk8s.samples import POD, changed
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import pod_from_mapping
from wharfinger.objects.model.gang import GangKey, gang_key
from wharfinger.objects.model.node import GPU, GPU_MEMORY
from wharfinger.objects.model.pod import NO_TERMS, GangTerms, Pod
from wharfinger.objects.rk8s.documents import parse_pod

GIB = 1 << 30
LIMITS = "        memory: 512Mi\n"
INIT = "  init_containers: []\n"
SAME = "  topology_constraints:\n  - {{topology_key: {}, same_value: true}}\n"


def read(value: bytes) -> Pod:
    """The model's pod, as the rest of `objects.documents` reads it."""
    return pod_from_mapping(parse_pod(value), create_revision=7)


def with_spec(lines: str) -> Pod:
    """The sample with more lines in its specification."""
    return read(changed(POD, INIT, INIT + lines))


def with_limits(first: str, second: str = "{}", init: str = "{}") -> Pod:
    """The sample whose container has more limits, with a second container and an init container."""
    document = changed(POD, LIMITS, f"{LIMITS}{first}").decode()
    more = "  - {name: %s, image: busybox, resources: {limits: %s}}\n"
    return read(changed(document, INIT, f"{more % ('side', second)}  init_containers:\n{more % ('first', init)}"))


def test_a_document_of_april_has_no_gang_and_no_cards() -> None:
    pod = read(POD.encode())

    assert (pod.group, pod.gang) == ("", NO_TERMS)
    assert pod.requests.keys() == {"cpu", "memory"}


def test_a_gang_is_a_group_of_that_size_without_labels() -> None:
    pod = with_spec("  gang:\n    id: train-1\n    size: 4\n")

    assert gang_key(pod) == GangKey("default", "train-1")
    assert pod.gang == GangTerms(min_available=4)
    assert pod.labels == {"app": "web"}


def test_constraints_with_one_value_are_the_gangs_topology_keys() -> None:
    constraints = (
        "  gang: {id: train-1, size: 4}\n  topology_constraints:\n"
        "  - topology_key: topology.rk8s.io/nvlink-domain\n    same_value: true\n"
        "  - {topology_key: zone, same_value: true}\n"
        "  - {topology_key: zone, same_value: true}\n"
        "  - {topology_key: rack, same_value: false}\n"
        "  - {topology_key: no name}\n"
    )

    assert with_spec(constraints).gang.topology_keys == ("topology.rk8s.io/nvlink-domain", "zone")


def test_constraints_without_a_gang_mean_nothing() -> None:
    pod = with_spec("  gang: null\n" + SAME.format("no name"))

    assert (pod.group, pod.gang) == ("", NO_TERMS)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("  gang: train-1\n", "spec.gang is 'train-1', not a mapping"),
        ("  gang: {}\n", "spec.gang.id is missing"),
        ("  gang: {id: '', size: 4}\n", "spec.gang.id is empty"),
        ("  gang: {id: train-1}\n", "spec.gang.size is missing"),
        ("  gang: {id: train-1, size: '4'}\n", "spec.gang.size is '4' in quotes, not a whole number"),
        ("  gang: {id: train-1, size: -1}\n", "spec.gang.size is -1, not within 0 and 4294967295"),
        ("  gang: {id: train-1, size: 4294967296}\n", "spec.gang.size is 4294967296, not within"),
        ("  gang: {id: a/b, size: 4}\n", "spec.gang: its group 'a/b' is no name"),
        ("  gang: {id: a, size: 2}\n" + SAME.format("no name"), "its topology key 'no name' is no label's name"),
        ("  gang: {id: a, size: 2}\n" + SAME.format("''"), "its topology key '' is no label's name"),
        ("  topology_constraints: {}\n", "spec.topology_constraints is a mapping, not a list"),
        ("  topology_constraints: [{same_value: true}]\n", r"topology_constraints\[0\].topology_key is missing"),
        ("  topology_constraints: [{topology_key: a, same_value: 1}]\n", "same_value is '1', neither true nor false"),
    ],
)
def test_what_is_no_gang_is_refused_with_its_place(lines: str, why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        with_spec(lines)


def test_memory_a_card_is_the_largest_that_any_container_asks_for() -> None:
    pod = with_limits("        gpu: 1\n        gpu_memory: 20Gi\n", "{gpu: 2, gpu_memory: 40Gi}", "{gpu_memory: 60gi}")

    assert (pod.requests[GPU], pod.requests[GPU_MEMORY]) == (3, 60 * GIB)


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        ("        gpu: 2\n", "{}", {GPU: 2}),
        ("        gpu: 2\n        gpu_memory: '0'\n", "{}", {GPU: 2}),
        ("        gpu: 0\n        gpu_memory: 20Gi\n", "{}", {}),
        ("        gpu_memory: 80Gi\n", "{gpu: 4}", {GPU: 4, GPU_MEMORY: 80 * GIB}),
        ("        gpu_memory: 1024\n", "{gpu: 1}", {GPU: 1, GPU_MEMORY: 1024}),
    ],
)
def test_memory_a_card_means_nothing_without_cards(first: str, second: str, asked: dict[str, int]) -> None:
    requests = with_limits(first, second).requests

    assert {name: amount for name, amount in requests.items() if name in (GPU, GPU_MEMORY)} == asked


@pytest.mark.parametrize("amount", ["much", "-1Gi", "{}", "80 GB"])
def test_memory_a_card_that_is_no_amount_is_refused(amount: str) -> None:
    with pytest.raises(InvalidObject, match=r"spec\.containers\[0\]\.resources\.limits\.gpu_memory "):
        with_limits(f"        gpu_memory: {amount}\n")
