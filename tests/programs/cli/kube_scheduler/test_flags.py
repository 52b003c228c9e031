"""Flags of kube-scheduler: all are there, read as Go reads them, and each is honoured, warned about or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.programs.cli.kube_scheduler.command_lines import parsed, run_real
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.process import logs
from wharfinger.programs.cli.flags import BY_NAME, FLAGS
from wharfinger.programs.cli.go_types import GoType

NAMES = Path(__file__).with_name("kube_scheduler_flags.txt")
SPELT_OTHERWISE = {
    "int32Slice": "strings",
    "namedCertKey": "string",
    "stringToString": "string",
    "colonSeparatedMultimapStringString": "strings",
    "quantity": "string",
    "pattern=N,...": "string",
}
"""Types of kube-scheduler that are read as another one here."""


def listed() -> dict[str, str]:
    return dict(line.split(" ") for line in NAMES.read_text().splitlines())


def test_every_flag_of_kube_scheduler_has_a_row() -> None:
    assert sorted(BY_NAME) == sorted(listed())
    assert len(FLAGS) == len(BY_NAME)


def test_types_are_those_of_kube_scheduler() -> None:
    known = {name: SPELT_OTHERWISE.get(type_, type_) for name, type_ in listed().items()}

    assert {name: flag.type.value for name, flag in BY_NAME.items()} == known


@pytest.mark.servers
def test_list_of_flags_is_that_of_the_real_help() -> None:
    found = re.findall(r"^\s+(?:-\w, )?--([\w-]+)(?: ([\w\[\]=.,]+)(?=  ))?", run_real("--help").stdout, re.M)

    assert {name: type_ or "bool" for name, type_ in found if name not in ("help", "version")} == listed()


def test_defaults_can_be_read() -> None:
    for flag in FLAGS:
        if flag.default:
            flag.type.read(flag.default)


def test_each_flag_is_honoured_or_ignored_or_refused() -> None:
    assert [flag.name for flag in FLAGS if (flag.ignored and flag.refused) or not flag.text] == []
    assert {flag.name for flag in FLAGS if flag.text == "Ignored."} == {flag.name for flag in FLAGS if flag.ignored}


# --- Go's spelling --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_spellings_of_true(text: str) -> None:
    assert parsed(f"--permit-port-sharing={text}")["permit-port-sharing"] is True


@pytest.mark.parametrize("text", ["0", "f", "F", "false", "FALSE", "False"])
def test_spellings_of_false(text: str) -> None:
    assert parsed(f"--leader-elect={text}")["leader-elect"] is False


def test_boolean_flag_without_a_value_is_true() -> None:
    found = parsed("--authentication-skip-lookup", "--permit-port-sharing", "--secure-port=1")

    assert found["authentication-skip-lookup"] is True
    assert found["permit-port-sharing"] is True
    assert found["secure-port"] == 1


def test_boolean_flag_takes_no_separate_value() -> None:
    with pytest.raises(WharfingerError, match=r'"kube-scheduler" does not take any arguments, got \["false"\]'):
        parsed("--leader-elect", "false")


def test_value_that_looks_like_a_flag_stays_a_value() -> None:
    assert parsed("--kubeconfig", "--leader-elect")["kubeconfig"] == "--leader-elect"


@pytest.mark.parametrize("line", [["-v=4"], ["-v", "4"], ["-v4"], ["--v=4"], ["--v", "4"], ["-v=2", "--v=4"]])
def test_verbosity_in_each_spelling(line: list[str]) -> None:
    assert parsed(*line)["v"] == 4


def test_underscores_in_names_are_dashes() -> None:
    assert parsed("--leader_elect_lease_duration=20s")["leader-elect-lease-duration"] == 20.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("250ms", 0.25), ("0", 0.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parsed(f"--leader-elect-lease-duration={text}")["leader-elect-lease-duration"] == seconds


@pytest.mark.parametrize(("text", "port"), [("10259", 10259), ("0x2813", 10259), ("0o24023", 10259), ("024023", 10259)])
def test_integers_in_every_base(text: str, port: int) -> None:
    assert parsed(f"--secure-port={text}")["secure-port"] == port


def test_lists_of_several_occurrences_are_one() -> None:
    found = parsed("--disabled-metrics=a,b", "--disabled-metrics", "c", "--feature-gates=A=true,B=true",
                   "--feature-gates=C=false")  # fmt: skip

    assert found["disabled-metrics"] == ("a", "b", "c")
    assert found["feature-gates"] == ("A=true", "B=true", "C=false")


def test_of_other_flags_the_last_occurrence_counts() -> None:
    assert parsed("--secure-port=1", "--secure-port=2")["secure-port"] == 2
    assert parsed("--kubeconfig", "a", "--kubeconfig", "b")["kubeconfig"] == "b"


def test_each_certificate_pair_counts() -> None:
    found = parsed("--tls-sni-cert-key=a,b:x.com,y.com", "--tls-sni-cert-key=c,d")

    assert found["tls-sni-cert-key"] == ("a,b:x.com,y.com", "c,d")


def test_wrong_option_of_wharfinger_ends_with_code_1_too(outside: Shell, kubeconfig: str) -> None:
    for wrong in ("--etcd-key=/none", "--etcd=ftp://x", "--cohorts=some"):
        found = outside("kube-scheduler", "--kubeconfig", kubeconfig, wrong, "--write-config-to=/dev/null")

        assert found.code == 1
        assert found.err.startswith("error: ")
        assert found.err.count("\n") == 1


WRONG = {
    "--leader-elect=maybe": 'invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool: parsing "maybe": '
    "invalid syntax",
    "--secure-port=x": 'invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax',
    "--secure-port=": 'invalid argument "" for "--secure-port" flag: strconv.ParseInt: parsing "": invalid syntax',
    "--kube-api-burst=99999999999": 'invalid argument "99999999999" for "--kube-api-burst" flag: strconv.ParseInt: '
    'parsing "99999999999": value out of range',
    "--kube-api-qps=x": 'invalid argument "x" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "x": invalid '
    "syntax",
    "-v=x": 'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": invalid syntax',
    "--v=4294967296": 'invalid argument "4294967296" for "-v, --v" flag: strconv.ParseUint: parsing "4294967296": '
    "value out of range",
    "--leader-elect-retry-period=5": 'invalid argument "5" for "--leader-elect-retry-period" flag: time: missing unit '
    'in duration "5"',
    "--log-flush-frequency=x": 'invalid argument "x" for "--log-flush-frequency" flag: time: invalid duration "x"',
    "--bind-address=x": 'invalid argument "x" for "--bind-address" flag: failed to parse IP: "x"',
    "--version=abc": 'invalid argument "abc" for "--version" flag: strconv.ParseBool: parsing "abc": invalid syntax',
    "--version=v1.2.3": 'invalid argument "v1.2.3" for "--version" flag: version "v1.2.3" must match major/minor/patch '
    'of default version "v1.36.2"',
    "--no-such-flag": "unknown flag: --no-such-flag",
    "node": '"kube-scheduler" does not take any arguments, got ["node"]',
}
"""Argument -> kube-scheduler's words."""


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_value_is_refused_in_one_line_with_code_1(outside: Shell, argument: str) -> None:
    found = outside("kube-scheduler", argument)

    assert found.code == 1
    assert found.out == ""
    assert found.err.startswith(f"error: {WRONG[argument]}")
    assert found.err.count("\n") == 1


@pytest.mark.servers
@pytest.mark.parametrize("argument", WRONG)
def test_wrong_value_is_refused_as_by_the_real_one(argument: str) -> None:
    done = run_real(argument)

    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(f"Error: {WRONG[argument]}")


# --- those that are refused, and those that mean nothing ----------------------------------------------

REFUSED = [flag for flag in FLAGS if flag.refused]
IGNORED = [flag for flag in FLAGS if flag.ignored]
VALUES = {GoType.BOOL: "true", GoType.INT: "7", GoType.DURATION: "7s"}


@pytest.mark.parametrize("name", [flag.name for flag in REFUSED])
def test_refused_flag_ends_with_one_line_of_advice(outside: Shell, kubeconfig: str, name: str) -> None:
    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, f"--{name}=9")

    assert found.code == 1
    assert found.err == f"error: --{name}: {BY_NAME[name].refused}\n"
    assert "leave it out" in found.err


@pytest.mark.parametrize("name", ["emulated-version", "min-compatibility-version"])
@pytest.mark.parametrize("value", ["1.36", "kube=1.36"])
def test_version_flags_accept_the_release_that_is_built(name: str, value: str) -> None:
    assert parsed(f"--{name}={value}")[name] == (value,)


@pytest.mark.parametrize("name", [flag.name for flag in IGNORED])
def test_flag_without_effect_is_logged(outside: Shell, kubeconfig: str, name: str) -> None:
    flag = BY_NAME[name]
    value = flag.allowed[-1] if flag.allowed else VALUES.get(flag.type, "text")
    target = outside.folder / "written"

    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, f"--{name}={value}", f"--write-config-to={target}")

    assert found.code == 0
    lines = [line for line in found.err.splitlines() if "flag_without_effect" in line]
    assert len(lines) == 1
    assert f"--{name} has no effect: {flag.ignored}" in lines[0]
    assert " WARNING " in lines[0]


@pytest.mark.parametrize(
    ("verbosity", "level"), [("-v=0", "info"), ("-v=3", "info"), ("-v=4", "debug"), ("-v=10", "debug")]
)
def test_everything_is_logged_from_verbosity_4_on(outside: Shell, kubeconfig: str, verbosity: str, level: str) -> None:
    target = outside.folder / "written"

    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, verbosity, f"--write-config-to={target}")

    assert found.code == 0
    assert logs.level() == level


def test_only_the_previous_release_may_be_named_for_hidden_metrics() -> None:
    with pytest.raises(UsageError, match=r'--show-hidden-metrics-for-version: "1.2" must be 1.35'):
        parsed("--show-hidden-metrics-for-version=1.2")


def test_flags_are_shown_as_go_shows_them() -> None:
    shown = parsed("--leader-elect-lease-duration=90s", "--kube-api-qps=12.5").shown()

    assert shown["leader-elect-lease-duration"] == "1m30s"
    assert shown["kube-api-qps"] == "12.5"
    assert shown["leader-elect"] == "true"
    assert shown["authorization-always-allow-paths"] == "[/healthz,/readyz,/livez]"
    assert shown["secure-port"] == "10259"
    assert shown.keys() == listed().keys()
