"""What plugins answer right before a commit: a refusal is a value, and what is neither that nor success an error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduling.effects.placing.test_placing_lone import DEFAULT
from wharfinger.errors import PluginError
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.effects.binding.verification import ask_to_bind


class Answers:
    """A plugin with one answer in PreBind."""

    name = "Answers"

    def __init__(self, answer: Status) -> None:
        self.answer = answer

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status:
        return self.answer


class LastWord(Answers):
    """Answers in Bind instead."""

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status:
        return Status(Code.SKIP)

    def bind(self, state: Any, pod: Any, node_name: str) -> Status:
        return self.answer


def asked(plugin: Answers) -> Status:
    """By a profile that asks this plugin first: the default binder answers in Bind, too."""
    profile = Profile(DEFAULT.name, Enabled.everywhere([plugin, *DEFAULT.plugins], {}), digest="other")
    steps = ask_to_bind(profile, CycleState(), Pod("default", "web", "uid"), "node")
    return SUCCESS if steps == () else steps


@pytest.mark.parametrize("answer", [unschedulable("no volume"), Status(Code.PENDING, ("not yet",))])
def test_a_refusal_is_given_back_with_the_name_of_its_plugin(answer: Status) -> None:
    assert asked(Answers(answer)) == answer.by("Answers")


def test_a_pre_bind_plugin_that_skips_stops_nothing() -> None:
    assert asked(Answers(Status(Code.SKIP))).ok


@pytest.mark.parametrize(("kind", "point"), [(Answers, "PreBind"), (LastWord, "Bind")])
def test_an_error_names_where_it_was_answered(kind: type[Answers], point: str) -> None:
    with pytest.raises(PluginError, match=f"plugin Answers failed in {point}: the server is down"):
        asked(kind(Status(Code.ERROR, ("the server is down",))))


@pytest.mark.parametrize(("kind", "point"), [(Answers, "PreBind"), (LastWord, "Bind")])
def test_wait_is_no_answer_there(kind: type[Answers], point: str) -> None:
    with pytest.raises(PluginError, match=f"plugin Answers failed in {point}: answered WAIT"):
        asked(kind(Status(Code.WAIT)))
