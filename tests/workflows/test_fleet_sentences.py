"""What the Temporal UI says of a fleet's actor while it waits: for people who know nothing of its steps' names."""

from __future__ import annotations

from wharfinger.fleet.model.rollout import Busy, Clear, Writes
from wharfinger.workflows import fleet_sentences as sentences

UP, RETIRE = Busy("up", 7, 3, 2, "a"), Busy("retire", 4, 2, host="a")


def test_wait_names_its_steps_and_is_short_for_many_of_them() -> None:
    until = "looks again within 5 s, or when something happens"
    assert sentences.waiting(5.0, ()) == f"nothing is open; {until}"
    assert (
        sentences.waiting(5.0, (UP, RETIRE)) == f"slot 7: incarnation 3 comes up, slot 4: incarnation 2 drains; {until}"
    )
    assert sentences.doing((Busy("up", 1, 0), RETIRE, UP, UP)) == (
        "slot 1: its next incarnation comes up, slot 4: incarnation 2 drains, and 2 more"
    )


def test_the_details_name_every_step() -> None:
    assert sentences.details("revision 2: 0 of 3 slots updated", 4, (UP, RETIRE, UP)).count("\n- slot ") == 3


def test_a_look_counts_what_is_open() -> None:
    assert sentences.looking("poked", ()) == "look: poked"
    assert sentences.looking("poked", (UP,)) == "look: poked (1 step is open)"
    assert sentences.looking("poked", (UP, RETIRE)) == "look: poked (2 steps are open)"


def test_writes_are_described_slot_by_slot() -> None:
    writes = Writes(clears=(Clear(2, 3, 0),))
    assert sentences.recording(writes, take=True) == "take over; slot 2: clear incarnation 3 away"
