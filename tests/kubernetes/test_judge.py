"""The judge of Kubernetes' binds finds what it must find."""

from __future__ import annotations

from tests.kubernetes.judge import SeenPod, bound_twice, overcommitted, problems, seen, turns

ROOM = {"n1": 1000, "n2": 1000}


def state(revision: int, name: str, node: str = "", attempt: str = "east/pod@1", *, deleted: bool = False) -> SeenPod:
    return SeenPod(revision, f"uid-{name}", name, node, attempt if node else "", 400, deleted)


def test_pods_that_fit_and_stay_where_they_are_are_right() -> None:
    events = [state(1, "a"), state(2, "a", "n1"), state(3, "b", "n1"), state(4, "a", "n1"), state(5, "c", "n2")]

    assert problems(events, ROOM) == []


def test_pod_that_moves_or_is_bound_by_another_attempt_is_found() -> None:
    events = [state(1, "a", "n1"), state(2, "a", "n2"), state(3, "b", "n1"), state(4, "b", "n1", "east/pod@2")]

    assert [line.partition(":")[0] for line in bound_twice(events)] == ["a at 2", "b at 4"]


def test_node_is_overcommitted_only_while_its_pods_are_there() -> None:
    events = [state(1, "a", "n1"), state(2, "b", "n1"), state(3, "a", "n1", deleted=True), state(4, "c", "n1")]
    assert overcommitted(events, ROOM) == []

    assert overcommitted([*events, state(5, "d", "n1")], ROOM) == ["n1 at 5: 1200m of 1000m"]
    assert overcommitted([state(1, "a", "unknown")], ROOM) == ["unknown at 1: 400m of 0m"]


def test_binds_of_others_count_only_where_they_are_asked_for() -> None:
    events = [state(1, "a", "n1"), state(2, "b", "n1", ""), state(3, "c", "n1", "")]

    assert problems(events, ROOM, alone=False) == []
    assert problems(events, ROOM) == [
        "n1 at 3: 1200m of 1000m",
        "b was bound by another scheduler",
        "c was bound by another scheduler",
    ]


def test_turns_are_in_the_order_of_the_binds() -> None:
    events = [
        state(1, "a", "n1"),
        state(2, "b", "n1", "west/pod@1"),
        state(3, "c", "n2", ""),
        state(4, "d", "n2", ""),
        state(5, "a", "n1"),
    ]

    assert turns(events, ["east", "west"]) == ["east", "west", "another"]
    assert turns(events) == ["wharfinger", "another"]


def test_pod_is_read_as_the_api_prints_it() -> None:
    requests = [{"resources": {"requests": {"cpu": "250m"}}}, {"resources": {"requests": {"cpu": "1"}}}, {}]
    metadata = {"name": "a", "uid": "u", "resourceVersion": "7", "annotations": {"wharfinger.dev/attempt": "w@r"}}

    found = seen({"metadata": metadata, "spec": {"nodeName": "n1", "containers": requests}})

    assert found == SeenPod(7, "u", "a", "n1", "w@r", 1250)
