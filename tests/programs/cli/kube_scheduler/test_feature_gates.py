"""`--feature-gates`: every gate of the release is known, and each value is accepted or refused with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.programs.cli.kube_scheduler.command_lines import run_real
from wharfinger.errors import UsageError
from wharfinger.programs.cli.feature_gates import (
    ALL_ALPHA,
    ALL_BETA,
    FIXED,
    NOT_BUILT,
    check_gates,
    known_gates,
    warnings_of,
)

GATES = known_gates()
STAGES = {"alpha", "beta", "ga", "deprecated"}


def test_gates_are_those_of_the_release() -> None:
    assert len(GATES) == 241
    assert {gate.stage for gate in GATES.values()} == STAGES
    assert (set(FIXED) | set(NOT_BUILT)) <= set(GATES)
    assert not set(FIXED) & set(NOT_BUILT)


@pytest.mark.servers
def test_gates_and_defaults_are_those_of_the_real_help() -> None:
    """Its help leaves out the gates that are generally available or deprecated."""
    shown = re.findall(r"kube:(\w+)=true\|false \((\w+) - default=(\w+)\)", run_real("--help").stdout)

    ours = {(name, gate.stage.upper(), str(gate.default).lower()) for name, gate in GATES.items()}
    assert set(shown) == {gate for gate in ours if gate[1] in ("ALPHA", "BETA")}


@pytest.mark.servers
@pytest.mark.parametrize(
    "name", ["SidecarContainers", "KMSv1", "DisableNodeKubeProxyVersion", "AllowServiceExternalIPs"]
)
def test_gates_without_help_are_locked_as_the_real_ones(name: str, kubeconfig: str, tmp_path: Path) -> None:
    value = str(not GATES[name].default).lower()

    done = run_real(f"--kubeconfig={kubeconfig}", f"--feature-gates={name}={value}", f"--write-config-to={tmp_path}/f")

    assert ("feature is locked" in done.stderr) is GATES[name].locked


@pytest.mark.parametrize("name", sorted(GATES))
def test_default_of_each_gate_is_accepted(name: str) -> None:
    assert check_gates([f"{name}={GATES[name].default}"]) == {name: GATES[name].default}


@pytest.mark.parametrize("name", sorted(set(GATES) - set(FIXED) - set(NOT_BUILT) - {ALL_ALPHA, ALL_BETA}))
def test_gate_of_other_components_is_accepted_unless_locked(name: str) -> None:
    gate = GATES[name]
    entry = f"kube:{name}={not gate.default}"

    if not gate.locked:
        assert check_gates([entry]) == {name: not gate.default}
        return
    other, default = str(not gate.default).lower(), str(gate.default).lower()
    with pytest.raises(UsageError, match=f"cannot set feature gate {name} to {other}, feature is locked to {default}"):
        check_gates([entry])


@pytest.mark.parametrize("name", sorted(NOT_BUILT))
def test_feature_that_is_not_built_cannot_be_switched_on(name: str) -> None:
    if not GATES[name].locked:
        assert check_gates([f"{name}=false"]) == {name: False}
        assert warnings_of({name: False}) == []
    if GATES[name].default:
        assert warnings_of(check_gates([f"{name}=true"])) == [
            f"--feature-gates: {name} without effect: {NOT_BUILT[name]}"
        ]
        return
    with pytest.raises(
        UsageError, match=f"--feature-gates: {name}=true is not available: {re.escape(NOT_BUILT[name])}"
    ):
        check_gates([f"{name}=true"])


@pytest.mark.parametrize("name", sorted(FIXED))
def test_feature_that_is_always_as_it_is_cannot_be_switched(name: str) -> None:
    other = str(not GATES[name].default).lower()

    with pytest.raises(UsageError, match=f"--feature-gates: {name}={other} is not available: {re.escape(FIXED[name])}"):
        check_gates([f"{name}={other}"])


def test_gates_that_are_built_or_not_a_schedulers_give_no_warning() -> None:
    others = {name: gate.default for name, gate in GATES.items() if name not in NOT_BUILT}

    assert warnings_of(others) == []


def test_gates_that_are_not_built_share_one_line_of_the_log(outside: Shell, kubeconfig: str) -> None:
    gates = "DRAExtendedResource=true,SidecarContainers=true,DynamicResourceAllocation=true"
    target = outside.folder / "written"

    found = outside(
        "kube-scheduler", "--kubeconfig", kubeconfig, f"--feature-gates={gates}", f"--write-config-to={target}"
    )

    lines = [line for line in found.err.splitlines() if "flag_without_effect" in line]
    assert (found.code, len(lines)) == (0, 1), found.err
    assert " WARNING " in lines[0]
    assert "DRAExtendedResource, DynamicResourceAllocation without effect: dynamic resource allocation" in lines[0]


@pytest.mark.parametrize("name", [ALL_ALPHA, ALL_BETA])
def test_all_gates_of_a_stage_cannot_be_switched_at_once(name: str) -> None:
    with pytest.raises(UsageError, match="set the gates that are meant, one by one"):
        check_gates([f"{name}=true"])


WRONG = {
    "Foo=true": "unrecognized feature gate: Foo",
    "wardle:Foo=true": "component not registered: wardle",
    "PodLevelResources": "missing bool value for PodLevelResources",
    "PodLevelResources=maybe": 'invalid value of PodLevelResources=maybe, err: strconv.ParseBool: parsing "maybe": '
    "invalid syntax",
    "SidecarContainers=false": "cannot set feature gate SidecarContainers to false, feature is locked to true",
}
"""Entry -> kube-scheduler's words."""


@pytest.mark.parametrize("entry", WRONG)
def test_wrong_gate_is_refused_in_one_line_with_code_1(outside: Shell, kubeconfig: str, entry: str) -> None:
    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, f"--feature-gates={entry}")

    assert found.code == 1
    assert found.err == f"error: --feature-gates: {WRONG[entry]}\n"


@pytest.mark.servers
@pytest.mark.parametrize("entry", WRONG)
def test_wrong_gate_is_refused_as_by_the_real_one(entry: str) -> None:
    done = run_real(f"--feature-gates={entry}")

    assert done.returncode == 1
    assert WRONG[entry] in done.stderr.replace('\\"', '"')
