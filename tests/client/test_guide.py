"""The examples of docs/client.md run as they are, and print what stands behind their lines."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.patience import patient
from tests.worker.conftest import Site, site
from wharfinger.client import Wharfinger

__all__ = ["site"]

GUIDE = Path(__file__).parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.S)


async def run(code: str, names: dict[str, Any]) -> None:
    """Run a block as `python -m asyncio` does."""
    compiled = compile(code, str(GUIDE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(compiled, names)
    if inspect.isawaitable(running):
        await running


def promised(code: str) -> list[str]:
    """What the lines of a block print."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", code, flags=re.M)


async def test_examples_of_the_guide_print_its_output(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    await site.worker()
    await site.node("oak-1")
    target = site.client.service_client.config.target_host
    names: dict[str, Any] = {"wharfinger": Wharfinger(site.client, site.store)}
    assert len(BLOCKS) == 6

    for block in BLOCKS:
        code = block.replace("http://127.0.0.1:2379", site.etcd).replace("127.0.0.1:7233", target)
        shared = names["wharfinger"]
        await run(code.replace("timeout=60", f"timeout={patient(60)}"), names)
        names["wharfinger"] = shared  # the first block closes its own
        assert capsys.readouterr().out.splitlines() == promised(block)
    assert names["resume_at"] > 1
