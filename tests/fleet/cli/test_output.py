"""What tables and sentences say of a fleet, without servers."""

from __future__ import annotations

import pytest

from tests.fleet.fleet_records import NOW, OBJECT_REVISION, Records, ago, status
from wharfinger.etcd import keys
from wharfinger.fleet.cli.output import (
    FLEET_HEADINGS,
    SLOT_HEADINGS,
    fleet_row,
    history_rows,
    host_rows,
    slot_rows,
    status_mapping,
)
from wharfinger.fleet.cli.status import status_text
from wharfinger.fleet.model.rollout import Condition, Running, SlotStatus
from wharfinger.fleet.reading.fleet_status import hints, status_of, waiting
from wharfinger.fleet.reading.fleet_summary import rollout_word
from wharfinger.fleet.state.fleet_pictures import Estate, Picture
from wharfinger.fleet.state.fleet_reading import estate_of
from wharfinger.process.records import ConfigStatusRecord


def estate(records: Records) -> Estate:
    return estate_of(records.stored(), 100)


def picture(records: Records) -> Picture:
    return estate(records).fleet(records.tenant)


def row(records: Records) -> dict[str, str]:
    return dict(zip(FLEET_HEADINGS, fleet_row(picture(records), NOW), strict=True))


def slots(records: Records) -> list[dict[str, str]]:
    return [dict(zip(SLOT_HEADINGS, cells, strict=True)) for cells in slot_rows(picture(records))]


def test_fleet_is_counted_from_its_instances_not_from_its_status() -> None:
    records = Records().fleet().actor().status(status(ready=3, updated=3, rollout="running"))
    records.serving(0).serving(1, revision=1)
    records.slot(2).grant(2).instance(2, state="withdrawn")

    assert row(records) == {
        "TENANT": "gold",
        "WANTED": "3",
        "READY": "2",
        "UPDATED": "1",
        "OUTDATED": "1",
        "REVISION": "2",
        "ROLLOUT": "Running",
        "AGE": "60m",
    }


def test_draining_ended_and_earlier_fleets_instances_are_not_ready() -> None:
    records = Records().fleet(replicas=4).actor().status(status())
    records.serving(0)
    records.grant(1, want="drain").instance(1)
    records.grant(2).instance(2).ended(2, how="signal", detail="9")
    records.grant(3, identity=OBJECT_REVISION - 1).instance(3)

    assert row(records)["READY"] == "1"


@pytest.mark.parametrize(
    ("conditions", "rollout", "word"),
    [
        ((), "none", "-"),
        ((), "failed", "Failed"),
        (("Available", "PartitionComplete"), "running", "PartitionComplete"),
        (("CanaryWaiting", "Paused"), "paused", "Paused"),
        (("SpecInvalid", "Paused"), "none", "SpecInvalid"),
    ],
)
def test_the_strongest_condition_is_the_word_of_the_rollout(
    conditions: tuple[str, ...], rollout: str, word: str
) -> None:
    found = tuple(Condition(name, True, "Because") for name in conditions)  # type: ignore[arg-type]
    records = Records().fleet().status(status(conditions=found, rollout=rollout))

    assert rollout_word(picture(records)) == word


def test_a_status_of_an_earlier_object_is_not_believed() -> None:
    assert rollout_word(picture(Records().fleet())) == "Pending"
    behind = status(observed_generation=OBJECT_REVISION - 1, rollout="completed")
    assert rollout_word(picture(Records().fleet().status(behind))) == "Pending"
    assert rollout_word(picture(Records().fleet(deletionTimestamp=ago(1)).status(status()))) == "Deleting"


def test_slots_show_every_incarnation_and_the_empty_ones() -> None:
    told = (SlotStatus(2, assigned=1, ready=False, crashes=3, note="CrashLoop: again in 40 s"),)
    records = Records().fleet().actor().status(status(slots=told))
    records.slot(0, incarnation=2, revision=1).grant(0, 1, 1).instance(0, 1, revision="1")
    records.grant(0, 2).instance(0, 2, "starting", waiting_for="caches not synced")
    records.slot(1).grant(1, want="drain").ended(1, how="code", detail="1", lived=12.0)
    records.slot(2, revision=1)  # does not count yet what the actor does
    records.slot(3, crashes=4).grant(3).instance(3)

    shown = [tuple(cells.values()) for cells in slots(records)]

    assert shown == [
        ("0", "1", "ready", "1", "host-a", "0", ""),
        ("0", "2", "starting", "2", "host-a", "0", "caches not synced"),
        ("1", "1", "crashed", "2", "host-a", "0", "ended with exit code 1 after 12 s"),
        ("2", "-", "empty", "1", "-", "3", "CrashLoop: again in 40 s"),
        ("3", "1", "ready", "2", "host-a", "4", "not wanted any more"),
    ]
    found = status_mapping(status_of(estate(records), picture(records), NOW))["slots"]
    assert [slot["crashes"] for slot in found] == [0, 0, 0, 4]


def test_configuration_problems_of_an_instance_are_noted_at_its_slot() -> None:
    records = Records().fleet(replicas=2).actor().status(status()).serving(0).serving(1)
    told = ConfigStatusRecord(problems={"log": "it is too quiet"})
    records.record(keys.config_status("gold", "1", 1), told).record(keys.config_status("gold", "hand-a-1", 1), told)

    assert [found["NOTE"] for found in slots(records)] == ["", "log: it is too quiet"]
    found = status_mapping(status_of(estate(records), picture(records), NOW))
    assert [slot["problems"] for slot in found["slots"]] == [{}, {"log": "it is too quiet"}]
    assert found["waiting"] == []
    assert picture(records).unreadable == []


def test_note_of_the_status_is_left_out_when_the_instance_is_newer() -> None:
    told = tuple(SlotStatus(slot, 2, ready=False, note="caches not synced") for slot in range(3))
    records = Records().fleet().status(status(slots=told)).serving(0)
    records.grant(1).instance(1, state="starting", waiting_for="Temporal does not answer")
    records.grant(2)

    assert [cells["NOTE"] for cells in slots(records)] == ["", "Temporal does not answer", "caches not synced"]


def test_a_missing_record_is_unknown_once_it_was_seen() -> None:
    told = (SlotStatus(0, 2, ready=True, incarnations=((1, "available", 2, "host-a"),)),)
    fresh = Records().fleet(replicas=1).slot(0).grant(0)
    assert slots(fresh)[0]["PHASE"] == "granted"
    assert slots(fresh.status(status(slots=told)))[0]["PHASE"] == "unknown"
    revoked = Records().fleet(replicas=1).slot(0).instance(0)
    assert slots(revoked)[0]["PHASE"] == "revoked"


def test_step_waits_for_what_its_instance_reports_while_seconds_pass() -> None:
    step = Running("up", 7, 3, "slot 7: waits for incarnation 3 on host-a to be ready", seen=30.0, limit=300.0)
    records = Records().fleet(replicas=8).status(status(running=(step,)), written=10)
    records.slot(7, 3).grant(7, 3)
    assert waiting(picture(records), NOW) == [
        "slot 7: incarnation 3 on host-a is to be started and to register, 40 s of 300"
    ]

    records.instance(7, 3, "starting", waiting_for="caches not synced")
    assert waiting(picture(records), NOW) == ["slot 7: /readyz says caches not synced, 40 s of 300"]

    records.instance(7, 3)
    assert waiting(picture(records), NOW) == [
        "slot 7: incarnation 3 on host-a is ready and must stay so for minReadySeconds, 40 s of 300"
    ]


def test_step_without_an_incarnation_is_shown_as_its_actor_wrote_it() -> None:
    step = Running("up", 4, 0, "no host has version v2", seen=5.0)
    assert waiting(picture(Records().fleet().status(status(running=(step,)))), NOW) == [
        "slot 4: no host has version v2, 5 s of 300"
    ]


def test_begun_step_names_the_incarnation_granted_since() -> None:
    step = Running("up", 4, 0, "slot 4: waits for its next incarnation on host-a to be ready")
    told = (SlotStatus(4, 1, ready=True, incarnations=((1, "available", 1, "host-a"),)),)
    records = Records().fleet(replicas=5).status(status(running=(step,), slots=told), written=8).serving(4, revision=1)
    assert waiting(picture(records), NOW) == [
        "slot 4: waits for its next incarnation on host-a to be ready, 8 s of 300"
    ]

    records.grant(4, 2).instance(4, 2, state="starting", waiting_for="caches not synced")
    assert waiting(picture(records), NOW) == ["slot 4: /readyz says caches not synced, 8 s of 300"]


def test_retirement_is_shown_until_etcd_shows_its_end() -> None:
    step = Running("retire", 1, 1, "drains", seen=3.0, limit=60.0)
    records = Records().fleet().status(status(running=(step,)))
    assert waiting(picture(records), NOW) == []

    records.grant(1, want="drain").instance(1, state="draining")
    assert waiting(picture(records), NOW) == ["slot 1: incarnation 1 on host-a drains, 3 s of 60"]
    del records.values[keys.instance("gold", "1", 1)]
    assert waiting(picture(records), NOW) == [
        "slot 1: incarnation 1 on host-a has drained, its process is to end, 3 s of 60"
    ]


def test_starting_instance_is_shown_without_a_step() -> None:
    records = Records().fleet(replicas=2).serving(0).grant(1).instance(1, state="withdrawn", waiting_for="Temporal")

    assert waiting(picture(records), NOW) == ["slot 1: incarnation 1 on host-a withdrew itself: Temporal"]


def test_hints_name_the_missing_component() -> None:
    records = Records().fleet(replicas=1).serving(0)
    alone = hints(estate(records), picture(records), NOW)
    assert ["no live agent" in hint for hint in alone] == [True, True]

    records.host("host-a", control=True)
    (pending,) = hints(estate(records), picture(records), NOW)
    assert "workflow has not looked" in pending

    step = Running("up", 0, 1, "", seen=0.0, limit=300.0)
    records.status(status(running=(step,)), written=350)
    assert hints(estate(records), picture(records), NOW) == []
    records.status(status(running=(step,)), written=400)
    (late,) = hints(estate(records), picture(records), NOW)
    assert late.startswith("the status is 6m40s old")


def test_hint_reports_that_no_instance_reaches_temporal() -> None:
    records = Records().fleet(replicas=2).host().status(status()).serving(0).serving(1)
    records.instance(0, state="withdrawn", waiting_for="temporal: Temporal does not answer")
    assert hints(estate(records), picture(records), NOW) == []

    records.instance(1, state="withdrawn", waiting_for="temporal: Temporal does not answer")
    (hint,) = hints(estate(records), picture(records), NOW)
    assert hint.startswith("no instance reaches Temporal")


def test_hint_reports_a_fleet_on_one_of_several_hosts() -> None:
    records = Records().fleet(replicas=2).host().status(status()).serving(0).serving(1)
    assert hints(estate(records), picture(records), NOW) == []  # there is no other host

    records.host("host-b")
    (hint,) = hints(estate(records), picture(records), NOW)
    assert hint.startswith("all 2 ready instances are on host host-a, one of 2")

    records.instance(1, state="starting")
    assert hints(estate(records), picture(records), NOW) == []  # one is not all


def test_hosts_lost_together_are_hinted_with_the_confirm_lost_command() -> None:
    records = Records().fleet(replicas=2).host("host-b").status(status(lost_together=("host-a",))).serving(0)

    (away, together) = hints(estate(records), picture(records), NOW)
    assert away.startswith("host host-a has no live agent: those of its instances that are ready go on serving")
    assert together.endswith("`wharfinger host confirm-lost host-a`")

    records.put(keys.lost_host("host-a"), b"{}")
    assert hints(estate(records), picture(records), NOW) == [away]


def test_draining_instance_without_an_agent_has_a_hint_on_its_end() -> None:
    records = Records().fleet(replicas=1).host("host-b").status(status()).serving(0)
    assert len(hints(estate(records), picture(records), NOW)) == 1

    records.grant(0, want="drain").instance(0, state="draining")
    (_, leaving) = hints(estate(records), picture(records), NOW)
    assert leaving.startswith("a draining instance on host host-a is given up when its lease has been gone")


def test_what_cannot_be_read_is_named_and_hides_nothing() -> None:
    records = Records().fleet(replicas=1).serving(0).host().status(status())
    records.put(keys.slot("gold", 1), b"{").put(keys.grant("gold", 1, 1) + "/more", b'{"revision":1,"host":"h"}')
    records.put(keys.instance("gold", "hand-h-1", 1), records.values[keys.instance("gold", "0", 1)])

    found = hints(estate(records), picture(records), NOW)

    assert row(records)["READY"] == "1"
    assert [hint.split(": ")[0] for hint in found] == [
        "workers started by hand serve this tenant too, and are left alone",
        keys.slot("gold", 1),
        keys.grant("gold", 1, 1) + "/more",
    ]


def test_an_object_that_is_none_is_a_fleet_that_cannot_be_read() -> None:
    records = Records().put(keys.fleet("gold"), b"[]").status(status(replicas=3)).host()

    assert row(records)["WANTED"] == "3"
    assert hints(estate(records), picture(records), NOW) == [f"{keys.fleet('gold')}: is no object"]


def test_history_marks_the_wanted_revision_and_the_others_outcomes() -> None:
    records = Records().fleet().actor(target=3).revision(1, "completed").revision(2, "failed").revision(3)

    assert history_rows(picture(records), NOW) == [
        ("1", "completed", "90m", "who-1", "why-1 (since-1)"),
        ("2", "failed", "80m", "who-2", "why-2 (since-2)"),
        ("3 *", "wanted", "70m", "who-3", "why-3"),
    ]


def test_hosts_are_listed_with_cordons_and_without_an_agent() -> None:
    records = Records().fleet().host("host-a", installs=("v1", "v2"), capacity=8)
    records.host("host-b", control=False).cordon("host-b", "drain")
    records.grant(0).grant(1).grant(2, host="host-c")

    assert host_rows(estate(records), NOW) == [
        ("host-a", "Ready", "2", "8", "(own),v1,v2", "yes", "120m", ""),
        ("host-b", "Ready,Draining", "0", "-", "(own)", "no", "120m", "new disks; by ann 60s ago"),
        ("host-c", "NoAgent", "1", "-", "-", "-", "-", ""),
    ]


def test_the_whole_text_is_in_parts_and_has_no_power_over_the_terminal() -> None:
    condition = Condition("Progressing", True, "RollingOut", "2 of 3 slots\x1b[31m")
    records = Records().fleet(replicas=1).actor().host().revision(1, "completed").revision(2)
    records.status(status(rollout="running", phase="waits for slot 0", conditions=(condition,)), Progressing=ago(30))
    records.grant(0).instance(0, state="starting", waiting_for="caches not synced")

    text = status_text(status_of(estate(records), picture(records), NOW), NOW)

    assert text.splitlines() == [
        "Fleet:            gold",
        "Instances:        1 wanted, 0 ready, 0 updated, 0 outdated",
        "Revision:         2 (written by who-2 80m ago: why-2), 1 was completed last",
        "Rollout:          Running",
        "Now:              waits for slot 0",
        "As of:            2026-01-02T12:00:00+00:00 (0s ago)",
        "",
        "Waits for:",
        "  slot 0: /readyz says caches not synced",
        "",
        "CONDITION     STATUS   REASON       SINCE   MESSAGE",
        "Progressing   True     RollingOut   30s     2 of 3 slots\\x1b[31m",
        "",
        "SLOT   INCARNATION   PHASE      REVISION   HOST     CRASHES   NOTE",
        "0      1             starting   2          host-a   0         caches not synced",
    ]
