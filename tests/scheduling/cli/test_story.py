"""An explanation told to people."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from click import unstyle

from tests.scheduling.reading.test_explanation import POD, RECORD, explained
from tests.scheduling.reading.test_history import read
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.cli.rows import preemption
from wharfinger.scheduling.cli.story import tell
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.reading.explanation import to_plain
from wharfinger.scheduling.reading.preempted import Departure


def test_the_story_reads_from_the_headline_to_the_steps() -> None:
    found = explained(
        POD.on("node-1"), bound_by="workflow@run", attempts=[read("parked_and_woken"), read("bound_after_waiting")]
    )
    story = tell(found)

    assert story.splitlines()[0].endswith("pod default/web-1 is bound to node-1\x1b[0m")
    for line in (
        "  0/3 nodes are available: 3 Insufficient cpu.",
        "    REFUSED BY         NODES   REASON",
        "    NodeResourcesFit   3       Insufficient cpu",
        "  Woken by NodeAdd node-1 (NodeResourcesFit says it may help).",
        "Workflow workflow",
        "  node-1, one of 2 that fit.",
        "    node-1   180",
    ):
        assert line in story.splitlines()
    assert "  Steps: backed off " in story


def test_the_headline_has_what_an_api_server_would_refuse() -> None:
    found = replace(explained(record=RECORD, attempts=[]), doubts=("spec.containers[0].image: Required value",))

    note = "Note: an API server of Kubernetes 1.36 would refuse the pod: spec.containers[0].image: Required value"
    assert note in tell(found).splitlines()
    assert to_plain(found)["doubts"] == ["spec.containers[0].image: Required value"]


def test_explanation_names_the_configuration_that_decided() -> None:
    attempt = read("bound")
    computation = {**attempt.computation, "profile": "0123456789abcdef", "profile_name": "batch"}
    story = tell(explained(attempts=[replace(attempt, placement={**attempt.placement, "computation": computation})]))

    assert ", profile batch (0123456789ab)" in story


def test_explanation_names_the_default_profile_which_records_omit() -> None:
    attempt = read("bound")
    computation = Computation(revision=7, profile="0123456789abcdef").model_dump()
    placement = {**attempt.placement, "computation": computation}
    story = tell(explained(attempts=[replace(attempt, placement=placement)]))

    assert "profile_name" not in computation
    assert ", profile default-scheduler (0123456789ab)" in story


def test_explanation_has_what_plugins_recorded_of_the_node() -> None:
    attempt = read("bound")
    data = {"GpuMemory": {"cards": "4-5"}, "Racks": {"row": 3, "near": ["a"]}, "Other": [1]}
    story = tell(explained(attempts=[replace(attempt, placement={**attempt.placement, "plugin_data": data})]))

    assert "  GpuMemory: cards 4-5." in story.splitlines()
    assert '  Racks: row 3, near ["a"].' in story.splitlines()
    assert "  Other: [1]." in story.splitlines()


def test_a_waiting_pods_story_begins_with_what_it_waits_for() -> None:
    story = tell(explained(record=RECORD, attempts=[read("parked_and_woken")]))

    assert story.splitlines()[1:3] == [
        "Waits since attempt 1 (2026-03-01T12:00:00Z): 0/3 nodes are available.",
        "An event that may help NodeResourcesFit wakes it.",
    ]


def test_the_story_of_a_preemption_names_node_and_victims() -> None:
    story = tell(explained(attempts=[read("preempted")]))

    assert "  The pod preempts default/low, default/lower on node-1, its nominated node." in story.splitlines()
    assert "→ evicted " in story


def test_node_evaluated_alone_is_not_called_the_only_one_that_fits() -> None:
    attempt = read("bound")
    alone = {**attempt.computation, "nodes": 4, "feasible": 1}
    nominated = replace(attempt, placement={**attempt.placement, "computation": alone, "refusals": []})

    assert "  node-1, the only one of 4 nodes that was looked at." in tell(explained(attempts=[nominated])).splitlines()


def test_many_victims_are_counted_rather_than_named() -> None:
    assert preemption("n", [f"default/{number}" for number in range(7)]).startswith(
        "preempts default/0, default/1, default/2, default/3, default/4 and 2 more on n"
    )
    assert preemption("n", ()) == "waits for room on n, its nominated node"


def test_held_pod_names_what_holds_it() -> None:
    story = tell(replace(explained(attempts=[]), held="PodGroup: 3 of 5 members exist"))

    assert story.splitlines()[1:] == [
        "Not tried now: PodGroup: 3 of 5 members exist.",
        "",
        "No attempt is recorded.",
    ]


def test_pod_without_attempts_is_reported() -> None:
    assert tell(explained(attempts=[])).endswith("No attempt is recorded.")


def test_a_try_of_a_pod_that_is_bound_decides_nothing() -> None:
    attempt = replace(read("bound"), outcome="gone", placement={"kind": "gone", "reason": "bound", "node": "node-1"})
    story = tell(explained(attempts=[attempt]))

    assert "  It was bound already, to node-1." in story.splitlines()
    assert "that fit" not in story
    deleted = replace(attempt, node=None, placement={"kind": "gone", "reason": "deleted"})
    assert "  The pod was gone." in tell(explained(attempts=[deleted])).splitlines()
    other = replace(attempt, node=None, placement={"kind": "gone", "reason": "not-ours", "cause": "other-scheduler"})
    assert "  The pod was for another scheduler." in tell(explained(attempts=[other])).splitlines()
    ended = replace(attempt, node=None, placement={"kind": "gone", "reason": "finished", "cause": "not-pending"})
    assert "  The pod had ended already." in tell(explained(attempts=[ended])).splitlines()


def test_a_run_that_finds_the_pod_bound_is_no_attempt_that_is_gone() -> None:
    """Such as one that was started by hand: it has the number 1 of a chain of its own."""
    first = read("bound")
    placement = {"kind": "gone", "reason": "bound", "node": "node-1"}
    started = first.started + timedelta(minutes=1)
    later = replace(first, run_id="later", started=started, outcome="gone", placement=placement)
    lines = tell(explained(attempts=[first, later])).splitlines()

    assert [line for line in lines if "gone" in line] == []
    heads = [line for line in lines if line.startswith(("Attempt", "No new attempt"))]
    assert [unstyle(line).split("   ")[0] for line in heads] == ["Attempt 1: bound", "No new attempt: bound already"]
    assert "  It was bound already, to node-1." in lines


def test_attempts_that_count_from_one_again_say_so() -> None:
    first = read("parked_and_woken")
    again = replace(first, run_id="later", started=first.started + timedelta(minutes=1))
    lines = tell(explained(attempts=[first, again])).splitlines()

    headings = [line for line in lines if line.startswith("Workflow")]
    assert headings == ["Workflow workflow", "Workflow workflow, started anew"]


def test_the_story_of_a_victim_says_for_whom_it_left() -> None:
    left = Departure(PodKey("default", "high"), "node-1", "record", "2026-03-01T12:00:09Z", "", 2, "w", "r")
    found = replace(explained(pod=None, attempts=[read("bound")]), left=left)

    sentence = "Preempted by default/high, attempt 2, on node-1 (2026-03-01T12:00:09Z)."
    assert tell(found).splitlines()[1] == sentence
    nobody = replace(found, left=Departure(None, "node-1", "pod"))
    assert tell(nobody).splitlines()[1] == "Preempted for another pod, on node-1."
    unknown = replace(found, left=None, left_unknown="etcd has forgotten it")
    assert tell(unknown).splitlines()[1] == "Not known to have been preempted: etcd has forgotten it."
    assert to_plain(found)["left"] == {
        "preemptor": "default/high",
        "node": "node-1",
        "time": "2026-03-01T12:00:09Z",
        "message": None,
        "attempt": 2,
        "workflowId": "w",
        "runId": "r",
        "knownFrom": "record",
    }
    assert to_plain(unknown)["left"] is None
