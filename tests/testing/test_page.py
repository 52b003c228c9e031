"""The examples of `docs/testing.md` run, and what the page names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import wharfinger.testing
from wharfinger.testing import FakeRuntime, MemoryStore

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs(example: str) -> None:
    exec(compile(example, "docs/testing.md", "exec"), {"__name__": "example"})


def test_every_public_name_is_there_and_every_switch_of_the_page_is_one() -> None:
    assert all(hasattr(wharfinger.testing, name) for name in wharfinger.testing.__all__)
    switches = re.findall(r"^\| (`.*`) \|", PAGE, re.MULTILINE)
    store = MemoryStore()
    named = {re.split(r"[`(]", name)[0] for line in switches for name in line.split("`")[1::2]}
    assert {name for name in named if not hasattr(store, name)} == set()
    assert FakeRuntime.__name__ in PAGE
