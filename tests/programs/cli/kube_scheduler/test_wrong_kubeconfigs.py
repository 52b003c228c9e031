"""Wrong kubeconfigs end `wharfinger kube-scheduler` at once: one line with what to do, code 1, and no secret."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.apiserver.kubeconfigs import SECRET, KubeconfigFolder, kubeconfig_folder
from tests.apiserver.wrong_kubeconfigs import WRONG, Wrong
from tests.cli.shell import Shell
from wharfinger.programs.cli.flags import BY_NAME

FLAG_OF = {"master": "--master", "allow_insecure": "--allow-insecure-upstream"}
"""Options of a row -> the flag; kube-scheduler has none for the context."""
OTHERWISE = {"no such chosen context", "expired certificate"}
"""Rows that a command line cannot have: a chosen context, and another time of day."""


@pytest.fixture
def wrong_home(outside: Shell) -> KubeconfigFolder:
    folder = outside.folder / "wrong"
    folder.mkdir()
    return kubeconfig_folder(folder)


def arguments_of(home: KubeconfigFolder) -> list[str]:
    if not os.path.lexists(home.path):
        home.write()
    options = [FLAG_OF[name] if value is True else f"{FLAG_OF[name]}={value}" for name, value in home.options.items()]
    target = home.folder / "written"  # so that it ends here also where a kubeconfig is accepted
    return ["kube-scheduler", f"--kubeconfig={home.path}", f"--write-config-to={target}", *options]


@pytest.mark.parametrize("row", [row for row in WRONG if row.what not in OTHERWISE], ids=lambda row: row.what)
def test_wrong_kubeconfig_is_one_line_and_code_1(outside: Shell, wrong_home: KubeconfigFolder, row: Wrong) -> None:
    row.change(wrong_home)

    found = outside(*arguments_of(wrong_home))

    (line,) = [line for line in found.err.splitlines() if line.startswith("error: ")]
    assert found.code == 1
    assert found.out == ""
    assert row.field in line
    assert row.reason in line
    assert SECRET not in found.err
    assert "Traceback" not in found.err
    assert line.count(str(wrong_home.path)) == row.of_file


def test_nothing_is_written_for_a_wrong_kubeconfig(outside: Shell, wrong_home: KubeconfigFolder) -> None:
    wrong_home.cluster["server"] = ""

    found = outside(*arguments_of(wrong_home))

    assert found.code == 1
    assert not (wrong_home.folder / "written").exists()


def test_without_any_api_it_says_what_to_name(outside: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)

    found = outside("kube-scheduler", "--write-config-to=/dev/null")

    assert found.code == 1
    assert found.err == "error: no Kubernetes API server is named; use --kubeconfig or KUBECONFIG\n"


@pytest.mark.parametrize("name", ["authentication-kubeconfig", "authorization-kubeconfig"])
def test_wrong_kubeconfig_for_reviews_is_one_line_and_code_1(
    outside: Shell, kubeconfig: str, wrong_home: KubeconfigFolder, name: str
) -> None:
    assert name in BY_NAME
    wrong_home.cluster["server"] = "ftp://10.0.0.1"

    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, f"--{name}={wrong_home.write()}",
                    "--write-config-to=/dev/null")  # fmt: skip

    (line,) = found.err.splitlines()
    assert found.code == 1
    assert line.startswith("error: ")
    assert str(wrong_home.path) in line


def test_reviewing_kubeconfig_that_is_not_there_is_refused(outside: Shell, kubeconfig: str) -> None:
    shutil.rmtree(outside.folder / "gone", ignore_errors=True)
    missing = outside.folder / "gone" / "config"

    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, f"--authentication-kubeconfig={missing}",
                    "--write-config-to=/dev/null")  # fmt: skip

    assert found.code == 1
    assert f"{missing} does not exist" in found.err
