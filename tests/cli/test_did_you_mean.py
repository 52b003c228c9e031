"""Misspelt and misplaced words on the command line: the one that is meant is named."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {filter: {enabled: [{name: NAME}]}}}]
"""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("get podz", "there is no kind of objects 'podz'; did you mean pod?"),
        ("get Nodez", "there is no kind of objects 'Nodez'; did you mean node?"),
        ("delete fleeet x", "there is no kind of objects 'fleeet'; did you mean fleet?"),
        ("describe deploymnt x", "there is no kind of objects 'deploymnt'; did you mean deployment?"),
        ("get pods/web-1", "'pods/web-1' is no kind of objects: write the name behind it, pods web-1"),
        ("get xyz", "there is no kind of objects 'xyz'; known are pods, nodes, "),
        ("explain default/web-1", "give the kind and the name: explain pod default/web-1"),
        ("explain web-1", "give the kind and the name: explain pod web-1"),
        ("explain pod", "give the kind and the name: explain pod NS/NAME"),
        ("explain node oak-1", "only pods are scheduled, not 'node': see `wharfinger describe node oak-1`"),
    ],
)
def test_what_is_meant_is_named(line: str, reason: str, outside: Shell) -> None:
    answer = outside(*line.split())

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {reason}")


def test_beginning_of_an_option_is_answered_with_the_option(outside: Shell) -> None:
    answer = outside("fleet", "undo", "common", "--to", "9")

    assert (answer.code, answer.out) == (2, "")
    assert "--to-revision" in answer.err
    assert "--etcd" not in answer.err


def test_long_words_are_not_repeated_whole(outside: Shell) -> None:
    assert len(outside("get", "x" * 5000).err) < 1200


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NodeResourceFit", "there is no plugin NodeResourceFit; did you mean NodeResourcesFit?"),
        ("Quixotic", "there is no plugin Quixotic (known are "),
    ],
)
def test_misspelt_plugin_is_answered_with_the_one_that_is_meant(name: str, reason: str, outside: Shell) -> None:
    answer = outside("config", "validate", outside.file(PROFILE.replace("NAME", name), "profile.yaml"))

    assert answer.code != 0
    assert reason in answer.out + answer.err


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (
            "profiles: [{plugins: {score: {enabeld: []}}}]",
            "profiles[0].plugins.score.enabeld: unknown field; did you mean enabled?",
        ),
        ("profiles: [{schedulername: a}]", "profiles[0].schedulername: unknown field; did you mean schedulerName?"),
        ("podMaxBackofSeconds: 3", "podMaxBackofSeconds: unknown field; did you mean podMaxBackoffSeconds?"),
        ("quixotic: 3", "quixotic: unknown field\n"),
    ],
)
def test_misspelt_field_is_answered_with_the_one_that_is_meant(written: str, reason: str, outside: Shell) -> None:
    head = PROFILE.partition("profiles:")[0]
    answer = outside("config", "validate", outside.file(head + written, "profile.yaml"))

    assert answer.code != 0
    assert reason in answer.out + answer.err


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("fleet scale", "fleet scale [OPTIONS] {FLEET} {N}"),
        ("fleet get", "fleet get [OPTIONS] [FLEET]"),
        ("config get", "config get [OPTIONS] [KIND]"),
        ("config show", "config show [OPTIONS] [FILE]"),
    ],
)
def test_arguments_have_names_and_one_pair_of_brackets(line: str, usage: str, outside: Shell) -> None:
    assert usage in " ".join(outside(*line.split(), "--help").out.split())
