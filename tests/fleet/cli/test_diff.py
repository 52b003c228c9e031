"""What differs between two states of a fleet, without servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fleet.fleet_records import Records, status
from wharfinger.errors import InvalidConfiguration, NotFound
from wharfinger.fleet.cli.diff import file_difference, open_difference, revision_difference
from wharfinger.fleet.reading.fleet_templates import Names, known_plugins
from wharfinger.fleet.state.fleet_pictures import Picture
from wharfinger.fleet.state.fleet_reading import estate_of

CATALOG = known_plugins()
API = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def weighted(weight: int, **more: Any) -> dict[str, Any]:
    """A template whose NodeAffinity has a weight."""
    plugins = {"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": weight}]}}
    return {"schedulerConfiguration": {**API, "profiles": [{"plugins": plugins}]}, **more}


def picture(records: Records) -> Picture:
    return estate_of(records.stored(), 100).fleet(records.tenant)


def changed(lines: list[str]) -> list[str]:
    """What is added and removed, without the heading."""
    return [line for line in lines[2:] if line[0] in "+-"]


def test_the_open_difference_is_from_what_was_completed_to_what_is_wanted() -> None:
    records = Records().fleet(template=weighted(5)).revision(1, "completed", weighted(3)).revision(2, "failed")

    lines = open_difference(picture(records), CATALOG)

    assert lines[:2] == ["--- revision 1, completed", "+++ the template now"]
    assert [line.split() for line in changed(lines)] == [["-", "weight:", "3"], ["+", "weight:", "5"]]


def test_open_difference_starts_from_the_last_completed_revision() -> None:
    records = Records().fleet(template=weighted(5)).status(status(completed=1))
    records.revision(1, "completed", weighted(3)).revision(2, "completed", weighted(4))

    assert open_difference(picture(records), CATALOG)[0] == "--- revision 1, completed"


def test_defaults_that_are_spelled_out_are_no_difference() -> None:
    spelled = weighted(5, resources={"memory": "1Gi"}, environment={})
    records = Records().fleet(template=weighted(5, resources={"memory": "1024Mi"})).revision(1, "completed", spelled)

    assert open_difference(picture(records), CATALOG) == []
    names = Names(CATALOG)
    assert names(spelled) == names(weighted(5, resources={"memory": "1024Mi"})) != names(weighted(5))


def test_a_file_is_compared_with_its_spec_too() -> None:
    wanted = {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": "gold"},
        "spec": {"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}, "template": {"version": "v2"}},
    }
    found = picture(Records().fleet(replicas=3, template={"version": "v1"}))

    lines = changed(file_difference(found, wanted, "fleet.yaml", CATALOG))

    assert {" ".join(line.split()) for line in lines} == {
        "-replicas: 3",
        "+replicas: 5",
        "- maxSurge: 1",
        "+ maxSurge: 25%",
        "- version: v1",
        "+ version: v2",
    }
    fresh = file_difference(Picture("gold"), wanted, "fleet.yaml", CATALOG)
    assert fresh[0] == "--- no fleet"
    assert all(line.startswith("+") for line in changed(fresh))
    with pytest.raises(InvalidConfiguration, match=r"spec\.replicas"):
        file_difference(found, {**wanted, "spec": {"replicas": -1}}, "fleet.yaml", CATALOG)


def test_whole_seconds_are_shown_as_they_are_written() -> None:
    obj = {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": "gold"},
        "spec": {"minReadySeconds": 3, "killTimeoutSeconds": 2.5, "template": {}},
    }

    lines = file_difference(Picture("gold"), obj, "fleet.yaml", CATALOG)

    assert [line for line in lines if "Seconds" in line] == [
        "+    soakSeconds: 30",
        "+minReadySeconds: 3",
        "+instanceDeadlineSeconds: 300",
        "+progressDeadlineSeconds: 600",
        "+drainTimeoutSeconds: 60",
        "+killTimeoutSeconds: 2.5",
    ]


def test_going_back_to_a_revision_is_shown_or_refused_when_it_is_not_kept() -> None:
    found = picture(Records().fleet(template={"version": "v2"}).revision(1, "completed", {"version": "v1"}))

    assert changed(revision_difference(found, 1, CATALOG)) == ["-version: v2", "+version: v1"]
    with pytest.raises(NotFound, match="has no revision 9: there are 1"):
        revision_difference(found, 9, CATALOG)


def test_template_unknown_to_this_release_is_shown_as_written() -> None:
    odd = {"flavour": "vanilla\x1b[31m"}
    found = picture(Records().fleet(template={"version": "v2"}).revision(1, "completed", odd))

    (removed, _) = changed(open_difference(found, CATALOG))

    assert "flavour" in removed
    assert removed.isprintable()


def test_what_a_file_leaves_out_and_commands_set_is_no_difference() -> None:
    wanted = {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": "gold"},
        "spec": {"template": {"version": "v1"}},
    }

    found = picture(Records().fleet(replicas=7, template={"version": "v1"}))

    assert file_difference(found, wanted, "fleet.yaml", CATALOG) == []


def test_configuration_is_shown_as_written_against_the_agents_own() -> None:
    found = picture(Records().fleet(template=weighted(5)).revision(1, "completed", {"version": "v1"}))

    lines = changed(open_difference(found, CATALOG))

    assert len(lines) == 10
    assert lines[0] == "-version: v1"
    assert "NodeAffinity" in "".join(lines)
