"""Configurations in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.framework.config.configurations import completed
from wharfinger.errors import InvalidConfiguration
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_configuration, load_profiles


@pytest.mark.parametrize(
    "content",
    [
        "profiles:\n- schedulerName: mine\n",
        '{"profiles": [{"schedulerName": "mine"}]}',
        "\ufeff# with a byte order mark\nprofiles: [{schedulerName: mine}]",
    ],
    ids=["yaml", "json", "mark"],
)
def test_yaml_and_json_are_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "config").write_text(content)
    assert list(load_profiles(tmp_path / "config", catalog=catalog())) == ["mine"]


@pytest.mark.parametrize("content", ["", "---\n", "# nothing\n\n"])
def test_an_empty_file_means_the_defaults(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.yaml").write_text(content)
    found = load_configuration(str(tmp_path / "a.yaml"), catalog=catalog()).configuration
    assert found.profiles[0].digest() == completed({}).digest()


def test_yaml_is_read_as_in_manifests(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("profiles: [{schedulerName: no}]\n")
    assert list(load_profiles(tmp_path / "a.yaml", catalog=catalog())) == ["no"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"- 1", "is not a mapping"),
        (b"a: [", "is no YAML"),
        (b"a: 1\na: 2", "stands twice"),
        (b"a: 1\n---\na: 2", "neither JSON nor one YAML document"),
        (b"[" * 100_000, "nested"),
        (b"\xff", "no UTF-8"),
    ],
    ids=["list", "syntax", "twice", "two", "depth", "bytes"],
)
def test_invalid_configuration_is_reported_with_its_file(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(InvalidConfiguration, match=rf"a\.yaml: .*{reason}"):
        load_configuration(tmp_path / "a.yaml")


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"none\.yaml: No such file"):
        load_configuration(tmp_path / "none.yaml")
