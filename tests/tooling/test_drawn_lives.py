"""The drawings of the documents are what their script draws, and name what there is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lives() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("drawn_lives", ROOT / "tools/documents/lives.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["pod", "rollout", "placement"])
def test_the_picture_is_what_the_script_draws(lives: ModuleType, name: str) -> None:
    picture = ROOT / f"docs/pictures/life-of-a-{name}.svg"

    assert picture.read_text() == lives.drawn(lives.LIVES[name]), "python tools/documents/lives.py"


@pytest.mark.parametrize("name", ["pod", "rollout", "placement"])
def test_workflows_and_activities_of_the_picture_exist(lives: ModuleType, name: str) -> None:
    code = "".join(file.read_text() for folder in ("workflows", "activities") for file in (ROOT / folder).glob("*.py"))
    named = {
        word
        for state in lives.LIVES[name].states.values()
        for line in state.lines
        for word in re.findall(r"@(\w+)", line)
    }

    assert named
    assert [word for word in named if not re.search(rf'(class |name="){word}\b', code)] == []


@pytest.mark.parametrize("name", ["pod", "rollout", "placement"])
def test_keys_of_the_picture_are_listed(lives: ModuleType, name: str) -> None:
    listed = (ROOT / "docs/what-is-kept.md").read_text()
    keys = [line for state in lives.LIVES[name].states.values() for line in state.lines if line.startswith("/…/")]

    folders = {key.removeprefix("/…/").removeprefix("hub/").split("/")[0] for key in keys}
    assert folders
    assert [folder for folder in folders if not re.search(rf"[/{{,]{folder}[/,}}]", listed)] == []
