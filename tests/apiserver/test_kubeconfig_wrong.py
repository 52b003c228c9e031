"""Wrong kubeconfigs: each gives one line that names the file and the field, says what to do, and has no secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.kubeconfigs import SECRET, KubeconfigFolder, kubeconfig_folder
from tests.apiserver.wrong_kubeconfigs import WRONG, Wrong
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.errors import ConfigurationError


@pytest.fixture
def home(tmp_path: Path) -> KubeconfigFolder:
    return kubeconfig_folder(tmp_path)


@pytest.fixture
def as_anyone() -> Iterator[None]:
    """Root may read everything, so such tests are another user."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row.what)
def test_wrong_kubeconfig_gives_one_line_with_advice(home: KubeconfigFolder, row: Wrong) -> None:
    row.change(home)

    with pytest.raises(ConfigurationError) as caught:
        home.read()

    line = str(caught.value)
    assert row.field in line
    assert row.reason in line
    assert "; " in line or " must " in line
    assert line.isprintable()
    assert SECRET not in line
    assert "PRIVATE KEY-----\n" not in line
    assert line.count(f"{home.path}") == row.of_file


def test_each_wrong_kubeconfig_has_a_row_of_its_own() -> None:
    assert len({row.what for row in WRONG}) == len(WRONG) > 20


def test_file_of_another_user_is_named(home: KubeconfigFolder, as_anyone: None) -> None:
    with pytest.raises(ConfigurationError, match=r"config may not be read by user id \d+; change its owner"):
        read_access(home.path, surroundings=home.surroundings())


def test_nothing_named_says_what_to_name(home: KubeconfigFolder) -> None:
    with pytest.raises(ConfigurationError, match="use --kubeconfig or KUBECONFIG"):
        read_access(surroundings=home.surroundings())


def test_context_without_a_kubeconfig_is_refused(home: KubeconfigFolder) -> None:
    with pytest.raises(ConfigurationError, match='context "main" needs a kubeconfig'):
        read_access(context="main", surroundings=home.surroundings())


def test_variable_whose_files_are_all_missing_is_refused(home: KubeconfigFolder) -> None:
    home.environment = {"KUBECONFIG": os.pathsep.join(("/a/missing", "/b/missing"))}

    with pytest.raises(ConfigurationError, match=r"none .* exists: /a/missing, /b/missing; correct or unset it"):
        read_access(surroundings=home.surroundings())
