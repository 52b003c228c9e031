"""ImageLocality: what an image is worth on the nodes that hold it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.image_locality import ImageLocality, normalized
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod

MIB = 1 << 20


def cluster(*images: dict[str, int]) -> Snapshot:
    return Snapshot.of(NodeInfo.of(node(f"n{row}", images=held)) for row, held in enumerate(images))


def scores(subject: Pod, snapshot: Snapshot, plugin: ImageLocality | None = None) -> list[int] | None:
    """By node; None when PreScore skips."""
    asked, state, rows = plugin or ImageLocality(), CycleState(), slice(None)
    if asked.pre_score(state, subject, snapshot, rows).code is Code.SKIP:
        return None
    return asked.score(state, subject, snapshot, rows).tolist()


def test_the_size_counts_by_the_share_of_nodes_that_hold_the_image() -> None:
    snapshot = cluster({"app:1": 500 * MIB}, {"app:1": 500 * MIB}, {}, {})
    # 250 MiB of 23 to 1000: 23.2
    assert scores(pod(images=("app:1",)), snapshot) == [23, 23, 0, 0]


def test_more_containers_need_more_bytes_and_an_image_counts_for_each_use() -> None:
    snapshot = cluster({"app:1": 800 * MIB, "side:1": 100 * MIB}, {"side:1": 100 * MIB})
    assert scores(pod(images=("app:1",)), snapshot) == [38, 0]
    assert scores(pod(images=("app:1", "side:1"), container_count=2), snapshot) == [24, 3]
    assert scores(pod(images=("app:1", "app:1"), container_count=2), snapshot) == [39, 0]


def test_scores_stay_between_0_and_100() -> None:
    assert scores(pod(images=("huge:1",)), cluster({"huge:1": 1 << 50})) == [100]
    assert scores(pod(images=("tiny:1",)), cluster({"tiny:1": 5})) is None


def test_images_on_no_node_cost_nothing() -> None:
    assert scores(pod(images=("other:1",)), cluster({"app:1": 500 * MIB})) is None
    assert scores(pod(), cluster({"app:1": 500 * MIB})) is None


def test_sizes_that_differ_are_taken_from_the_oldest_node() -> None:
    young = node("n0", images={"app:1": 900 * MIB}, create_revision=9)
    old = node("n1", images={"app:1": 123 * MIB}, create_revision=3)
    assert scores(pod(images=("app:1",)), Snapshot.of(map(NodeInfo.of, (young, old)))) == [10, 10]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:2", "registry:5000/app:2"),
        ("app@sha256:00", "app@sha256:00"),
    ],
)
def test_names_without_a_tag_mean_the_latest(written: str, meant: str) -> None:
    assert normalized(written) == meant


IMAGES = st.dictionaries(st.sampled_from(["a:1", "b:1", "c:latest"]), st.integers(0, 1500).map(lambda n: n * MIB))
PODS = st.builds(
    lambda images, count: pod(images=tuple(images), container_count=count),
    st.lists(st.sampled_from(["a:1", "b:1", "c", "d:1"]), max_size=3),
    st.integers(1, 3),
)


def reading(subject: Pod, snapshot: Snapshot) -> list[int]:
    found = []
    for info in snapshot.rows:
        total = 0
        for image in map(normalized, subject.images):
            if image in info.node.images:
                sizes = [other.node.images[image] for other in snapshot.rows if image in other.node.images]
                total += int(float(sizes[0]) * (float(len(sizes)) / float(len(snapshot))))
        much = 1000 * MIB * subject.container_count
        found.append(100 * (min(max(total, 23 * MIB), much) - 23 * MIB) // (much - 23 * MIB))
    return found


@given(st.lists(IMAGES, min_size=1, max_size=4), st.lists(PODS, min_size=1, max_size=2), st.data())
@settings(max_examples=60)
def test_scores_are_those_of_a_plain_reading_whatever_was_asked_before(
    held: list[dict[str, int]], subjects: list[Pod], data: st.DataObject
) -> None:
    kept = ImageLocality()
    known = [cluster(*held)]
    for number in range(4):
        last = data.draw(st.sampled_from(known))
        row = data.draw(st.integers(0, len(last) - 1))
        name, images = last.names[row], data.draw(IMAGES)
        known.append(last.with_nodes_changed({row: last.rows[row].with_node(Node(name, images=images))}))
        known.append(last.resized({row}, [NodeInfo.of(Node(f"new-{number}", images=images))]))
        known.append(last.place(pod(f"p{number}"), name))
        snapshot, subject = data.draw(st.sampled_from(known)), data.draw(st.sampled_from(subjects))
        expected = reading(subject, snapshot)
        assert scores(subject, snapshot, kept) == (expected if any(expected) else None)
