"""The examples of docs/client.md run as they are, and print what stands behind their lines.

The first one closes its client. The others get one by the lines that the page has for `python -m asyncio`.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.patience import patient
from tests.programs.conftest import Site, site
from wharfinger.errors import Unavailable

__all__ = ["site"]

GUIDE = Path(__file__).parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.S)
KEPT_OPEN = re.findall(r"```\n(connection = .*?)```", GUIDE.read_text(), flags=re.S)
CLOSE = re.findall(r"`(await connection\.__aexit__\(.*?\))`", GUIDE.read_text())


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
    names: dict[str, Any] = {}
    first, *others = BLOCKS
    assert len(others) == 5

    async def runs(block: str) -> None:
        code = block.replace("http://127.0.0.1:2379", site.etcd).replace("127.0.0.1:7233", target)
        await run(code.replace("timeout=60", f"timeout={patient(60)}"), names)
        assert capsys.readouterr().out.splitlines() == promised(block)

    await runs(first)
    with pytest.raises(Unavailable, match=r"the client is closed: use it inside `async with Wharfinger\.connect"):
        await names["wharfinger"].explain("default", "web-1")
    (kept_open,), (close,) = KEPT_OPEN, CLOSE
    await runs(kept_open)
    try:
        for block in others:
            await runs(block)
    finally:
        await run(close, names)
    assert names["resume_at"] > 1
