"""How waiting pods are grouped."""

from __future__ import annotations

from wharfinger.cli.pending import NOT_TRIED, group
from wharfinger.model.pod import Pod


def member(name: str, *, refused: bool = False, node: str = "") -> Pod:
    condition = ("False", "Unschedulable", "gang needs 3 members") if refused else None
    return Pod(namespace="default", name=name, uid=name, group="team", condition=condition, node_name=node)


def told(*pods: Pod) -> list[tuple[str, int]]:
    return [(entry.reason, len(entry.pods)) for entry in group(pods, {})]


def test_members_wait_for_what_their_gang_was_refused_for() -> None:
    assert told(member("a"), member("b", refused=True), member("c")) == [("Unschedulable", 3)]


def test_what_is_left_of_a_running_gang_waits_for_reasons_of_its_own() -> None:
    pods = (member("a"), member("b", refused=True), member("c", node="n"))

    assert told(*pods) == [(NOT_TRIED, 1), ("Unschedulable", 1)]
