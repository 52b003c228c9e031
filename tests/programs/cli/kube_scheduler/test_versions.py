"""`--version`, in the forms that kube-scheduler has."""

from __future__ import annotations

import re

import pytest

from tests.cli.shell import Shell
from wharfinger.programs.cli.kube_scheduler import RELEASE, printed, reported


@pytest.mark.parametrize("argument", ["--version", "--version=true", "--version=T"])
def test_version_begins_as_kube_schedulers(outside: Shell, argument: str) -> None:
    found = outside("kube-scheduler", argument, "--leader-elect=false")

    assert found.code == 0
    assert found.out.startswith("Kubernetes v1.36.2 (wharfinger ")
    assert found.out.count("\n") == 1


def test_raw_version_has_the_fields_of_gos(outside: Shell) -> None:
    found = outside("kube-scheduler", "--version=raw")

    assert found.code == 0
    fields = dict(re.findall(r'(\w+):"([^"]*)"', found.out))
    assert found.out.startswith("version.Info{")
    assert (fields["Major"], fields["Minor"], fields["GitVersion"]) == ("1", "36", RELEASE)
    assert "/" in fields["Platform"]


def test_false_prints_nothing() -> None:
    assert printed("false") == ""
    assert reported("false") is None


@pytest.mark.parametrize("wanted", ["v1.36.2", "v1.36.2-eks.1", "v1.36.2+vendor"])
def test_version_of_a_distribution_is_reported(wanted: str) -> None:
    assert printed(wanted) == ""
    assert reported(wanted) == wanted
